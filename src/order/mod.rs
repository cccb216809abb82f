//! The order of a graph: how far each op is from the beginning.

mod levels;

pub use levels::Levels;
