//! When tensors start to come back: as late as the link allows, as early as memory allows.
//!
//! A copy to a GPU starts behind all that was launched on the GPU before (TensorFlow's `sync_dst_compute`), and the host launches far
//! ahead of the GPU, up to the first op that waits for a copy. That op is a gate: while the host waits there, a copy that was triggered before
//! starts as soon as the GPU comes to the gate; one that is triggered behind it may not start before the GPU comes to the next gate.
//! Which gate is best for a copy depends on all others, so it can be decided ([`Decisions::lead`]).

use super::decisions::Decisions;
use super::residence::{Comeback, Residence};
use crate::simulate::Machine;
use crate::tune::planned::timeline::{Gap, Id as _, LifeId, Position};

/// How long before a gate a trigger ends, for the host to notice it: the step's clock is only nearly right.
const GATE_LEAD_SECONDS: f64 = 2.5e-4;

/// A return by a copy.
struct Return {
    gap: Gap,
    /// The place of the first op that reads it.
    until: Position,
    /// When its trigger has to end at the latest.
    trigger_seconds: f64,
}

/// Moves the triggers of all returns by copy to where they should be in time, as far as the limits have room for that.
pub(in crate::tune::planned) fn place_triggers(
    residence: &mut Residence,
    machine: &Machine,
    limits: &[i64],
    decisions: &Decisions,
) {
    let course = residence.course();
    for (gpu, &limit) in limits.iter().enumerate() {
        let returns = returns(residence, machine, gpu);
        let gates: Vec<Position> = returns.iter().map(|back| back.until).collect();
        for Return { gap, trigger_seconds, .. } in returns {
            let life = gap.life;
            let bytes = residence.life(life).bytes as i64;
            let Some(absence) = residence.absence(gap).copied() else { continue };
            let now = absence.trigger;
            let first = gap.after.next().max(absence.gone_at).min(now);
            let lead = decisions.lead(gap);
            let wanted =
                last_trigger(course.seconds.as_slice(), &gates, trigger_seconds, lead).clamp(first, now);
            let full = residence.room(gpu).last_above(wanted.next(), now.next(), limit - bytes);
            let earliest = full.unwrap_or(wanted).min(now);
            let consumers = residence.consumers(life, &absence);
            let found = residence
                .holds()
                .last_for(course, gpu as u16, (first, earliest), &consumers, residence.starters(life))
                .filter(|&found| {
                    found < now && residence.room(gpu).most(found.next(), now.next()) + bytes <= limit
                });
            if let Some(trigger) = found {
                residence.return_from(gap, trigger);
            }
        }
    }
}

/// The returns to a GPU, the first needed first.
///
/// Copies in come one after the other. From the last to the first, each is to end when its reader begins, or when the next copy begins if
/// that is earlier.
fn returns(residence: &Residence, machine: &Machine, gpu: usize) -> Vec<Return> {
    let is_here = |life: LifeId| usize::from(residence.life(life).gpu) == gpu;
    let mut returns: Vec<Return> = residence
        .all()
        .filter(|(gap, absence)| is_here(gap.life) && absence.comeback == Comeback::Swap)
        .map(|(gap, absence)| Return { gap, until: absence.until, trigger_seconds: 0.0 })
        .collect();
    returns.sort_unstable_by_key(|back| (back.until, back.gap));
    let mut next_start = f64::INFINITY;
    for back in returns.iter_mut().rev() {
        let bytes = residence.life(back.gap.life).bytes as f64;
        let seconds = machine.link_latency_seconds + bytes / machine.in_bytes_per_second;
        next_start = residence.course().seconds[back.until].min(next_start) - seconds;
        // A trigger is a signal to the host, which notices it, and so is the end of the copy.
        back.trigger_seconds = next_start - 2.0 * machine.notice_seconds - machine.link_latency_seconds;
    }
    returns
}

/// The last place whose op ends by a time; if a copy is to start so many gates earlier, the last one before that gate. `begins` says of
/// each place when its op begins.
fn last_trigger(begins: &[f64], gates: &[Position], seconds: f64, lead: u8) -> Position {
    let begun = |seconds: f64| Position::of(begins.partition_point(|&begin| begin <= seconds));
    let in_time = begun(seconds);
    let before = match lead {
        0 => in_time,
        lead => {
            let passed = gates.partition_point(|&gate| gate <= in_time);
            let gate = passed.checked_sub(usize::from(lead)).map(|number| gates[number]);
            gate.map_or(Position::new(0), |gate| begun(begins[gate.index()] - GATE_LEAD_SECONDS))
        }
    };
    // An op ends where the next one begins.
    before.minus(2)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_copy_that_starts_gates_earlier_is_triggered_before_them() {
        let begins: Vec<f64> = (0..20).map(f64::from).collect();
        let gates = [4, 9, 15].map(Position::new);
        let trigger = |lead| last_trigger(&begins, &gates, 12.5, lead).number();
        // The op at place 11 ends at 12.
        assert_eq!(trigger(0), 11);
        // That at 7 ends at 8, so that the host has noticed it when the GPU comes to the gate at 9.
        assert_eq!(trigger(1), 7);
        assert_eq!(trigger(2), 2);
        assert_eq!(trigger(3), 0);
        // A gate that is reached just then is passed.
        assert_eq!(last_trigger(&begins, &gates, 15.0, 1).number(), 13);
    }
}
