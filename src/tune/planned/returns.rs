//! When tensors start to come back: as late as the link allows, as early as memory allows.
//!
//! A copy to a GPU starts behind all that was launched on the GPU before (TensorFlow's `sync_dst_compute`), and the host launches far
//! ahead of the GPU, up to the first op that waits for a copy. That op is a gate, and the host passes it when the copy has come, which is
//! long before the GPU comes to it if all goes well. A copy that is triggered while the host waits at a gate starts when the GPU comes to
//! that gate; so it has to be triggered after the host has passed the gate before, and before it passes this one. Triggered later, it
//! starts at the next gate, which may be its own, and then the GPU stands still for all of the copy.

use super::decisions::{Decisions, Gap};
use super::residence::{Comeback, Residence};
use crate::order::Place;
use crate::simulate::Machine;

/// No host launches ops faster than one in this time.
const LEAST_SECONDS: f64 = 1e-9;

/// A copy that starts later than it should by less than this part of its time is in time.
const NEARLY: f64 = 0.25;

/// A return by a copy.
struct Return {
    life: u32,
    after: u32,
    /// The place of the first op that reads it.
    until: u32,
    copy_seconds: f64,
    /// When the copy has to start at the latest, on the clock without any waiting.
    start_seconds: f64,
}

/// Moves the triggers of all returns by copy to where they should be in time, as far as the limits have room for that.
pub(super) fn place_triggers(
    residence: &mut Residence,
    machine: &Machine,
    limits: &[i64],
    decisions: &Decisions,
) {
    for (gpu, &limit) in limits.iter().enumerate() {
        let begins = begins(residence, gpu);
        let returns = returns(residence, machine, gpu, &begins);
        let mut pace = Pace::new(machine, &begins);
        // What is needed first comes first.
        let mut earliest = 0;
        let in_turn = decisions.in_turn;
        for back in &returns {
            pace.come_to(back.until);
            let Return { life, after, .. } = *back;
            let bytes = residence.lives[life as usize].bytes as i64;
            let Some(absence) = residence.absence(life, after).copied() else { continue };
            let now = absence.trigger;
            let first = (after + 1).max(absence.gone_at).max(earliest).min(now);
            let wanted = pace.trigger(back, decisions.lead(Gap { life, after })).clamp(first, now);
            let full = residence.rooms[gpu].last_above(wanted + 1, now + 1, limit - bytes);
            let from = full.unwrap_or(wanted).min(now);
            let consumers = residence.consumers(life, &absence);
            let course = residence.course;
            let found = residence
                .holds
                .last_for(course, gpu as u16, (first, from), &consumers, residence.starters(life))
                .filter(|&found| {
                    found < now && residence.rooms[gpu].most(found + 1, now + 1) + bytes <= limit
                });
            if let Some(trigger) = found {
                residence.rooms[gpu].add(trigger + 1, now + 1, bytes);
                residence.change(life, after, |absence| absence.trigger = trigger);
            }
            let trigger = found.unwrap_or(now);
            if in_turn {
                earliest = earliest.max(trigger);
            }
            pace.copy(back, trigger);
        }
    }
}

/// For each place when its op begins if the GPU waits for nothing, second runs included.
fn begins(residence: &Residence, gpu: usize) -> Vec<f64> {
    let course = residence.course;
    let mut again = vec![0.0; course.order.len() + 1];
    for run in &residence.second_runs {
        let entry = course.outline.entry(run.node);
        if entry.is_some_and(|entry| course.program.place(entry) == Place::Gpu(gpu as u16)) {
            again[run.place as usize] += course.outline.seconds(run.node);
        }
    }
    let mut sum = 0.0;
    course
        .seconds
        .iter()
        .zip(again)
        .map(|(&begin, again)| {
            sum += again;
            begin + sum
        })
        .collect()
}

