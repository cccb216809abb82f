//! How host, GPU and link keep up with one another, and so when a copy has to be triggered.
//!
//! A copy to a GPU starts behind all that was launched on the GPU before (TensorFlow's `sync_dst_compute`), and the host launches far
//! ahead of the GPU, up to the first op that waits for a copy. That op is a gate, and the host passes it when the copy has come, which is
//! long before the GPU comes to it if all goes well. A copy that is triggered while the host waits at a gate starts when the GPU comes to
//! that gate; so it has to be triggered after the host has passed the gate before, and before it passes this one. Triggered later, it
//! starts at the next gate, which may be its own, and then the GPU stands still for all of the copy.
//!
//! Where the host is the slower one, nothing is launched ahead, and a copy starts when it is triggered.

use crate::simulate::Machine;
use crate::tune::planned::timeline::{Gap, Id as _, Position, Table};

/// No host launches ops faster than one in this time.
const LEAST_SECONDS: f64 = 1e-9;

/// A copy that starts later than it should by less than this part of its time is in time.
const NEARLY: f64 = 0.25;

/// A return by a copy.
pub(super) struct Return {
    pub gap: Gap,
    /// The place of the first op that reads it.
    pub until: Position,
    pub copy_seconds: f64,
    /// When the copy has to start at the latest, on the clock of a GPU that waits for nothing.
    pub start_seconds: f64,
}

/// An op that waits for copies.
struct Gate {
    place: Position,
    /// When the GPU comes to it.
    reached: f64,
    /// When the host passes it: it has launched all before it, and all copies that it waits for have come.
    passed: f64,
}

/// The clocks of host, GPU and link, as far as returns are placed.
pub(super) struct Pace<'a> {
    machine: &'a Machine,
    /// For each place when its op begins if the GPU waits for nothing.
    begins: &'a Table<Position, f64>,
    /// The gates so far; the first is the beginning of the step, the last waits for the return that is to be placed.
    gates: Vec<Gate>,
    link_free: f64,
}

