//! When tensors start to come back: as late as the link allows, as early as memory allows.

use super::residence::{Comeback, Residence};
use crate::simulate::Machine;

/// Moves the triggers of all returns by copy to where they should be in time, as far as the limits have room for that.
///
/// Copies in come one after the other. From the last to the first, each is to end when its reader begins, or when the next copy
/// begins if that is earlier. What starts it is the last op that ends before that.
pub(super) fn place_triggers(residence: &mut Residence, machine: &Machine, limits: &[i64]) {
    let course = residence.course;
    for (gpu, &limit) in limits.iter().enumerate() {
        let mut returns: Vec<(u32, u32, u32)> = residence
            .all()
            .filter(|(life, absence)| {
                usize::from(residence.lives[*life as usize].gpu) == gpu && absence.comeback == Comeback::Swap
            })
            .map(|(life, absence)| (absence.until, life, absence.after))
            .collect();
        returns.sort_unstable();
        let mut starts = vec![0.0; returns.len()];
        let mut next_start = f64::INFINITY;
        for (start, &(until, life, _)) in starts.iter_mut().zip(&returns).rev() {
            let seconds = machine.link_latency_seconds
                + residence.lives[life as usize].bytes as f64 / machine.in_bytes_per_second;
            next_start = course.seconds[until as usize].min(next_start) - seconds;
            // A trigger is a signal to the host, which notices it, and so is the end of the copy.
            *start = next_start - 2.0 * machine.notice_seconds - machine.link_latency_seconds;
        }
        for (&(_, life, after), start) in returns.iter().zip(starts) {
            let bytes = residence.lives[life as usize].bytes as i64;
            let Some(absence) =
                residence.absences[life as usize].iter().find(|absence| absence.after == after).copied()
            else {
                continue;
            };
            let now = absence.trigger;
            let first = (after + 1).max(absence.gone_at).min(now);
            // The trigger ends where the op behind it begins.
            let in_time = course.seconds.partition_point(|&seconds| seconds <= start) as u32;
            let wanted = in_time.saturating_sub(2).clamp(first, now);
            let full = residence.rooms[gpu].last_above(wanted + 1, now + 1, limit - bytes);
            let earliest = full.unwrap_or(wanted).min(now);
            let consumers = residence.consumers(life, &absence);
            let found = residence
                .holds
                .last_for(course, gpu as u16, (first, earliest), &consumers, residence.starters(life))
                .filter(|&found| {
                    found < now && residence.rooms[gpu].most(found + 1, now + 1) + bytes <= limit
                });
            if let Some(trigger) = found {
                residence.rooms[gpu].add(trigger + 1, now + 1, bytes);
                residence.change(life, after, |absence| absence.trigger = trigger);
            }
        }
    }
}
