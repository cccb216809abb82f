//! Any bytes as a model: an error or a graph that can be planned, rewritten, checked and stripped; never a panic.

#![no_main]

use libfuzzer_sys::fuzz_target;
use tf_lms::format::Edits;
use tf_lms::plan::tflms::Parameters;
use tf_lms::shape::Shapes;
use tf_lms::{AnalysisOptions, Model, OpenOptions};

fuzz_target!(|content: &[u8]| {
    let Ok(model) = Model::from_bytes("fuzzed", content.to_vec(), &OpenOptions::default()) else { return };
    let same = model.file().edited(&Edits::default(), model.file().encoding()).expect("nothing changes");
    assert_eq!(same.to_vec(), content);
    let Ok(graph) = model.graph() else { return };
    // Declared ones alone: TensorFlow is not to be fuzzed.
    let shapes = Shapes::declared(&graph);
    let Ok(sizes) = model.sizes(&graph, &shapes) else { return };
    let options = AnalysisOptions::default();
    let analysis = model.analyse_sized(&graph, &options, (shapes, sizes)).expect("no op was asked for");
    let plan = analysis.plan(&Parameters::default()).expect("default parameters");
    let Ok(rewritten) = model.rewrite(&graph, &plan) else { return };
    let Ok(checked) = rewritten.check(&[]) else { return };
    if !plan.swaps.is_empty() {
        let bytes = checked.to_bytes().expect("the same encoding");
        let again = Model::from_bytes("rewritten", bytes, &OpenOptions::default()).expect("was read before");
        again.strip().expect("what was added can be taken out");
    }
});
