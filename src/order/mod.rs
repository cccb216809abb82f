//! The order of a graph: how far each op is from the beginning, which ops a step runs, and which effects come with an op.

mod effects;
mod levels;
mod ordered;
mod placement;
mod step;

pub use effects::Effects;
pub use levels::Levels;
pub use placement::{Place, Placement};
pub use step::{Step, run_alone};
