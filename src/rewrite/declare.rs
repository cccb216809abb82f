//! The shapes of what is added for several workers, where the file declares those of its own nodes.

use std::collections::HashMap;

use crate::graph::{Graph, NodeId, output_shapes};
use crate::proto::tensorflow::attr_value::{ListValue, Value};
use crate::proto::tensorflow::tensor_shape_proto::Dim;
use crate::proto::tensorflow::{AttrValue, NodeDef, TensorProto, TensorShapeProto};

/// The attribute.
const SHAPES: &str = "_output_shapes";

/// A shape, with a -1 for each open dimension; none if the rank is open.
type Shape = Option<Vec<i64>>;

/// Gives nodes their shapes, which stand behind all that they read, if the graph's have some.
pub(super) fn declare(graph: &Graph, added: &mut [NodeDef]) {
    let mut known: HashMap<String, Vec<Shape>> = HashMap::new();
    for node in graph.node_ids() {
        if let Some(shapes) = output_shapes(&graph.attrs(node)) {
            known.insert(graph.name(node).to_string(), shapes.collect());
        }
    }
    if known.is_empty() {
        return;
    }
    let by_name: HashMap<&str, NodeId> = graph.node_ids().map(|node| (graph.name(node), node)).collect();
    let mut constants: HashMap<String, Vec<i64>> = HashMap::new();
    for node in added {
        if let Some(Value::Tensor(tensor)) = node.attr.get("value").and_then(|value| value.value.as_ref()) {
            constants.insert(node.name.clone(), numbers(tensor));
        }
        let shapes = shapes_of((graph, &by_name), node, &known, &constants);
        let list = ListValue { shape: shapes.iter().map(proto).collect(), ..ListValue::default() };
        node.attr.insert(SHAPES.to_string(), AttrValue { value: Some(Value::List(list)) });
        known.insert(node.name.clone(), shapes);
    }
}

fn numbers(tensor: &TensorProto) -> Vec<i64> {
    let short = tensor.int_val.iter().map(|&value| i64::from(value));
    short.chain(tensor.int64_val.iter().copied()).collect()
}

fn proto(shape: &Shape) -> TensorShapeProto {
    let sizes = shape.iter().flatten();
    let dim = sizes.map(|&size| Dim { size, ..Dim::default() }).collect();
    TensorShapeProto { dim, unknown_rank: shape.is_none() }
}

fn shapes_of(
    (graph, by_name): (&Graph, &HashMap<&str, NodeId>),
    node: &NodeDef,
    known: &HashMap<String, Vec<Shape>>,
    constants: &HashMap<String, Vec<i64>>,
) -> Vec<Shape> {
    let input = |slot: usize| -> Shape {
        let input = node.input.get(slot)?;
        let (name, output) = input.rsplit_once(':').unwrap_or((input, "0"));
        known.get(name)?.get(output.parse::<usize>().ok()?)?.clone()
    };
    let constant = |slot: usize| node.input.get(slot).and_then(|name| constants.get(name));
    let length =
        |shape: Shape| shape.map(|shape| shape.iter().product::<i64>()).filter(|&length| length >= 0);
    match node.op.as_str() {
        "NoOp" | "AssignVariableOp" => Vec::new(),
        "Placeholder" | "VarHandleOp" => vec![Some(Vec::new())],
        "Const" => {
            let value = node.attr.get("value").and_then(|value| value.value.as_ref());
            let Some(Value::Tensor(tensor)) = value else { return vec![None] };
            let dims = tensor.tensor_shape.iter().flat_map(|shape| &shape.dim);
            vec![Some(dims.map(|dim| dim.size).collect())]
        }
        "Reshape" => match constant(1).map(Vec::as_slice) {
            Some([-1]) => vec![length(input(0)).map(|length| vec![length])],
            shape => vec![shape.map(<[i64]>::to_vec)],
        },
        "ConcatV2" => {
            let lengths = (0..node.input.len().saturating_sub(1)).map(|slot| length(input(slot)));
            vec![lengths.sum::<Option<i64>>().map(|length| vec![length])]
        }
        "SplitV" => constant(1).into_iter().flatten().map(|&size| Some(vec![size])).collect(),
        "CollectiveGatherV2" => {
            let mut rows = input(0);
            rows.iter_mut().filter_map(|shape| shape.first_mut()).for_each(|rows| *rows = -1);
            vec![rows]
        }
        "ReadVariableOp" => {
            let variable = node.input.first().and_then(|name| by_name.get(name.as_str()));
            match variable {
                Some(&variable) => vec![graph.attrs(variable).shape("shape")],
                // One that was added holds a single number.
                None => vec![Some(Vec::new())],
            }
        }
        _ => vec![input(0)],
    }
}
