//! The order of a graph: how far each op is from the beginning, and which ops a step runs.

mod levels;
mod step;

pub use levels::Levels;
pub use step::Step;
