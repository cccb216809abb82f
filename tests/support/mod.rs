//! What the tests that run TensorFlow share.

#![allow(dead_code)] // each test uses a part

pub mod graphs;

use tf_lms::runtime::{RuntimeError, TensorFlow};

/// The variable that makes a missing TensorFlow a failure.
const REQUIRE: &str = "LMS_REQUIRE_TENSORFLOW";

/// TensorFlow; none if there is none and none is required, which is said.
///
/// # Panics
///
/// If there is one that does not work, or if there is none although `LMS_REQUIRE_TENSORFLOW` is set.
pub fn tensorflow() -> Option<&'static TensorFlow> {
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
