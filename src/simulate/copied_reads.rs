//! Variables whose value is copied each time that it is read.
//!
//! What touches single rows of a variable (a lookup in an embedding, a sparse update) turns the variable to TensorFlow's copy-on-read mode, in
//! which it stays (`EnsureSparseVariableAccess`): `ReadVariableOp` then makes a tensor of its own. A language model whose last layer
//! reads the table of its embeddings has a second table in memory for it.

use rustc_hash::FxHashSet as HashSet;

use crate::dtype::DataType;
use crate::graph::{Graph, NodeId, TensorId};

/// The beginnings of the names of ops that touch rows.
const TOUCHING_ROWS: [&str; 4] =
    ["ResourceGather", "ResourceScatter", "ResourceSparseApply", "ResourceStridedSliceAssign"];

/// The reads that copy, of the ops that run.
pub(super) fn copied_reads(graph: &Graph, order: &[NodeId]) -> HashSet<NodeId> {
    let variable = |node: NodeId| graph.data_inputs(node).first().map(|&handle| graph.producer(handle));
    let touched = touched_variables(graph, order);
    if touched.is_empty() {
        return HashSet::default();
    }
    let copies = |node: &NodeId| {
        graph.op(*node).name() == "ReadVariableOp"
            && variable(*node).is_some_and(|variable| touched.contains(&variable))
    };
    order.iter().copied().filter(copies).collect()
}

/// The variables of which the ops that run touch single rows.
pub(super) fn touched_variables(graph: &Graph, order: &[NodeId]) -> HashSet<NodeId> {
    let touches_rows =
        |node: &NodeId| TOUCHING_ROWS.iter().any(|name| graph.op(*node).name().starts_with(name));
    order.iter().copied().filter(touches_rows).flat_map(|node| variables(graph, node)).collect()
}

/// The variables that an op is given: an optimizer's has its slots as well.
fn variables(graph: &Graph, node: NodeId) -> impl Iterator<Item = NodeId> {
    let is_handle = |input: &&TensorId| graph.output_type(**input).dtype == DataType::RESOURCE;
    graph.data_inputs(node).iter().filter(is_handle).map(|&input| graph.producer(input))
}
