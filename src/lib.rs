//! Large Model Support for serialized TensorFlow graphs.

pub mod dtype;
pub mod format;
pub mod graph;
pub mod ops;
pub mod order;
pub mod plan;
pub mod proto;
pub mod runtime;
pub mod shape;
