//! TensorFlow's own memory optimizer, to compare with.

use lms_testing::program::{command, number, ready, report, run};

const MODEL: &str = "testdata/googlenet_64_b2.meta";
const EXACT: [&str; 8] =
    ["--json", "--device", "soft:1GiB", "--threads", "1", "--exact-memory", "--steps", "1"];

#[test]
fn it_is_told_to_recompute() {
    if !ready() {
        return;
    }
    let original = report(&run(MODEL, &EXACT));
    let flags = [&EXACT[..], &["--grappler-memory", "recomputation"]].concat();
    let rewritten = report(&run(MODEL, &flags));
    assert_eq!(rewritten["grappler_memory"], "recomputation");
    let peak = |report| number(report, "/memory/peak_bytes");
    assert!(peak(&rewritten) < peak(&original), "{} and {}", peak(&rewritten), peak(&original));
    // Grappler reorders sums.
    let loss = |report: &serde_json::Value| report["losses"][0].as_f64().unwrap();
    assert!((loss(&rewritten) / loss(&original) - 1.0).abs() < 1e-5);
}

#[test]
fn it_does_not_go_with_lms() {
    let with = |more: &[&str]| {
        let flags = [&[MODEL, "--device", "soft:1GiB", "--grappler-memory", "swapping"], more].concat();
        let output = command(&flags).output().unwrap();
        assert_eq!(output.status.code(), Some(2), "{more:?}");
        String::from_utf8_lossy(&output.stderr).into_owned()
    };
    assert!(with(&["--gpu-mem", "1GiB"]).contains("leave the flags of LMS out"));
    assert!(with(&["--rewrite"]).contains("cannot be used with"));
    assert!(with(&["--save", "kept"]).contains("cannot be used with"));
    assert!(with(&["--sweep", "batch=1..2", "--predict"]).contains("cannot be used with"));
}
