//! What a loop makes longer in each iteration, held against TensorFlow.

use lms_testing::graphs::{Nodes, attr_type, shape};
use prost::Message;
use tf_lms::plan::Iterations;
use tf_lms::proto::tensorflow::attr_value::Value;
use tf_lms::proto::tensorflow::{ConfigProto, TensorProto};
use tf_lms::runtime::Session;
use tf_lms::{AnalysisOptions, Budget};

const FLOAT: i32 = 1;
const INT32: i32 = 3;

fn ints(values: &[i32], dimensions: &[i64]) -> Value {
    let proto = TensorProto { dtype: INT32, int_val: values.to_vec(), ..TensorProto::default() };
    Value::Tensor(TensorProto { tensor_shape: Some(shape(dimensions)), ..proto })
}

fn floats(dimensions: &[i64]) -> Value {
    let count = dimensions.iter().product::<i64>() as usize;
    let proto = TensorProto { dtype: FLOAT, float_val: vec![0.5; count], ..TensorProto::default() };
    Value::Tensor(TensorProto { tensor_shape: Some(shape(dimensions)), ..proto })
}

/// A loop that appends two rows of four to three, five times; `limit` is an op that says how often, five if it is a constant.
fn appending(limit: &str) -> Nodes {
    let mut nodes = Nodes::default();
    let constant = |dtype, value: Value| [("dtype", attr_type(dtype)), ("value", value)];
    let enter = |dtype, is_constant| {
        [
            ("T", attr_type(dtype)),
            ("frame_name", Value::S(b"rows_loop".to_vec())),
            ("is_constant", Value::B(is_constant)),
            ("parallel_iterations", Value::I(10)),
        ]
    };
    let of = |dtype| [("T", attr_type(dtype))];
    for (name, value) in [("zero", 0), ("one", 1), ("axis", 0)] {
        nodes.add(name, "Const", &[], &constant(INT32, ints(&[value], &[]))).declares(name, &[]);
    }
    match limit {
        "Const" => nodes.add("limit", "Const", &[], &constant(INT32, ints(&[5], &[]))),
        other => nodes.add(
            "limit",
            other,
            &[],
            &[("dtype", attr_type(INT32)), ("shape", Value::Shape(shape(&[])))],
        ),
    };
    nodes.declares("limit", &[]);
    for (name, dimensions) in [("first", [3, 4]), ("part", [2, 4])] {
        nodes.add(name, "Const", &[], &constant(FLOAT, floats(&dimensions))).declares(name, &dimensions);
    }
    for (name, input, is_constant) in [
        ("i_in", "zero", false),
        ("limit_in", "limit", true),
        ("one_in", "one", true),
        ("axis_in", "axis", true),
    ] {
        nodes.add(name, "Enter", &[input], &enter(INT32, is_constant)).declares(name, &[]);
    }
    nodes.add("rows_in", "Enter", &["first"], &enter(FLOAT, false)).declares("rows_in", &[-1, 4]);
    nodes.add("part_in", "Enter", &["part"], &enter(FLOAT, true)).declares("part_in", &[2, 4]);
    let two = |dtype| [("T", attr_type(dtype)), ("N", Value::I(2))];
    nodes.add("i", "Merge", &["i_in", "i_back"], &two(INT32));
    nodes.add("rows", "Merge", &["rows_in", "rows_back"], &two(FLOAT));
    nodes.add("goes_on", "Less", &["i", "limit_in"], &of(INT32)).declares("goes_on", &[]);
    nodes.add("turn", "LoopCond", &["goes_on"], &[]).declares("turn", &[]);
    nodes.add("i_turn", "Switch", &["i", "turn"], &of(INT32));
    nodes.add("rows_turn", "Switch", &["rows", "turn"], &of(FLOAT));
    nodes.add("next", "Add", &["i_turn:1", "one_in"], &of(INT32)).declares("next", &[]);
    let joined = [("T", attr_type(FLOAT)), ("N", Value::I(2)), ("Tidx", attr_type(INT32))];
    nodes
        .add("longer", "ConcatV2", &["rows_turn:1", "part_in", "axis_in"], &joined)
        .declares("longer", &[-1, 4]);
    nodes.add("i_back", "NextIteration", &["next"], &of(INT32)).declares("i_back", &[]);
    nodes.add("rows_back", "NextIteration", &["longer"], &of(FLOAT)).declares("rows_back", &[-1, 4]);
    nodes.add("all_rows", "Exit", &["rows_turn"], &of(FLOAT)).declares("all_rows", &[-1, 4]);
    nodes.add("twice", "Add", &["all_rows", "all_rows"], &of(FLOAT)).declares("twice", &[-1, 4]);
    nodes
}

/// The bytes of a node's first output, if they are bounded; and what is said where a step cannot be predicted.
fn bytes_of(nodes: &Nodes, name: &str, iterations: Iterations) -> (Option<u64>, Option<String>) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("graph.pb");
    std::fs::write(&path, nodes.graph().encode_to_vec()).unwrap();
    let model = tf_lms::read(&path).unwrap();
    let graph = model.graph().unwrap();
    let options =
        AnalysisOptions { iterations, train_ops: vec!["twice".to_string()], ..AnalysisOptions::default() };
    let analysis = model.analyse(&graph, &options).unwrap();
    let node = graph.node_ids().find(|&node| graph.name(node) == name).unwrap();
    let error = analysis.fit(&Budget::new(1 << 30)).err().map(|error| error.to_string());
    (analysis.sizes.bytes(graph.outputs(node).next().unwrap()), error)
}

const ROW_BYTES: u64 = 16;

#[test]
fn what_a_loop_makes_longer_is_as_long_as_its_iterations_make_it() {
    let nodes = appending("Const");
    assert_eq!(bytes_of(&nodes, "twice", Iterations::default()), (Some((3 + 5 * 2) * ROW_BYTES), None));
    let Some(tensorflow) = lms_testing::tensorflow() else { return };
    let session = Session::new(tensorflow, &nodes.graph().encode_to_vec(), &ConfigProto::default()).unwrap();
    assert_eq!(session.run(&[], &["twice:0"], &[]).unwrap()[0].shape(), [13, 4]);
}

#[test]
fn how_often_a_loop_runs_is_asked_for_where_only_that_says_how_long_a_tensor_gets() {
    let nodes = appending("Placeholder");
    let (bytes, error) = bytes_of(&nodes, "twice", Iterations::default());
    assert_eq!(bytes, None);
    let error = error.unwrap();
    assert!(
        error.contains("how often the loop rows_loop runs is not known") && error.contains("--iterations N"),
        "{error}"
    );
    let given = Iterations { others: Some(7), named: Vec::new() };
    assert_eq!(bytes_of(&nodes, "twice", given), (Some((3 + 7 * 2) * ROW_BYTES), None));
}
