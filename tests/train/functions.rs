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

/// The predicted peak of a model, in bytes.
fn predicted_peak(model: &str) -> f64 {
    let told = report("lms-tune", &[model, "--gpu-mem", "1GiB", "--device-profile", "soft"]);
    told["peak_before"].as_u64().unwrap() as f64
}

fn measured_peak(trained: &Value) -> f64 {
    trained["peak_bytes"].as_u64().unwrap() as f64
}

fn is_near(predicted: f64, measured: f64) -> bool {
    (predicted / measured - 1.0).abs() < 0.05
}

/// The gradient of the loop puts a tensor into a list in each of 24 iterations, as it takes seven off others: with both as a whole, 12% more
/// would be predicted.
#[test]
fn lists_that_grow_as_others_shrink_are_predicted() {
    let Some(python) = std::env::var_os("LMS_TEST_PYTHON") else {
        eprintln!("skipped: LMS_TEST_PYTHON is not set to a Python with TensorFlow");
        return;
    };
    if !ready() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let model = folder.path().join("lstm");
    let mut export = Command::new(&python);
    export.args(["scripts/export_models.py", "keras_lstm", "--layers", "1", "--tf2-saved-model"]).arg(&model);
    let output = export.env("PYTHONDONTWRITEBYTECODE", "1").output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let model = model.to_str().unwrap();
    let flags = ["--feed", "labels=randint:0:10", "--threads", "1", "--exact-memory", "--steps", "2"];
    let trained = report("lms-train", &[&[model][..], &flags].concat());
    let (predicted, measured) = (predicted_peak(model), measured_peak(&trained["memory"]));
    assert!(is_near(predicted, measured), "predicted {predicted}, measured {measured}");
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
    // On a busy machine a step may take less, as a copy ends late.
    let predicted = predicted_peak(MODEL);
    let mut measured = vec![measured_peak(&before)];
    while !is_near(predicted, *measured.last().unwrap()) && measured.len() < 5 {
        measured.push(measured_peak(&train(Path::new(MODEL), &exact).unwrap()));
    }
    assert!(is_near(predicted, *measured.last().unwrap()), "predicted {predicted}, measured {measured:?}");
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

/// What loading a SavedModel and its rewritten copy in Python comes to, with the TensorFlow that is there.
fn compared(original: &str, rewritten: &Path, flags: &[&str]) -> Option<Value> {
    let Some(python) = std::env::var_os("LMS_TEST_PYTHON") else {
        eprintln!("skipped: LMS_TEST_PYTHON is not set to a Python with TensorFlow");
        return None;
    };
    let mut command = Command::new(&python);
    command.args(["scripts/tf2_versions.py", "pair", original]).arg(rewritten).args(flags);
    let output = command.env("PYTHONDONTWRITEBYTECODE", "1").output();
    let output = output.unwrap_or_else(|error| panic!("LMS_TEST_PYTHON: {error}"));
    let [out, err] = [&output.stdout, &output.stderr].map(|text| String::from_utf8_lossy(text));
    assert!(output.status.success(), "{out}{err}");
    Some(serde_json::from_str(out.lines().last().unwrap_or_default()).unwrap())
}

/// `scripts/tf2_versions.py table` does the same in each version of TensorFlow.
#[test]
fn rewritten_files_load_and_train_in_python_and_as_layers_of_keras() {
    let folder = tempfile::tempdir().unwrap();
    for (model, variables, layers_function) in
        [(MODEL, 19, "__inference_train_451"), ("testdata/keras_lstm_tf2", 12, "__inference_step_1084")]
    {
        for (flags, choice) in [(vec![], vec![]), (vec!["--keras"], vec!["--function", layers_function])] {
            let rewritten = folder.path().join(format!("{variables}{}", flags.len()));
            let arguments = [vec![model, "-o", rewritten.to_str().unwrap()], choice].concat();
            let plan = report("lms-rewrite", &arguments);
            let Some(told) = compared(model, &rewritten, &flags) else { return };
            assert!(told["losses_are_same"] == true && told["losses_differ_by_step"] == true, "{told}");
            assert!(told["variables"] == variables && told["variables_differing"] == 0, "{told}");
            assert!(told["swaps"] == plan["swapins"] && told["swaps"].as_u64() > Some(0), "{told}");
        }
    }
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
