//! Which of a device's engines are busy, and for how long together.

use std::sync::{Mutex, MutexGuard, PoisonError};

/// An engine: does one thing at a time.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Engine {
    Kernel,
    CopyIn,
    CopyOut,
    CopyOnDevice,
}

/// Sums of busy time since the last reset.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Busy {
    /// By `Engine`.
    pub ns: [u64; 4],
    /// A copy in or out was running.
    pub link_ns: u64,
    /// A kernel and a copy in or out were running.
    pub overlap_ns: u64,
}

#[derive(Default)]
struct State {
    running: [u32; 4],
    since: u64,
    busy: Busy,
}

impl State {
    /// Books the time since the last change under the engines that were running.
    fn advance(&mut self, now: u64) {
        let elapsed = now.saturating_sub(self.since);
        self.since = self.since.max(now);
        for (sum, &running) in self.busy.ns.iter_mut().zip(&self.running) {
            *sum += if running > 0 { elapsed } else { 0 };
        }
        let on = |engine: Engine| self.running[engine as usize] > 0;
        let link = on(Engine::CopyIn) || on(Engine::CopyOut);
        self.busy.link_ns += if link { elapsed } else { 0 };
        self.busy.overlap_ns += if link && on(Engine::Kernel) { elapsed } else { 0 };
    }
}

/// The engines of one device.
#[derive(Default)]
pub struct Engines(Mutex<State>);

impl Engines {
    pub fn start(&self, engine: Engine, now: u64) {
        let mut state = self.state();
        state.advance(now);
        state.running[engine as usize] += 1;
    }

    pub fn stop(&self, engine: Engine, now: u64) {
        let mut state = self.state();
        state.advance(now);
        state.running[engine as usize] -= 1;
    }

    pub fn busy(&self, now: u64) -> Busy {
        let mut state = self.state();
        state.advance(now);
        state.busy
    }

    pub fn reset(&self, now: u64) {
        let mut state = self.state();
        state.advance(now);
        state.busy = Busy::default();
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn overlap_is_the_time_that_both_run() {
        let engines = Engines::default();
        engines.start(Engine::Kernel, 100);
        engines.start(Engine::CopyIn, 150);
        engines.start(Engine::CopyOut, 160);
        engines.stop(Engine::CopyIn, 180);
        engines.stop(Engine::Kernel, 200);
        engines.stop(Engine::CopyOut, 260);
        let busy = engines.busy(1000);
        assert_eq!(busy.ns, [100, 30, 100, 0]);
        assert_eq!((busy.link_ns, busy.overlap_ns), (110, 50));
    }

    #[test]
    fn a_reset_amid_a_kernel_keeps_the_rest_of_it() {
        let engines = Engines::default();
        engines.start(Engine::Kernel, 0);
        engines.reset(40);
        engines.stop(Engine::Kernel, 50);
        assert_eq!(engines.busy(50).ns[0], 10);
    }

    #[test]
    fn copies_on_the_device_do_not_load_the_link() {
        let engines = Engines::default();
        engines.start(Engine::CopyOnDevice, 0);
        engines.start(Engine::Kernel, 0);
        assert_eq!(engines.busy(9), Busy { ns: [9, 0, 0, 9], link_ns: 0, overlap_ns: 0 });
    }
}
