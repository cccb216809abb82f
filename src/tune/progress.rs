//! How far a search for a plan has come, and a way to end it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// How far a search for a plan has come, shared by who searches and who waits. Clones are of the same search.
#[derive(Debug, Clone, Default)]
pub struct Progress(Arc<State>);

#[derive(Debug, Default)]
struct State {
    is_ending: AtomicBool,
    /// The bits of the seconds that a step with the best plan takes; zero before there is one.
    best_seconds: AtomicU64,
}

impl Progress {
    /// Has the search end soon, with the best plan that it has; if it has none, it goes on until it has one or knows of none.
    pub fn end(&self) {
        self.0.is_ending.store(true, Ordering::Relaxed);
    }

    /// Whether the search is to end.
    pub fn is_ending(&self) -> bool {
        self.0.is_ending.load(Ordering::Relaxed)
    }

    /// A plan was found, with which a step takes so many seconds.
    pub fn found(&self, step_seconds: f64) {
        self.0.best_seconds.store(step_seconds.to_bits(), Ordering::Relaxed);
    }

    /// How many seconds a step takes with the plan that was found last, which is the best one in its memory; none before there is one.
    pub fn best_step_seconds(&self) -> Option<f64> {
        let seconds = f64::from_bits(self.0.best_seconds.load(Ordering::Relaxed));
        (seconds > 0.0).then_some(seconds)
    }
}
