//! What TensorFlow computes before the first step.

use crate::dtype::DataType;
use crate::graph::{FrameId, NodeId};
use crate::ops::{Fact, Flow, OpRegistry};
use crate::order::{Place, Placement};
use crate::plan::Analysis;
use crate::shape::Shapes;

/// TensorFlow computes an op with constant inputs beforehand if its result has fewer bytes, and keeps it as a constant
/// (`ConstantFoldingOptions::max_constant_size_in_bytes`).
pub(super) const LARGEST_FOLDED_BYTES: u64 = 10 << 20;

/// Which ops have the same outputs in each step, so that no step runs them: constants, what depends on nothing else, and the
/// shapes of tensors whose shapes are known. The runtime sees to that, for each device on its own: what reads a constant that has to be
/// copied to it first, as those of `int32` from the host's memory, runs in each step. So does what a step reads and no constant can stand
/// for (see `is_irreplaceable`).
pub(super) fn constant_ops(analysis: &Analysis, placement: &Placement) -> Vec<bool> {
    let mut constant = vec![false; analysis.graph.len()];
    // A size that is given for a run is not known before it: what the file leaves open stays open here.
    let declared = Shapes::declared(analysis.graph);
    for &node in analysis.graph.topological() {
        constant[node.index()] = is_constant(analysis, placement, &declared, node, &constant);
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

/// Whether a node is in a branch within a loop. What was seen of such is as if it were computed each time; why was not found out.
fn is_in_branch_of_loop(analysis: &Analysis, node: NodeId) -> bool {
    let Analysis { graph, flow, .. } = analysis;
    let says_whether_loops_go_on = |tensor| {
        let producer = graph.producer(tensor);
        producer.index() < graph.len() && graph.flow(producer) == Some(Flow::LoopCond)
    };
    flow.frame(node) != FrameId::TOP
        && flow.branches_of(flow.condition(node)).any(|(predicate, _)| !says_whether_loops_go_on(predicate))
}

fn is_constant(
    analysis: &Analysis,
    placement: &Placement,
    declared: &Shapes,
    node: NodeId,
    constant: &[bool],
) -> bool {
    let Analysis { graph, sizes, shapes, .. } = analysis;
    let op = graph.op(node);
    if op.name() == "Const" {
        return true;
    }
    let inputs = graph.data_inputs(node);
    if op.is_stateful()
        || inputs.is_empty()
        || op.facts().has(Fact::NotFolded)
        || is_in_branch_of_loop(analysis, node)
        || OpRegistry::builtin().id(op.name()).is_none()
    {
        return false;
    }
    let is_known = |&tensor| {
        let shape = declared.get(tensor).or_else(|| shapes.get(tensor));
        shape.is_some_and(|shape| shape.iter().all(|&size| size >= 0))
    };
    let depends_on_nothing = match op.name() {
        "Shape" | "ShapeN" | "Size" => inputs.iter().all(is_known),
        "Rank" => inputs.iter().all(|&input| shapes.rank(input).is_some()),
        _ => inputs.iter().zip(placement.inputs(node)).all(|(&input, &wanted)| {
            let producer = graph.producer(input);
            let is_copied = placement.output(input) == Place::Host && wanted != Place::Host;
            producer.index() < graph.len() && constant[producer.index()] && !is_copied
        }),
    };
    let is_small = |tensor| sizes.bytes(tensor).is_some_and(|bytes| bytes < LARGEST_FOLDED_BYTES);
    depends_on_nothing && graph.outputs(node).all(is_small)
}
