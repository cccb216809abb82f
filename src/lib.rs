//! Large Model Support for serialized TensorFlow graphs.

pub mod format;
pub mod proto;
