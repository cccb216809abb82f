//! Large Model Support for serialized TensorFlow graphs.

pub mod proto;
