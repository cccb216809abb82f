//! Plans get better by leaving things out.
//!
//! A plan that leaves memory to the allocator, because it found no hole before, lets more leave than must. Which of it need not,
//! the allocator alone can tell. So one tensor after the other is kept, what costs most first, and stays if the step still
//! fits and is better for it. Memory is counted as for the plan itself, so what was kept to by construction still is.

use std::cmp::Reverse;
use std::collections::HashSet;

use super::attempts::Search;
use crate::graph::TensorId;
use crate::plan::{Draft, without_tensors};
use crate::simulate::{Machine, Outcome};
use crate::tune::planned::decide::{Absence, Comeback, Residence};
use crate::tune::planned::rank;
use crate::tune::planned::timeline::{Gap, LifeId};

/// A plan that fits, and what it leaves in memory.
#[derive(Debug)]
pub(in crate::tune::planned) struct Candidate<'a> {
    pub draft: Draft,
    pub outcome: Outcome,
    pub residence: Residence<'a>,
}

impl Candidate<'_> {
    /// What leaves or runs again, dearest first: the tensor, and the life of its buffer.
    fn dearest(&self, machine: &Machine) -> Vec<(TensorId, LifeId)> {
        let course = self.residence.course;
        let seconds = |life: LifeId, absence: &Absence| {
            let bytes = self.residence.lives[life].bytes as f64;
            match absence.comeback {
                Comeback::Swap => bytes / machine.in_bytes_per_second + bytes / machine.out_bytes_per_second,
                Comeback::Again(run) => course.outline.seconds(self.residence.second_runs[run].node),
            }
        };
        // What is made again for one reader alone may be needed after its memory was counted last.
        let reads = self.residence.second_runs.iter().flat_map(|run| &run.reads);
        let passed_on: HashSet<u32> =
            reads.filter(|read| read.from.is_some()).map(|read| read.tensor).collect();
        let mut dearest: Vec<(Reverse<u64>, LifeId, TensorId)> = self
            .residence
            .all()
            .filter(|(_, absence)| !passed_on.contains(&absence.tensor))
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

    /// When a tensor is absent.
    fn absences(&self, tensor: TensorId, life: LifeId) -> Vec<Absence> {
        let ids = &self.residence.course.tensor_ids;
        let absences = self.residence.absences[life].iter();
        absences.filter(|absence| ids[absence.tensor as usize] == Some(tensor)).copied().collect()
    }

    /// Counts those of these tensors as staying for which there is room, and says which these are, and when they were absent.
    fn keep(&mut self, tensors: &[(TensorId, LifeId)], machine: &Machine) -> Vec<Kept> {
        let mut all = Vec::new();
        for &(tensor, life) in tensors {
            let absences = self.absences(tensor, life);
            if self.has_room(life, &absences, machine) {
                for absence in &absences {
                    self.residence.stay(Gap { life, after: absence.after });
                }
                all.push(Kept { tensor, life, absences });
            }
        }
        all
    }

    /// Takes [`Candidate::keep`] back.
    pub fn let_go(&mut self, kept: Vec<Kept>) {
        for Kept { life, absences, .. } in kept {
            absences.into_iter().for_each(|absence| self.residence.leave(life, absence));
        }
    }

    /// Whether there is room for a buffer in the times of these absences.
    fn has_room(&self, life: LifeId, absences: &[Absence], machine: &Machine) -> bool {
        let of = &self.residence.lives[life];
        let gpu = usize::from(of.gpu);
        let limit = machine.memory_bytes(gpu).unwrap_or(i64::MAX as u64) as i64 - of.bytes as i64;
        let most =
            |absence: &Absence| self.residence.rooms[gpu].most(absence.after.next(), absence.trigger.next());
        absences.iter().all(|absence| most(absence) <= limit)
    }
}

/// A tensor that is to stay, and when it was absent.
pub(in crate::tune::planned) struct Kept {
    tensor: TensorId,
    life: LifeId,
    absences: Vec<Absence>,
}

impl Search<'_, '_, '_> {
    /// Leaves out of a plan what makes it better, each tensor tried once: several at a time, twice as many after those that could
    /// stay, half as many after those that could not. Returns what stays now.
    pub(in crate::tune::planned) fn leave_out(&mut self, candidate: &mut Candidate) -> Vec<Kept> {
        let machine = self.machine();
        let mut all_kept = Vec::new();
        let dearest = candidate.dearest(machine);
        let (mut first, mut count) = (0, 1);
        while first < dearest.len() && !self.is_over() {
            let end = dearest.len().min(first + count);
            let kept = candidate.keep(&dearest[first..end], machine);
            if kept.is_empty() {
                first = end;
                continue;
            }
            let tensors: HashSet<TensorId> = kept.iter().map(|kept| kept.tensor).collect();
            let draft = without_tensors(&candidate.draft, |tensor| tensors.contains(&tensor));
            let so_far = rank(&candidate.outcome);
            let judged = self.count(|judge| judge.endures_if(&draft, |outcome| rank(outcome) < so_far));
            if let Ok(Some(outcome)) = judged {
                (candidate.draft, candidate.outcome) = (draft, outcome);
                all_kept.extend(kept);
                (first, count) = (end, count * 2);
                continue;
            }
            if kept.len() == 1 {
                first = end;
            }
            candidate.let_go(kept);
            count = (count / 2).max(1);
        }
        all_kept
    }
}
