//! Which buffers leave so that a step stays within its memory.
//!
//! One walk over the schedule: where memory runs short, what is needed furthest in the future leaves (Belady's rule, which is optimal
//! for things of one size), beginning with what can be made again cheaply. In memory it is gone from its last use on, before
//! the place where that was needed. A second pass takes back what the walk, which knew only what was behind it, need not have
//! chosen.

use std::cmp::Reverse;
use std::collections::BTreeSet;

use super::decisions::Decisions;
use super::recompute::Cheapness;
use super::residence::Residence;
use crate::tune::planned::timeline::{Gap, LifeId, Position, Table};

/// More memory is needed at some place than there is, though all that could leave is gone.
#[derive(Debug, Clone, Copy)]
pub(in crate::tune::planned) struct Shortage;

/// What may leave and what it is worth.
pub(in crate::tune::planned) struct Choice<'a> {
    /// For each GPU how many bytes should be taken at most at any place.
    pub limits: &'a [i64],
    /// For each GPU how many may be taken where nothing more can leave.
    pub budgets: &'a [i64],
    /// Smaller buffers stay.
    pub least_bytes: u64,
    /// For each life how cheaply it can be made again.
    pub cheapness: &'a Table<LifeId, Cheapness>,
    /// What is decided already.
    pub decisions: &'a Decisions,
}

/// What may leave: how cheap it is, when it is read again, which, and since when it waits.
type Waiting = (Cheapness, Position, LifeId, Position);

/// Lets buffers leave until all places are within the limits, or as near as they can come.
pub(in crate::tune::planned) fn evict(residence: &mut Residence, choice: &Choice) -> Result<(), Shortage> {
    let course = residence.course();
    // For each place the buffers that are made or read there.
    let mut events: Vec<(Position, LifeId)> = Vec::new();
    for (number, life) in course.lives.numbered() {
        if life.bytes >= choice.least_bytes {
            events.push((life.made, number));
            events.extend(life.uses.iter().map(|read| (read.place, number)));
        }
    }
    events.sort_unstable();
    events.dedup();
    // For each GPU what is in its memory and is read again.
    let mut waiting: Vec<BTreeSet<Waiting>> = vec![BTreeSet::new(); choice.limits.len()];
    let gpu_of = |life: LifeId| usize::from(course.lives[life].gpu);
    let mut since: Table<LifeId, Option<Waiting>> = Table::filled(None, course.lives.len());
    let mut events = events.into_iter().peekable();
    let mut here = Vec::new();
    for place in course.order.ids() {
        here.clear();
        while let Some((_, life)) = events.next_if(|&(at, _)| at == place) {
            if let Some(key) = since[life].take() {
                waiting[gpu_of(life)].remove(&key);
            }
            here.push(life);
        }
        for (gpu, &limit) in choice.limits.iter().enumerate() {
            while residence.room(gpu).at(place) > limit {
                let Some((_, _, life, after)) = waiting[gpu].pop_last() else {
                    if residence.room(gpu).at(place) > choice.budgets[gpu] {
                        return Err(Shortage);
                    }
                    break;
                };
                since[life] = None;
                let absence = residence.possible_absence(Gap { life, after });
                if let Some(absence) = absence.filter(|absence| absence.trigger >= place) {
                    residence.leave(life, absence);
                }
            }
        }
        for &life in &here {
            let next = course.lives[life].next_use(place).filter(|&next| next > place.next());
            let gap = Gap { life, after: place };
            let is_decided = choice.decisions.of(gap).is_some();
            if let Some(next) = next.filter(|_| !is_decided && !residence.is_absent(gap)) {
                let key = (choice.cheapness[life], next, life, place);
                since[life] = Some(key);
                waiting[gpu_of(life)].insert(key);
            }
        }
    }
    take_back(residence, choice);
    Ok(())
}

/// Keeps what need not leave: first what costs most.
fn take_back(residence: &mut Residence, choice: &Choice) {
    let mut all: Vec<_> = residence
        .all()
        .filter(|(_, absence)| absence.gone_at == absence.after && !absence.is_fixed)
        .filter(|&(gap, _)| choice.decisions.of(gap).is_none())
        .map(|(gap, absence)| {
            let bytes = residence.life(gap.life).bytes;
            let cheapness = choice.cheapness[gap.life];
            let cost = if cheapness > 0 { 0 } else { bytes };
            ((cheapness, Reverse((cost, bytes))), absence.until - absence.after, gap, absence)
        })
        .collect();
    all.sort_by_key(|&(cost, distance, gap, _)| (cost, distance, gap));
    for (_, _, gap, absence) in all {
        let of = residence.life(gap.life);
        let (bytes, limit) = (of.bytes as i64, choice.limits[usize::from(of.gpu)]);
        if residence.room_of(gap.life).most(absence.after.next(), absence.trigger.next()) + bytes <= limit {
            residence.stay(gap);
        }
    }
}
