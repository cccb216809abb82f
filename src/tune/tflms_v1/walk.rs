//! The walk over the forward phase: which tensors leave, and for whom they come back.

use std::collections::{HashSet, VecDeque};

use super::parameters::{Parameters, TflmsV1Error};
use super::phases::Phases;
use super::trigger::TriggerSearch;
use crate::graph::{FrameId, NodeId, TensorId};
use crate::ops::OpId;
use crate::plan::tflms::gpu_numbers;
use crate::plan::{Analysis, TensorSwap, TensorUse, swappable};
use crate::tune::outsiders::Outsiders;

/// Ops whose outputs never leave: what only renames, makes or keeps values, and sums and products, which lead to no tensor that is
/// worth it.
const EXCLUDED: [&str; 10] =
    ["Add", "Assign", "Const", "Identity", "Mul", "Placeholder", "Reshape", "Shape", "ShapeN", "VariableV2"];

/// A graph as TFLMS 1 walks it. Phases depend on scopes alone, so they are found once for many parameters.
#[derive(Debug)]
pub(super) struct Walker<'a> {
    pub analysis: &'a Analysis<'a>,
    pub phases: Phases,
    /// For each node the number of its GPU, if it runs on one that is to be edited.
    pub gpus: Vec<Option<u32>>,
    /// Who outside of the step needs what.
    pub outsiders: Outsiders,
    excluded: HashSet<OpId>,
}

impl<'a> Walker<'a> {
    /// Looks at a graph.
    pub fn new(analysis: &'a Analysis<'a>, parameters: &Parameters) -> Result<Walker<'a>, TflmsV1Error> {
        let graph = analysis.graph;
        Ok(Walker {
            analysis,
            phases: Phases::of(graph, parameters)?,
            gpus: gpu_numbers(graph, &parameters.gpu_devices)?,
            outsiders: Outsiders::of(analysis, |_| true),
            excluded: EXCLUDED.iter().filter_map(|name| graph.registry().id(name)).collect(),
        })
    }

    /// What leaves, in the order of the walk.
    pub fn swaps(&self, parameters: &Parameters) -> Vec<TensorSwap> {
        let most = usize::try_from(parameters.n_tensors).unwrap_or(usize::MAX);
        let nodes = self.analysis.graph.len();
        let mut walk = Walk {
            walker: self,
            parameters,
            most,
            triggers: TriggerSearch::new(self, parameters),
            done: vec![false; nodes],
            passed: vec![false; nodes],
            swaps: Vec::new(),
        };
        walk.run();
        walk.swaps
    }
}

struct Walk<'a> {
    walker: &'a Walker<'a>,
    parameters: &'a Parameters,
    /// How many tensors may leave.
    most: usize,
    triggers: TriggerSearch<'a>,
    /// The ops whose outputs were looked at.
    done: Vec<bool>,
    /// The ops that a search for later readers went through.
    passed: Vec<bool>,
    swaps: Vec<TensorSwap>,
}

