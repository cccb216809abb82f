//! Large Model Support for serialized TensorFlow graphs.

pub mod chart;
pub mod cli;
pub mod cost;
pub mod dtype;
pub mod format;
pub mod graph;
pub mod omit;
pub mod ops;
pub mod order;
pub mod picture;
pub mod plan;
pub mod proto;
pub mod rewrite;
pub mod runtime;
pub mod shape;
pub mod simulate;
pub mod train;
pub mod tune;
pub mod verify;
