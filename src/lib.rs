//! Large Model Support for serialized TensorFlow graphs.
