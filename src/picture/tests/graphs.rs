//! Graphs to take steps of.

use std::path::Path;

use fastrand::Rng;
use prost::Message;

use crate::dtype::DataType;
use crate::format::{Model, ReadOptions, Source};
use crate::proto::tensorflow::attr_value::{ListValue, Value};
use crate::proto::tensorflow::tensor_shape_proto::Dim;
use crate::proto::tensorflow::{AttrValue, GraphDef, NodeDef, TensorShapeProto};

/// Reads a graph of testdata.
pub(super) fn testdata(file: &str) -> Model {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("testdata").join(file);
    Source::Path(path).read(&ReadOptions::default()).unwrap()
}

/// A node with one output of floats.
fn node(name: &str, op: &str, input: &[&str], device: &str, sizes: &[i64]) -> NodeDef {
    let dim = sizes.iter().map(|&size| Dim { size, name: String::new() }).collect();
    let shape = TensorShapeProto { dim, unknown_rank: false };
    let shapes = Value::List(ListValue { shape: vec![shape], ..ListValue::default() });
    let float = Value::Type(DataType::FLOAT.number());
    let attrs = [("T", float.clone()), ("dtype", float), ("_output_shapes", shapes)];
    NodeDef {
        name: name.to_string(),
        op: op.to_string(),
        input: input.iter().map(ToString::to_string).collect(),
        device: device.to_string(),
        attr: attrs
            .into_iter()
            .map(|(name, value)| (name.to_string(), AttrValue { value: Some(value) }))
            .collect(),
        ..NodeDef::default()
    }
}

fn model(nodes: Vec<NodeDef>) -> Model {
    let content = GraphDef { node: nodes, ..GraphDef::default() }.encode_to_vec();
    Model::from_bytes("a graph", content, &ReadOptions::default()).unwrap()
}

/// A graph of so many ops on two GPUs and the host, of which the last needs all others.
pub(super) fn random_graph(seed: u64, size: usize) -> Model {
    const OPS: [&str; 5] = ["Relu", "AddV2", "MatMul", "Softmax", "Identity"];
    const DEVICES: [&str; 4] = ["", "/gpu:0", "/gpu:1", "/cpu:0"];
    let mut rng = Rng::with_seed(seed);
    let mut nodes = vec![node("0", "Placeholder", &[], "", &[8, 64])];
    for number in 1..size {
        let op = OPS[rng.usize(..OPS.len())];
        let inputs = if matches!(op, "AddV2" | "MatMul") { 2 } else { 1 };
        let mut input: Vec<String> = (0..inputs).map(|_| rng.usize(..number).to_string()).collect();
        if number + 1 == size {
            input.extend((0..number).map(|before| format!("^{before}")));
        }
        let input: Vec<&str> = input.iter().map(String::as_str).collect();
        let device = DEVICES[rng.usize(..DEVICES.len())];
        nodes.push(node(&number.to_string(), op, &input, device, &[rng.i64(0..40), 64]));
    }
    model(nodes)
}

/// A chain with a reader far behind, a vector, an op on the host, and one that no step runs.
pub(super) fn chain() -> Model {
    const SIZES: [i64; 2] = [1024, 256];
    model(vec![
        node("in", "Placeholder", &[], "", &SIZES),
        node("a", "Softmax", &["in"], "", &SIZES),
        node("b", "Softmax", &["a"], "", &SIZES),
        node("c", "Softmax", &["b"], "", &SIZES),
        node("renamed", "Identity", &["c"], "", &SIZES),
        node("vector", "Softmax", &["renamed"], "", &[256]),
        node("host", "Softmax", &["renamed"], "/cpu:0", &SIZES),
        node("far", "AddV2", &["a", "vector"], "", &SIZES),
        node("end", "AddV2", &["far", "host"], "", &SIZES),
        node("summary", "Softmax", &["a"], "", &SIZES),
    ])
}
