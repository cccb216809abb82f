//! Graphs for several workers, changed by hand: each change that would train to other weights, or stop, is refused by its own rule.

use prost::Message;

use super::{Build, OpRegistry, Value, ViolationKind, check, model};
use crate::parallel::ParallelOptions;
use crate::proto::tensorflow::attr_value::ListValue;
use crate::proto::tensorflow::tensor_shape_proto::Dim;
use crate::proto::tensorflow::{AttrValue, MetaGraphDef, NodeDef, TensorShapeProto};
use crate::verify::VerifyError;
use crate::{AnalysisOptions, Model, OpenOptions};

/// A step with two gradients, of which one is clipped and one comes by way of a choice that a setting makes.
fn original() -> Build {
    let mut build = Build::of(&[
        ("x", "Placeholder", ""),
        ("flag", "Placeholder", ""),
        ("rate", "Const", ""),
        ("most", "Const", ""),
        ("v", "VariableV2", ""),
        ("w", "VariableV2", ""),
        ("g", "MatMul", "x x"),
        ("h", "MatMul", "g x"),
        ("clip", "Minimum", "g most"),
        ("chosen", "Switch", "h flag"),
        ("update_v", "ApplyGradientDescent", "v rate clip"),
        ("update_w", "ApplyGradientDescent", "w rate chosen:1"),
        ("train", "NoOp", "^update_v ^update_w"),
    ]);
    shape(&mut build, "flag", &[]);
    for node in ["g", "h", "clip"] {
        shape(&mut build, node, &[3, 2]);
    }
    build.attr("flag", "dtype", Value::Type(crate::dtype::DataType::BOOL.number()));
    build.attr("flag", "shape", Value::Shape(TensorShapeProto::default()));
    build.train_op("train");
    build
}

fn shape(build: &mut Build, node: &str, sizes: &[i64]) {
    let dim = sizes.iter().map(|&size| Dim { size, ..Dim::default() }).collect();
    let shape = vec![TensorShapeProto { dim, unknown_rank: false }];
    build.attr(node, "_output_shapes", Value::List(ListValue { shape, ..ListValue::default() }));
}

/// The same for several workers; `bucket` is how much travels together.
fn parallel(original: &Build, bucket_bytes: u64) -> MetaGraphDef {
    let model = Model::from_bytes("original", original.encode(), &OpenOptions::default()).unwrap();
    let graph = model.graph().unwrap();
    let analysis = model.analyse(&graph, &AnalysisOptions::default()).unwrap();
    let options = ParallelOptions { bucket_bytes, ..ParallelOptions::default() };
    let found = model.data_parallel(&analysis, &options).unwrap();
    let file = model.parallelized(&graph, &found).unwrap().into_file();
    MetaGraphDef::decode(&*file.edited(&Default::default(), file.encoding()).unwrap().to_vec()).unwrap()
}

fn verify(original: &Build, changed: &MetaGraphDef) -> Result<(), VerifyError> {
    check(&original.model(), &model(changed.encode_to_vec()), OpRegistry::builtin()).map(|_| ())
}

fn node<'m>(meta: &'m mut MetaGraphDef, name: &str) -> &'m mut NodeDef {
    let nodes = &mut meta.graph_def.as_mut().unwrap().node;
    nodes.iter_mut().find(|node| node.name == name).unwrap_or_else(|| panic!("no {name}"))
}

/// The kinds of violations after a change.
fn kinds(bucket: u64, change: impl Fn(&mut MetaGraphDef)) -> Vec<ViolationKind> {
    let original = original();
    let mut meta = parallel(&original, bucket);
    verify(&original, &meta).unwrap();
    change(&mut meta);
    let error = verify(&original, &meta).expect_err("a change that must be refused");
    let mut kinds: Vec<ViolationKind> = error.violations.iter().map(|violation| violation.kind).collect();
    kinds.dedup();
    kinds
}

/// So little that each gradient travels alone, and so much that all travel together.
const ALONE: u64 = 1;
const TOGETHER: u64 = 1 << 20;

