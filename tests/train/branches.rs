//! Graphs of version 1 with branches, of which a step takes one side: `branches.py` makes them.

use std::process::Command;

use lms_testing::program::{self, number, ready, report};

/// By what part a predicted peak may be off. Of more than three choices both sides of some count.
const EXPECTED: [(&str, f64); 4] =
    [("fed_norms", 0.01), ("fed_dropouts", 0.01), ("left_out", 0.12), ("two_sides", 0.01)];

/// Those of which plans for so many percent of the peak are looked for, and train.
const PLANNED: [&str; 3] = ["fed_norms", "fed_dropouts", "left_out"];
const PERCENT: u64 = 70;

/// Zeros for the side that is not taken count, and the side that is not taken does not.
#[test]
fn branches_are_predicted_and_plans_for_them_train() {
    let python = std::env::var_os("LMS_TEST_PYTHON");
    let Some(python) = python.filter(|_| ready()) else {
        eprintln!("skipped: LMS_TEST_PYTHON is not set to a Python with TensorFlow");
        return;
    };
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).to_str().unwrap().to_string();
    let made = Command::new(python).args(["tests/train/branches.py", &path("")]).output().unwrap();
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    for (name, tolerance) in EXPECTED {
        let model = path(&format!("{name}.meta"));
        let tune = |flags: &[&str]| {
            let fixed = ["--json", "--device-profile", "soft", "--memory-ratio", "1"];
            report(&program::of("lms-tune", &[&[&*model], &fixed[..], flags].concat()).output().unwrap())
        };
        let train = |flags: &[&str]| {
            report(&program::run(&model, &[&["--json", "--threads", "1", "--steps", "2"], flags].concat()))
        };
        let predicted = number(&tune(&["--gpu-mem", "1GiB"]), "/peak_before");
        let measured = number(&train(&["--device", "soft:1GiB", "--exact-memory"]), "/memory/peak_bytes");
        let error = predicted as f64 / measured as f64 - 1.0;
        eprintln!("{name}: predicted {predicted}, measured {measured}, {:+.1}%", error * 100.0);
        assert!(error.abs() < tolerance, "{name}: predicted {predicted}, measured {measured}");
        if PLANNED.contains(&name) {
            let (memory, plan) = ((measured / 100 * PERCENT).to_string(), path("plan.json"));
            let found = tune(&["--gpu-mem", &memory, "-o", &plan]);
            assert_eq!(found["verdict"], "fits_with_swapping", "{name}");
            train(&["--device", &format!("soft:{memory}"), "--plan", &plan]);
            let compared = program::run(
                &model,
                &["--device", "soft:1GiB", "--plan", &plan, "--compare", "--threads", "1"],
            );
            assert!(compared.status.success(), "{name}: {}", String::from_utf8_lossy(&compared.stderr));
        }
    }
}
