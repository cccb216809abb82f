//! Small graphs, node by node.

use tf_lms::proto::tensorflow::attr_value::{ListValue, Value};
use tf_lms::proto::tensorflow::tensor_shape_proto::Dim;
use tf_lms::proto::tensorflow::{AttrValue, GraphDef, NodeDef, TensorShapeProto, VersionDef};

/// A shape, with -1 for what is unknown.
pub fn shape(dimensions: &[i64]) -> TensorShapeProto {
    let dim = dimensions.iter().map(|&size| Dim { size, name: String::new() }).collect();
    TensorShapeProto { dim, unknown_rank: false }
}

/// A data type attribute.
pub fn attr_type(number: i32) -> Value {
    Value::Type(number)
}

/// The nodes of a graph.
#[derive(Debug, Default)]
pub struct Nodes(Vec<NodeDef>);

impl Nodes {
    /// Appends a node.
    pub fn add(&mut self, name: &str, op: &str, input: &[&str], attrs: &[(&str, Value)]) -> &mut Nodes {
        let attr = |(key, value): &(&str, Value)| (key.to_string(), AttrValue { value: Some(value.clone()) });
        self.0.push(NodeDef {
            name: name.to_string(),
            op: op.to_string(),
            input: input.iter().map(ToString::to_string).collect(),
            attr: attrs.iter().map(attr).collect(),
            ..NodeDef::default()
        });
        self
    }

    /// Appends a placeholder of single precision.
    pub fn placeholder(&mut self, name: &str, dimensions: &[i64]) -> &mut Nodes {
        self.add(
            name,
            "Placeholder",
            &[],
            &[("dtype", attr_type(1)), ("shape", Value::Shape(shape(dimensions)))],
        )
    }

    /// Declares the shape of a node's only output.
    pub fn declares(&mut self, name: &str, dimensions: &[i64]) -> &mut Nodes {
        let list = ListValue { shape: vec![shape(dimensions)], ..ListValue::default() };
        let value = AttrValue { value: Some(Value::List(list)) };
        for node in self.0.iter_mut().filter(|node| node.name == name) {
            node.attr.insert("_output_shapes".to_string(), value.clone());
        }
        self
    }

    /// The graph.
    pub fn graph(&self) -> GraphDef {
        // Graphs without a version are read as those of TensorFlow's first years.
        let versions = Some(VersionDef { producer: 1000, ..VersionDef::default() });
        GraphDef { node: self.0.clone(), versions, ..GraphDef::default() }
    }
}
