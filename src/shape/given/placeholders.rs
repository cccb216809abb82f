//! The shapes of placeholders, and the graph with them.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};

use prost::Message;

use super::value::FedValue;
use super::{OUTPUT_SHAPES, SHAPE};
use crate::format::Model;
use crate::format::wire::{Fields, put_length_delimited_header};
use crate::graph::{Graph, NodeId, output_shapes};
use crate::proto::tensorflow::attr_value::Value;
use crate::proto::tensorflow::tensor_shape_proto::Dim;
use crate::proto::tensorflow::{AttrValue, NodeDef, TensorShapeProto};
use crate::shape::{Shapes, merge};

/// The shapes of some of a graph's placeholders.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PlaceholderShapes {
    pub(super) shapes: BTreeMap<NodeId, Vec<i64>>,
    /// What some of them are fed.
    pub(super) values: BTreeMap<NodeId, FedValue>,
    /// The nodes whose declared shapes do not count any more.
    pub(super) outdated: BTreeSet<NodeId>,
}

/// Which of the shapes that a file declares TensorFlow gets to see.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Declared {
    /// Those that are not out of date.
    Current,
    /// None.
    Nothing,
}

impl PlaceholderShapes {
    /// The placeholders and their dimensions, -1 for each unknown one.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = (NodeId, &[i64])> {
        self.shapes.iter().map(|(&node, shape)| (node, shape.as_slice()))
    }

    /// What a placeholder is fed, if that was given.
    pub fn value(&self, placeholder: NodeId) -> Option<&FedValue> {
        self.values.get(&placeholder)
    }

    /// Brings the shapes that a file declares in line with these: what is out of date is forgotten.
    pub fn apply(&self, graph: &Graph, declared: &mut Shapes) {
        for tensor in self.outdated.iter().flat_map(|&node| graph.outputs(node)) {
            declared.set(tensor, None);
        }
        for (node, given) in self.iter() {
            for tensor in graph.outputs(node) {
                declared.set(tensor, Some(given.into()));
            }
        }
    }

    /// The model's GraphDef with these shapes in its placeholders, constants for those of which it is known what they are fed, and with no
    /// other declared shapes than asked for.
    pub fn graph_def<'a>(&self, model: &'a Model, declared: Declared) -> Cow<'a, [u8]> {
        const NODE: u32 = 1;
        let whole = model.graph_def();
        if self.shapes.is_empty() && declared == Declared::Current {
            return Cow::Borrowed(whole);
        }
        let mut edited = Vec::with_capacity(whole.len() + 64 * self.shapes.len());
        let mut nodes = (0..).map(NodeId);
        for field in Fields::of(whole).flatten() {
            let node = field.bytes(NODE).zip(nodes.next());
            let Some((content, node)) = node else {
                edited.extend_from_slice(&whole[field.span]);
                continue;
            };
            let shape = self.shapes.get(&node);
            let forgets = declared == Declared::Nothing || self.outdated.contains(&node);
            if shape.is_none() && !forgets {
                edited.extend_from_slice(&whole[field.span]);
                continue;
            }
            let known = self.values.get(&node).and_then(|value| value.constant(&whole[content.clone()]).ok());
            let node = known.unwrap_or_else(|| with_shape(&whole[content], shape));
            put_length_delimited_header(NODE, node.len() as u64, &mut edited);
            edited.extend(node);
        }
        Cow::Owned(edited)
    }
}

/// All nodes whose declared shapes are out of date once the placeholders have these shapes.
pub(super) fn outdated(graph: &Graph, given: &BTreeMap<NodeId, Vec<i64>>) -> BTreeSet<NodeId> {
    let is_contradicted = |node: NodeId, given: &[i64]| {
        let declared = output_shapes(&graph.attrs(node)).and_then(|mut shapes| shapes.next()).flatten();
        declared.is_some_and(|declared| merge(&declared, given).is_none())
    };
    let mut next: Vec<NodeId> =
        given.iter().filter(|(node, given)| is_contradicted(**node, given)).map(|(&node, _)| node).collect();
    let mut reached = BTreeSet::new();
    while let Some(node) = next.pop() {
        if reached.insert(node) {
            let readers = graph.outputs(node).flat_map(|tensor| graph.uses(tensor));
            next.extend(readers.map(|reader| reader.node));
        }
    }
    reached
}

/// A NodeDef without declared shapes, and with another shape if it is a placeholder that is given one.
fn with_shape(node: &[u8], dimensions: Option<&Vec<i64>>) -> Vec<u8> {
    const ATTR: u32 = 5;
    let is_dropped = |attr: &[u8]| {
        let key = Fields::of(attr).flatten().filter_map(|field| field.bytes(1)).last();
        key.is_some_and(|key| match &attr[key] {
            key if key == SHAPE.as_bytes() => dimensions.is_some(),
            key => key == OUTPUT_SHAPES.as_bytes(),
        })
    };
    let mut edited = Vec::with_capacity(node.len() + 64);
    for field in Fields::of(node).flatten() {
        if !field.bytes(ATTR).is_some_and(|attr| is_dropped(&node[attr])) {
            edited.extend_from_slice(&node[field.span]);
        }
    }
    if let Some(dimensions) = dimensions {
        let dim = dimensions.iter().map(|&size| Dim { size, name: String::new() }).collect();
        let shape = Value::Shape(TensorShapeProto { dim, unknown_rank: false });
        let attr = BTreeMap::from([(SHAPE.to_string(), AttrValue { value: Some(shape) })]);
        // A message is the sum of its fields: this appends one attribute.
        edited.extend(NodeDef { attr, ..NodeDef::default() }.encode_to_vec());
    }
    edited
}
