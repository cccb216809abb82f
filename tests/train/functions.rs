//! Training steps that are functions: SavedModels of TensorFlow 2, rewritten, loaded in Python and trained by their signature.
//!
//! Skipped, with the reason printed, where `LMS_TEST_PYTHON` names no Python with TensorFlow.

use std::path::Path;
use std::process::Command;

use serde_json::Value;

use lms_testing::program::{plugin, ready};

const MODEL: &str = "testdata/mnist_cnn_tf2";

/// What training in Python prints; none if there is no Python for it.
fn train(model: &Path, flags: &[&str]) -> Option<Value> {
    let Some(python) = std::env::var_os("LMS_TEST_PYTHON") else {
        eprintln!("skipped: LMS_TEST_PYTHON is not set to a Python with TensorFlow");
        return None;
    };
    let mut command = Command::new(&python);
    command.arg("scripts/train_signature.py").arg(model).arg("--softgpu").arg(plugin()?).args(flags);
    command.env("PYTHONDONTWRITEBYTECODE", "1");
    let output = command.output().unwrap_or_else(|error| panic!("LMS_TEST_PYTHON: {error}"));
    let [out, err] = [&output.stdout, &output.stderr].map(|text| String::from_utf8_lossy(text));
    assert!(output.status.success(), "{out}{err}");
    Some(serde_json::from_str(out.lines().last().unwrap_or_default()).unwrap())
}

/// The JSON document of a tool.
fn report(program: &str, flags: &[&str]) -> Value {
    let output = Command::new(lms_testing::tool(program)).args(flags).arg("--json").output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}

#[test]
fn a_step_that_is_a_function_trains_in_python_as_before_and_copies_what_was_planned() {
    if !ready() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let swapped = folder.path().join("swapped");
    let exact = ["--allocator", "exact", "--steps", "3"];
    let Some(before) = train(Path::new(MODEL), &exact) else { return };
    let output = swapped.to_str().unwrap();
    let plan = report("lms-rewrite", &[MODEL, "-o", output]);
    assert_eq!(plan["function"], "__inference_signature_wrapper_309");
    assert!(!swapped.join("fingerprint.pb").exists());
    let after = train(&swapped, &exact).unwrap();
    for same in ["losses", "sha256", "variables"] {
        assert_eq!(before[same], after[same], "{same}");
    }
    let copied = |name: &str| after[name].as_u64().unwrap() - before[name].as_u64().unwrap();
    assert_eq!(copied("out_bytes"), plan["swapout_bytes"].as_u64().unwrap());
    assert_eq!(copied("in_bytes"), plan["swapin_bytes"].as_u64().unwrap());
    // The predicted peak is the one that is measured.
    let told = report("lms-tune", &[MODEL, "--gpu-mem", "1GiB", "--device-profile", "soft"]);
    let predicted = told["peak_before"]["bytes"].as_u64().or(told["peak_before"].as_u64()).unwrap() as f64;
    let measured = before["peak_bytes"].as_u64().unwrap() as f64;
    assert!((predicted / measured - 1.0).abs() < 0.05, "predicted {predicted}, measured {measured}");
    // And all comes out again.
    let stripped = folder.path().join("stripped");
    let output = Command::new(lms_testing::tool("lms-rewrite"))
        .arg("--strip")
        .arg(&swapped)
        .arg("-o")
        .arg(&stripped)
        .output()
        .unwrap();
    assert!(output.status.success());
    let content = |folder: &Path| std::fs::read(folder.join("saved_model.pb")).unwrap();
    assert!(content(&stripped) == content(Path::new(MODEL)));
}

/// Runs the script that makes random functions, or trains them; returns the last line that it prints.
fn random_functions(python: &std::ffi::OsStr, flags: &[&str]) -> String {
    let mut command = Command::new(python);
    command.arg("tests/train/random_functions.py").args(flags).env("PYTHONDONTWRITEBYTECODE", "1");
    let output = command.output().unwrap_or_else(|error| panic!("LMS_TEST_PYTHON: {error}"));
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout).lines().last().unwrap_or_default().to_string()
}

/// Calls in calls, conditions, switches and loops that update variables on the way, and the gradient through all of it. By hand with more:
/// `tests/train/random_functions.py make FOLDER --seed 7 --count 50`, `lms-rewrite FOLDER/0 -o FOLDER/0_lms` …, and `compare FOLDER`.
#[test]
fn random_functions_train_as_before_to_the_last_bit_of_each_variable() {
    const FUNCTIONS: usize = 12;
    let Some(python) = std::env::var_os("LMS_TEST_PYTHON") else {
        eprintln!("skipped: LMS_TEST_PYTHON is not set to a Python with TensorFlow");
        return;
    };
    let (true, Some(plugin)) = (ready(), plugin()) else { return };
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().to_str().unwrap();
    random_functions(&python, &["make", path, "--count", &FUNCTIONS.to_string()]);
    let mut planned = std::collections::HashMap::new();
    for index in 0..FUNCTIONS {
        let (model, output) = (format!("{path}/{index}"), format!("{path}/{index}_lms"));
        let plan = report("lms-rewrite", &[&model, "-o", &output]);
        planned.insert(format!("{index}_lms"), plan["swapout_bytes"].as_u64().unwrap());
    }
    let steps = 3;
    let flags = ["compare", path, "--steps", &steps.to_string(), "--softgpu", plugin.to_str().unwrap()];
    let compared: Vec<Value> = serde_json::from_str(&random_functions(&python, &flags)).unwrap();
    assert_eq!(compared.len(), FUNCTIONS);
    for pair in &compared {
        assert!(pair["losses"] == true && pair["different"] == serde_json::json!([]), "{pair}");
        // A branch that is not taken copies nothing, an op of a loop copies more than once.
        assert!(pair["more_bytes_out"].as_u64() > Some(0), "{pair}");
    }
    // Of a step without either all that was planned.
    let exact = compared.iter().filter(|pair| {
        let planned = planned[pair["model"].as_str().unwrap()];
        pair["more_bytes_out"].as_u64() == Some(planned * steps)
    });
    assert!(exact.count() >= 2);
}
