//! Forward passes with weights on the host.

use std::fs;
use std::process::Command;

use serde_json::Value;

use lms_testing::program::{number, ready, report, run};

const FEEDS: [&str; 5] = [
    "tokens=randint:0:100",
    "segments=randint:0:2",
    "masked_positions=randint:0:16",
    "masked_tokens=randint:0:100",
    "labels=randint:0:2",
];

const BUDGET: u64 = 250 << 10;

/// Out of memory as it is; with weights on the host the same results, the copies that were predicted, and no more memory than there is.
fn runs_in_its_budget(file: &str, flags: &[&str]) {
    if !ready() {
        return;
    }
    let model = format!("testdata/{file}");
    let mut all =
        [flags, &["--json", "--exact-memory", "--strict-placement", "--steps", "2", "--threads", "1"]]
            .concat();
    FEEDS.iter().for_each(|feed| all.extend(["--feed", feed]));
    let with_memory = report(&run(&model, &[&all[..], &["--device", "soft"]].concat()));
    let device = format!("soft:{BUDGET}");
    all.extend(["--device", &device]);
    assert_eq!(run(&model, &all).status.code(), Some(3), "{model}");

    let folder = tempfile::TempDir::new().unwrap();
    let plan = folder.path().join("plan.json").to_str().unwrap().to_string();
    let budget = BUDGET.to_string();
    let tuned = Command::new(lms_testing::tool("lms-tune"))
        .args([&*model, "--target", "loss", "--device-profile", "soft", "--gpu-mem", &budget])
        .args(["--memory-ratio", "1", "--swap-weights", "-o", &plan, "--json"])
        .output()
        .unwrap();
    let predicted: Value = report(&tuned);
    assert!(fs::read_to_string(&plan).unwrap().contains("host_ops"), "{model}");

    let trained = report(&run(&model, &[&all[..], &["--plan", &plan]].concat()));
    assert_eq!(trained["losses"], with_memory["losses"], "{model}");
    assert!(number(&trained, "/memory/peak_bytes") <= BUDGET, "{model}: {trained}");
    let added = number(&trained, "/traffic/bytes_in") - number(&with_memory, "/traffic/bytes_in");
    let copies = number(&predicted, "/copied_in_bytes");
    // What is fed is copied in either way.
    assert!((copies - 1024..=copies).contains(&added), "{model}: {added} bytes in, {copies} predicted");
}

#[test]
fn on_resource_variables() {
    runs_in_its_budget("bert_16_b1_forward.meta", &[]);
}

#[test]
fn on_reference_variables() {
    runs_in_its_budget("bert_16_b1_forward_ref.meta", &[]);
}

#[test]
fn on_constants() {
    runs_in_its_budget("bert_16_b1_frozen.pb", &["--target", "loss", "--loss", "loss:0"]);
}
