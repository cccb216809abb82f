//! What `lms-tune` predicts, held against real TensorFlow on the software GPU: the smaller half of the table of
//! `docs/accuracy.md`.
//!
//! Skipped, with the reason printed, where no TensorFlow is found and `LMS_REQUIRE_TENSORFLOW` is unset.

mod support;

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use serde_json::Value;
use tf_lms::tune::accuracy;

/// A model with the feeds that its manifest asks for.
struct Case {
    model: &'static str,
    feed: &'static str,
}

const MNIST: Case = Case { model: "mnist_cnn", feed: "labels=randint:0:10" };
const GOOGLENET: Case = Case { model: "googlenet_64_b2", feed: "labels=randint:0:10" };
const RESNET: Case = Case { model: "resnet50_64_b2", feed: "labels=randint:0:10" };
const UNET: Case = Case { model: "unet3d_16_b1", feed: "truth=randint:0:2" };

/// `lms-train` fetches the loss, which a step by itself does not copy.
const LOSS_BYTES: u64 = 4;

const SWAP_ALL: [&str; 4] = ["--swapout-threshold", "1", "--swapin-ahead", "1"];

/// The plug-in, where cargo built it for the tests of its crate or by itself.
fn plugin() -> Option<PathBuf> {
    if let Some(named) = std::env::var_os("LMS_SOFTGPU") {
        return Some(named.into());
    }
    let program = Path::new(env!("CARGO_BIN_EXE_lms-train")).parent()?;
    let places = ["", "deps"].map(|place| program.join(place).join("libsoftgpu.so"));
    places.into_iter().find(|path| path.is_file())
}

/// Where the plug-in is, if there is a TensorFlow to test with.
fn ready() -> Option<PathBuf> {
    support::tensorflow()?;
    let plugin = plugin();
    let required = std::env::var_os("LMS_REQUIRE_TENSORFLOW").is_some_and(|value| !value.is_empty());
    assert!(plugin.is_some() || !required, "no libsoftgpu.so: run `cargo build -p softgpu` first");
    if plugin.is_none() {
        eprintln!("skipped: no libsoftgpu.so; run `cargo build -p softgpu` first");
    }
    plugin
}

/// What a program prints about a case.
fn output(program: &str, plugin: &Path, case: &Case, flags: &[&str]) -> Vec<u8> {
    let output = run(program, plugin, case, flags);
    assert!(output.status.success(), "{}: {}", case.model, String::from_utf8_lossy(&output.stderr));
    output.stdout
}

/// Runs a program with a case.
fn run(program: &str, plugin: &Path, case: &Case, flags: &[&str]) -> Output {
    let mut command = Command::new(program);
    command.arg(format!("testdata/{}.meta", case.model)).args(flags).env("LMS_SOFTGPU", plugin);
    command.envs([("TF_DETERMINISTIC_OPS", "1"), ("TF_ENABLE_ONEDNN_OPTS", "0")]);
    command.output().unwrap()
}

fn number(report: &Value, path: &str) -> u64 {
    report.pointer(path).and_then(Value::as_u64).unwrap_or_else(|| panic!("no {path} in {report}"))
}

/// Holds what is predicted of a plan against what a step takes.
fn is_as_predicted(plugin: &Path, case: &Case, plan: &[&str]) {
    let json = |program: &str, flags: &[&str]| -> Value {
        serde_json::from_slice(&output(program, plugin, case, &[flags, plan].concat())).unwrap()
    };
    let predicted =
        json(env!("CARGO_BIN_EXE_lms-tune"), &["--json", "--device-profile", "soft", "--gpu-mem", "1TiB"]);
    let measured = json(
        env!("CARGO_BIN_EXE_lms-train"),
        &["--json", "--exact-memory", "--threads", "1", "--steps", "2", "--feed", case.feed],
    );
    let model = case.model;
    let (expected, peak) = (number(&measured, "/memory/peak_bytes"), number(&predicted, "/peak_after"));
    let error = peak as f64 / expected as f64 - 1.0;
    assert!(error.abs() <= accuracy::PEAK_ERROR, "{model} {plan:?}: predicted {peak}, took {expected}");
    let moved = |path| number(&measured, path);
    let out = number(&predicted, "/copied_out_bytes");
    assert_eq!(out, moved("/traffic/bytes_out") - LOSS_BYTES, "{model} {plan:?}: bytes out");
    let into = number(&predicted, "/copied_in_bytes");
    assert_eq!(into, moved("/traffic/bytes_in"), "{model} {plan:?}: bytes in");
}

/// As it is, and with all swapped that can be.
fn is_predicted(case: &Case) {
    let Some(plugin) = ready() else { return };
    is_as_predicted(&plugin, case, &[]);
    let directory = tempfile::tempdir().unwrap();
    let plan = directory.path().join("plan.json").display().to_string();
    let flags = [&SWAP_ALL[..], &["--dry-run", "--quiet", "--plan-out", &plan]].concat();
    output(env!("CARGO_BIN_EXE_lms-rewrite"), &plugin, case, &flags);
    is_as_predicted(&plugin, case, &["--plan", &plan]);
}

#[test]
fn mnist_takes_what_is_predicted() {
    is_predicted(&MNIST);
}

#[test]
fn googlenet_takes_what_is_predicted() {
    is_predicted(&GOOGLENET);
}

#[test]
fn unet3d_takes_what_is_predicted() {
    is_predicted(&UNET);
}

#[test]
fn resnet50_takes_what_is_predicted() {
    is_predicted(&RESNET);
}

/// Both moments of Adam begin with the same zeros, and one of them takes its memory in the midst of the first step: only with that
/// is the least memory what is predicted.
#[test]
fn a_model_with_moments_trains_in_the_least_memory() {
    let Some(plugin) = ready() else { return };
    let tune = ["--json", "--device-profile", "soft", "--gpu-mem", "1TiB"];
    let report: Value =
        serde_json::from_slice(&output(env!("CARGO_BIN_EXE_lms-tune"), &plugin, &MNIST, &tune)).unwrap();
    let least = number(&report, "/least_memory_before");
    let trains = |percent: u64| {
        let device = format!("soft:{}", least / 100 * percent);
        let flags = ["--device", &device, "--threads", "1", "--steps", "3", "--feed", MNIST.feed];
        run(env!("CARGO_BIN_EXE_lms-train"), &plugin, &MNIST, &flags).status.success()
    };
    assert!(trains(101), "does not train in {least} bytes");
    assert!(!trains(97), "trains in less than {least} bytes");
}

/// The page and the program must not say different things.
#[test]
fn the_stated_errors_are_those_of_the_page() {
    let page = std::fs::read_to_string("docs/accuracy.md").unwrap();
    let bytes = accuracy::LIMIT_ERROR_BYTES >> 20;
    for line in [
        format!("- peak: within {:.0}%", accuracy::PEAK_ERROR * 100.0),
        format!("- least memory: within {:.0}% or {bytes} MiB", accuracy::LIMIT_ERROR * 100.0),
    ] {
        assert!(page.contains(&line), "docs/accuracy.md does not say {line:?}");
    }
}
