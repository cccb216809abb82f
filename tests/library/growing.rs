//! What loops make longer in each iteration, and lists that they write to, held against TensorFlow.

use lms_testing::graphs::{Nodes, attr_type, shape};
use prost::Message;
use tf_lms::plan::Iterations;
use tf_lms::proto::tensorflow::attr_value::Value;
use tf_lms::proto::tensorflow::{ConfigProto, TensorProto};
use tf_lms::runtime::Session;
use tf_lms::{AnalysisOptions, Budget};

const FLOAT: i32 = 1;
const INT32: i32 = 3;
const VARIANT: i32 = 21;

fn ints(values: &[i32], dimensions: &[i64]) -> Value {
    let proto = TensorProto { dtype: INT32, int_val: values.to_vec(), ..TensorProto::default() };
    Value::Tensor(TensorProto { tensor_shape: Some(shape(dimensions)), ..proto })
}

fn floats(dimensions: &[i64]) -> Value {
    let count = dimensions.iter().product::<i64>() as usize;
    let proto = TensorProto { dtype: FLOAT, float_val: vec![0.5; count], ..TensorProto::default() };
    Value::Tensor(TensorProto { tensor_shape: Some(shape(dimensions)), ..proto })
}

fn constant(dtype: i32, value: Value) -> [(&'static str, Value); 2] {
    [("dtype", attr_type(dtype)), ("value", value)]
}

fn of(dtype: i32) -> [(&'static str, Value); 1] {
    [("T", attr_type(dtype))]
}

fn two(dtype: i32) -> [(&'static str, Value); 2] {
    [("T", attr_type(dtype)), ("N", Value::I(2))]
}

fn enter(dtype: i32, is_constant: bool) -> [(&'static str, Value); 4] {
    [
        ("T", attr_type(dtype)),
        ("frame_name", Value::S(b"rows_loop".to_vec())),
        ("is_constant", Value::B(is_constant)),
        ("parallel_iterations", Value::I(10)),
    ]
}

/// A loop that counts from nothing to `limit`, an op that is five if it is a constant. `turn` says whether it goes on, and what it counts is
/// `i_turn:1` in its body.
fn counting(limit: &str) -> Nodes {
    let mut nodes = Nodes::default();
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
    for (name, input, is_constant) in
        [("i_in", "zero", false), ("limit_in", "limit", true), ("one_in", "one", true)]
    {
        nodes.add(name, "Enter", &[input], &enter(INT32, is_constant)).declares(name, &[]);
    }
    nodes.add("i", "Merge", &["i_in", "i_back"], &two(INT32));
    nodes.add("goes_on", "Less", &["i", "limit_in"], &of(INT32)).declares("goes_on", &[]);
    nodes.add("turn", "LoopCond", &["goes_on"], &[]).declares("turn", &[]);
    nodes.add("i_turn", "Switch", &["i", "turn"], &of(INT32));
    nodes.add("next", "Add", &["i_turn:1", "one_in"], &of(INT32)).declares("next", &[]);
    nodes.add("i_back", "NextIteration", &["next"], &of(INT32)).declares("i_back", &[]);
    nodes
}

/// The same loop, which appends two rows of four to three in each iteration.
fn appending(limit: &str) -> Nodes {
    let mut nodes = counting(limit);
    for (name, dimensions) in [("first", [3, 4]), ("part", [2, 4])] {
        nodes.add(name, "Const", &[], &constant(FLOAT, floats(&dimensions))).declares(name, &dimensions);
    }
    nodes.add("axis_in", "Enter", &["axis"], &enter(INT32, true)).declares("axis_in", &[]);
    nodes.add("rows_in", "Enter", &["first"], &enter(FLOAT, false)).declares("rows_in", &[-1, 4]);
    nodes.add("part_in", "Enter", &["part"], &enter(FLOAT, true)).declares("part_in", &[2, 4]);
    nodes.add("rows", "Merge", &["rows_in", "rows_back"], &two(FLOAT));
    nodes.add("rows_turn", "Switch", &["rows", "turn"], &of(FLOAT));
    let joined = [("T", attr_type(FLOAT)), ("N", Value::I(2)), ("Tidx", attr_type(INT32))];
    nodes
        .add("longer", "ConcatV2", &["rows_turn:1", "part_in", "axis_in"], &joined)
        .declares("longer", &[-1, 4]);
    nodes.add("rows_back", "NextIteration", &["longer"], &of(FLOAT)).declares("rows_back", &[-1, 4]);
    nodes.add("all_rows", "Exit", &["rows_turn"], &of(FLOAT)).declares("all_rows", &[-1, 4]);
    nodes.add("twice", "Add", &["all_rows", "all_rows"], &of(FLOAT)).declares("twice", &[-1, 4]);
    nodes
}

/// The same loop, which writes two rows of four to a list that is empty at first, at a place that is three times what it counts.
fn writing(limit: &str) -> Nodes {
    let mut nodes = counting(limit);
    let list = |key| [(key, attr_type(FLOAT)), ("shape_type", attr_type(INT32))];
    nodes.add("rows_shape", "Const", &[], &constant(INT32, ints(&[2, 4], &[2]))).declares("rows_shape", &[2]);
    nodes.add("three", "Const", &[], &constant(INT32, ints(&[3], &[]))).declares("three", &[]);
    nodes.add("part", "Const", &[], &constant(FLOAT, floats(&[2, 4]))).declares("part", &[2, 4]);
    nodes.add("list", "TensorListReserve", &["rows_shape", "zero"], &list("element_dtype"));
    nodes.add("list_in", "Enter", &["list"], &enter(VARIANT, false));
    nodes.add("part_in", "Enter", &["part"], &enter(FLOAT, true)).declares("part_in", &[2, 4]);
    nodes.add("three_in", "Enter", &["three"], &enter(INT32, true)).declares("three_in", &[]);
    nodes.add("lists", "Merge", &["list_in", "list_back"], &two(VARIANT));
    nodes.add("list_turn", "Switch", &["lists", "turn"], &of(VARIANT));
    nodes.add("place", "Mul", &["i_turn:1", "three_in"], &of(INT32)).declares("place", &[]);
    let grows = [("element_dtype", attr_type(FLOAT)), ("resize_if_index_out_of_bounds", Value::B(true))];
    nodes.add("written", "TensorListSetItem", &["list_turn:1", "place", "part_in"], &grows);
    nodes.add("list_back", "NextIteration", &["written"], &of(VARIANT));
    nodes.add("whole", "Exit", &["list_turn"], &of(VARIANT));
    let stacked = [("element_dtype", attr_type(FLOAT)), ("num_elements", Value::I(-1))];
    nodes
        .add("stacked", "TensorListStack", &["whole", "rows_shape"], &stacked)
        .declares("stacked", &[-1, 2, 4]);
    nodes.add("twice", "Add", &["stacked", "stacked"], &of(FLOAT)).declares("twice", &[-1, 2, 4]);
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

/// With each write the list gets as long as the place asks for.
#[test]
fn a_list_that_grows_is_as_long_as_the_last_place_in_it() {
    let nodes = writing("Const");
    let last = 3 * 4;
    let bytes = (last + 1) * 2 * ROW_BYTES;
    assert_eq!(bytes_of(&nodes, "twice", Iterations::default()), (Some(bytes), None));
    let given = Iterations { others: Some(2), named: Vec::new() };
    assert_eq!(bytes_of(&writing("Placeholder"), "twice", given).0, Some(4 * 2 * ROW_BYTES));
    assert_eq!(bytes_of(&writing("Placeholder"), "twice", Iterations::default()).0, None);
    let Some(tensorflow) = lms_testing::tensorflow() else { return };
    let session = Session::new(tensorflow, &nodes.graph().encode_to_vec(), &ConfigProto::default()).unwrap();
    assert_eq!(session.run(&[], &["twice:0"], &[]).unwrap()[0].shape(), [13, 2, 4]);
}
