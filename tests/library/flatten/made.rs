//! Functions in a few words.

use prost::Message;
use tf_lms::flatten::{Flat, FlattenError, flatten};
use tf_lms::format::{Model, ReadOptions};
use tf_lms::ops::OpRegistry;
use tf_lms::proto::tensorflow::attr_value::{ListValue, Value};
use tf_lms::proto::tensorflow::op_def::ArgDef;
use tf_lms::proto::tensorflow::tensor_shape_proto::Dim;
use tf_lms::proto::tensorflow::{
    AttrValue, FunctionDef, FunctionDefLibrary, GraphDef, NameAttrList, NodeDef, OpDef, OpList,
    TensorShapeProto,
};

pub const FLOAT: i32 = 1;
pub const INT32: i32 = 3;
pub const RESOURCE: i32 = 20;

/// A node; inputs apart by blanks.
pub fn node(name: &str, op: &str, inputs: &str) -> NodeDef {
    NodeDef {
        name: name.to_string(),
        op: op.to_string(),
        input: inputs.split_whitespace().map(str::to_string).collect(),
        ..NodeDef::default()
    }
}

pub fn with(mut node: NodeDef, name: &str, value: Value) -> NodeDef {
    node.attr.insert(name.to_string(), AttrValue { value: Some(value) });
    node
}

pub fn on(mut node: NodeDef, device: &str) -> NodeDef {
    node.device = device.to_string();
    node
}

pub fn float(node: NodeDef) -> NodeDef {
    with(node, "T", Value::Type(FLOAT))
}

pub fn read(name: &str, inputs: &str) -> NodeDef {
    let shape = ListValue { shape: vec![shape(&[4])], ..ListValue::default() };
    let node = with(node(name, "ReadVariableOp", inputs), "dtype", Value::Type(FLOAT));
    with(node, "_output_shapes", Value::List(shape))
}

pub fn assign(name: &str, inputs: &str) -> NodeDef {
    with(node(name, "AssignAddVariableOp", inputs), "dtype", Value::Type(FLOAT))
}

