//! Plans for CUDA's allocator (`--allocator async`), held against the software GPU that hands out memory tensor by tensor and waits for no
//! copy, as that allocator does.
//!
//! Skipped, with the reason printed, where no TensorFlow is found and `LMS_REQUIRE_TENSORFLOW` is unset.

use std::fs;
use std::path::Path;

use lms_testing::program::{self, Case, MOBILENET, number, ready};
use serde_json::Value;

const FOR_SOFT: [&str; 5] = ["--json", "--device-profile", "soft", "--memory-ratio", "1"];

/// What `lms-tune` says of a case.
fn tune(case: &Case, flags: &[&str]) -> Value {
    let model = format!("testdata/{}.meta", case.model);
    program::report(
        &program::of("lms-tune", &[&[model.as_str()], &FOR_SOFT[..], flags].concat()).output().unwrap(),
    )
}

/// How many ops of a plan wait until a copy is out.
fn waiting(plan: &Path) -> usize {
    let plan: Value = serde_json::from_slice(&fs::read(plan).unwrap()).unwrap();
    let swaps = plan["swaps"].as_array().unwrap();
    swaps.iter().filter(|swap| swap["waiting"].as_array().is_some_and(|waiting| !waiting.is_empty())).count()
}

/// The least memory with CUDA's allocator is less than with TensorFlow's, and a plan for it trains in it, with the predicted peak. As nothing
/// else waits for copies, ops do.
#[test]
fn plans_for_the_asynchronous_allocator_train_in_their_memory() {
    if !ready() {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let plan = directory.path().join("plan.json");
    let case = &MOBILENET;
    let planned = tune(case, &["--gpu-mem", "min", "--allocator", "async", "-o", plan.to_str().unwrap()]);
    assert_eq!(planned["allocator"], "async");
    let least = number(&planned, "/gpu_mem");
    let with_pieces = number(&tune(case, &["--gpu-mem", "min"]), "/gpu_mem");
    assert!(least < with_pieces, "{}: {least} bytes, and {with_pieces} in one region", case.model);
    assert!(waiting(&plan) > 0, "{}: nothing waits for a copy", case.model);
    let device = format!("soft:{least}");
    let flags = ["--device", &device, "--allocator", "async", "--plan", plan.to_str().unwrap()];
    let trained = program::train(case, &flags);
    let (peak, expected) = (number(&trained, "/memory/peak_bytes"), number(&planned, "/peak_after"));
    let error = expected as f64 / peak as f64 - 1.0;
    assert!(error.abs() < 0.01, "{}: predicted {expected}, took {peak}", case.model);
    assert!(peak <= least);
}
