//! Weights on the host, as users of the tools meet them.

use std::fs;

use serde_json::Value;
use tempfile::TempDir;
use tf_lms::format::{Edits, Encoding, Model, ReadOptions};

use super::run::{bytes, stderr, tool};

/// Forward passes with what says what they compute: on resource variables, on reference variables, on constants.
const FORWARD: [(&str, &[&str]); 3] = [
    ("testdata/bert_16_b1_forward.meta", &[]),
    ("testdata/bert_16_b1_forward_ref.meta", &[]),
    ("testdata/bert_16_b1_frozen.pb", &["--target", "loss"]),
];

/// Two thirds of what they take as they are. With more effort activations of a few hundred bytes would be tried too.
const BUDGET: [&str; 8] =
    ["--gpu-mem", "250KiB", "--memory-ratio", "1", "--device-profile", "soft", "--effort", "0.5"];

/// What a tool has on standard output when it ends with this status.
fn stdout(name: &str, status: i32, arguments: &[&str]) -> Vec<u8> {
    let output = tool(name, arguments);
    assert_eq!(output.status.code(), Some(status), "{name} {arguments:?}: {}", stderr(&output));
    output.stdout
}

fn tuned(status: i32, arguments: &[&str]) -> Value {
    serde_json::from_slice(&stdout("lms-tune", status, &[arguments, &BUDGET, &["--json"]].concat())).unwrap()
}

/// A plan with weights on the host.
fn plan(model: &str, target: &[&str]) -> Value {
    let flags = [&[model], target, &BUDGET, &["--swap-weights", "-o", "-"]].concat();
    serde_json::from_slice(&stdout("lms-tune", 0, &flags)).unwrap()
}

#[test]
fn they_make_room() {
    for (model, target) in FORWARD {
        let without = tuned(3, &[&[model], target].concat());
        let with = tuned(0, &[&[model], target, &["--swap-weights"]].concat());
        assert_eq!(with["verdict"], "fits_with_swapping", "{model}");
        assert!(bytes(&with, "peak_after") <= 250 << 10, "{model}");
        assert!(bytes(&with, "peak_before") == bytes(&without, "peak_before"), "{model}");
        assert!(bytes(&with["floors"], "memory_bytes") < 250 << 10, "{model}");
        // All that comes in is theirs, but for what is fed.
        let fed = bytes(&without, "copied_in_bytes") - bytes(&without, "swapin_bytes");
        assert_eq!(bytes(&with, "copied_in_bytes"), bytes(&with, "swapin_bytes") + fed, "{model}");
        // They need not go out to come in, and as many stay as can.
        assert_eq!(bytes(&with, "swapout_bytes"), 0, "{model}");
        let missing = bytes(&with, "peak_before") - (250 << 10);
        let came_in = bytes(&with, "copied_in_bytes");
        // Four are 64 KiB large; of these, one has to be there.
        assert!(
            (missing..missing + 3 * (64 << 10)).contains(&came_in),
            "{model}: {came_in}, {missing} missing"
        );
        assert!((1..20).contains(&bytes(&with, "weights_on_host")), "{model}");
    }
}

#[test]
fn the_same_input_gives_the_same_plan() {
    for (model, target) in FORWARD {
        assert_eq!(plan(model, target), plan(model, target), "{model}");
    }
}

#[test]
fn what_is_trained_stays() {
    let args = ["testdata/mnist_cnn.meta", "--gpu-mem", "51MiB", "--memory-ratio", "1"];
    let found = |more: &[&str]| stdout("lms-tune", 0, &[&args, more, &["-o", "-"]].concat());
    let with = found(&["--swap-weights"]);
    assert_eq!(with, found(&[]));
    assert!(!String::from_utf8(with).unwrap().contains("host_ops"));
}

