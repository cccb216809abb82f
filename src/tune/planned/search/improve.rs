//! Plans get better by leaving things out.
//!
//! A plan that leaves memory to the allocator, because it found no hole before, lets more leave than must. Which of it need not,
//! the allocator alone can tell. So one tensor after the other is kept, what costs most first, and stays if the step still
//! fits and is better for it. Memory is counted as for the plan itself, so what was kept to by construction still is.

use std::cmp::Reverse;
use std::collections::HashSet;

use super::attempts::Attempts;
use super::rank;
use crate::graph::TensorId;
use crate::plan::{Draft, without_tensors};
use crate::simulate::{Machine, Outcome};
use crate::tune::planned::decide::{Absence, Comeback, Residence};
use crate::tune::planned::timeline::{Gap, LifeId};

/// A plan that fits, and what it leaves in memory.
#[derive(Debug)]
pub(in crate::tune::planned) struct Fitting<'a> {
    pub draft: Draft,
    pub outcome: Outcome,
    pub residence: Residence<'a>,
}

/// What leaves or runs again, dearest first: the tensor, and the life of its buffer.
fn dearest(residence: &Residence, machine: &Machine) -> Vec<(TensorId, LifeId)> {
    let course = residence.course();
    let seconds = |life: LifeId, absence: &Absence| {
        let bytes = residence.life(life).bytes as f64;
        match absence.comeback {
            Comeback::Swap => bytes / machine.in_bytes_per_second + bytes / machine.out_bytes_per_second,
            Comeback::Again(run) => course.outline.seconds(residence.second_runs()[run].node),
        }
    };
    // What is made again for one reader alone may be needed after its memory was counted last.
    let reads = residence.second_runs().iter().flat_map(|run| &run.reads);
    let passed_on = reads.filter(|read| read.from.is_some()).map(|read| read.tensor);
    // What has several names stays only if all of them do.
    let with_others = residence.copies().filter(|(_, absence, _)| absence.has_other_names);
    let left_alone: HashSet<u32> = passed_on.chain(with_others.map(|(_, _, name)| name)).collect();
    let mut dearest: Vec<(Reverse<u64>, LifeId, TensorId)> = residence
        .all()
        .filter(|(_, absence)| !left_alone.contains(&absence.tensor))
        .filter_map(|(gap, absence)| {
            let nanoseconds = (seconds(gap.life, &absence) * 1e9) as u64;
            Some((Reverse(nanoseconds), gap.life, course.tensor_ids[absence.tensor as usize]?))
        })
        .collect();
    dearest.sort_unstable();
    let mut seen = HashSet::new();
    dearest.retain(|&(_, _, tensor)| seen.insert(tensor));
    dearest.into_iter().map(|(_, life, tensor)| (tensor, life)).collect()
}

/// Counts those of these tensors as staying for which there is room, and says which these are.
fn keep(residence: &mut Residence, tensors: &[(TensorId, LifeId)], machine: &Machine) -> HashSet<TensorId> {
    let mut kept = HashSet::new();
    for &(tensor, life) in tensors {
        let ids = &residence.course().tensor_ids;
        let is_it = |absence: &&Absence| ids[absence.tensor as usize] == Some(tensor);
        let absences: Vec<Absence> = residence.absences(life).iter().filter(is_it).copied().collect();
        if has_room(residence, life, &absences, machine) {
            for absence in absences {
                residence.stay(Gap { life, after: absence.after });
            }
            kept.insert(tensor);
        }
    }
    kept
}

/// Whether there is room for a buffer in the times of these absences.
fn has_room(residence: &Residence, life: LifeId, absences: &[Absence], machine: &Machine) -> bool {
    let of = residence.life(life);
    let gpu = usize::from(of.gpu);
    let limit = machine.memory_bytes(gpu).unwrap_or(i64::MAX as u64) as i64 - of.bytes as i64;
    let most = |absence: &Absence| residence.room(gpu).most(absence.after.next(), absence.trigger.next());
    absences.iter().all(|absence| most(absence) <= limit)
}

impl Attempts<'_, '_, '_> {
    /// Leaves out of a plan what makes it better, each tensor tried once: several at a time, twice as many after those that could
    /// stay, half as many after those that could not. Whether anything stays now.
    pub(super) fn leave_out(
        &mut self,
        residence: &mut Residence,
        (draft, outcome): (&mut Draft, &mut Outcome),
    ) -> bool {
        let machine = self.machine();
        let mut has_left_out = false;
        let dearest = dearest(residence, machine);
        let (mut first, mut count) = (0, 1);
        while first < dearest.len() && !self.is_over() {
            let end = dearest.len().min(first + count);
            let mut kept = 0;
            let better = residence.attempt(|residence| {
                let tensors = keep(residence, &dearest[first..end], machine);
                kept = tensors.len();
                if tensors.is_empty() {
                    return None;
                }
                let less = without_tensors(draft, |tensor| tensors.contains(&tensor));
                let so_far = rank(outcome);
                let judged = self.count(|judge| judge.endures_if(&less, |outcome| rank(outcome) < so_far));
                Some((less, judged.ok()??))
            });
            match better {
                Some(better) => {
                    (*draft, *outcome) = better;
                    has_left_out = true;
                    (first, count) = (end, count * 2);
                }
                None if kept == 0 => first = end,
                None => {
                    first = if kept == 1 { end } else { first };
                    count = (count / 2).max(1);
                }
            }
        }
        has_left_out
    }
}
