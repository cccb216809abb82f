//! What tests and benches share: graphs made up or at random, machines, and runs of the tools.

pub mod chain;
pub mod feeds;
pub mod graphs;
pub mod machine;
pub mod made_up;
pub mod manifest;
pub mod npy;
pub mod program;
pub mod random_graph;
pub mod steps_graph;
pub mod training;
pub mod training_graph;

use std::env;
use std::path::{Path, PathBuf};
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
            unsafe { env::set_var(name, value) };
        }
    });
    let required = env::var_os(REQUIRE).is_some_and(|value| !value.is_empty());
    match TensorFlow::open(None) {
        Ok(tensorflow) => Some(tensorflow),
        Err(error @ RuntimeError::Absent { .. }) if !required => {
            eprintln!("skipped, as {REQUIRE} is not set: {error}");
            None
        }
        Err(error) => panic!("{error}"),
    }
}

/// The folder of the project, whose `testdata` tests read.
pub fn project() -> &'static Path {
    // Two folders above this crate's own.
    Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).unwrap()
}

/// A tool that cargo built for the test that runs.
///
/// # Panics
///
/// If there is none: tests of another package than the tools' own must build them first.
pub fn tool(name: &str) -> PathBuf {
    // The test lies in `deps`, beside which the tools are.
    let test = env::current_exe().unwrap();
    let tool = test.ancestors().nth(2).unwrap().join(format!("{name}{}", env::consts::EXE_SUFFIX));
    assert!(tool.is_file(), "no {}", tool.display());
    tool
}
