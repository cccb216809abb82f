//! From what is in memory when to a plan.

use std::collections::{HashMap, HashSet};

use super::residence::{Absence, Comeback, Residence, RunInput};
use crate::graph::{NodeId, TensorId};
use crate::plan::{Draft, OpRecomputation, Substitute, TensorSwap, TensorUse};
use crate::tune::planned::timeline::{Gap, Id as _, Position};

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
    for (gap, absence) in residence.all() {
        writer.comeback(gap, absence);
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

    fn comeback(&mut self, gap: Gap, absence: Absence) {
        let residence = self.residence;
        let Some(tensor) = residence.course().tensor_ids[absence.tensor as usize] else { return };
        let consumers = residence.consumers(gap.life, &absence);
        let substitute = match absence.comeback {
            Comeback::Swap => {
                let swaps = &mut self.draft.swaps;
                let number = *self.swap_of.entry(tensor).or_insert_with(|| {
                    swaps.push(TensorSwap { tensor, waiting: Vec::new(), uses: Vec::new() });
                    swaps.len() - 1
                });
                let triggers = self.nodes_at(absence.trigger);
                let uses = &mut self.draft.swaps[number].uses;
                uses.push(TensorUse { consumers, triggers });
                Substitute::SwapIn(uses.len() as u32 - 1)
            }
            Comeback::Again(run) => {
                self.draft.recomputations[run.index()].outputs.push((tensor, consumers));
                Substitute::Recomputation(run.number())
            }
        };
        self.substitutes.insert(gap, substitute);
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
