//! Graphs made up for tests and benchmarks.

use std::collections::BTreeMap;

use prost::Message;
use tf_lms::dtype::DataType;
use tf_lms::proto::tensorflow::attr_value::{ListValue, Value};
use tf_lms::proto::tensorflow::tensor_shape_proto::Dim;
use tf_lms::proto::tensorflow::{AttrValue, GraphDef, NodeDef, TensorShapeProto, VersionDef};

/// Builds a GraphDef node by node.
#[derive(Debug, Default)]
pub struct GraphBuilder {
    pub nodes: Vec<NodeDef>,
    pub device: String,
}

impl GraphBuilder {
    /// Adds a node and returns its name.
    pub fn add(&mut self, op: &str, inputs: &[&str], attrs: Vec<(&str, Value)>, shapes: &[&[i64]]) -> String {
        let name = format!("{}_{}", op.to_lowercase(), self.nodes.len());
        let mut attr: BTreeMap<String, AttrValue> = attrs
            .into_iter()
            .map(|(name, value)| (name.to_string(), AttrValue { value: Some(value) }))
            .collect();
        let shape = shapes.iter().map(|shape| shape_proto(shape)).collect();
        let shapes = Value::List(ListValue { shape, ..ListValue::default() });
        attr.insert("_output_shapes".to_string(), AttrValue { value: Some(shapes) });
        self.nodes.push(NodeDef {
            name: name.clone(),
            op: op.to_string(),
            input: inputs.iter().map(|input| input.to_string()).collect(),
            device: self.device.clone(),
            attr,
            ..NodeDef::default()
        });
        name
    }

    /// The graph as a file's content.
    pub fn encode(self) -> Vec<u8> {
        let versions = Some(VersionDef { producer: 2000, ..VersionDef::default() });
        GraphDef { node: self.nodes, versions, ..GraphDef::default() }.encode_to_vec()
    }
}

/// A shape as an attribute holds it.
pub fn shape_proto(dimensions: &[i64]) -> TensorShapeProto {
    let dim = dimensions.iter().map(|&size| Dim { size, ..Dim::default() }).collect();
    TensorShapeProto { dim, unknown_rank: false }
}

/// A type as an attribute holds it.
pub fn type_value(dtype: DataType) -> Value {
    Value::Type(dtype.number())
}

/// A chain of so many nodes of which every tenth also reads one that lies `skip` nodes back.
pub fn chain(nodes: usize, skip: usize) -> Vec<u8> {
    const SHAPE: &[i64] = &[64, 1024];
    let mut builder = GraphBuilder::default();
    let float = || vec![("T", type_value(DataType::FLOAT))];
    let shape = Value::Shape(shape_proto(SHAPE));
    let mut names = vec![builder.add(
        "Placeholder",
        &[],
        vec![("dtype", type_value(DataType::FLOAT)), ("shape", shape)],
        &[SHAPE],
    )];
    for node in 1..nodes {
        let last = names[node - 1].as_str();
        let name = if node % 10 == 0 && node > skip {
            builder.add("AddV2", &[last, &names[node - skip]], float(), &[SHAPE])
        } else {
            builder.add("Relu", &[last], float(), &[SHAPE])
        };
        names.push(name);
    }
    builder.encode()
}