impl Pace<'_> {
    /// No return is placed yet.
    pub fn new<'a>(machine: &'a Machine, begins: &'a Table<Position, f64>) -> Pace<'a> {
        let begin = Gate { place: Position::new(0), reached: 0.0, passed: 0.0 };
        Pace { machine, begins, gates: vec![begin], link_free: 0.0 }
    }

    /// The next return is read at this place.
    pub fn come_to(&mut self, place: Position) {
        let last = &self.gates[self.gates.len() - 1];
        if last.place < place {
            let reached = self.begins[place] + self.delay(place);
            let passed = last.passed + f64::from(place - last.place) * self.machine.host_op_seconds;
            self.gates.push(Gate { place, reached, passed });
        }
    }

    /// Behind which place a copy should be triggered that is to start so many gates earlier than it has to.
    pub fn trigger(&self, back: &Return, lead: u8) -> Position {
        let own = self.gates.len() - 1;
        // Both the trigger and the end of a copy have to be noticed.
        let noticed = 2.0 * self.machine.notice_seconds;
        let start = back.start_seconds + self.delay(self.gates[own].place.minus(1));
        if lead == 0 && self.busy_until(start) <= start + NEARLY * back.copy_seconds {
            return self.last_ended(start - noticed);
        }
        let in_time = self.gates[..own].partition_point(|gate| self.begins[gate.place] <= back.start_seconds);
        let start = in_time.saturating_sub(1 + usize::from(lead));
        let Some(gate) = self.gates.get(start).filter(|_| start > 0) else { return Position::new(0) };
        let opens = self.gates[start - 1].passed;
        let closes = gate.passed.min(gate.reached);
        self.last_ended((opens + closes) / 2.0 - noticed)
    }

    /// The copy is triggered behind a place.
    pub fn copy(&mut self, back: &Return, trigger: Position) {
        let ended = self.begins.get(trigger.next()).copied().unwrap_or(0.0) + self.delay(trigger);
        let issued = ended + 2.0 * self.machine.notice_seconds;
        let start = self.busy_until(issued).max(issued).max(self.link_free);
        let end = start + back.copy_seconds;
        self.link_free = end;
        let own = self.gates.len() - 1;
        let gate = &mut self.gates[own];
        gate.passed = gate.passed.max(end + self.machine.notice_seconds);
    }

    /// How much later the op at a place begins than it would if the GPU waited for nothing.
    fn delay(&self, place: Position) -> f64 {
        let before = self.gates.partition_point(|gate| gate.place <= place);
        let gate = &self.gates[before.max(1) - 1];
        gate.reached.max(gate.passed) - self.begins[gate.place]
    }

    /// When the GPU is done with all that the host has launched by a time.
    fn busy_until(&self, seconds: f64) -> f64 {
        let own = self.gates.len() - 1;
        let gate = self.gates[..own].partition_point(|gate| gate.passed <= seconds).max(1) - 1;
        let Gate { place, passed, .. } = self.gates[gate];
        let host_op_seconds = self.machine.host_op_seconds.max(LEAST_SECONDS);
        let launched = f64::from(place.number()) + (seconds - passed).max(0.0) / host_op_seconds;
        let next = self.gates.get(gate + 1).map_or(self.gates[own].place, |next| next.place);
        let launched = Position::new(launched as u32).min(next);
        self.begins[launched] + self.delay(launched.minus(1))
    }

    /// The last place whose op has ended by a time.
    fn last_ended(&self, seconds: f64) -> Position {
        let gate = self.gates.partition_point(|gate| gate.reached.max(gate.passed) <= seconds).max(1) - 1;
        let delay = self.delay(self.gates[gate].place);
        let begun = self.begins.as_slice().partition_point(|&begin| begin + delay <= seconds);
        let begun = Position::of(begun);
        let begun = self.gates.get(gate + 1).map_or(begun, |next| begun.min(next.place));
        // An op ends where the next one begins.
        begun.minus(2)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cost::DeviceProfile;
    use crate::tune::planned::timeline::LifeId;

    /// A machine whose host launches ops in no time, and notices everything at once.
    fn machine() -> Machine {
        let profile = DeviceProfile::built_in("v100-pcie3").unwrap();
        let machine = Machine::new(profile, 1, Vec::new());
        Machine { host_op_seconds: 1e-9, notice_seconds: 0.0, link_latency_seconds: 0.0, ..machine }
    }

    /// Ops of a millisecond each.
    fn begins(ops: u32) -> Table<Position, f64> {
        (0..ops).map(|op| f64::from(op) * 1e-3).collect()
    }

    fn copy(until: u32, milliseconds: f64, start_milliseconds: f64) -> Return {
        Return {
            gap: Gap { life: LifeId::new(0), after: Position::new(0) },
            until: Position::new(until),
            copy_seconds: milliseconds * 1e-3,
            start_seconds: start_milliseconds * 1e-3,
        }
    }

    fn assert_near(seconds: f64, milliseconds: f64) {
        assert!((seconds * 1e3 - milliseconds).abs() < 1e-2, "{seconds}, not {milliseconds} ms");
    }

    /// A copy for the op at 40 that is to start at the op at 20 is triggered while the host waits there: from 14 ms, when the copy for that
    /// at 10 has come, to 18 ms, when that for the one at 20 has.
    #[test]
    fn a_copy_is_triggered_while_the_host_waits_at_the_op_at_which_it_is_to_start() {
        let (machine, begins) = (machine(), begins(60));
        let mut pace = Pace::new(&machine, &begins);
        pace.come_to(Position::new(10));
        pace.copy(&copy(10, 4.0, 6.0), Position::new(0));
        pace.come_to(Position::new(20));
        pace.copy(&copy(20, 4.0, 16.0), Position::new(2));
        assert_near(pace.gates[1].passed, 14.0);
        assert_near(pace.gates[2].passed, 18.0);
        pace.come_to(Position::new(40));
        let back = copy(40, 4.0, 30.0);
        let trigger = pace.trigger(&back, 0);
        // The GPU has waited for 4 ms by then.
        let ends = f64::from(trigger.number() + 1) * 1e-3 + 4e-3;
        assert!(ends > pace.gates[1].passed && ends < pace.gates[2].passed, "{trigger:?}");
        pace.copy(&back, trigger);
        // The GPU comes to the op at 20 at 24 ms.
        assert_near(pace.gates[3].passed, 28.0);
        assert!(pace.trigger(&back, 1) < trigger);
    }

    /// Triggered when the host has gone on to the op that reads it, it starts when the GPU comes there too, and the GPU waits.
    #[test]
    fn a_copy_that_is_triggered_too_late_has_the_gpu_wait() {
        let (machine, begins) = (machine(), begins(60));
        let mut pace = Pace::new(&machine, &begins);
        pace.come_to(Position::new(20));
        pace.copy(&copy(20, 4.0, 16.0), Position::new(0));
        pace.come_to(Position::new(40));
        pace.copy(&copy(40, 4.0, 30.0), Position::new(30));
        assert_near(pace.gates[2].passed, 48.0);
        assert_near(pace.delay(Position::new(50)), 8.0);
    }

    /// A host that is no faster than the GPU has launched nothing that a copy would wait for.
    #[test]
    fn behind_a_slow_host_a_copy_is_triggered_when_it_is_to_start() {
        let machine = Machine { host_op_seconds: 1e-3, ..machine() };
        let begins = begins(60);
        let mut pace = Pace::new(&machine, &begins);
        pace.come_to(Position::new(10));
        pace.copy(&copy(10, 4.0, 6.0), Position::new(0));
        pace.come_to(Position::new(40));
        // The op at 29 ends when that at 30 begins, four later than without waiting.
        let trigger = pace.trigger(&copy(40, 4.0, 30.0), 0);
        assert!((28..=30).contains(&trigger.number()), "{trigger:?}");
    }
}
