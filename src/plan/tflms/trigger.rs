//! What starts a swap-in.

use super::ThresholdPlanner;
use crate::graph::{NodeId, TensorId};
use crate::ops::Flow;
use crate::plan::Analysis;

/// How many levels are searched for a trigger.
const LEVELS_SEARCHED: u32 = 10;

/// How many ops a swap-in waits for at most.
///
/// TFLMSv2 waits for all of a consumer's other inputs. Of an `IdentityN` over a thousand gradients that would be a million
/// edges; those of the highest levels are the last to run.
const MOST_TRIGGERS: usize = 4;

/// Finds the triggers of swap-ins. Keeps what would otherwise be allocated for each.
pub(super) struct TriggerSearch<'a> {
    planner: &'a ThresholdPlanner<'a>,
    /// The walk in which a node was last seen.
    seen: Vec<u32>,
    walk: u32,
    /// Which search this is; it may take several walks.
    search: u32,
    /// How many of the consumers that runs without the step need too need a node, and the search that counted them.
    needed: Vec<(u32, u32)>,
    /// How many such consumers there are.
    outsiders: u32,
    open: Vec<NodeId>,
}

impl<'a> TriggerSearch<'a> {
    pub fn new(planner: &'a ThresholdPlanner<'a>) -> TriggerSearch<'a> {
        let nodes = planner.analysis.graph.len();
        TriggerSearch {
            planner,
            seen: vec![0; nodes],
            walk: 0,
            search: 0,
            needed: vec![(0, 0); nodes],
            outsiders: 0,
            open: Vec::new(),
        }
    }

    /// The ops that must have run before a tensor starts to come back for these consumers.
    pub fn triggers(&mut self, tensor: TensorId, consumers: &[NodeId]) -> Vec<NodeId> {
        let planner = self.planner;
        let Some(&first) = consumers.first() else { return Vec::new() };
        self.search += 1;
        self.find_needed_by_outsiders(tensor, &consumers[1..]);
        if !planner.parameters.sync_mode.swap_in
            && let Some(trigger) = self.ahead(tensor, first, consumers)
        {
            return vec![trigger];
        }
        let found = self.just_before(tensor, first, consumers);
        if found.is_empty() {
            self.anywhere_before(tensor, first, consumers).into_iter().collect()
        } else {
            found
        }
    }

    /// Counts, for each op above the tensor, how many of the other consumers need it of those that are needed not only by
    /// the step. A trigger must be what all of these need anyway: an evaluation must not run ops of the training.
    fn find_needed_by_outsiders(&mut self, tensor: TensorId, others: &[NodeId]) {
        let Analysis { graph, levels, step, .. } = self.planner.analysis;
        let lowest = self.lowest(tensor);
        self.outsiders = 0;
        for &outsider in others.iter().filter(|&&consumer| !step.certainly_owns(consumer)) {
            let (before, after) = ((self.search, self.outsiders), (self.search, self.outsiders + 1));
            self.outsiders += 1;
            self.open.clear();
            self.open.push(outsider);
            while let Some(node) = self.open.pop() {
                for from in graph.predecessors(node) {
                    if from.index() >= graph.len() || levels.level(from) < lowest {
                        continue;
                    }
                    // Only what all before this one need is of interest.
                    let count = &mut self.needed[from.index()];
                    if *count == before || before.1 == 0 && count.0 != self.search {
                        *count = after;
                        self.open.push(from);
                    }
                }
            }
        }
    }

    fn is_needed_by_outsiders(&self, node: NodeId) -> bool {
        self.outsiders == 0 || self.needed[node.index()] == (self.search, self.outsiders)
    }

    /// The op from which the first consumer can be reached and that lies enough levels ahead of it: on the highest
    /// such level, of several there the first in the file.
    fn ahead(&mut self, tensor: TensorId, first: NodeId, consumers: &[NodeId]) -> Option<NodeId> {
        let levels = &self.planner.analysis.levels;
        let highest =
            levels.level(first).checked_sub(self.planner.parameters.swapin_ahead)?.checked_sub(1)?;
        let lowest = (highest + 1).saturating_sub(LEVELS_SEARCHED).max(self.lowest(tensor));
        self.highest_ancestor(tensor, first, consumers, lowest, highest)
    }

    /// As [`Self::ahead`], with no limit but the producer: better early than at once.
    fn anywhere_before(&mut self, tensor: TensorId, first: NodeId, consumers: &[NodeId]) -> Option<NodeId> {
        let highest = self.planner.analysis.levels.level(first).checked_sub(1)?;
        self.highest_ancestor(tensor, first, consumers, self.lowest(tensor), highest)
    }

    /// The lowest level that a trigger may have: one above the producer's.
    fn lowest(&self, tensor: TensorId) -> u32 {
        let Analysis { graph, levels, .. } = self.planner.analysis;
        levels.level(graph.producer(tensor)) + 1
    }

    /// Searches back from an op over data edges.
    fn highest_ancestor(
        &mut self,
        tensor: TensorId,
        first: NodeId,
        consumers: &[NodeId],
        lowest: u32,
        highest: u32,
    ) -> Option<NodeId> {
        let Analysis { graph, levels, .. } = self.planner.analysis;
        if highest < lowest {
            return None;
        }
        self.walk += 1;
        self.open.clear();
        self.open.push(first);
        let mut best: Option<(u32, NodeId)> = None;
        while let Some(node) = self.open.pop() {
            for &input in graph.data_inputs(node) {
                let from = graph.producer(input);
                if from.index() >= graph.len()
                    || self.seen[from.index()] == self.walk
                    || levels.level(from) < lowest.max(best.map_or(0, |(level, _)| level))
                    || graph.is_back_edge(from, node)
                {
                    continue;
                }
                self.seen[from.index()] = self.walk;
                self.open.push(from);
                let level = levels.level(from);
                let better = best.is_none_or(|(most, node)| level > most || level == most && from < node);
                if level <= highest && better && self.may_trigger(from, tensor, consumers) {
                    best = Some((level, from));
                }
            }
        }
        best.map(|(_, node)| node)
    }

    /// Whether an op may start the return of a tensor: on a GPU, and alive whenever the tensor is wanted.
    fn may_trigger(&self, node: NodeId, tensor: TensorId, consumers: &[NodeId]) -> bool {
        self.planner.is_active_on_gpu(node)
            && self.is_needed_by_outsiders(node)
            && is_alive_for(self.planner.analysis, node, tensor, consumers)
    }

    /// The ops that the first consumer waits for anyway: its other inputs, or else what runs one level before it.
    fn just_before(&self, tensor: TensorId, first: NodeId, consumers: &[NodeId]) -> Vec<NodeId> {
        let Analysis { graph, levels, step, .. } = self.planner.analysis;
        let producer = graph.producer(tensor);
        let on_gpu = |node: &NodeId| {
            node.index() < graph.len() && *node != producer && self.planner.gpus[node.index()].is_some()
        };
        let others = graph.data_inputs(first).iter().map(|&input| graph.producer(input));
        let mut found: Vec<NodeId> = others
            .filter(on_gpu)
            .filter(|&node| !graph.is_back_edge(node, first))
            .filter(|&node| {
                self.is_needed_by_outsiders(node)
                    && is_alive_for(self.planner.analysis, node, tensor, consumers)
            })
            .collect();
        if found.is_empty()
            && let Some(level) = levels.level(first).checked_sub(1)
        {
            // Ops that the consumer does not need may run before it only where they run in any case.
            let in_step = consumers.iter().all(|&consumer| step.certainly_owns(consumer));
            let level = if in_step { levels.nodes(level) } else { &[] };
            let free = level.iter().copied().filter(|&node| self.planner.may_hold_up_others(node));
            found = free.filter(|&node| self.may_trigger(node, tensor, consumers)).collect();
        }
        found.sort_by_key(|&node| (std::cmp::Reverse(levels.level(node)), node));
        found.dedup();
        found.truncate(MOST_TRIGGERS);
        found
    }
}

/// Whether an op runs, and is alive, whenever one of the consumers of a tensor is, and brings no effect that this has not.
pub(crate) fn is_alive_for(
    analysis: &Analysis,
    node: NodeId,
    tensor: TensorId,
    consumers: &[NodeId],
) -> bool {
    let Analysis { graph, flow, .. } = analysis;
    let producer = graph.producer(tensor);
    flow.output_frame(node) == flow.output_frame(producer)
        && !flow.enters_loop(node)
        && consumers.iter().all(|&consumer| {
            // A Merge is alive with any one of its inputs: what matters to it is when this one is.
            let wanted = match graph.flow(consumer) {
                Some(Flow::Merge) => flow.tensor_condition(graph, tensor),
                _ => flow.condition(consumer),
            };
            flow.implies(wanted, flow.condition(node)) && analysis.may_wait(consumer, node)
        })
}