/// A list of types.
pub fn list(types: &[i32]) -> Value {
    Value::List(ListValue { r#type: types.to_vec(), ..ListValue::default() })
}

/// A function, as an attribute.
pub fn called(name: &str) -> Value {
    Value::Func(NameAttrList { name: name.to_string(), ..NameAttrList::default() })
}

/// Functions, as an attribute.
pub fn functions(names: &[&str]) -> Value {
    let called = |name: &&str| NameAttrList { name: name.to_string(), ..NameAttrList::default() };
    Value::List(ListValue { func: names.iter().map(called).collect(), ..ListValue::default() })
}

/// Strings, as an attribute.
pub fn strings(texts: &[&str]) -> Value {
    let s = texts.iter().map(|text| text.as_bytes().to_vec()).collect();
    Value::List(ListValue { s, ..ListValue::default() })
}

/// What TensorFlow makes branches, or a loop, of.
pub fn lowered(node: NodeDef) -> NodeDef {
    with(node, "_lower_using_switch_merge", Value::B(true))
}

/// A constant.
pub fn constant(name: &str, dtype: i32) -> NodeDef {
    with(
        with(node(name, "Const", ""), "dtype", Value::Type(dtype)),
        "value",
        Value::Tensor(Default::default()),
    )
}

/// A call of a function from as many values to as many as are given.
pub fn call(name: &str, function: &str, inputs: &str, types: &[i32], results: usize) -> NodeDef {
    let node = with(node(name, "StatefulPartitionedCall", inputs), "f", called(function));
    with(with(node, "Tin", list(types)), "Tout", list(&vec![FLOAT; results]))
}

pub fn shape(sizes: &[i64]) -> TensorShapeProto {
    let dim = sizes.iter().map(|&size| Dim { size, ..Dim::default() }).collect();
    TensorShapeProto { dim, ..TensorShapeProto::default() }
}

pub fn handle(name: &str, sizes: &[i64]) -> NodeDef {
    let node = with(node(name, "VarHandleOp", ""), "dtype", Value::Type(FLOAT));
    with(node, "shape", Value::Shape(shape(sizes)))
}

pub fn argument(name: &str, r#type: i32) -> ArgDef {
    ArgDef { name: name.to_string(), r#type, ..ArgDef::default() }
}

/// A function of floats; an argument whose name begins with `v` is a variable's handle.
pub fn function(
    name: &str,
    arguments: &str,
    nodes: Vec<NodeDef>,
    results: &[(&str, &str)],
    effects: &str,
) -> FunctionDef {
    let dtype = |name: &str| if name.starts_with('v') { RESOURCE } else { FLOAT };
    FunctionDef {
        signature: Some(OpDef {
            name: name.to_string(),
            input_arg: arguments.split_whitespace().map(|name| argument(name, dtype(name))).collect(),
            output_arg: results.iter().map(|(name, _)| argument(name, FLOAT)).collect(),
            control_output: effects.split_whitespace().map(str::to_string).collect(),
            is_stateful: true,
            ..OpDef::default()
        }),
        node_def: nodes,
        ret: results.iter().map(|(name, from)| (name.to_string(), from.to_string())).collect(),
        control_ret: effects.split_whitespace().map(|name| (name.to_string(), name.to_string())).collect(),
        ..FunctionDef::default()
    }
}

pub fn model(nodes: Vec<NodeDef>, functions: Vec<FunctionDef>) -> Model {
    let library = Some(FunctionDefLibrary { function: functions, ..FunctionDefLibrary::default() });
    let graph = GraphDef { node: nodes, library, ..GraphDef::default() };
    Model::from_bytes("test", graph.encode_to_vec(), &ReadOptions::default()).unwrap()
}

pub fn registry(model: &Model) -> OpRegistry {
    let op = model.functions().unwrap().into_iter().map(|function| function.signature).collect();
    OpRegistry::with_extra(&OpList { op })
}

pub fn flat(model: &Model, function: &str) -> Result<Flat, FlattenError> {
    flatten(model, &registry(model), function)
}

/// What each node of a flat graph reads: `name: op inputs`.
pub fn listing(flat: &Flat) -> Vec<String> {
    let nodes = flat.model.nodes();
    let inputs = |node| nodes.inputs(node).collect::<Vec<_>>().join(" ");
    (0..nodes.len())
        .map(|node| {
            format!("{}: {} {}", nodes.name(node), nodes.op(node), inputs(node)).trim_end().to_string()
        })
        .collect()
}

/// A step that adds to `w` what a function makes of `x`, in a function in a function.
pub fn nested() -> Vec<FunctionDef> {
    vec![
        function(
            "double",
            "x",
            vec![float(node("sum", "AddV2", "x x")), float(node("unused", "Neg", "x"))],
            &[("y", "sum:z:0"), ("same", "x")],
            "",
        ),
        function(
            "update",
            "x v",
            vec![
                read("value", "v"),
                call("twice", "double", "x ^value", &[FLOAT], 2),
                float(node("both", "AddV2", "twice:output:0 twice:output:1")),
                assign("add", "v both:z:0 ^value"),
            ],
            &[("y", "twice:output:1")],
            "add",
        ),
        function(
            "step",
            "x v",
            vec![
                call("first", "update", "x v", &[FLOAT, RESOURCE], 1),
                call("second", "update", "first:output:0 v ^first", &[FLOAT, RESOURCE], 1),
                float(node("loss", "Neg", "second:output:0")),
            ],
            &[("loss", "loss:y:0")],
            "first second",
        ),
    ]
}

pub fn top() -> Vec<NodeDef> {
    vec![
        handle("w", &[4]),
        with(node("images", "Placeholder", ""), "dtype", Value::Type(FLOAT)),
        call("Call", "step", "images w", &[FLOAT, RESOURCE], 1),
    ]
}

/// A top level that calls nothing.
pub fn nothing() -> Vec<NodeDef> {
    vec![node("idle", "NoOp", "")]
}

/// What the processor did for this thread; nothing where the system does not tell.
pub fn processor_seconds() -> f64 {
    let told = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    told.split(' ').next().and_then(|text| text.parse::<f64>().ok()).unwrap_or(0.0) / 1e9
}
