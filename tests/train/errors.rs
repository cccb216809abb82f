//! What cannot be trained is explained.

use std::fs;

use prost::Message;
use tf_lms::proto::tensorflow::attr_value::Value;

use lms_testing::graphs::{Nodes, attr_type, shape};
use lms_testing::program::{ready, run};

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
    if lms_testing::tensorflow().is_none() {
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
    let nowhere = directory.path().join("none/trace.json").display().to_string();
    let cases: [(&[&str], i32, &str); 9] = [
        (&["--trace", &nowhere], 1, "none/trace.json"),
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
fn variables_that_nothing_initializes_are_named() {
    if lms_testing::tensorflow().is_none() {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("graph.pb");
    let float = || attr_type(1);
    let mut nodes = Nodes::default();
    nodes.add("weights", "VarHandleOp", &[], &[("dtype", float()), ("shape", Value::Shape(shape(&[2])))]);
    nodes.add("loss", "ReadVariableOp", &["weights"], &[("dtype", float())]);
    fs::write(&path, nodes.graph().encode_to_vec()).unwrap();
    let output = run(&path.display().to_string(), &["--device", "cpu", "--loss", "loss"]);
    let message = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{message}");
    for part in ["has 1 variables, such as \"weights\"", "--init-op NAME", "--restore"] {
        assert!(message.contains(part), "no {part:?} in {message}");
    }
}
