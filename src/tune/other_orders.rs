//! What a step needs if it runs in another order than the one that is predicted.

use crate::plan::Draft;
use crate::simulate::{Machine, NoObserver, Outcome, Outline, Program, Scenario, simulate_in};

/// So many orders are tried at least, and at most.
const ORDERS: std::ops::RangeInclusive<u64> = 4..=32;

/// So many ops are simulated for it, but for the least: some tenths of a second.
const SIMULATED_OPS: u64 = 100_000;

/// The most memory that a GPU has in use at a time with a plan, were there no end of it, in the order that is predicted and in some others:
/// what a step begins with, and what waits for an op if that is more than eight ops, TensorFlow runs in another order in each process.
pub fn peak_in_other_orders(outline: &Outline, machine: &Machine, draft: &Draft) -> u64 {
    let program = Program::new(outline, draft);
    let unlimited = machine.with_memory(Vec::new());
    let peak = |scenario: Scenario| {
        let outcome = simulate_in(&program, &unlimited, &scenario, &mut NoObserver);
        outcome.as_ref().map_or(0, Outcome::peak_bytes)
    };
    let gpus = program.persistent_bytes().count();
    let orders = (SIMULATED_OPS / program.len().max(1) as u64).clamp(*ORDERS.start(), *ORDERS.end());
    let others = (0..orders).map(|seed| Scenario::by_chance(seed, gpus));
    std::iter::once(Scenario::PREDICTED).chain(others).map(peak).max().unwrap_or(0)
}
