mod explanations;
mod graphs;
mod recordings;
mod steps;

use proptest::prelude::*;

use super::Recorder;
use crate::format::Model;
use crate::plan::Draft;
use crate::simulate::Program;
use explanations::check_explanations;
use graphs::{random_graph, testdata};
use recordings::{check_arrows, check_recording};
use steps::{draft, machine, with_outline};

const MODELS: [&str; 5] =
    ["mnist_cnn.meta", "cond_cnn.meta", "googlenet_64_b2.meta", "resnet50_64_b2.meta", "unet3d_16_b1.meta"];

fn check_graph(model: &Model, target: &str, swapout_threshold: u32, sync_mode: u8, synchronous: bool) {
    with_outline(model, target, |outline| {
        let machine = machine(outline, synchronous);
        let original = Program::new(outline, &Draft::default());
        let before = Recorder::record(&original, &machine).unwrap();
        check_recording(outline, &before);
        check_arrows(outline, &Draft::default(), &before);
        let draft = draft(outline, swapout_threshold, sync_mode);
        let program = Program::new(outline, &draft);
        let after = Recorder::record(&program, &machine).unwrap();
        check_recording(outline, &after);
        check_arrows(outline, &draft, &after);
        check_explanations(outline, &draft, &before, &after);
    });
}

#[test]
fn real_graphs_are_recorded_as_they_run() {
    for model in MODELS {
        for (threshold, sync_mode, synchronous) in [(1, 0, false), (5, 3, true)] {
            check_graph(&testdata(model), "train", threshold, sync_mode, synchronous);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(100) })]

    #[test]
    fn random_graphs_are_recorded_as_they_run(
        seed: u64, size in 2usize..60, threshold in 0u32..5, sync_mode in 0u8..4, synchronous: bool,
    ) {
        let target = (size - 1).to_string();
        check_graph(&random_graph(seed, size), &target, threshold, sync_mode, synchronous);
    }
}