/// The returns to a GPU, the first needed first.
///
/// Copies in come one after the other. From the last to the first, each is to end when its reader begins, or when the next copy begins if
/// that is earlier.
fn returns(residence: &Residence, machine: &Machine, gpu: usize, begins: &[f64]) -> Vec<Return> {
    let is_here = |life: u32| usize::from(residence.lives[life as usize].gpu) == gpu;
    let mut returns: Vec<Return> = residence
        .all()
        .filter(|(life, absence)| is_here(*life) && absence.comeback == Comeback::Swap)
        .map(|(life, absence)| {
            let bytes = residence.lives[life as usize].bytes as f64;
            Return {
                life,
                after: absence.after,
                until: absence.until,
                copy_seconds: machine.link_latency_seconds + bytes / machine.in_bytes_per_second,
                start_seconds: 0.0,
            }
        })
        .collect();
    returns.sort_unstable_by_key(|back| (back.until, back.life, back.after));
    let mut next_start = f64::INFINITY;
    for back in returns.iter_mut().rev() {
        let end = begins[back.until as usize].min(next_start) - machine.notice_seconds;
        next_start = end - back.copy_seconds;
        back.start_seconds = next_start;
    }
    returns
}

/// An op that waits for copies.
struct Gate {
    place: u32,
    /// When the GPU comes to it, and when the host passes it: all copies that it waits for have come then.
    reached: f64,
    passed: f64,
}

/// How the GPU, the host and the link keep up with one another, as far as the returns are placed.
struct Pace<'a> {
    machine: &'a Machine,
    begins: &'a [f64],
    gates: Vec<Gate>,
    link_free: f64,
}

