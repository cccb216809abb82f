//! `lms-train` on real TensorFlow with the software GPU.
//!
//! Skipped, with the reason printed, where no TensorFlow is found and `LMS_REQUIRE_TENSORFLOW` is unset.

mod support;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use serde_json::Value;

/// A model with the feeds that its manifest asks for.
struct Case {
    model: &'static str,
    feeds: &'static [&'static str],
}

const MNIST: Case = Case { model: "mnist_cnn", feeds: &["labels=randint:0:10"] };
const MNIST_REF: Case = Case { model: "mnist_cnn_ref_momentum", feeds: &["labels=randint:0:10"] };
const GOOGLENET: Case = Case { model: "googlenet_64_b2", feeds: &["labels=randint:0:10"] };
const RESNET: Case = Case { model: "resnet50_64_b2", feeds: &["labels=randint:0:10"] };
const UNET: Case = Case { model: "unet3d_16_b1", feeds: &["truth=randint:0:2"] };

/// The plug-in, where cargo built it for the tests of its crate or by itself.
fn plugin() -> Option<PathBuf> {
    if let Some(named) = std::env::var_os("LMS_SOFTGPU") {
        return Some(named.into());
    }
    let program = Path::new(env!("CARGO_BIN_EXE_lms-train")).parent()?;
    ["", "deps"]
        .map(|place| program.join(place).join("libsoftgpu.so"))
        .into_iter()
        .find(|path| path.is_file())
}

/// Whether there are a TensorFlow and a plug-in to test with.
fn ready() -> bool {
    if support::tensorflow().is_none() {
        return false;
    }
    let built = plugin().is_some();
    let required = std::env::var_os("LMS_REQUIRE_TENSORFLOW").is_some_and(|value| !value.is_empty());
    assert!(built || !required, "no libsoftgpu.so: run `cargo build -p softgpu` first");
    if !built {
        eprintln!("skipped: no libsoftgpu.so; run `cargo build -p softgpu` first");
    }
    built
}

fn run(model: &str, flags: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_lms-train"));
    command.arg(model).args(flags).env("TF_DETERMINISTIC_OPS", "1").env("TF_ENABLE_ONEDNN_OPTS", "0");
    command.envs(plugin().map(|path| ("LMS_SOFTGPU", path))).output().unwrap()
}

fn train(case: &Case, flags: &[&str]) -> Value {
    // One thread, as the manifests' losses were made: sums in another order lead a ResNet elsewhere within three steps.
    let mut all = vec!["--json", "--strict-placement", "--steps", "2", "--threads", "1"];
    case.feeds.iter().for_each(|feed| all.extend(["--feed", feed]));
    all.extend(flags);
    let output = run(&format!("testdata/{}.meta", case.model), &all);
    assert!(output.status.success(), "{}: {}", case.model, String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}

/// The losses that the manifest records.
fn reference(case: &Case) -> Vec<f64> {
    let manifest = fs::read(format!("testdata/{}.json", case.model)).unwrap();
    let manifest: Value = serde_json::from_slice(&manifest).unwrap();
    manifest["reference"]["losses"].as_array().unwrap().iter().map(|loss| loss.as_f64().unwrap()).collect()
}

fn number(report: &Value, path: &str) -> u64 {
    report.pointer(path).and_then(Value::as_u64).unwrap_or_else(|| panic!("no {path} in {report}"))
}

/// Strict placement, the CPU's losses, and just the planned bytes more than without the plan.
fn trains_as_planned(case: &Case) {
    if !ready() {
        return;
    }
    let original = train(case, &["--device", "soft", "--exact-memory"]);
    let rewritten = train(case, &["--device", "soft", "--exact-memory", "--rewrite"]);
    assert_eq!(original["losses"], rewritten["losses"], "{}", case.model);
    for (loss, expected) in original["losses"].as_array().unwrap().iter().zip(reference(case)) {
        let loss = loss.as_f64().unwrap();
        assert!(
            (loss - expected).abs() <= 1e-3 * expected.abs().max(1.0),
            "{}: {loss}, not {expected}",
            case.model
        );
    }
    assert_eq!(rewritten["swapins_kept"], rewritten["plan"]["swapins"], "{}", case.model);
    for (measured, planned) in
        [("/traffic/bytes_out", "/plan/bytes_out"), ("/traffic/bytes_in", "/plan/bytes_in")]
    {
        let added = number(&rewritten, measured) - number(&original, measured);
        assert_eq!(added, number(&rewritten, planned), "{}: {measured}", case.model);
    }
}

#[test]
fn mnist_trains_as_planned() {
    trains_as_planned(&MNIST);
}

#[test]
fn mnist_on_ref_variables_trains_as_planned() {
    trains_as_planned(&MNIST_REF);
}

#[test]
fn googlenet_trains_as_planned() {
    trains_as_planned(&GOOGLENET);
}

#[test]
fn resnet50_trains_as_planned() {
    trains_as_planned(&RESNET);
}

#[test]
fn unet3d_trains_as_planned() {
    trains_as_planned(&UNET);
}

#[test]
fn out_of_memory_is_said_and_is_exit_status_3() {
    if !ready() {
        return;
    }
    let output = run("testdata/mnist_cnn.meta", &["--device", "soft:40MiB", "--feed", "labels=randint:0:10"]);
    let message = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(3), "{message}");
    for part in ["RESOURCE_EXHAUSTED", "tensor: [", "try: --rewrite"] {
        assert!(message.contains(part), "no {part:?} in {message}");
    }
}

