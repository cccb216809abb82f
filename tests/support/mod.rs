//! What the tests that run TensorFlow share.

#![allow(dead_code)] // each test uses a part

pub mod chain;
pub mod feeds;
pub mod graphs;
pub mod manifest;
pub mod training;

use std::sync::Once;

use tf_lms::runtime::{RuntimeError, TensorFlow};

/// The variable that makes a missing TensorFlow a failure.
const REQUIRE: &str = "LMS_REQUIRE_TENSORFLOW";

/// What makes TensorFlow compute the same bits each time.
const DETERMINISM: [(&str, &str); 2] = [("TF_DETERMINISTIC_OPS", "1"), ("TF_ENABLE_ONEDNN_OPTS", "0")];

/// TensorFlow, with all kernels deterministic; none if there is none and none is required, which is said.
///
/// # Panics
///
/// If there is one that does not work, or if there is none although `LMS_REQUIRE_TENSORFLOW` is set.
pub fn tensorflow() -> Option<&'static TensorFlow> {
    static PREPARED: Once = Once::new();
    PREPARED.call_once(|| {
        for (name, value) in DETERMINISM {
            // SAFETY: Rust's readers of the environment are locked out, and no TensorFlow runs yet.
            unsafe { std::env::set_var(name, value) };
        }
    });
    let required = std::env::var_os(REQUIRE).is_some_and(|value| !value.is_empty());
    match TensorFlow::open(None) {
        Ok(tensorflow) => Some(tensorflow),
        Err(error @ RuntimeError::Absent { .. }) if !required => {
            eprintln!("skipped, as {REQUIRE} is not set: {error}");
            None
        }
        Err(error) => panic!("{error}"),
    }
}
