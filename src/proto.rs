//! TensorFlow's protocol buffers as Rust types.
//!
//! The definitions are in `proto/`, and what `cargo run -p compile-protos` makes of them in `proto/generated/`. `scripts/make_protos.py`
//! writes the definitions anew from the descriptors of an installed TensorFlow.
//!
//! Maps are ordered: a message that is encoded twice gives the same bytes. Two things are for the
//! caller to know:
//!
//! * The types drop fields they do not know, such as those of a newer TensorFlow.
//! * Enums are `i32` in the messages, because a file may hold numbers that are not listed here.

use std::sync::OnceLock;

use prost_reflect::DescriptorPool;

/// The messages of TensorFlow's package `tensorflow`, named as TensorFlow names them.
///
/// Nested messages are in a module named after their parent: `OpDef.ArgDef` is `op_def::ArgDef`.
#[allow(missing_docs, clippy::all, clippy::pedantic, rustdoc::all)]
pub mod tensorflow {
    include!("../proto/generated/tensorflow.rs");
}

/// The same definitions as data: for text format, and for reading messages without losing fields
/// that are not known here.
pub fn descriptor_pool() -> &'static DescriptorPool {
    static POOL: OnceLock<DescriptorPool> = OnceLock::new();
    POOL.get_or_init(|| {
        let encoded = include_bytes!("../proto/generated/tensorflow.fds").as_slice();
        DescriptorPool::decode(encoded).expect("a test compiles the definitions and compares")
    })
}
