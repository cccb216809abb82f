//! A real step, rewritten and put back into its file.

use prost::Message;
use tf_lms::flatten::{Entry, Flat, find_entry, flatten, restored, write_back};
use tf_lms::format::{Edits, Encoding, Model, ReadOptions, Source};
use tf_lms::graph::{Device, Graph};
use tf_lms::ops::OpRegistry;
use tf_lms::plan::{Analysis, tflms};
use tf_lms::proto::tensorflow::attr_value::Value;
use tf_lms::proto::tensorflow::{AttrValue, FunctionDef, SavedModel};
use tf_lms::rewrite::rewrite;
use tf_lms::shape::{Shapes, Sizes};
use tf_lms::verify::{self, VerifyError};

use super::made::registry;

fn mnist() -> (Model, OpRegistry, Flat) {
    let source = Source::Path("testdata/mnist_cnn_tf2".into());
    let model = source.read(&ReadOptions::default()).unwrap();
    let registry = registry(&model);
    let function = find_entry(&model, Entry::Training).unwrap().unwrap();
    let flat = flatten(&model, &registry, &function).unwrap();
    (model, registry, flat)
}

/// The bytes of the model with all of the step's activations swapped.
fn swapped(model: &Model, registry: &OpRegistry, flat: &Flat) -> Vec<u8> {
    let graph = Graph::of_model(&flat.model, registry).unwrap();
    let train = graph.node_ids().find(|&node| graph.name(node) == flat.train_step).unwrap();
    let shapes = Shapes::declared(&graph);
    let sizes = Sizes::of(&graph, &shapes).unwrap();
    let analysis = Analysis::new(&graph, &[train], shapes, sizes);
    let plan =
        tflms::plan(&analysis, &tflms::Parameters::default(), &Device::parse("/cpu:0").unwrap()).unwrap();
    assert_eq!(plan.swaps.len(), 9);
    let edits = rewrite(&flat.model, &graph, &plan).unwrap().edits;
    let content = flat.model.edited(&edits, Encoding::Binary).unwrap().to_vec();
    let rewritten = Model::from_bytes("flat", content, &ReadOptions::default()).unwrap();
    let edits = write_back(model, flat, &rewritten, registry).unwrap();
    model.edited(&edits, Encoding::Binary).unwrap().to_vec()
}

#[test]
fn a_rewritten_step_is_proved_and_comes_out_again_to_the_byte() {
    let (model, registry, flat) = mnist();
    let content = swapped(&model, &registry, &flat);
    let written = Model::from_bytes("written", content.clone(), &ReadOptions::default()).unwrap();
    let verified = verify::check(&model, &written, &registry).unwrap();
    assert!(verified.swap_ins > 10);
    let back = written.edited(&restored(&written).unwrap().unwrap(), Encoding::Binary).unwrap().to_vec();
    let before = model.edited(&Edits::default(), Encoding::Binary).unwrap().to_vec();
    assert!(back == before);
    // It is not rewritten twice.
    let again = flatten(&written, &registry, &flat.function).unwrap();
    let graph = Graph::of_model(&again.model, &registry).unwrap();
    assert!(graph.node_ids().any(|node| graph.name(node).starts_with("lms/swap_in/")));
    assert!(write_back(&written, &again, &again.model, &registry).is_err());
}

/// What is changed in a body is seen, wherever it is.
#[test]
fn a_body_that_computes_something_else_is_refused() {
    // As our types write it, for they shall write what is changed.
    let content = std::fs::read("testdata/mnist_cnn_tf2/saved_model.pb").unwrap();
    let content = SavedModel::decode(content.as_slice()).unwrap().encode_to_vec();
    let model = Model::from_bytes("original", content, &ReadOptions::default()).unwrap();
    let registry = registry(&model);
    let function = find_entry(&model, Entry::Training).unwrap().unwrap();
    let flat = flatten(&model, &registry, &function).unwrap();
    let content = swapped(&model, &registry, &flat);
    let mut saved = SavedModel::decode(content.as_slice()).unwrap();
    let functions = |saved: &mut SavedModel| {
        let graph = saved.meta_graphs[0].graph_def.as_mut().unwrap();
        std::mem::take(&mut graph.library.as_mut().unwrap().function)
    };
    let intact = functions(&mut saved);
    let index = intact
        .iter()
        .position(|function| function.signature.as_ref().unwrap().name == flat.function)
        .unwrap();
    let check = |change: &dyn Fn(&mut Vec<FunctionDef>)| -> Result<(), VerifyError> {
        let mut changed = intact.clone();
        change(&mut changed);
        let mut saved = saved.clone();
        saved.meta_graphs[0].graph_def.as_mut().unwrap().library.as_mut().unwrap().function = changed;
        let written = Model::from_bytes("written", saved.encode_to_vec(), &ReadOptions::default()).unwrap();
        verify::check(&model, &written, &registry).map(|_| ())
    };
    check(&|_| {}).unwrap();
    let kinds = |result: Result<(), VerifyError>| -> Vec<&'static str> {
        result.unwrap_err().violations.iter().map(|violation| violation.kind.name()).collect()
    };
    let place =
        |name: &str| intact[index].node_def.iter().position(|node| node.name.ends_with(name)).unwrap();
    let relu = place("/Relu_1");
    let update = place("update_3/ResourceApplyKerasMomentum");
    assert!(
        kinds(check(&|all| {
            all[index].node_def.remove(relu);
        }))
        .iter()
        .all(|&kind| ["missing_node", "bad_input", "damaged"].contains(&kind))
    );
    let changed_op = check(&|all| all[index].node_def[relu].op = "Relu6".to_string());
    assert_eq!(kinds(changed_op), ["changed_node"]);
    let other_variable = check(&|all| {
        let handle = all[index].node_def[update].input[1].clone();
        all[index].node_def[update].input[0] = handle;
    });
    assert!(kinds(other_variable).contains(&"wrong_tensor"));
    let lost = check(&|all| {
        all[index].control_ret.clear();
    });
    assert_eq!(kinds(lost), ["surroundings"]);
    let elsewhere = check(&|all| {
        let first = all[index].control_ret.keys().next().unwrap().clone();
        let elsewhere = all[index].node_def[relu].name.clone();
        all[index].control_ret.insert(first, elsewhere);
    });
    assert!(kinds(elsewhere).contains(&"lost_control"));
    let other_result = check(&|all| {
        let results: Vec<String> = all[index].ret.keys().cloned().collect();
        let other = format!("{}:activations:0", all[index].node_def[relu].name);
        all[index].ret.insert(results[0].clone(), other);
    });
    assert!(kinds(other_result).contains(&"wrong_tensor"));
    let attribute = check(&|all| {
        all[index].attr.insert("_noinline".to_string(), AttrValue { value: Some(Value::B(true)) });
    });
    assert!(kinds(attribute).contains(&"surroundings"));
    // The copy of the original must be the original.
    let copy = check(&|all| {
        all.last_mut().unwrap().node_def.pop();
    });
    assert!(kinds(copy).contains(&"surroundings"));
    let other_function = check(&|all| {
        all[0].node_def.pop();
    });
    assert!(kinds(other_function).contains(&"surroundings"));
}
