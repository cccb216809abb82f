//! What a graph learns.

use std::collections::{BTreeSet, HashMap};

use super::Shapes;
use crate::graph::{Graph, NodeId};
use crate::ops::{Attr, AttrLookup};

/// The bytes of the variables that the graph learns: those named, or, if none is, those that an optimizer updates.
///
/// A variable of unknown size counts nothing.
pub fn learning_parameter_bytes(graph: &Graph, shapes: &Shapes, trainable: &[String]) -> u64 {
    let variables: BTreeSet<NodeId> = if trainable.is_empty() {
        graph.node_ids().filter_map(|node| updated_variable(graph, node)).collect()
    } else {
        let by_name: HashMap<&str, NodeId> = graph.node_ids().map(|node| (graph.name(node), node)).collect();
        trainable.iter().filter_map(|name| by_name.get(name.as_str()).copied()).collect()
    };
    variables.into_iter().filter_map(|node| variable_bytes(graph, shapes, node)).fold(0, u64::saturating_add)
}

/// The variable that an optimizer's op updates: its first input.
fn updated_variable(graph: &Graph, node: NodeId) -> Option<NodeId> {
    let op = graph.op(node).name();
    if !["Apply", "ResourceApply", "SparseApply", "ResourceSparseApply"]
        .iter()
        .any(|family| op.starts_with(family))
    {
        return None;
    }
    let variable = graph.producer(*graph.data_inputs(node).first()?);
    (variable.index() < graph.len()).then_some(variable)
}

/// The bytes of a variable's value. The handle of a resource variable has its type and shape as attributes.
fn variable_bytes(graph: &Graph, shapes: &Shapes, node: NodeId) -> Option<u64> {
    let attrs = graph.attrs(node);
    let Some(Attr::Type(dtype)) = attrs.attr("dtype") else { return None };
    let shape = match attrs.shape("shape") {
        Some(shape) => shape,
        None => shapes.get(graph.outputs(node).next()?)?.to_vec(),
    };
    let mut dimensions = shape.iter().map(|&size| u64::try_from(size).ok());
    dimensions.try_fold(dtype.size_in_bytes()?, |product, size| product.checked_mul(size?))
}
