//! The order of a graph: how far each op is from the beginning, and which ops a step runs.

mod levels;
mod placement;
mod step;

pub use levels::Levels;
pub use placement::{Place, Placement};
pub use step::Step;
