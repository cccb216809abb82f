//! Large Model Support for serialized TensorFlow graphs.

pub mod dtype;
pub mod format;
pub mod ops;
pub mod proto;
pub mod verify;
