//! Runs the tools.

use std::process::{Command, Output};

use serde_json::Value;

/// Without TensorFlow, which nothing here needs.
pub fn tool(name: &str, arguments: &[&str]) -> Output {
    Command::new(lms_testing::tool(name)).args(arguments).env_remove("LMS_TENSORFLOW").output().unwrap()
}

pub fn tune(arguments: &[&str]) -> Output {
    tool("lms-tune", arguments)
}

pub fn stderr(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).unwrap()
}

/// The document of a run that ends with this status.
pub fn json(status: i32, arguments: &[&str]) -> Value {
    let output = tune(&[arguments, &["--json"]].concat());
    assert_eq!(output.status.code(), Some(status), "{arguments:?}: {}", stderr(&output));
    serde_json::from_slice(&output.stdout).unwrap()
}

pub fn bytes(report: &Value, field: &str) -> u64 {
    report[field].as_u64().unwrap_or_else(|| panic!("{field} in {report}"))
}

/// Runs what must fail with this status, and a message that says so much.
pub fn fail(status: i32, arguments: &[&str], says: &str) {
    let output = tune(arguments);
    let message = stderr(&output);
    assert_eq!(output.status.code(), Some(status), "{arguments:?}: {message}");
    assert!(message.contains(says), "{message}");
}