#[test]
fn wrong_flags_are_explained() {
    if support::tensorflow().is_none() {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let plan = directory.path().join("plan.json");
    let other = serde_json::json!({
        "schema": 1, "graph": {"nodes": 1, "digest": "0"}, "strategy": "tflms", "parameters": null,
        "host_device": "/cpu:0", "swaps": [], "orders": [],
    });
    fs::write(&plan, other.to_string()).unwrap();
    let not_npy = directory.path().join("x.npy");
    fs::write(&not_npy, "no array").unwrap();
    let (plan, not_npy) = (plan.display().to_string(), format!("images={}", not_npy.display()));
    let cases: [(&[&str], i32, &str); 8] = [
        (&["--train-op", "no_such_op"], 1, "no_such_op"),
        (&["--init-op", "nothing"], 1, "\"nothing\", which --init-op names"),
        (&["--loss", "nothing"], 1, "--loss"),
        (&["--feed", "nothing=zeros"], 1, "no such placeholder; it has images"),
        (&["--feed", "images=everything"], 2, "randint"),
        (&["--feed", &not_npy], 1, "is no .npy file"),
        (&["--plan", &plan], 1, "for another graph"),
        (&["--restore", "no/such/checkpoint"], 1, "is no checkpoint"),
    ];
    for (flags, status, part) in cases {
        let flags = [&["--device", "cpu", "--steps", "1"], flags].concat();
        let output = run("testdata/mnist_cnn.meta", &flags);
        let message = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(status), "{flags:?}: {message}");
        assert!(message.contains(part), "{flags:?}: no {part:?} in {message}");
    }
}

#[test]
fn a_checkpoint_continues_where_it_was_written() {
    if support::tensorflow().is_none() {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let prefix = directory.path().join("model").display().to_string();
    let cpu = ["--device", "cpu", "--warmup", "0"];
    // A model without dropout: random numbers begin anew in the second run.
    let whole = train(&UNET, &[&cpu[..], &["--save", &prefix]].concat());
    assert_eq!(whole["saved"], format!("{prefix}-2"));
    let rest = train(&UNET, &[&cpu[..], &["--restore", &format!("{prefix}-2")]].concat());
    let (expected, found) = (reference(&UNET)[2], rest["losses"][0].as_f64().unwrap());
    assert!((found - expected).abs() <= 1e-3 * expected.abs().max(1.0), "{found}, not {expected}");
}
