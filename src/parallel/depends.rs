//! What depends on a worker's data, and so may differ between workers.

use crate::graph::{Condition, Graph, NodeId, TensorId};
use crate::ops::Fact;
use crate::plan::Analysis;

use super::updates;

/// Marks of nodes, by their numbers.
pub(super) type Marks = Vec<bool>;

/// The ops at which workers begin to differ: what is fed with data, reads it, or draws random numbers.
///
/// A placeholder for one number is a setting, such as a learning rate: it must be fed the same on all workers.
pub(super) fn sources(analysis: &Analysis) -> Marks {
    let graph = analysis.graph;
    graph.node_ids().map(|node| is_source(analysis, node)).collect()
}

fn is_source(analysis: &Analysis, node: NodeId) -> bool {
    let graph = analysis.graph;
    let op = graph.op(node);
    if op.facts().has(Fact::Fed) {
        let output = graph.outputs(node).next();
        return output.is_none_or(|output| analysis.shapes.rank(output) != Some(0));
    }
    op.is_stateful() && !SAME_ON_ALL.contains(&op.name()) && !updates::may_write(graph, node)
}

/// Stateful ops that give the same on all workers if they read the same: variables, which all workers begin with the same values of,
/// what reads them, and tables.
const SAME_ON_ALL: [&str; 18] = [
    "AutoReloadVariable",
    "Empty",
    "GuaranteeConst",
    "HashTable",
    "HashTableV2",
    "IsVariableInitialized",
    "LookupTableFindV2",
    "LookupTableSizeV2",
    "NoOp",
    "ReadVariableOp",
    "ResourceGather",
    "ResourceGatherNd",
    "TemporaryVariable",
    "VarHandleOp",
    "VarIsInitializedOp",
    "Variable",
    "VariableShape",
    "VariableV2",
];

/// Marks all that depends on `sources`, where what `is_cut` says is taken for the same on all workers.
pub(super) fn spread(analysis: &Analysis, sources: &Marks, is_cut: impl Fn(TensorId) -> bool) -> Marks {
    let graph = analysis.graph;
    let mut marks = sources.clone();
    loop {
        let mut changed = false;
        for &node in graph.topological() {
            if node.index() < graph.len()
                && !marks[node.index()]
                && reads_marked(analysis, &marks, &is_cut, node)
            {
                marks[node.index()] = true;
                changed = true;
            }
        }
        // Only a loop's way back needs another round.
        let has_loops = || graph.node_ids().any(|node| graph.op(node).name() == "NextIteration");
        if !changed || !has_loops() {
            return marks;
        }
    }
}

fn reads_marked(
    analysis: &Analysis,
    marks: &Marks,
    is_cut: &impl Fn(TensorId) -> bool,
    node: NodeId,
) -> bool {
    let graph = analysis.graph;
    let marked = |node: NodeId| node.index() >= marks.len() || marks[node.index()];
    let shape_only = graph.op(node).facts().has(Fact::ReadsNoValues);
    let is_known = |tensor: TensorId| {
        analysis.shapes.get(tensor).is_some_and(|shape| shape.iter().all(|&size| size >= 0))
    };
    let reads = graph.data_inputs(node).iter().any(|&tensor| {
        marked(graph.producer(tensor)) && !is_cut(tensor) && !(shape_only && is_known(tensor))
    });
    // Who waits for an op of a branch does not run if that branch is not taken.
    let waits = || {
        graph.control_inputs(node).iter().any(|&from| {
            marked(from) && from.index() < graph.len() && analysis.flow.condition(from) != Condition::ALWAYS
        })
    };
    reads || waits()
}

/// Whether a tensor depends on what is marked.
pub(super) fn is_marked(graph: &Graph, marks: &Marks, tensor: TensorId) -> bool {
    marks.get(graph.producer(tensor).index()).copied().unwrap_or(true)
}
