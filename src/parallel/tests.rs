//! What is found in the test data.

use std::path::Path;

use super::ParallelOptions;
use crate::plan::{DataParallel, Gathered};
use crate::{AnalysisOptions, Model};

fn find(name: &str) -> Result<DataParallel, String> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("testdata").join(name);
    let model: Model = crate::read(path).map_err(|error| error.to_string())?;
    let graph = model.graph().map_err(|error| error.to_string())?;
    let options = AnalysisOptions::default();
    let analysis = model.analyse(&graph, &options).map_err(|error| error.to_string())?;
    model.data_parallel(&analysis, &ParallelOptions::default()).map_err(|error| error.to_string())
}

fn sparse(found: &DataParallel) -> usize {
    found.collectives.iter().filter(|one| matches!(one.what, Gathered::Rows { .. })).count()
}

/// Model, dense tensors, sparse gradients, collectives. Batch norms have averages to reduce too.
const FOUND: [(&str, usize, usize, usize); 20] = [
    ("bert_32_b8", 47, 0, 1),
    ("ctc_48_b4", 7, 0, 1),
    ("deeplabv3plus_65_b2", 373, 0, 17),
    ("dynamic_rnn_20_b4", 5, 1, 2),
    ("efficientnet_64_b2", 65, 0, 2),
    ("gan_16_b8", 21, 0, 2),
    ("googlenet_64_b2", 117, 0, 6),
    ("gpt_32_b4", 36, 1, 2),
    ("mnist_cnn", 9, 0, 2),
    ("mnist_cnn_bN_sgd", 9, 0, 2),
    ("mnist_cnn_ref_momentum", 9, 0, 2),
    ("mobilenet_64_b4", 68, 0, 2),
    ("mobilenet_64_b4_grouped", 68, 0, 1),
    ("resnet50_64_b2", 321, 0, 18),
    ("static_lstm_12_b8", 5, 1, 2),
    ("unet3d_16_b1", 31, 0, 7),
    ("unet3d_16_b1_deconv", 37, 0, 8),
    ("unet3d_32_b1_towers", 31, 0, 1),
    ("vit_32_b8_fp16", 41, 0, 1),
    ("while_rnn", 11, 0, 1),
];

#[test]
fn all_gradients_of_the_test_data_are_found() {
    for (name, dense, rows, collectives) in FOUND {
        let found = find(&format!("{name}.meta")).unwrap_or_else(|error| panic!("{name}: {error}"));
        let count = (found.tensors() - 2 * sparse(&found), sparse(&found), found.collectives.len());
        assert_eq!(count, (dense, rows, collectives), "{name}");
        // Each waits for the one before; two train ops of a file are run in turn, and each has its own order.
        let first = found.collectives.iter().filter(|collective| collective.after.is_empty()).count();
        assert!(first == 1 || name == "gan_16_b8", "{name}: {first} collectives wait for none");
    }
}

#[test]
fn what_cannot_be_reduced_is_refused_with_its_name() {
    let refused = |name: &str| find(name).unwrap_err();
    let averages = refused("cond_cnn.meta");
    assert!(
        averages.contains("stem_norm/cond/FusedBatchNormV3") && averages.contains("under a condition"),
        "{averages}"
    );
    let forward = refused("bert_16_b1_forward.meta");
    assert!(forward.contains("nothing to reduce"), "{forward}");
    let unknown = refused("mnist_cnn_noshapes.pb");
    assert!(unknown.contains("--train-op"), "{unknown}");
}