#[test]
fn what_the_rewrite_makes_is_proved() {
    let original = original();
    for bucket in [ALONE, TOGETHER] {
        let mut meta = parallel(&original, bucket);
        verify(&original, &meta).unwrap();
        // In front of the clip, and of the choice.
        let reads = node(&mut meta, "clip").input[0].clone();
        assert!(reads.starts_with("lms/parallel/0/"), "{reads}");
        assert!(node(&mut meta, "chosen").input[0].starts_with("lms/parallel/"));
    }
}

#[test]
fn a_reduce_behind_the_clip() {
    let found = kinds(ALONE, |meta| {
        node(meta, "clip").input[0] = "g".to_string();
        node(meta, "lms/parallel/0/mean").input[0] = "clip".to_string();
        node(meta, "update_v").input[2] = "lms/parallel/0/mean".to_string();
    });
    assert_eq!(found, [ViolationKind::LateReduce]);
}

#[test]
fn a_key_twice() {
    let found = kinds(ALONE, |meta| {
        let value = node(meta, "lms/parallel/0/mean/key").attr["value"].clone();
        node(meta, "lms/parallel/1/mean/key").attr.insert("value".to_string(), value);
    });
    assert_eq!(found, [ViolationKind::SharedKey]);
}

#[test]
fn a_missing_reduce() {
    let found = kinds(ALONE, |meta| node(meta, "clip").input[0] = "g".to_string());
    assert!(found.contains(&ViolationKind::LocalUpdate), "{found:?}");
}

#[test]
fn a_reduce_under_a_condition() {
    let found = kinds(ALONE, |meta| {
        node(meta, "chosen").input[0] = "h".to_string();
        node(meta, "lms/parallel/1/mean").input[0] = "chosen:1".to_string();
        node(meta, "update_w").input[2] = "lms/parallel/1/mean".to_string();
        meta.graph_def.as_mut().unwrap().node.retain(|node| node.name != "lms/parallel/1/back");
    });
    assert_eq!(found, [ViolationKind::ConditionalReduce]);
}

/// A `Switch` reads the mean by way of an op that is where the worker's own tensor is.
#[test]
fn a_mean_for_a_choice_comes_to_where_its_tensor_is() {
    for (bucket, back, mean) in [
        (ALONE, "lms/parallel/1/back", "lms/parallel/1/mean"),
        (TOGETHER, "lms/parallel/0/back/1", "lms/parallel/0/out/1"),
    ] {
        let mut meta = parallel(&original(), bucket);
        assert_eq!(node(&mut meta, "chosen").input[0], back);
        assert_eq!(node(&mut meta, back).input, [mean]);
        let other = kinds(bucket, |meta| node(meta, back).input[0] = "lms/parallel/0/mean/key".to_string());
        assert!(other.contains(&ViolationKind::AddedInputs), "{other:?}");
        let elsewhere = kinds(bucket, |meta| node(meta, back).device = "/device:CPU:0".to_string());
        assert!(elsewhere.contains(&ViolationKind::AddedDevice), "{elsewhere:?}");
        let apart = kinds(bucket, |meta| drop(node(meta, back).attr.remove("_class")));
        assert!(apart.contains(&ViolationKind::AddedOp), "{apart:?}");
    }
}

#[test]
fn a_count_in_a_graph_that_is_no_function() {
    let mut meta = parallel(&original(), ALONE);
    let mut count = node(&mut meta, "lms/parallel/rank").clone();
    count.name = "lms/parallel/count".to_string();
    meta.graph_def.as_mut().unwrap().node.push(count);
    let error = verify(&original(), &meta).expect_err("a change that must be refused");
    assert_eq!(error.violations[0].kind, ViolationKind::UnknownAddedOp);
}

#[test]
fn reduces_in_no_order() {
    let found =
        kinds(ALONE, |meta| node(meta, "lms/parallel/1/mean").input.retain(|input| !input.starts_with('^')));
    assert_eq!(found, [ViolationKind::UnorderedReduces]);
}

#[test]
fn variables_given_in_no_order() {
    let found = kinds(ALONE, |meta| {
        node(meta, "lms/parallel/broadcast/1/read").input.retain(|input| !input.starts_with('^'));
    });
    assert_eq!(found, [ViolationKind::UnorderedReduces]);
}

#[test]
fn another_variables_gradient() {
    let found = kinds(ALONE, |meta| node(meta, "chosen").input[0] = "lms/parallel/0/mean".to_string());
    assert!(found.contains(&ViolationKind::WrongTensor), "{found:?}");
}

