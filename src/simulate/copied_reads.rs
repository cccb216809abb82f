//! Variables whose value is copied each time that it is read.
//!
//! What touches single rows of a variable (a lookup in an embedding, a sparse update) turns the variable to TensorFlow's copy-on-read mode, in
//! which it stays (`EnsureSparseVariableAccess`): `ReadVariableOp` then makes a tensor of its own. A language model whose last layer
//! reads the table of its embeddings has a second table in memory for it.

use rustc_hash::FxHashSet as HashSet;

use crate::graph::{Graph, NodeId, ResourceVariables};

/// The beginnings of the names of ops that touch rows.
const TOUCHING_ROWS: [&str; 4] =
    ["ResourceGather", "ResourceScatter", "ResourceSparseApply", "ResourceStridedSliceAssign"];

/// The reads that copy, of the ops that run.
pub(super) fn copied_reads(
    graph: &Graph,
    variables: &ResourceVariables,
    order: &[NodeId],
) -> HashSet<NodeId> {
    let touched = touched_variables(graph, variables, order);
    let copies = |&node: &NodeId| {
        let read = read_variable(graph, variables, node);
        read.is_some_and(|variable| touched.contains(&variable))
    };
    if touched.is_empty() { HashSet::default() } else { order.iter().copied().filter(copies).collect() }
}

/// The variables of which the ops that run touch single rows: of an optimizer's op its slots as well.
pub(super) fn touched_variables(
    graph: &Graph,
    variables: &ResourceVariables,
    order: &[NodeId],
) -> HashSet<NodeId> {
    let touches_rows =
        |node: &&NodeId| TOUCHING_ROWS.iter().any(|name| graph.op(**node).name().starts_with(name));
    let inputs = order.iter().filter(touches_rows).flat_map(|&node| graph.data_inputs(node));
    inputs.filter_map(|&handle| variables.variable(handle)).collect()
}

/// The variable whose value an op reads.
pub(super) fn read_variable(graph: &Graph, variables: &ResourceVariables, node: NodeId) -> Option<NodeId> {
    let handle = (graph.op(node).name() == "ReadVariableOp").then(|| graph.data_inputs(node).first());
    variables.variable(*handle.flatten()?)
}
