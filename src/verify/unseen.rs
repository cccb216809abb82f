//! What nobody looks at by itself, of what is outside of the step.
//!
//! - What is within a loop: TensorFlow fetches nothing that has several values, and to run an op there that has no effect shows nothing. Who
//!   reads it behind the loop is looked at.
//! - What nobody reads and what asks for shapes only (zeros that stand for the gradient of an output that nobody differentiates), as there is
//!   nothing to learn from it that the graph does not say.
//! - What nobody reads and what is left of the counter of a gradient's loop of version 1: that goes down by one as long as it is one at least,
//!   so it is 0. Or of the flow of a TensorArray, a number that only stands for the order of what is done with that.

use super::frames::{self, Frames};
use super::graph::{Graph, NodeId, Tensor};
use super::op_facts::Flow;
use crate::dtype::DataType;
use crate::proto::tensorflow::attr_value::Value;

/// For each node whether it is an original one within a loop, outside of the step and without effect.
pub(super) fn within_loops(graph: &Graph<'_>, frames: &Frames, step: Option<&[bool]>) -> Vec<bool> {
    let is_within = |node: NodeId| {
        step.is_some_and(|step| !step[node as usize])
            && graph.is_original(node)
            && frames.of_outputs(node) != frames::ROOT
            && !graph.op(node).has_effect
    };
    graph.ids().map(is_within).collect()
}

/// Whether nobody reads a node, and running it tells nothing.
pub(super) fn is_idle(graph: &Graph<'_>, node: NodeId) -> bool {
    let tells_nothing = || !graph.op(node).reads_values || gives_zero(graph, node) || gives_flow(graph, node);
    graph.consumers(node).is_empty() && tells_nothing()
}

/// Whether a node is the way out of a counter that goes down by one as long as it is one at least.
fn gives_zero(graph: &Graph<'_>, exit: NodeId) -> bool {
    counts_to_zero(graph, exit).unwrap_or(false)
}

fn counts_to_zero(graph: &Graph<'_>, exit: NodeId) -> Option<bool> {
    let read = |node: NodeId, slot: usize| graph.origins(node).get(slot).copied();
    let op = |node: NodeId| graph.nodes.op(node as usize);
    if graph.flow(exit) != Flow::Exit {
        return Some(false);
    }
    let done = read(exit, 0)?;
    let (counter, goes_on) = (read(done.node, 0)?, read(done.node, 1)?);
    let condition = read(goes_on.node, 0)?;
    let one = read(condition.node, 1)?;
    let mut carried = graph.origins(counter.node).iter().copied();
    let next = carried.find(|tensor| graph.flow(tensor.node) == Flow::NextIteration)?;
    let difference = read(next.node, 0)?;
    let is_form = graph.flow(done.node) == Flow::Switch
        && done.output == 0
        && graph.flow(counter.node) == Flow::Merge
        && counter.output == 0
        && graph.flow(goes_on.node) == Flow::LoopCond
        && op(condition.node) == "GreaterEqual"
        && read(condition.node, 0)? == counter
        && op(difference.node) == "Sub"
        && read(difference.node, 0)? == Tensor { node: done.node, output: 1 }
        && read(difference.node, 1)? == one
        && graph.flow(one.node) == Flow::Enter;
    Some(is_form && is_one(graph, read(one.node, 0)?.node))
}

/// Whether a node is the constant 1 of `int32`.
fn is_one(graph: &Graph<'_>, node: NodeId) -> bool {
    let value = graph.nodes.attr(node as usize, "value").and_then(|value| value.value);
    let Some(Value::Tensor(tensor)) = value else { return false };
    let is_scalar = tensor.tensor_shape.is_some_and(|shape| shape.dim.is_empty() && !shape.unknown_rank);
    graph.nodes.op(node as usize) == "Const"
        && DataType::new(tensor.dtype) == DataType::INT32
        && is_scalar
        && tensor.tensor_content.is_empty()
        && tensor.int_val == [1]
}

/// How many ops are followed back to where a flow comes from.
const MOST_FOLLOWED: usize = 64;

/// Whether a node is the way out of the flow of a TensorArray.
fn gives_flow(graph: &Graph<'_>, exit: NodeId) -> bool {
    let first = |node: NodeId| {
        let comes_around = |tensor: &&Tensor| graph.flow(tensor.node) == Flow::NextIteration;
        graph.origins(node).iter().find(|tensor| !comes_around(tensor)).copied()
    };
    let mut tensor = first(exit).filter(|_| graph.flow(exit) == Flow::Exit);
    for _ in 0..MOST_FOLLOWED {
        let Some(Tensor { node, output }) = tensor else { return false };
        match (graph.nodes.op(node as usize), graph.flow(node)) {
            ("TensorArrayV3" | "TensorArrayGradV3", _) => return output == 1,
            ("TensorArrayWriteV3" | "TensorArrayScatterV3" | "TensorArraySplitV3", _) => return true,
            ("Identity", _) | (_, Flow::Switch | Flow::Merge | Flow::Enter | Flow::Exit) => {
                tensor = first(node)
            }
            _ => return false,
        }
    }
    false
}