#[test]
fn parts_of_a_bucket_in_another_order() {
    let found = kinds(TOGETHER, |meta| {
        node(meta, "lms/parallel/0/out/0").input[0] = "lms/parallel/0/split:1".to_string();
        node(meta, "lms/parallel/0/out/1").input[0] = "lms/parallel/0/split".to_string();
    });
    assert!(found.contains(&ViolationKind::AddedInputs), "{found:?}");
    let found = kinds(TOGETHER, |meta| node(meta, "lms/parallel/0/joined").input.swap(0, 1));
    assert!(found.contains(&ViolationKind::AddedInputs), "{found:?}");
}

#[test]
fn a_sum_for_a_mean_and_a_group_of_another_size() {
    let change = |name: &'static str, key: &'static str, value: &'static str| {
        kinds(ALONE, move |meta| {
            let value = AttrValue { value: Some(Value::S(value.as_bytes().to_vec())) };
            node(meta, name).attr.insert(key.to_string(), value);
        })
    };
    assert!(change("lms/parallel/0/mean", "final_op", "Id").contains(&ViolationKind::AddedOp));
    assert!(change("lms/parallel/0/mean", "merge_op", "Max").contains(&ViolationKind::AddedOp));
    let found =
        kinds(ALONE, |meta| node(meta, "lms/parallel/0/mean").input[1] = "lms/parallel/hosts".to_string());
    assert!(found.contains(&ViolationKind::AddedInputs), "{found:?}");
}

#[test]
fn a_variable_given_another_ones_values() {
    let found = kinds(ALONE, |meta| node(meta, "lms/parallel/broadcast/0/assign").input[0] = "w".to_string());
    assert!(found.contains(&ViolationKind::AddedInputs), "{found:?}");
    // All workers' values added up.
    let found = kinds(ALONE, |meta| {
        node(meta, "lms/parallel/broadcast/0/sum").input[0] = "lms/parallel/broadcast/0/to/0".to_string();
    });
    assert!(found.contains(&ViolationKind::AddedInputs), "{found:?}");
}

#[test]
fn an_original_op_that_changed() {
    let found = kinds(ALONE, |meta| node(meta, "clip").op = "Maximum".to_string());
    assert_eq!(found, [ViolationKind::ChangedNode]);
    let found = kinds(ALONE, |meta| node(meta, "update_v").input.push("^g".to_string()));
    assert!(found.contains(&ViolationKind::LostControl), "{found:?}");
}

/// Noise that each worker draws for itself, behind the reduce.
#[test]
fn noise_behind_a_clip_is_not_proved() {
    let mut original = original();
    original.node("shape", "Const", "").node("noise", "RandomUniform", "shape").node(
        "noisy",
        "AddV2",
        "clip noise",
    );
    original.inputs("update_v", "v rate noisy");
    let model = Model::from_bytes("original", original.encode(), &OpenOptions::default()).unwrap();
    let graph = model.graph().unwrap();
    let analysis = model.analyse(&graph, &AnalysisOptions::default()).unwrap();
    let found = model.data_parallel(&analysis, &ParallelOptions::default());
    // Behind the clip there is no place for a reduce, and in front of it the noise would differ: it must not be proved.
    if let Ok(found) = found {
        let parallel = model.parallelized(&graph, &found).unwrap();
        let error = check(&original.model(), parallel.file(), OpRegistry::builtin()).unwrap_err();
        assert!(error.violations.iter().any(|violation| violation.kind == ViolationKind::LateReduce));
    }
}

/// A reduce that waits for what only some workers run would be left out by the others.
#[test]
fn a_reduce_that_waits_for_a_branch() {
    let mut original = original();
    original.node("other", "Switch", "x flag").node("branch", "Identity", "other:1");
    let mut meta = parallel(&original, ALONE);
    verify(&original, &meta).unwrap();
    node(&mut meta, "lms/parallel/0/mean").input.push("^branch".to_string());
    let error = verify(&original, &meta).expect_err("a change that must be refused");
    assert!(error.violations.iter().all(|violation| violation.kind == ViolationKind::AddedInputs), "{error}");
}
