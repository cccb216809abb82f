//! The library as its users meet it, room by room.
//!
//! What asks TensorFlow is skipped, with the reason printed, where none is found and `LMS_REQUIRE_TENSORFLOW` is unset.

mod bounds;
mod branches;
mod buffers;
mod by_levels;
mod equal;
mod files;
mod flatten;
mod fuzzed;
mod growing;
mod idle;
mod image_order;
mod outlined;
mod planned;
mod properties;
mod proto;
mod sessions;
mod shapes;
mod simulate;
mod sums;
mod tflms_v1;
mod variables;