impl Pace<'_> {
    fn new<'a>(machine: &'a Machine, begins: &'a [f64]) -> Pace<'a> {
        let begin = Gate { place: 0, reached: 0.0, passed: 0.0 };
        Pace { machine, begins, gates: vec![begin], link_free: 0.0 }
    }

    /// How much later than without waiting the op at a place begins.
    fn delay(&self, place: u32) -> f64 {
        let before = self.gates.partition_point(|gate| gate.place <= place);
        let gate = &self.gates[before.max(1) - 1];
        gate.reached.max(gate.passed) - self.begins[gate.place as usize]
    }

    /// The next gate is at this place.
    fn come_to(&mut self, place: u32) {
        let last = &self.gates[self.gates.len() - 1];
        if last.place < place {
            let reached = self.begins[place as usize] + self.delay(place);
            // The host launches one op after the other up to there.
            let passed = last.passed + f64::from(place - last.place) * self.machine.host_op_seconds;
            self.gates.push(Gate { place, reached, passed });
        }
    }

    /// When the GPU is done with all that the host has launched by a time.
    fn busy_until(&self, seconds: f64) -> f64 {
        // The last gate waits for the copy that is to be placed.
        let before = self.gates.len() - 1;
        let gate = self.gates[..before].partition_point(|gate| gate.passed <= seconds).max(1) - 1;
        let Gate { place, passed, .. } = self.gates[gate];
        let launched =
            f64::from(place) + (seconds - passed).max(0.0) / self.machine.host_op_seconds.max(LEAST_SECONDS);
        let next = self.gates.get(gate + 1).map_or(self.begins.len() as u32 - 1, |next| next.place);
        let launched = (launched as u32).min(next);
        self.begins[launched as usize] + self.delay(launched.saturating_sub(1))
    }

    /// Behind which place a copy should be triggered that is to start so many gates earlier than it has to.
    fn trigger(&self, back: &Return, lead: u8) -> u32 {
        let own = self.gates.len() - 1;
        let noticed = 2.0 * self.machine.notice_seconds;
        let start = back.start_seconds + self.delay(self.gates[own].place.saturating_sub(1));
        if lead == 0 && self.busy_until(start) <= start + NEARLY * back.copy_seconds {
            return self.place_at(start - noticed);
        }
        let in_time =
            self.gates[..own].partition_point(|gate| self.begins[gate.place as usize] <= back.start_seconds);
        let start = in_time.saturating_sub(1 + usize::from(lead));
        let Some(gate) = self.gates.get(start).filter(|_| start > 0) else { return 0 };
        let opens = self.gates[start - 1].passed;
        let closes = gate.passed.min(gate.reached);
        // Both the trigger's signal and the copy's end have to be noticed.
        self.place_at((opens + closes) / 2.0 - noticed)
    }

    /// The last place whose op has ended by a time.
    fn place_at(&self, seconds: f64) -> u32 {
        let gate = self.gates.partition_point(|gate| gate.reached.max(gate.passed) <= seconds).max(1) - 1;
        let delay = self.delay(self.gates[gate].place);
        let begun = self.begins.partition_point(|&begin| begin + delay <= seconds) as u32;
        let end = self.gates.get(gate + 1).map_or(u32::MAX, |next| next.place);
        // An op ends where the next one begins.
        begun.min(end).saturating_sub(2)
    }

    /// A copy is triggered behind a place.
    fn copy(&mut self, back: &Return, trigger: u32) {
        let ended = self.begins.get(trigger as usize + 1).copied().unwrap_or(0.0) + self.delay(trigger);
        let issued = ended + 2.0 * self.machine.notice_seconds;
        let own = self.gates.len() - 1;
        let start = self.busy_until(issued).max(issued).max(self.link_free);
        let end = start + back.copy_seconds;
        self.link_free = end;
        let gate = &mut self.gates[own];
        gate.passed = gate.passed.max(end + self.machine.notice_seconds);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cost::DeviceProfile;

    /// Ops of a millisecond each, which the host launches in no time, and copies that are noticed at once.
    fn machine() -> Machine {
        let profile = DeviceProfile::built_in("v100-pcie3").unwrap();
        let machine = Machine::new(profile, 1, Vec::new());
        Machine { host_op_seconds: 1e-9, notice_seconds: 0.0, link_latency_seconds: 0.0, ..machine }
    }

    fn begins(ops: u32) -> Vec<f64> {
        (0..ops).map(|op| f64::from(op) * 1e-3).collect()
    }

    fn copy(until: u32, milliseconds: f64, start_milliseconds: f64) -> Return {
        let (copy_seconds, start_seconds) = (milliseconds * 1e-3, start_milliseconds * 1e-3);
        Return { life: 0, after: 0, until, copy_seconds, start_seconds }
    }

    /// A copy for the op at 40 that is to start at the op at 20 is triggered while the host waits there: from 14 ms, when the copy for that
    /// at 10 has come, to 18 ms, when that for the one at 20 has.
    #[test]
    fn a_copy_is_triggered_while_the_host_waits_at_the_op_at_which_it_is_to_start() {
        let (machine, begins) = (machine(), begins(60));
        let mut pace = Pace::new(&machine, &begins);
        pace.come_to(10);
        pace.copy(&copy(10, 4.0, 6.0), 0);
        pace.come_to(20);
        pace.copy(&copy(20, 4.0, 16.0), 2);
        let passed = [1, 2].map(|gate: usize| pace.gates[gate].passed);
        assert!((passed[0] - 14e-3).abs() < 1e-5 && (passed[1] - 18e-3).abs() < 1e-5, "{passed:?}");
        pace.come_to(40);
        let back = copy(40, 4.0, 30.0);
        let trigger = pace.trigger(&back, 0);
        // The GPU has waited for 4 ms by then.
        let ends = f64::from(trigger + 1) * 1e-3 + 4e-3;
        assert!(ends > passed[0] && ends < passed[1], "{trigger}");
        pace.copy(&back, trigger);
        // The GPU comes to the op at 20 at 24 ms.
        assert!((pace.gates[3].passed - 28e-3).abs() < 1e-5, "{}", pace.gates[3].passed);
        assert!(pace.trigger(&back, 1) < trigger);
    }

    /// Triggered when the host has gone on to the op that reads it, it starts when the GPU comes there too, and the GPU waits.
    #[test]
    fn a_copy_that_is_triggered_too_late_has_the_gpu_wait() {
        let (machine, begins) = (machine(), begins(60));
        let mut pace = Pace::new(&machine, &begins);
        pace.come_to(20);
        pace.copy(&copy(20, 4.0, 16.0), 0);
        pace.come_to(40);
        pace.copy(&copy(40, 4.0, 30.0), 30);
        assert!((pace.gates[2].passed - 48e-3).abs() < 1e-5, "{}", pace.gates[2].passed);
        assert!((pace.delay(50) - 8e-3).abs() < 1e-5, "{}", pace.delay(50));
    }

    /// A host that is no faster than the GPU has launched nothing that a copy would wait for.
    #[test]
    fn behind_a_slow_host_a_copy_is_triggered_when_it_is_to_start() {
        let machine = Machine { host_op_seconds: 1e-3, ..machine() };
        let begins = begins(60);
        let mut pace = Pace::new(&machine, &begins);
        pace.come_to(10);
        pace.copy(&copy(10, 4.0, 6.0), 0);
        pace.come_to(40);
        // The op at 29 ends when that at 30 begins.
        assert_eq!(pace.trigger(&copy(40, 4.0, 30.0), 0), 29);
    }
}
