//! Graphs of version 1 that a script beside the tests makes: what is predicted of them, and what plans for them do.

use std::process::Command;

use lms_testing::program::{self, number, ready, report};

/// A graph that a script makes.
pub struct Made {
    pub name: &'static str,
    /// By what part a predicted peak may be off.
    pub tolerance: f64,
    /// For so many percent of the peak a plan is looked for, and trains.
    pub percent: Option<u64>,
}

/// Runs a script, and holds what is predicted of each of its graphs against what a step takes of what is written where all fits: that has
/// no calls any more, and comes back as it was. Plans give the same numbers, in the memory that they were made for.
pub fn are_predicted_and_planned(script: &str, graphs: &[Made]) {
    let python = std::env::var_os("LMS_TEST_PYTHON");
    let Some(python) = python.filter(|_| ready()) else {
        eprintln!("skipped: LMS_TEST_PYTHON is not set to a Python with TensorFlow");
        return;
    };
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).to_str().unwrap().to_string();
    let made = Command::new(python).args([script, &path("")]).output().unwrap();
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    for &Made { name, tolerance, percent } in graphs {
        let model = path(&format!("{name}.meta"));
        let tune = |flags: &[&str]| {
            let fixed = ["--json", "--device-profile", "soft", "--memory-ratio", "1"];
            report(&program::of("lms-tune", &[&[&*model], &fixed[..], flags].concat()).output().unwrap())
        };
        let train = |model: &str, flags: &[&str]| {
            report(&program::run(model, &[&["--json", "--threads", "1", "--steps", "2"], flags].concat()))
        };
        let (written, back) = (path("written.meta"), path("back.meta"));
        let rewrite = |flags: &[&str]| {
            let done = program::of("lms-rewrite", flags).output().unwrap();
            assert!(done.status.success(), "{name}: {}", String::from_utf8_lossy(&done.stderr));
        };
        rewrite(&[&model, "--gpu-mem", "1GiB", "--device-profile", "soft", "-o", &written]);
        rewrite(&["--verify-against", &model, &written]);
        let bytes = |path: &str| std::fs::read(path).unwrap();
        if bytes(&written) != bytes(&model) {
            rewrite(&["--strip", &written, "-o", &back]);
            assert!(bytes(&back) == bytes(&model), "{name} does not come back as it was");
        }
        let predicted = number(&tune(&["--gpu-mem", "1GiB"]), "/peak_before");
        let measured =
            number(&train(&written, &["--device", "soft:1GiB", "--exact-memory"]), "/memory/peak_bytes");
        let error = predicted as f64 / measured as f64 - 1.0;
        eprintln!("{name}: predicted {predicted}, measured {measured}, {:+.1}%", error * 100.0);
        assert!(error.abs() < tolerance, "{name}: predicted {predicted}, measured {measured}");
        let Some(percent) = percent else { continue };
        let (memory, plan) = ((measured / 100 * percent).to_string(), path("plan.json"));
        let found = tune(&["--gpu-mem", &memory, "-o", &plan]);
        assert_eq!(found["verdict"], "fits_with_swapping", "{name}");
        train(&model, &["--device", &format!("soft:{memory}"), "--plan", &plan]);
        let compared =
            program::run(&model, &["--device", "soft:1GiB", "--plan", &plan, "--compare", "--threads", "1"]);
        assert!(compared.status.success(), "{name}: {}", String::from_utf8_lossy(&compared.stderr));
    }
}
