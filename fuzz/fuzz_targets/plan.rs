//! Any bytes as a plan for a small graph: an error or a rewrite; never a panic.

#![no_main]

use libfuzzer_sys::fuzz_target;
use tf_lms::format::{Model, ReadOptions};
use tf_lms::graph::Graph;
use tf_lms::ops::OpRegistry;
use tf_lms::plan::Plan;
use tf_lms::rewrite;

const MODEL: &[u8] = include_bytes!("../../testdata/mnist_cnn.meta");

fuzz_target!(|json: &[u8]| {
    let Ok(plan) = Plan::from_json("fuzzed", json) else { return };
    let model = Model::from_bytes("mnist_cnn", MODEL.to_vec(), &ReadOptions::default()).expect("test data");
    let graph = Graph::of_model(&model, OpRegistry::builtin()).expect("test data");
    let _ = rewrite::rewrite(&model, &graph, &plan);
});
