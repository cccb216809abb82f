//! Any bytes as a plan for a small graph: an error or a rewrite; never a panic.

#![no_main]

use libfuzzer_sys::fuzz_target;
use tf_lms::{Model, OpenOptions, Plan};

const MODEL: &[u8] = include_bytes!("../../testdata/mnist_cnn.meta");

fuzz_target!(|json: &[u8]| {
    let Ok(plan) = Plan::from_json("fuzzed", json) else { return };
    let model = Model::from_bytes("mnist_cnn", MODEL.to_vec(), &OpenOptions::default()).expect("test data");
    let graph = model.graph().expect("test data");
    let _ = model.rewrite(&graph, &plan);
});
