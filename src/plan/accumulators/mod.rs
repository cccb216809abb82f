//! Accumulators: the stacks and lists in which a loop keeps what its gradient reads.
//!
//! An element is there from the iteration that adds it to the one that takes it off, so a long loop keeps many at a time. No swap helps: an
//! edge leads from one op to another of the same iteration, and who adds an element is in another loop than who takes it off. But
//! the ops that keep elements compute nothing, and what they give is the same to the bit wherever they run. On the host they keep the
//! elements there: TensorFlow copies each out when it is added, and back when it is taken off.

#[cfg(test)]
mod tests;

use std::collections::HashSet;

use super::Analysis;
use crate::dtype::DataType;
use crate::graph::{FrameId, Graph, NodeId, TensorId, Use};
use crate::ops::{Fact, Flow, OpInfo};
use crate::order::{Place, Placement};

/// A stack or a list that a loop adds to or takes off.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Accumulator {
    /// The op that begins it.
    pub first: NodeId,
    /// The ops that go to the host together, in the order of the file: those that begin it, add to it and take off, and those that lead
    /// its handle in and out of loops.
    pub ops: Vec<NodeId>,
    /// What ops on a GPU add in each iteration, or part into its elements.
    pub added: Vec<TensorId>,
    /// What is taken off it: elements, or several that were joined.
    pub taken: Vec<TensorId>,
}

impl Accumulator {
    /// Whether an op is one of those that go to the host.
    pub fn has(&self, node: NodeId) -> bool {
        self.ops.binary_search(&node).is_ok()
    }
}

/// Whether all that an op does is to keep the elements of an accumulator, or to hand them, apart or joined, or its handle on.
pub fn keeps_elements(op: &OpInfo) -> bool {
    let leads = matches!(
        op.facts().flow(),
        Some(Flow::Enter | Flow::Exit | Flow::Switch | Flow::Merge | Flow::NextIteration)
    );
    leads || op.facts().has(Fact::KeepsElements)
}

/// All accumulators of a step's loops that are on a GPU and can be on the host, in the order of the file.
///
/// One stays if an op works on it that computes something, as `AddN` adds up the elements of lists, or if it is a part of another one.
pub fn accumulators(analysis: &Analysis, placement: &Placement) -> Vec<Accumulator> {
    let graph = analysis.graph;
    let begins = |&node: &NodeId| analysis.step.contains(node) && begins_accumulator(graph, node);
    let finder = Finder { analysis, placement };
    graph.node_ids().filter(begins).filter_map(|node| finder.accumulator(node)).collect()
}

/// Whether an op begins a stack or a list.
pub fn begins_accumulator(graph: &Graph, node: NodeId) -> bool {
    graph.op(node).facts().has(Fact::KeepsElements)
        && !graph.data_inputs(node).iter().any(|&input| is_handle(graph, input))
}

/// Whether a tensor names an accumulator, or is one.
fn is_handle(graph: &Graph, tensor: TensorId) -> bool {
    matches!(graph.output_type(tensor).dtype, DataType::RESOURCE | DataType::VARIANT)
}

struct Finder<'a> {
    analysis: &'a Analysis<'a>,
    placement: &'a Placement,
}

impl Finder<'_> {
    /// The accumulator that an op begins; none if it cannot go.
    fn accumulator(&self, first: NodeId) -> Option<Accumulator> {
        let Analysis { graph, flow, .. } = self.analysis;
        let mut found = Accumulator { first, ops: vec![first], added: Vec::new(), taken: Vec::new() };
        let mut seen = HashSet::from([first]);
        let mut next = 0;
        while let Some(&node) = found.ops.get(next) {
            next += 1;
            let facts = graph.op(node).facts();
            let parted = facts.has(Fact::MakesList).then_some(0);
            if let Some(slot) = facts.adds().or(parted) {
                let value = *graph.data_inputs(node).get(slot)?;
                let is_on_gpu = matches!(self.placement.output(value), Place::Gpu(_));
                let is_in_loop = flow.frame(node) != FrameId::TOP;
                if !is_on_gpu || !(is_in_loop || parted.is_some()) {
                    return None;
                }
                found.added.push(value);
            }
            for tensor in graph.outputs(node) {
                if is_handle(graph, tensor) {
                    for &reader in graph.uses(tensor) {
                        if !self.goes_along(reader) {
                            return None;
                        }
                        if seen.insert(reader.node) {
                            found.ops.push(reader.node);
                        }
                    }
                } else if facts.has(Fact::TakesOff) {
                    if matches!(self.placement.output(tensor), Place::Gpu(_)) {
                        found.taken.push(tensor);
                    }
                } else if self.is_read_on_gpu(tensor) {
                    // What was added is handed on too, or which of its inputs a `Merge` took.
                    return None;
                }
            }
        }
        let is_whole = |&node: &NodeId| {
            let mut handles = graph.data_inputs(node).iter().filter(|&&input| is_handle(graph, input));
            handles.all(|&input| seen.contains(&graph.producer(input)))
        };
        if found.added.is_empty() || !found.ops.iter().all(is_whole) {
            return None;
        }
        found.ops.retain(|&node| !graph.device(node).is_cpu());
        found.ops.sort_unstable();
        Some(found)
    }

    /// Whether a reader of a handle goes to the host with it.
    fn goes_along(&self, reader: Use) -> bool {
        let op = self.analysis.graph.op(reader.node);
        let hands_on = keeps_elements(op) || op.facts().has(Fact::HandsValueOn);
        hands_on && (reader.slot == 0 || op.facts().flow() == Some(Flow::Merge))
    }

    fn is_read_on_gpu(&self, tensor: TensorId) -> bool {
        let wanted = |reader: &Use| self.placement.inputs(reader.node).get(reader.slot as usize);
        self.analysis.graph.uses(tensor).iter().any(|reader| matches!(wanted(reader), Some(Place::Gpu(_))))
    }
}
