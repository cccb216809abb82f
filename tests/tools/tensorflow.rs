//! Finding and opening TensorFlow.

use std::fs;
use std::path::Path;

use tf_lms::runtime::{MINIMUM_VERSION, RuntimeError, TensorFlow};

#[test]
fn opens_once_and_returns_the_same_again() {
    // One test, because the first success decides what all later calls return.
    let directory = tempfile::tempdir().unwrap();
    let empty = TensorFlow::open(Some(directory.path())).unwrap_err();
    assert!(matches!(empty, RuntimeError::NotThere { named_by: "--tensorflow", .. }), "{empty:?}");
    assert!(empty.to_string().contains("no libtensorflow"), "{empty}");

    let missing = TensorFlow::open(Some(Path::new("/no/such/place"))).unwrap_err();
    assert!(
        missing.to_string().starts_with("/no/such/place, named by --tensorflow: does not exist"),
        "{missing}"
    );

    let damaged = directory.path().join("libtensorflow.so");
    fs::write(&damaged, "no library").unwrap();
    let damaged = TensorFlow::open(Some(&damaged)).unwrap_err();
    assert!(matches!(damaged, RuntimeError::NotLoadable { .. }), "{damaged:?}");

    let Some(tensorflow) = lms_testing::tensorflow() else { return };
    let numbers: Vec<u32> = tensorflow.version().split('.').map_while(|part| part.parse().ok()).collect();
    assert!((numbers[0], numbers[1]) >= MINIMUM_VERSION, "{}", tensorflow.version());
    assert!(tensorflow.path().is_file());
    let again = TensorFlow::open(Some(directory.path())).unwrap();
    assert!(std::ptr::eq(again, tensorflow));
}
