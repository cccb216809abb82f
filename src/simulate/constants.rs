//! What TensorFlow computes before the first step.

use crate::dtype::DataType;
use crate::graph::NodeId;
use crate::ops::{Fact, OpRegistry};
use crate::order::{Place, Placement};
use crate::plan::Analysis;

/// TensorFlow computes an op with constant inputs beforehand if its result has fewer bytes, and keeps it as a constant
/// (`ConstantFoldingOptions::max_constant_size_in_bytes`).
pub(super) const LARGEST_FOLDED_BYTES: u64 = 10 << 20;

/// Which ops have the same outputs in each step, so that no step runs them: constants, and what depends on nothing else. The runtime sees to
/// that, for each device on its own: what reads a constant that has to be copied to it first, as those of `int32` from the host's memory,
/// runs in each step. So does what a step reads and no constant can stand for (see `is_irreplaceable`), and so does an op that asks for a
/// shape, though the graph may know it: the runtime's folder is given no shapes. (Grappler's `constant_folding` has them, where it is on.)
pub(super) fn constant_ops(analysis: &Analysis, placement: &Placement) -> Vec<bool> {
    let mut constant = vec![false; analysis.graph.len()];
    for &node in analysis.graph.topological() {
        constant[node.index()] = is_constant(analysis, placement, node, &constant);
    }
    let graph = analysis.graph;
    for &node in graph.topological().iter().rev() {
        if constant[node.index()] && is_irreplaceable(analysis, placement, node) {
            let mut readers = graph.outputs(node).flat_map(|output| graph.uses(output));
            let is_read = readers.any(|of| analysis.step.contains(of.node) && !constant[of.node.index()]);
            constant[node.index()] = !is_read;
        }
    }
    constant
}

/// Whether TensorFlow puts no constant in the place of what an op makes: of a GPU's constants only those of `int32` are in the host's memory,
/// and these always are. (`ReplaceTensorWithConstant`, rules 2 and 3.)
fn is_irreplaceable(analysis: &Analysis, placement: &Placement, node: NodeId) -> bool {
    let graph = analysis.graph;
    placement.op(node) != Place::Host
        && graph.op(node).name() != "Const"
        && graph.outputs(node).any(|tensor| {
            let is_on_host = placement.output(tensor) == Place::Host;
            is_on_host != (graph.output_type(tensor).dtype == DataType::INT32)
        })
}

fn is_constant(analysis: &Analysis, placement: &Placement, node: NodeId, constant: &[bool]) -> bool {
    let Analysis { graph, sizes, .. } = analysis;
    let op = graph.op(node);
    if op.name() == "Const" {
        return true;
    }
    let inputs = graph.data_inputs(node);
    if op.is_stateful()
        || inputs.is_empty()
        || op.facts().has(Fact::NotFolded)
        || OpRegistry::builtin().id(op.name()).is_none()
    {
        return false;
    }
    let depends_on_nothing = inputs.iter().zip(placement.inputs(node)).all(|(&input, &wanted)| {
        let producer = graph.producer(input);
        let is_copied = placement.output(input) == Place::Host && wanted != Place::Host;
        producer.index() < graph.len() && constant[producer.index()] && !is_copied
    });
    let is_small = |tensor| sizes.bytes(tensor).is_some_and(|bytes| bytes < LARGEST_FOLDED_BYTES);
    depends_on_nothing && graph.outputs(node).all(is_small)
}
