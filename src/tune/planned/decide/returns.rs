//! When tensors start to come back: as late as the link allows, as early as memory allows.

use super::decisions::Decisions;
use super::pace::{Pace, Return};
use super::residence::{Comeback, Residence};
use crate::order::Place;
use crate::simulate::Machine;
use crate::tune::planned::timeline::{LifeId, Position, Table};

/// Moves the triggers of all returns by copy to where they should be in time, as far as the limits have room for that.
pub(in crate::tune::planned) fn place_triggers(
    residence: &mut Residence,
    machine: &Machine,
    limits: &[i64],
    decisions: &Decisions,
) {
    for (gpu, &limit) in limits.iter().enumerate() {
        let begins = begins(residence, gpu);
        let returns = returns(residence, machine, gpu, &begins);
        let mut pace = Pace::new(machine, &begins);
        let mut earliest = Position::new(0);
        for back in &returns {
            pace.come_to(back.until);
            let life = back.gap.life;
            let bytes = residence.life(life).bytes as i64;
            let Some(absence) = residence.absence(back.gap).copied() else { continue };
            let now = absence.trigger;
            let first = back.gap.after.next().max(absence.gone_at).max(earliest).min(now);
            let wanted = pace.trigger(back, decisions.lead(back.gap)).clamp(first, now);
            let full = residence.room(gpu).last_above(wanted.next(), now.next(), limit - bytes);
            let from = full.unwrap_or(wanted).min(now);
            let waiting = residence.waiting(life, &absence);
            let found = residence
                .holds()
                .last_for(residence.course(), gpu as u16, (first, from), &waiting, residence.starters(life))
                .filter(|&found| {
                    found < now && residence.room(gpu).most(found.next(), now.next()) + bytes <= limit
                });
            if let Some(trigger) = found {
                residence.return_from(back.gap, trigger);
            }
            let trigger = found.unwrap_or(now);
            if decisions.in_turn {
                earliest = earliest.max(trigger);
            }
            pace.copy(back, trigger);
        }
    }
}

/// For each place when its op begins if the GPU waits for nothing, second runs included.
fn begins(residence: &Residence, gpu: usize) -> Table<Position, f64> {
    let course = residence.course();
    let mut again = Table::filled(0.0, course.order.len());
    for run in residence.second_runs().iter() {
        let entry = course.outline.entry(run.node);
        if entry.is_some_and(|entry| course.program.place(entry) == Place::Gpu(gpu as u16)) {
            again[run.place] += course.outline.seconds(run.node);
        }
    }
    let mut sum = 0.0;
    let begins = course.seconds.iter().zip(again.iter()).map(|(&begin, &again)| {
        sum += again;
        begin + sum
    });
    begins.collect()
}

/// The returns to a GPU, the first needed first.
///
/// Copies in come one after the other. From the last to the first, each is to end when its reader begins, or when the next copy begins if
/// that is earlier.
fn returns(
    residence: &Residence,
    machine: &Machine,
    gpu: usize,
    begins: &Table<Position, f64>,
) -> Vec<Return> {
    let is_here = |life: LifeId| usize::from(residence.life(life).gpu) == gpu;
    let mut returns: Vec<Return> = residence
        .all()
        .filter(|(gap, absence)| is_here(gap.life) && absence.comeback == Comeback::Swap)
        .map(|(gap, absence)| {
            let bytes = residence.life(gap.life).bytes as f64;
            let copy_seconds = machine.link_latency_seconds + bytes / machine.in_bytes_per_second;
            Return { gap, until: absence.until, copy_seconds, start_seconds: 0.0 }
        })
        .collect();
    returns.sort_unstable_by_key(|back| (back.until, back.gap));
    let mut next_start = f64::INFINITY;
    for back in returns.iter_mut().rev() {
        let end = begins[back.until].min(next_start) - machine.notice_seconds;
        next_start = end - back.copy_seconds;
        back.start_seconds = next_start;
    }
    returns
}