#[test]
fn they_can_be_taken_back() {
    let folder = TempDir::new().unwrap();
    let path = |name: &str| folder.path().join(name).to_str().unwrap().to_string();
    for (model, target) in FORWARD {
        let content = fs::read(model).unwrap();
        let read = Model::from_bytes(model, content, &ReadOptions::default()).unwrap();
        for encoding in [Encoding::Binary, Encoding::Text] {
            let original = read.edited(&Edits::default(), encoding).unwrap().to_vec();
            let [before, planned, after, back] = ["before", "plan", "after", "back"].map(&path);
            fs::write(&before, &original).unwrap();
            fs::write(&planned, plan(model, target).to_string()).unwrap();
            let flags = [&[&*before], target, &["--plan", &planned, "-o", &after, "--json"]].concat();
            let report: Value = serde_json::from_slice(&stdout("lms-rewrite", 0, &flags)).unwrap();
            assert!(bytes(&report, "weights_on_host") > 0, "{report}");
            assert_eq!(report["swapout_bytes"], 0, "{report}");
            assert!(bytes(&report, "swapin_bytes") > 0, "{report}");
            let flags = [&["--verify-against", &*before, &after, "--json"], target].concat();
            let checked = stdout("lms-rewrite", 0, &flags);
            let checked: Value = serde_json::from_slice(&checked).unwrap();
            assert!(bytes(&checked, "host_ops") > 0, "{checked}");
            // Not twice.
            let again = tool("lms-rewrite", &[&after, "-o", &back]);
            assert!(stderr(&again).contains("the graph has LMS ops already"), "{}", stderr(&again));
            stdout("lms-rewrite", 0, &["--strip", &after, "-o", &back]);
            assert!(fs::read(&back).unwrap() == original, "{model} as {encoding:?}");
        }
    }
}

#[test]
fn what_cannot_go_is_refused() {
    let folder = TempDir::new().unwrap();
    let damaged = folder.path().join("plan.json").to_str().unwrap().to_string();
    let (model, target) = FORWARD[0];
    for (op, says) in [
        ("layer1/intermediate/MatMul", "is a MatMul, which is on the host already or computes something"),
        ("nobody", "names \"nobody\" as an op that goes to the host"),
        // Of a variable, what reads it goes too.
        ("words", "the second works on what the first keeps"),
    ] {
        let mut plan = plan(model, target);
        plan["host_ops"].as_array_mut().unwrap().push(op.into());
        fs::write(&damaged, plan.to_string()).unwrap();
        for (name, more) in [("lms-rewrite", &["-o", "-"][..]), ("lms-tune", &BUDGET)] {
            let output = tool(name, &[&[model, "--plan", &damaged], more].concat());
            assert_eq!(output.status.code(), Some(1), "{}", stderr(&output));
            assert!(stderr(&output).contains(says), "{name} {op}: {}", stderr(&output));
        }
    }
}

#[test]
fn what_does_not_go_together_is_said() {
    let (model, _) = FORWARD[2];
    let refused = |flags: &[&str], says: &str| {
        let output = tool("lms-tune", &[&[model, "--swap-weights"], flags, &BUDGET].concat());
        assert_eq!(output.status.code(), Some(2), "{}", stderr(&output));
        assert!(stderr(&output).contains(says), "{}", stderr(&output));
    };
    refused(&["--target", "loss", "--strategy", "tflms"], "only --strategy planned does that");
    refused(&[], "does not say which ops a step runs");
}

#[test]
fn they_are_explained() {
    let (model, target) = FORWARD[0];
    let plan = plan(model, target);
    let swapped = plan["swaps"][0]["tensor"].as_str().unwrap();
    let explained = |tensor: &str| {
        let flags = [&[model], target, &BUDGET, &["--swap-weights", "--explain", tensor]].concat();
        String::from_utf8(stdout("lms-tune", 0, &flags)).unwrap()
    };
    let text = explained(swapped);
    assert!(text.contains("never: it is on the host, and comes from there in each step"), "{text}");
    assert!(text.contains("lies         on the host"), "{text}");
    assert!(text.contains("returns      from"), "{text}");
    // One that is not held back.
    let moved = |name: &&Value| {
        let tensor = format!("{}:0", name.as_str().unwrap());
        tensor.contains("MatMul")
            && !plan["swaps"].as_array().unwrap().iter().any(|swap| swap["tensor"] == tensor)
    };
    let name = plan["host_ops"].as_array().unwrap().iter().find(moved).unwrap().as_str().unwrap();
    let text = explained(&format!("{name}:0"));
    assert!(text.contains("it is on the host, and copied from there when the step begins"), "{text}");
}
