//! Checkpoints, written and read.

use std::fs;
use std::path::Path;
use std::process::{Child, Command};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::Value;

use lms_testing::program::{MNIST_REF, UNET, command, reference, run, train};

#[test]
fn a_checkpoint_continues_where_it_was_written() {
    if lms_testing::tensorflow().is_none() {
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

/// A run of a million steps, which does not outlive its test.
struct Endless(Child);

impl Drop for Endless {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A kill at any time leaves the checkpoint that TensorFlow's file `checkpoint` names whole.
#[test]
fn a_killed_run_leaves_its_last_checkpoint() {
    if lms_testing::tensorflow().is_none() {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let prefix = directory.path().join("model").display().to_string();
    let model = format!("testdata/{}.meta", MNIST_REF.model);
    let feeds = ["--feed", MNIST_REF.feeds[0], "--device", "cpu", "--quiet"];
    let endless = ["--steps", "1000000", "--save", &prefix, "--save-every", "2"];
    let mut child = Endless(command(&[&[model.as_str()], &feeds[..], &endless].concat()).spawn().unwrap());
    let start = Instant::now();
    // The third checkpoint: the run is then somewhere between writing one and the next.
    while !directory.path().join("model-6.index").is_file() {
        assert!(child.0.try_wait().unwrap().is_none(), "the run ended");
        assert!(start.elapsed() < Duration::from_secs(120), "no checkpoint");
        thread::sleep(Duration::from_millis(5));
    }
    drop(child);
    let state = fs::read_to_string(directory.path().join("checkpoint")).unwrap();
    let last = state.split('"').nth(1).unwrap();
    let last = directory.path().join(last).display().to_string();
    let output = run(&model, &[&feeds[..], &["--steps", "1", "--restore", &last]].concat());
    assert!(output.status.success(), "{last}: {}", String::from_utf8_lossy(&output.stderr));
}

/// Ctrl-C ends training with the summary and a checkpoint.
#[test]
fn an_interrupted_run_saves() {
    if lms_testing::tensorflow().is_none() {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let prefix = directory.path().join("model").display().to_string();
    let model = format!("testdata/{}.meta", MNIST_REF.model);
    let flags = ["--feed", MNIST_REF.feeds[0], "--device", "cpu", "--json", "--steps", "1000000"];
    let saves = ["--save", &prefix, "--save-every", "2"];
    let mut command = command(&[&[model.as_str()], &flags[..], &saves].concat());
    let output = fs::File::create(directory.path().join("report.json")).unwrap();
    let mut child = Endless(command.stdout(output).spawn().unwrap());
    let start = Instant::now();
    while !directory.path().join("model-2.index").is_file() {
        assert!(start.elapsed() < Duration::from_secs(120), "no checkpoint");
        thread::sleep(Duration::from_millis(5));
    }
    let interrupted = Command::new("kill").args(["-INT", &child.0.id().to_string()]).status();
    assert!(interrupted.unwrap().success());
    let ended = loop {
        if let Some(status) = child.0.try_wait().unwrap() {
            break status;
        }
        assert!(start.elapsed() < Duration::from_secs(180), "it goes on");
        thread::sleep(Duration::from_millis(5));
    };
    assert!(ended.success(), "{ended}");
    let report = fs::read(directory.path().join("report.json")).unwrap();
    let report: Value = serde_json::from_slice(&report).unwrap();
    assert_eq!(report["interrupted"], true);
    let steps = report["losses"].as_array().unwrap().len();
    assert_eq!(report["saved"], format!("{prefix}-{steps}"));
    assert!(Path::new(&format!("{prefix}-{steps}.index")).is_file());
}
