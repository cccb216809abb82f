//! What `lms-tune --explain` tells of tensors, ops and edges.

use std::fs;

use serde_json::Value;
use tempfile::TempDir;

use super::run::{fail, json, stderr, tool, tune};

const RESNET: &str = "testdata/resnet50_2000_b1.meta";

#[test]
fn a_second_run_is_explained() {
    let directory = TempDir::new().unwrap();
    let (plan, path) = resnet_plan(&directory, "3500MiB");
    assert_eq!(plan["strategy"], "planned");
    let outputs = |again: &Value| again["outputs"].as_array().unwrap().first().cloned();
    let output = plan["recomputations"].as_array().unwrap().iter().find_map(outputs).unwrap();
    let tensor = output["tensor"].as_str().unwrap();

    let told = json(0, &[RESNET, "--gpu-mem", "4GiB", "--plan", &path, "--explain", tensor]);
    assert_eq!(told["fate"], "recomputed");
    let without = &told["without"];
    assert_eq!(without["fits"]["with"], true);
    let seconds = |which: &str| without["step_seconds"][which].as_f64().unwrap();
    let comes_to = |which: &str| (without["fits"][which].clone(), seconds(which));
    assert_ne!(comes_to("without"), comes_to("with"), "{without}");
    let run = &told["second_runs"][0];
    assert_eq!(run["consumers"], output["consumers"]);
    let end = run["runs"]["end_seconds"].as_f64().unwrap();
    assert!(run["triggers"][0]["runs"]["start_seconds"].as_f64().unwrap() < end);
    for consumer in told["consumers"].as_array().unwrap() {
        let is_later = output["consumers"].as_array().unwrap().contains(&consumer["name"]);
        let start = consumer["runs_after"]["start_seconds"].as_f64().unwrap();
        assert_eq!(start >= end, is_later, "{consumer}");
    }
}

/// The plan for ResNet50 in so much memory, and the file that it is in.
fn resnet_plan(directory: &TempDir, memory: &str) -> (Value, String) {
    let path = directory.path().join("plan.json").to_str().unwrap().to_string();
    assert!(tune(&[RESNET, "--gpu-mem", memory, "-o", &path, "--quiet"]).status.success());
    (serde_json::from_slice(&fs::read(&path).unwrap()).unwrap(), path)
}

#[test]
fn it_is_told_what_keeping_a_tensor_would_change() {
    let directory = TempDir::new().unwrap();
    let (plan, path) = resnet_plan(&directory, "2500MiB");
    let told =
        |tensor: &str| json(0, &[RESNET, "--gpu-mem", "2500MiB", "--plan", &path, "--explain", tensor]);
    let largest = plan["swaps"].as_array().unwrap().iter().max_by_key(|swap| swap["bytes"].as_u64()).unwrap();
    let bytes = largest["bytes"].as_u64().unwrap();
    let without = told(largest["tensor"].as_str().unwrap())["without"].clone();
    assert_eq!(without["fits"]["with"], true);
    let peak = |which: &str| without["peak_bytes"][0][which].as_u64().unwrap();
    assert!(peak("without") <= peak("with") + bytes, "{without}");
    let seconds = |which: &str| without["step_seconds"][which].as_f64().unwrap();
    let comes_to = |which: &str| (without["fits"][which].clone(), seconds(which));
    assert_ne!(comes_to("without"), comes_to("with"), "{without}");
    // What stays anyway changes nothing.
    let told = told("SparseSoftmaxCrossEntropyWithLogits/SparseSoftmaxCrossEntropyWithLogits");
    assert_eq!(told["fate"]["stays"], "not_needed");
    assert_eq!(told["without"], Value::Null);
}

#[test]
fn added_edges_are_explained() {
    let directory = TempDir::new().unwrap();
    let (plan, path) = resnet_plan(&directory, "2500MiB");
    let asked = |edge: &str| json(0, &[RESNET, "--gpu-mem", "2500MiB", "--plan", &path, "--explain", edge]);
    let edge = |from: &Value, to: &Value| format!("{}->{}", from.as_str().unwrap(), to.as_str().unwrap());
    let swap = &plan["swaps"][0];
    let told = asked(&edge(&swap["swap_ins"][0]["triggers"][0], &swap["tensor"]));
    assert_eq!(told["reasons"][0]["starts_return"]["tensor"], swap["tensor"]);
    // Too early, it is in memory all the time that it should be away.
    assert_eq!(told["without"]["fits"]["with"], true);
    let again = &plan["recomputations"][0];
    let told = asked(&edge(&again["triggers"][0], &again["op"]));
    assert_eq!(told["reasons"][0]["starts_second_run"]["op"], again["op"]);
    let order = &plan["orders"][0];
    let told = asked(&edge(&order["before"], &order["after"]));
    assert_eq!(told["reasons"][0]["order"], order["reason"]);
    assert!(told["without"]["step_seconds"]["without"].as_f64().unwrap() > 0.0);

    let arguments = |edge| [RESNET, "--gpu-mem", "2500MiB", "--plan", &path, "--explain", edge];
    fail(2, &arguments("conv1_relu/Relu->conv1_conv/Conv2D"), "the plan adds no such edge");
    fail(2, &arguments("conv1_relu/Relu->nowhere"), "no such tensor, op or edge");
    fail(2, &arguments("nowhere"), "has no such tensor");
}

/// TFLMSv2's strategy makes ops wait for a copy out, and run one after the other.
#[test]
fn edges_of_synchronous_plans_are_explained() {
    let directory = TempDir::new().unwrap();
    let path = directory.path().join("plan.json").to_str().unwrap().to_string();
    let flags = ["--sync-mode", "3", "--serialization", "0:40", "--plan-out", &path, "--dry-run", "-q"];
    let output = tool("lms-rewrite", &[&[RESNET][..], &flags].concat());
    assert!(output.status.success(), "{}", stderr(&output));
    let plan: Value = serde_json::from_slice(&fs::read(&path).unwrap()).unwrap();
    let told = |edge: &str| {
        let output = tune(&[RESNET, "--gpu-mem", "4GiB", "--plan", &path, "--explain", edge]);
        assert!(output.status.success(), "{}", stderr(&output));
        String::from_utf8(output.stdout).unwrap()
    };
    let waiting = |swap: &&Value| swap["waiting"].as_array().is_some_and(|waiting| !waiting.is_empty());
    let swap = plan["swaps"].as_array().unwrap().iter().find(waiting).unwrap();
    let tensor = swap["tensor"].as_str().unwrap();
    let text = told(&format!("{tensor}->{}", swap["waiting"][0].as_str().unwrap()));
    assert!(text.contains(&format!("the op waits until {tensor} is out")), "{text}");
    let order =
        &plan["orders"].as_array().unwrap().iter().find(|order| order["reason"] == "serialization").unwrap();
    let text = told(&format!("{}->{}", order["before"].as_str().unwrap(), order["after"].as_str().unwrap()));
    assert!(text.contains("ops of one level run one after the other"), "{text}");
    assert!(text.contains("without it"), "{text}");
}
