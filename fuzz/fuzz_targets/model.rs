//! Any bytes as a model: an error or a graph that can be planned, rewritten, checked and stripped; never a panic.

#![no_main]

use libfuzzer_sys::fuzz_target;
use tf_lms::format::{Edits, Model, ReadOptions};
use tf_lms::graph::{Device, Graph};
use tf_lms::ops::OpRegistry;
use tf_lms::plan::{Analysis, tflms};
use tf_lms::shape::{Shapes, Sizes};
use tf_lms::{rewrite, verify};

fuzz_target!(|content: &[u8]| {
    let options = ReadOptions::default();
    let Ok(model) = Model::from_bytes("fuzzed", content.to_vec(), &options) else { return };
    let same = model.edited(&Edits::default(), model.encoding()).expect("nothing changes");
    assert_eq!(same.to_vec(), content);
    let _ = (model.meta_graph(), model.functions());
    let Ok(graph) = Graph::of_model(&model, OpRegistry::builtin()) else { return };
    let shapes = Shapes::declared(&graph);
    let Ok(sizes) = Sizes::of(&graph, &shapes) else { return };
    let analysis = Analysis::new(&graph, &[], shapes, sizes);
    let host = Device::parse("/cpu:0").expect("a device");
    let plan = tflms::plan(&analysis, &tflms::Parameters::default(), &host).expect("default parameters");
    let Ok(rewritten) = rewrite::rewrite(&model, &graph, &plan) else { return };
    let bytes = model.edited(&rewritten.edits, model.encoding()).expect("the same encoding").to_vec();
    let Ok(result) = Model::from_bytes("rewritten", bytes, &options) else { return };
    let _ = verify::check(&model, &result, OpRegistry::builtin());
    if !plan.swaps.is_empty() {
        rewrite::strip(&result).expect("what was added can be taken out");
    }
});
