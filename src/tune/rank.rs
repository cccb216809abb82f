//! What makes one plan better than another.

use crate::simulate::Outcome;

/// The smaller, the better: a shorter step, then fewer bytes over the link, then less memory.
pub(super) type Rank = (i64, u64, u64);

/// The rank of a plan by what comes of it. Steps that differ by less than about `1 / parts` of their length are equal, so that noise
/// decides nothing.
pub(super) fn rank(outcome: &Outcome, parts: f64) -> Rank {
    let moved = outcome.gpus.iter().map(|gpu| gpu.out_bytes + gpu.in_bytes).sum();
    let peak = outcome.gpus.iter().map(|gpu| gpu.peak_bytes).max().unwrap_or(0);
    ((outcome.step_seconds.ln() * parts).floor() as i64, moved, peak)
}
