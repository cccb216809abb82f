//! How far off predictions may be: the worst error in the table of `docs/accuracy.md`, as a part of what is predicted.

/// Of the peak of live memory.
pub const PEAK_ERROR: f64 = 0.05;

/// Of the least memory in which a step runs.
pub const LIMIT_ERROR: f64 = 0.08;

/// The part of a GPU's memory that a plan may count on, so that a limit which was predicted too low by the error bound
/// still suffices.
pub fn safe_memory_ratio() -> f64 {
    1.0 / (1.0 + LIMIT_ERROR)
}
