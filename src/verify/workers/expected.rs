//! How a single op that was added is compared with what it must be: its op and attributes, its inputs, its device.

use std::collections::BTreeMap;

use super::super::graph::{NodeId, Tensor};
use super::super::names::number;
use super::super::report::ViolationKind;
use super::form::Former;
use crate::dtype::DataType;
use crate::proto::tensorflow::attr_value::Value;
use crate::proto::tensorflow::{AttrValue, TensorProto};

/// What a node must be.
pub(super) struct Expected {
    pub op: &'static str,
    /// The attributes; those that may have any value are left out of the comparison.
    pub attrs: Vec<(&'static str, Value)>,
    pub free: &'static [&'static str],
}

impl Former<'_, '_> {
    pub(super) fn wrong(&mut self, node: NodeId, kind: ViolationKind, expected: &str) {
        let graph = self.graph;
        self.report.add(kind, || {
            (
                [graph.name(node)],
                expected.to_string(),
                format!("a {} that is not that", graph.nodes.op(node as usize)),
            )
        });
    }

    /// A node by its name under a scope.
    pub(super) fn named(&self, name: &str) -> Option<NodeId> {
        self.graph.names.get(name).copied()
    }

    /// Whether the node is of this op and has just these attributes.
    pub(super) fn is(&mut self, node: NodeId, expected: &Expected) -> bool {
        let graph = self.graph;
        let nodes = graph.nodes;
        // The keys of name, op, inputs, device and attr.
        let plain = |field: &[u8]| matches!(field.first(), Some(0x0a | 0x12 | 0x22 | 0x2a));
        let attrs: BTreeMap<String, AttrValue> =
            nodes.decoded(node as usize).map(|decoded| decoded.attr).unwrap_or_default();
        let known = |name: &String| {
            name == "_output_shapes"
                || expected.free.contains(&name.as_str())
                || expected.attrs.iter().any(|(key, _)| key == name)
        };
        let same = nodes.op(node as usize) == expected.op
            && nodes.fields_but_inputs(node as usize).all(plain)
            && nodes.attrs(node as usize).count() == attrs.len()
            && attrs.keys().all(known)
            && expected
                .attrs
                .iter()
                .all(|(key, value)| attrs.get(*key).and_then(|attr| attr.value.as_ref()) == Some(value));
        if !same {
            self.wrong(
                node,
                ViolationKind::AddedOp,
                &format!("a {} with the attributes that belong to it", expected.op),
            );
        }
        same
    }

    pub(super) fn on_host(&mut self, node: NodeId) {
        let device = self.graph.nodes.device(node as usize);
        if device.strip_prefix("/device:CPU:").and_then(number).is_none() {
            self.wrong(node, ViolationKind::AddedDevice, "a device /device:CPU:…");
        }
    }

    pub(super) fn first_output(node: NodeId) -> Tensor {
        Tensor { node, output: 0 }
    }

    pub(super) fn no_controls(&mut self, node: NodeId) {
        if !self.graph.control(node).is_empty() {
            self.wrong(node, ViolationKind::AddedInputs, "no control inputs");
        }
    }

    pub(super) fn no_inputs(&mut self, node: NodeId) {
        if self.graph.sources(node).next().is_some() {
            self.wrong(node, ViolationKind::AddedInputs, "no inputs");
        }
    }

    /// The numbers of a constant of whole numbers.
    pub(super) fn constant(&mut self, node: NodeId) -> Option<Vec<i64>> {
        let op = self.graph.nodes.op(node as usize);
        let value = self.graph.nodes.attr(node as usize, "value").and_then(|value| value.value);
        let numbers = match value {
            Some(Value::Tensor(tensor)) if op == "Const" => numbers(&tensor),
            _ => None,
        };
        if numbers.is_none() {
            self.wrong(node, ViolationKind::AddedOp, "a constant of whole numbers");
        }
        self.no_inputs(node);
        self.on_host(node);
        numbers
    }

    /// The data inputs are just these tensors.
    pub(super) fn reads(&mut self, node: NodeId, expected: &[Option<Tensor>]) -> bool {
        let read: Vec<Option<Tensor>> = self.graph.data(node).iter().copied().map(Some).collect();
        let same = read == expected && expected.iter().all(Option::is_some);
        if !same {
            self.wrong(node, ViolationKind::AddedInputs, "the inputs that belong to it");
        }
        same
    }

    pub(super) fn output(&self, name: &str) -> Option<Tensor> {
        self.named(name).map(Self::first_output)
    }

    pub(super) fn attr_type(&self, node: NodeId) -> Option<DataType> {
        match self.graph.nodes.attr(node as usize, "T")?.value {
            Some(Value::Type(number)) => Some(DataType::new(number)),
            _ => None,
        }
    }
}

/// The whole numbers of a tensor, if it has some.
pub(super) fn numbers(tensor: &TensorProto) -> Option<Vec<i64>> {
    let shape = tensor.tensor_shape.as_ref()?;
    let numbers: Vec<i64> = match DataType::new(tensor.dtype) {
        DataType::INT32 => tensor.int_val.iter().map(|&value| i64::from(value)).collect(),
        DataType::INT64 => tensor.int64_val.clone(),
        _ => return None,
    };
    let plain = tensor.tensor_content.is_empty() && !shape.unknown_rank && shape.dim.len() < 2;
    let count = shape.dim.first().map_or(1, |dim| dim.size);
    (plain && count == numbers.len() as i64).then_some(numbers)
}

pub(super) fn kind(dtype: DataType) -> Value {
    Value::Type(dtype.number())
}

pub(super) fn text(text: &str) -> Value {
    Value::S(text.as_bytes().to_vec())
}
