//! What the fuzz targets do with any bytes: an error or a result, never a panic.
//!
//! `tests/library/fuzzed.rs` does the same with files of `testdata` that it damages at random, with any compiler.

use std::sync::OnceLock;

use tf_lms::format::Edits;
use tf_lms::plan::tflms::{LevelSlice, Parameters};
use tf_lms::shape::{Dimensions, GivenShape, Shapes};
use tf_lms::{AnalysisOptions, Model, OpenOptions, Plan, StepFunction};

/// A small graph.
pub const GRAPH: &[u8] = include_bytes!("../../testdata/mnist_cnn.meta");

/// One whose step is a function.
pub const FUNCTION: &[u8] = include_bytes!("../../testdata/keras_lstm_tf2/saved_model.pb");

fn open(content: &[u8]) -> Option<Model> {
    Model::from_bytes("fuzzed", content.to_vec(), &OpenOptions::default()).ok()
}

/// Any bytes as a model: it is read and written as it is, planned, rewritten, checked and stripped.
pub fn model(content: &[u8]) {
    let Some(model) = open(content) else { return };
    // A text is written anew.
    if std::str::from_utf8(content).is_err() {
        let same = model.file().edited(&Edits::default(), model.file().encoding()).expect("nothing changes");
        assert!(same.to_vec() == content);
    }
    rewritten(&model, None);
}

/// Any text as a model in the text format.
pub fn text(content: &[u8]) {
    if let Ok(text) = std::str::from_utf8(content) {
        model(text.as_bytes());
    }
}

/// Plans, or takes a plan, and goes all the way to the file without it again.
fn rewritten(model: &Model, plan: Option<&Plan>) {
    let Ok(graph) = model.graph() else { return };
    // Declared ones alone: TensorFlow is not to be fuzzed.
    let shapes = Shapes::declared(&graph);
    let Ok(sizes) = model.sizes(&graph, &shapes) else { return };
    let options = AnalysisOptions::default();
    let analysis = model.analyse_sized(&graph, &options, (shapes, sizes)).expect("no op was asked for");
    let own = analysis.plan(&Parameters::default()).expect("default parameters");
    let plan = plan.unwrap_or(&own);
    let Ok(rewritten) = model.rewrite(&graph, plan) else { return };
    let Ok(checked) = rewritten.check(&[]) else { return };
    if !plan.swaps.is_empty() {
        let bytes = checked.to_bytes().expect("the same encoding");
        let top = OpenOptions { step: StepFunction::TopLevel, ..OpenOptions::default() };
        let again = Model::from_bytes("rewritten", bytes, &top).expect("was read before");
        again.strip().expect("what was added can be taken out");
    }
}

/// Any bytes as a plan for a small graph.
pub fn plan(json: &[u8]) {
    pair(json, GRAPH);
}

/// A plan and the graph that it is for, both of any bytes.
pub fn pair(json: &[u8], content: &[u8]) {
    let Ok(plan) = Plan::from_json("fuzzed", json) else { return };
    if let Some(model) = open(content) {
        rewritten(&model, Some(&plan));
    }
}

/// Damages a file: of each four bytes three are a place and one is what stands there then.
pub fn damaged(file: &[u8], damage: &[u8]) -> Vec<u8> {
    let mut damaged = file.to_vec();
    for &[high, middle, low, byte] in damage.as_chunks().0 {
        let place = u32::from_be_bytes([0, high, middle, low]) as usize % damaged.len().max(1);
        if let Some(at) = damaged.get_mut(place) {
            *at = byte;
        }
    }
    damaged
}

/// Graphs with what they were rewritten to; made once, as a damaged one is checked in a fraction of that time.
fn rewritten_ones() -> &'static [(Model, Vec<u8>)] {
    static ONES: OnceLock<Vec<(Model, Vec<u8>)>> = OnceLock::new();
    let rewrite = |file: &[u8]| {
        let original = open(file).expect("test data");
        let graph = original.graph().expect("test data");
        let shapes = Shapes::declared(&graph);
        let sizes = original.sizes(&graph, &shapes).expect("test data");
        let options = AnalysisOptions::default();
        let analysis =
            original.analyse_sized(&graph, &options, (shapes, sizes)).expect("no op was asked for");
        let plan = analysis.plan(&Parameters::default()).expect("default parameters");
        let rewritten = original.rewrite(&graph, &plan).expect("test data");
        let bytes = rewritten.check(&[]).expect("test data").to_bytes().expect("the same encoding");
        (open(file).expect("test data"), bytes)
    };
    ONES.get_or_init(|| [GRAPH, FUNCTION].map(rewrite).into())
}

/// A rewritten graph, damaged, held against the original: a verdict or a list of violations.
pub fn checker(damage: &[u8]) {
    for (original, rewritten) in rewritten_ones() {
        if let Some(damaged) = open(&damaged(rewritten, damage)) {
            let _ = original.prove(damaged.into_file(), &[]);
        }
    }
}

/// Any text as what flags take: shapes, sizes, dimensions, levels.
pub fn flags(content: &[u8]) {
    let Ok(text) = std::str::from_utf8(content) else { return };
    let _ = (text.parse::<GivenShape>(), text.parse::<Dimensions>(), text.parse::<LevelSlice>());
    let _ = tf_lms::size::parse_size(text).map(|bytes| tf_lms::size::Size(bytes).to_string());
    let model = open(GRAPH).expect("test data");
    let graph = model.graph().expect("test data");
    if let Ok(given) = text.parse::<GivenShape>() {
        let shapes = tf_lms::shape::GivenShapes { shapes: vec![given], ..Default::default() };
        let _ = shapes.resolve(&graph);
    }
}