impl Walk<'_> {
    /// Breadth first over the forward ops.
    fn run(&mut self) {
        let Walker { analysis: Analysis { graph, .. }, phases, .. } = self.walker;
        let mut queued = vec![false; graph.len()];
        let mut queue = VecDeque::new();
        for &seed in &phases.seeds {
            queued[seed.index()] = true;
            queue.push_back(seed);
        }
        while let Some(node) = queue.pop_front() {
            self.swap_outputs(node);
            if self.is_full() {
                return;
            }
            for next in self.readers(node) {
                if !phases.is_backward(next) && !std::mem::replace(&mut queued[next.index()], true) {
                    queue.push_back(next);
                }
            }
        }
    }

    fn is_full(&self) -> bool {
        self.swaps.len() >= self.most
    }

    /// The ops that read one, in the order of the file.
    fn readers(&self, node: NodeId) -> Vec<NodeId> {
        let graph = self.walker.analysis.graph;
        let mut readers: Vec<NodeId> =
            graph.outputs(node).flat_map(|tensor| graph.uses(tensor)).map(|reader| reader.node).collect();
        readers.sort_unstable();
        readers.dedup();
        readers
    }

    /// Has the outputs of an op leave, for their readers in the backward phase.
    fn swap_outputs(&mut self, node: NodeId) {
        let Walker { analysis: Analysis { graph, .. }, phases, excluded, .. } = self.walker;
        if std::mem::replace(&mut self.done[node.index()], true)
            || excluded.contains(&graph.op_id(node))
            || !self.parameters.filters.admit_producer(graph, node)
        {
            return;
        }
        for tensor in graph.outputs(node) {
            if self.is_full() {
                return;
            }
            let (in_order, early): (Vec<NodeId>, Vec<NodeId>) =
                self.late_readers(tensor).into_iter().partition(|&reader| phases.order(reader).is_some());
            self.swap(tensor, in_order);
            if !phases.is_backward(node) {
                // A backward op that may run in the midst of the forward phase: what it makes waits for the others.
                for reader in early {
                    for source in self.later_sources(reader) {
                        self.swap_outputs(source);
                    }
                }
            }
        }
    }

    /// The readers of a tensor in the backward phase, and those of a far branch of the forward phase, that pass on what they make.
    fn late_readers(&self, tensor: TensorId) -> Vec<NodeId> {
        let Walker { analysis: Analysis { graph, .. }, phases, .. } = self.walker;
        let mut readers: Vec<NodeId> = graph.uses(tensor).iter().map(|reader| reader.node).collect();
        readers.sort_unstable();
        readers.dedup();
        // An op that is not in the order counts as before it.
        let place = |node: NodeId| phases.order(node).map_or(-1, i64::from);
        let forward = readers.iter().filter(|&&reader| !phases.is_backward(reader));
        let near = forward.map(|&reader| place(reader)).min().unwrap_or(0)
            + i64::from(self.parameters.branch_threshold);
        let is_far = |reader: NodeId| self.parameters.swap_branches && place(reader) > near;
        readers.retain(|&reader| {
            (phases.is_backward(reader) || is_far(reader))
                && graph.outputs(reader).any(|output| !graph.uses(output).is_empty())
        });
        readers
    }

    /// Has a tensor leave and come back for these readers, those of them for which it may.
    fn swap(&mut self, tensor: TensorId, mut readers: Vec<NodeId>) {
        let Walker { analysis, phases, gpus, .. } = self.walker;
        let Analysis { graph, step, flow, ref_variables, .. } = analysis;
        let producer = graph.producer(tensor);
        readers.retain(|&node| {
            gpus[node.index()].is_some()
                && gpus[node.index()] == gpus[producer.index()]
                && step.may_run(node)
                // In a loop a tensor would leave and come back in each iteration.
                && flow.frame(node) == FrameId::TOP
                && flow.output_frame(producer) == FrameId::TOP
                && self.parameters.filters.admit_consumer(graph, node)
        });
        if readers.is_empty() || swappable(graph, ref_variables, tensor).is_err() {
            return;
        }
        readers.sort_by_key(|&node| (phases.order(node), node));
        let (shared, alone): (Vec<NodeId>, Vec<NodeId>) = readers.into_iter().partition(|&node| {
            self.parameters.fuse_swapins && phases.order(node) > Some(0) && step.certainly_contains(node)
        });
        let groups = (!shared.is_empty())
            .then_some(shared)
            .into_iter()
            .chain(alone.into_iter().map(|node| vec![node]));
        let uses = groups
            .map(|consumers| TensorUse { triggers: self.triggers.find(tensor, &consumers), consumers })
            .collect();
        self.swaps.push(TensorSwap { tensor, waiting: Vec::new(), uses });
    }

    /// From an op that may run early the ops on whose outputs, over others of that kind, the backward phase waits; each is given once.
    fn later_sources(&mut self, from: NodeId) -> Vec<NodeId> {
        let phases = &self.walker.phases;
        let mut sources = Vec::new();
        let mut open = VecDeque::new();
        if !std::mem::replace(&mut self.passed[from.index()], true) {
            open.push_back(from);
        }
        while let Some(node) = open.pop_front() {
            let mut is_source = false;
            for reader in self.readers(node) {
                if phases.order(reader).is_some_and(|order| order > phases.backward_start) {
                    is_source = true;
                } else if !std::mem::replace(&mut self.passed[reader.index()], true) {
                    open.push_back(reader);
                }
            }
            if is_source {
                sources.push(node);
            }
        }
        sources
    }
}

#[cfg(test)]
mod tests {
    use super::EXCLUDED;
    use crate::ops::OpRegistry;

    #[test]
    fn all_ops_that_never_leave_are_known() {
        for name in EXCLUDED {
            assert!(OpRegistry::builtin().id(name).is_some(), "{name}");
        }
    }
}
