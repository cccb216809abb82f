//! Shapes that TensorFlow infers.

use lms_testing::graphs::{Nodes, attr_type};
use prost::Message;
use tf_lms::format::{Model, ReadOptions};
use tf_lms::graph::Graph;
use tf_lms::ops::OpRegistry;
use tf_lms::proto::tensorflow::attr_value::Value;
use tf_lms::proto::tensorflow::{OpDef, OpList};
use tf_lms::runtime::{InferError, TensorFlow, infer_shapes};
use tf_lms::shape::GivenShapes;

/// `x` [?, 8] times `w` [8, 3], and a Relu of that whose declared shapes say a batch of 64.
fn perceptron() -> Nodes {
    let mut nodes = Nodes::default();
    nodes.placeholder("x", &[-1, 8]).declares("x", &[64, 8]);
    nodes.placeholder("w", &[8, 3]);
    nodes.add("product", "MatMul", &["x", "w"], &[("T", attr_type(1))]).declares("product", &[64, 3]);
    nodes.add("relu", "Relu", &["product"], &[("T", attr_type(1))]).declares("relu", &[64, 3]);
    nodes
}

fn given(batch_size: Option<u64>, shapes: &[&str]) -> GivenShapes {
    GivenShapes {
        batch_size,
        shapes: shapes.iter().map(|text| text.parse().unwrap()).collect(),
        ..GivenShapes::default()
    }
}

/// The shapes of all nodes' first outputs by name, as text.
fn ask(tensorflow: &TensorFlow, nodes: &Nodes, given: &GivenShapes) -> Result<String, InferError> {
    let model = Model::from_bytes("test", nodes.graph().encode_to_vec(), &ReadOptions::default()).unwrap();
    let registry = OpRegistry::with_extra(&OpList {
        op: vec![OpDef { name: "NoSuchOp".to_string(), ..OpDef::default() }],
    });
    let graph = Graph::of_model(&model, &registry).unwrap();
    let shapes = infer_shapes(tensorflow, &model, &graph, given)?;
    let shown =
        graph.tensor_ids().map(|tensor| format!("{} {:?}", graph.tensor_name(tensor), shapes.get(tensor)));
    Ok(shown.collect::<Vec<_>>().join(", "))
}

#[test]
fn what_is_given_reaches_everything_computed_from_it() {
    let Some(tensorflow) = lms_testing::tensorflow() else { return };
    for given in [given(Some(32), &[]), given(None, &["x=32x8"])] {
        let shapes = ask(tensorflow, &perceptron(), &given).unwrap();
        assert_eq!(
            shapes,
            "x:0 Some([32, 8]), w:0 Some([8, 3]), product:0 Some([32, 3]), relu:0 Some([32, 3])"
        );
    }
}

#[test]
fn what_nothing_declares_or_gives_stays_unknown() {
    let Some(tensorflow) = lms_testing::tensorflow() else { return };
    let mut nodes = Nodes::default();
    nodes.placeholder("x", &[-1, 8]);
    nodes.add("any", "Placeholder", &[], &[("dtype", attr_type(1))]);
    nodes.add("relu", "Relu", &["x"], &[("T", attr_type(1))]);
    nodes.add("both", "Relu", &["any"], &[("T", attr_type(1))]).declares("both", &[2, -1]);
    let shapes = ask(tensorflow, &nodes, &given(None, &[])).unwrap();
    assert_eq!(shapes, "x:0 Some([-1, 8]), any:0 None, relu:0 Some([-1, 8]), both:0 Some([2, -1])");
}

/// A state of zeros for as many examples as are fed, and noise of a shape that is fed.
#[test]
fn what_is_fed_decides_sizes() {
    let Some(tensorflow) = lms_testing::tensorflow() else { return };
    let mut nodes = Nodes::default();
    let numbers = [("dtype", attr_type(3))];
    nodes.add("batch", "Placeholder", &[], &numbers).add("shape", "Placeholder", &[], &numbers);
    nodes.placeholder("zero", &[]).placeholder("x", &[8]);
    nodes.add("dims", "Pack", &["batch", "batch"], &[("T", attr_type(3)), ("N", Value::I(2))]);
    nodes.add("zeros", "Fill", &["dims", "zero"], &[("T", attr_type(1))]);
    nodes.add("noise", "RandomUniform", &["shape"], &[("dtype", attr_type(1)), ("T", attr_type(3))]);
    let value = |values: &[&str]| GivenShapes {
        values: values.iter().map(|text| text.parse().unwrap()).collect(),
        ..GivenShapes::default()
    };
    let shapes = ask(tensorflow, &nodes, &value(&["shape=4,6"])).unwrap();
    assert!(shapes.ends_with("zeros:0 Some([-1, -1]), noise:0 Some([4, 6])"), "{shapes}");
    let shapes = ask(tensorflow, &nodes, &given(None, &["shape=1"])).unwrap();
    assert!(shapes.ends_with("noise:0 Some([-1])"), "{shapes}");
    // A vector of one, since the placeholder's shape says so.
    let both = GivenShapes { shapes: vec!["shape=1".parse().unwrap()], ..value(&["shape=1", "batch=32"]) };
    let shapes = ask(tensorflow, &nodes, &both).unwrap();
    assert!(shapes.ends_with("zeros:0 Some([32, 32]), noise:0 Some([1])"), "{shapes}");
    let error = ask(tensorflow, &nodes, &value(&["x=8"])).unwrap_err().to_string();
    assert_eq!(error, "--value x: the placeholder takes no whole numbers of 32 or 64 bits");
}

#[test]
fn a_contradiction_names_the_tensor() {
    let Some(tensorflow) = lms_testing::tensorflow() else { return };
    let mut nodes = perceptron();
    nodes.declares("relu", &[64, 4]);
    let error = ask(tensorflow, &nodes, &given(None, &[])).unwrap_err();
    assert!(matches!(error, InferError::Contradiction(_)), "{error:?}");
    assert!(error.to_string().contains("tensor relu:0 is declared with the shape [64, 4]"), "{error}");
    // It is out of date, so it does not count.
    assert!(ask(tensorflow, &nodes, &given(Some(32), &[])).unwrap().ends_with("relu:0 Some([32, 3])"));
}

#[test]
fn what_tensorflow_refuses_is_explained() {
    let Some(tensorflow) = lms_testing::tensorflow() else { return };
    let mut unknown = perceptron();
    unknown.add("strange", "NoSuchOp", &[], &[]);
    let error = ask(tensorflow, &unknown, &given(None, &[])).unwrap_err();
    assert!(matches!(&error, InferError::UnknownOp { op, others: 0, .. } if op == "NoSuchOp"), "{error:?}");
    assert!(error.to_string().contains("\"strange\""), "{error}");

    let mut wrong = perceptron();
    wrong.add("wrong", "MatMul", &["w", "x"], &[("T", attr_type(1))]);
    let error = ask(tensorflow, &wrong, &given(None, &[])).unwrap_err();
    assert!(matches!(&error, InferError::Refused { .. }), "{error:?}");
    assert!(error.to_string().contains("wrong"), "{error}");
}
