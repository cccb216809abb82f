//! Graphs that bring their input along: records, or values that are made on the device.
//!
//! `tests/data/cases.py` makes the records and the graphs with the scripts. Skipped, with the reason printed, where
//! `LMS_TEST_PYTHON` names no Python with TensorFlow.

use std::path::Path;
use std::process::Command;

use serde_json::Value;

use lms_testing::program::{command, number, ready, report};

/// Runs a case in a folder; false if there is no Python for it.
fn case(name: &str, folder: &Path) -> bool {
    let Some(python) = std::env::var_os("LMS_TEST_PYTHON") else {
        eprintln!("skipped {name}: LMS_TEST_PYTHON is not set to a Python with TensorFlow");
        return false;
    };
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/cases.py");
    let mut command = Command::new(&python);
    command.arg(script).arg(name).arg(folder).env("PYTHONDONTWRITEBYTECODE", "1");
    let output = command.output().unwrap_or_else(|error| panic!("LMS_TEST_PYTHON: {error}"));
    let [out, err] = [&output.stdout, &output.stderr].map(|text| String::from_utf8_lossy(text));
    assert!(output.status.success() && out.ends_with(&format!("ok {name}\n")), "{name}: {out}{err}");
    true
}

/// Trains a graph of the folder.
fn train(folder: &Path, model: &str, flags: &[&str]) -> Value {
    let all = [&[model, "--json", "--threads", "1", "--strict-placement"], flags].concat();
    // Two GPUs for the graph with two towers; the others use the first one.
    report(&command(&all).env("SOFTGPU_DEVICES", "2").current_dir(folder).output().unwrap())
}

fn losses(report: &Value) -> Vec<f64> {
    report["losses"].as_array().unwrap().iter().map(|loss| loss.as_f64().unwrap()).collect()
}

#[test]
fn graphs_train_on_records_with_and_without_rewriting() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    if !ready() || !case("graphs", folder) {
        return;
    }
    let soft = ["--device", "soft:1GiB"];
    let models = [
        ("classes.meta", 40),
        ("masks.meta", 1),
        ("volumes.meta", 4),
        ("towers.meta", 2),
        ("synthetic.meta", 4),
        ("saved_model", 4),
    ];
    for (model, steps) in models {
        let steps = steps.to_string();
        let flags = [&soft[..], &["--steps", &steps]].concat();
        let original = train(folder, model, &flags);
        let rewritten = train(folder, model, &[&flags[..], &["--rewrite"]].concat());
        assert_eq!(losses(&original), losses(&rewritten), "{model}");
        assert!(number(&rewritten, "/plan/swapouts") > 0, "{model}");
        assert_eq!(rewritten["swapins_kept"], rewritten["plan"]["swapins"], "{model}");
        // Of values made on the device nothing is known.
        let rate = original["rates"]["examples_per_second"].as_f64();
        assert_eq!(rate.is_some(), model != "synthetic.meta", "{model}");
        if model == "classes.meta" {
            let per_step = rate.unwrap() / original["rates"]["steps_per_second"].as_f64().unwrap();
            assert!((per_step - 12.0).abs() < 1e-6, "{per_step} examples in a step");
            let losses = losses(&original);
            let last = losses[losses.len() - 5..].iter().sum::<f64>() / 5.0;
            assert!(last < losses[0] / 4.0, "nothing was learned: {losses:?}");
            let cpu = train(folder, model, &["--device", "cpu", "--steps", "3"]);
            assert_eq!(cpu["losses"].as_array().unwrap()[..], original["losses"].as_array().unwrap()[..4]);
        }
        if model == "synthetic.meta" {
            // A checkpoint does not hold the values; they are made again.
            train(folder, model, &[&soft[..], &["--steps", "1", "--save", "saved"]].concat());
            let restored =
                train(folder, model, &[&soft[..], &["--steps", "2", "--restore", "saved-2"]].concat());
            assert_eq!(losses(&restored), losses(&original)[2..]);
        }
    }
}

#[test]
fn bad_data_is_refused_with_the_reason() {
    let folder = tempfile::tempdir().unwrap();
    case("refused", folder.path());
}
