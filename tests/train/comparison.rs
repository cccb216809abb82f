//! The original beside the rewritten graph.

use lms_testing::program::{DEEPLAB, GOOGLENET, ready, report, run, train};

#[test]
fn both_compute_the_same() {
    if !ready() {
        return;
    }
    let found = train(&GOOGLENET, &["--device", "soft", "--compare"]);
    assert_eq!(found["original_out_of_memory"], serde_json::Value::Null);
    assert_eq!(found["first_difference"], serde_json::Value::Null);
    assert_eq!(found["original_losses"].as_array().unwrap().len(), 3);
    assert_eq!(found["original_losses"], found["rewritten_losses"]);
    assert!(found["variables_compared"].as_u64().unwrap() > 100, "{found}");
    assert_eq!(found["variables_differing"], serde_json::json!([]));
}

/// A GraphDef lists no variables: they are found in the graph, begin with the same values, and all are compared.
#[test]
fn variables_that_no_list_has_are_compared() {
    if !ready() {
        return;
    }
    let flags = "--train-op train --loss loss --feed labels=randint:0:10 --device soft --threads 1 --steps 3 --compare --json";
    let flags: Vec<&str> = flags.split(' ').collect();
    let found = report(&run("testdata/mnist_cnn_noshapes.pb", &flags));
    assert_eq!(found["first_difference"], serde_json::Value::Null);
    // Eight, both moments of each, and the powers of both rates.
    assert_eq!(found["variables_compared"], 26);
    assert_eq!(found["variables_differing"], serde_json::json!([]));
}

/// The peaks are 426 and 295 MiB.
#[test]
fn an_original_that_does_not_fit_ends_nothing() {
    if !ready() {
        return;
    }
    let found = train(&DEEPLAB, &["--device", "soft:360MiB", "--exact-memory", "--compare"]);
    let message = found["original_out_of_memory"].as_str().unwrap();
    assert!(message.contains("RESOURCE_EXHAUSTED") && message.contains("tensor: ["), "{message}");
    assert!(!message.contains("try:"), "{message}");
    assert_eq!(found["original_losses"], serde_json::json!([]));
    assert_eq!(found["rewritten_losses"].as_array().unwrap().len(), 3);
}
