//! From what is in memory when to a plan.

use std::collections::{HashMap, HashSet};

use super::residence::{Absence, Comeback, Residence, RunInput};
use crate::graph::{NodeId, TensorId};
use crate::plan::{Draft, OpRecomputation, Substitute, TensorSwap, TensorUse};
use crate::tune::planned::timeline::{Gap, Id as _, Position, SecondRunId};

/// The plan that does what was decided, without the edges that keep to the schedule.
pub(in crate::tune::planned) fn draft(residence: &Residence) -> Draft {
    let mut writer =
        Writer { residence, draft: Draft::default(), swap_of: HashMap::new(), substitutes: HashMap::new() };
    writer.draft.recomputations = residence
        .second_runs()
        .iter()
        .map(|run| OpRecomputation {
            op: run.node,
            triggers: writer.nodes_at(run.trigger),
            inputs: Vec::new(),
            outputs: Vec::new(),
        })
        .collect();
    for (gap, absence, tensor) in residence.copies() {
        writer.copy(gap, &absence, tensor);
    }
    for (gap, absence) in residence.all() {
        if let Comeback::Again(run) = absence.comeback {
            writer.second_run(gap, &absence, run);
        }
    }
    writer.inputs();
    // One update can be behind one op for two variables.
    let mut seen = HashSet::new();
    let orders = residence.orders().iter().filter(|order| seen.insert((order.before, order.after)));
    writer.draft.orders = orders.cloned().collect();
    writer.draft
}

struct Writer<'a> {
    residence: &'a Residence<'a>,
    draft: Draft,
    swap_of: HashMap<TensorId, usize>,
    /// For each gap in which a buffer is absent what holds its tensor afterwards.
    substitutes: HashMap<Gap, Substitute>,
}

impl Writer<'_> {
    fn nodes_at(&self, place: Position) -> Vec<NodeId> {
        self.residence.course().node_at(place).into_iter().collect()
    }

    /// Has a tensor return by a copy.
    fn copy(&mut self, gap: Gap, absence: &Absence, tensor: u32) {
        let residence = self.residence;
        let Some(id) = residence.course().tensor_ids[tensor as usize] else { return };
        let consumers = residence.consumers_of(tensor, gap.life, absence);
        let triggers = self.nodes_at(absence.trigger);
        let swaps = &mut self.draft.swaps;
        let number = *self.swap_of.entry(id).or_insert_with(|| {
            swaps.push(TensorSwap { tensor: id, waiting: Vec::new(), uses: Vec::new() });
            swaps.len() - 1
        });
        let uses = &mut self.draft.swaps[number].uses;
        uses.push(TensorUse { consumers, triggers });
        if tensor == absence.tensor {
            self.substitutes.insert(gap, Substitute::SwapIn(uses.len() as u32 - 1));
        }
    }

    /// Has a second run make the tensor that returns.
    fn second_run(&mut self, gap: Gap, absence: &Absence, run: SecondRunId) {
        let Some(id) = self.residence.course().tensor_ids[absence.tensor as usize] else { return };
        let consumers = self.residence.consumers(gap.life, absence);
        self.draft.recomputations[run.index()].outputs.push((id, consumers));
        self.substitutes.insert(gap, Substitute::Recomputation(run.number()));
    }

    /// What second runs read in place of what was there the first time.
    fn inputs(&mut self) {
        let residence = self.residence;
        let course = residence.course();
        for (number, run) in residence.second_runs().iter().enumerate() {
            for &RunInput { tensor, from } in &run.reads {
                let Some(id) = course.tensor_ids[tensor as usize] else { continue };
                let returned = || {
                    let life = course.life_of[tensor as usize]?;
                    let absence = residence.absence_before(life, run.place)?;
                    self.substitutes.get(&Gap { life, after: absence.after }).copied()
                };
                let made = from.map(|run| Substitute::Recomputation(run.number()));
                if let Some(substitute) = made.or_else(returned) {
                    self.draft.recomputations[number].inputs.push((id, substitute));
                }
            }
        }
    }
}
