//! Graphs that compute in 64 bits where they did in 32 or 16.
//!
//! What several workers train and what one process trains with the whole batch add up the same numbers in another order. In 32 bits that
//! is seen, most where an optimizer divides a small number by another, and in 16 bits it may decide whether a step is skipped. In 64 bits
//! nothing of it is left, and what is left is a fault.

use prost::Message;
use tf_lms::dtype::DataType;
use tf_lms::proto::tensorflow::attr_value::Value;
use tf_lms::proto::tensorflow::{AttrValue, GraphDef, NodeDef};
use tf_lms::runtime::Tensor;

fn is_narrow(dtype: DataType) -> bool {
    [DataType::FLOAT, DataType::HALF, DataType::BFLOAT16].contains(&dtype)
}

fn widen(dtype: &mut i32) {
    if is_narrow(DataType::new(*dtype)) {
        *dtype = DataType::DOUBLE.number();
    }
}

fn cast(name: String, input: String, (from, to): (DataType, DataType)) -> NodeDef {
    let of_type = |dtype: DataType| AttrValue { value: Some(Value::Type(dtype.number())) };
    let attr = [("SrcT".to_string(), of_type(from)), ("DstT".to_string(), of_type(to))];
    NodeDef {
        name,
        op: "Cast".to_string(),
        input: vec![input],
        attr: attr.into_iter().collect(),
        ..NodeDef::default()
    }
}

/// An op keeps its type, and a cast behind it has its name. What it reads is cast in front of it, unless it reads nothing.
fn between_casts(node: &NodeDef, dtype: DataType) -> Vec<NodeDef> {
    let mut own = NodeDef { name: format!("{}/narrow", node.name), ..node.clone() };
    let mut all = vec![cast(node.name.clone(), own.name.clone(), (dtype, DataType::DOUBLE))];
    all[0].attr.extend(own.attr.remove_entry("_class"));
    for (at, input) in own.input.iter_mut().enumerate().filter(|(_, input)| !input.starts_with('^')) {
        let before = cast(format!("{}/{at}", own.name), std::mem::take(input), (DataType::DOUBLE, dtype));
        *input = before.name.clone();
        all.push(before);
    }
    all.push(own);
    all
}

/// The type of an op that has to keep it: of a constant with its value, and of what there is in 32 bits alone. That looks at each example
/// by itself, so the others of its batch change nothing of it.
fn kept_type(node: &NodeDef) -> Option<DataType> {
    let attr = match node.op.as_str() {
        "Const" => "dtype",
        "LRN" | "LRNGrad" => "T",
        _ => return None,
    };
    let Some(&Value::Type(dtype)) = node.attr.get(attr)?.value.as_ref() else { return None };
    Some(DataType::new(dtype))
}

/// The same graph in 64 bits. It has no functions.
pub fn graph(graph_def: &[u8]) -> Vec<u8> {
    let mut graph = GraphDef::decode(graph_def).unwrap();
    assert!(graph.library.as_ref().is_none_or(|library| library.function.is_empty()));
    let mut nodes = Vec::new();
    for mut node in std::mem::take(&mut graph.node) {
        match kept_type(&node) {
            Some(dtype) if is_narrow(dtype) => nodes.extend(between_casts(&node, dtype)),
            Some(_) => nodes.push(node),
            None => {
                for attr in node.attr.values_mut() {
                    match &mut attr.value {
                        Some(Value::Type(dtype)) => widen(dtype),
                        Some(Value::List(list)) => list.r#type.iter_mut().for_each(widen),
                        _ => {}
                    }
                }
                nodes.push(node);
            }
        }
    }
    graph.node = nodes;
    graph.encode_to_vec()
}

/// The same numbers in 64 bits.
pub fn tensor(tensor: &Tensor) -> Tensor {
    match is_narrow(tensor.dtype()) {
        true => Tensor::of(tensor.shape(), &tensor.to_f64().unwrap()).unwrap(),
        false => tensor.clone(),
    }
}
