//! What starts a swap-in.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use super::parameters::Parameters;
use super::walk::Walker;
use crate::graph::{NodeId, TensorId};
use crate::plan::Analysis;
use crate::plan::tflms::is_alive_for;

/// How many ops are looked at for one swap-in. A trigger is near, as a rule; without an end, a graph without one would take a time
/// that grows with its square.
const MOST_LOOKED_AT: usize = 4096;

/// Finds the triggers of swap-ins. Keeps what would otherwise be allocated for each.
pub(super) struct TriggerSearch<'a> {
    walker: &'a Walker<'a>,
    parameters: &'a Parameters,
    /// The search in which a node was last seen.
    seen: Vec<u32>,
    search: u32,
}

/// A tensor and those for whom it comes back at once.
#[derive(Clone, Copy)]
struct Return<'c> {
    tensor: TensorId,
    producer: NodeId,
    /// In the order of the phases.
    consumers: &'c [NodeId],
    first: NodeId,
    /// The orders of the producer, -1 if it has none, and of the first consumer.
    orders: (i64, i64),
}

impl<'a> TriggerSearch<'a> {
    pub fn new(walker: &'a Walker<'a>, parameters: &'a Parameters) -> TriggerSearch<'a> {
        TriggerSearch { walker, parameters, seen: vec![0; walker.analysis.graph.len()], search: 0 }
    }

    /// The op that must have run before a tensor starts to come back for these consumers, in the order of the phases.
    pub fn find(&mut self, tensor: TensorId, consumers: &[NodeId]) -> Vec<NodeId> {
        let Walker { analysis, phases, .. } = self.walker;
        let Some(&first) = consumers.first() else { return Vec::new() };
        let producer = analysis.graph.producer(tensor);
        let order = |node| phases.order(node).map_or(-1, i64::from);
        let wanted = Return { tensor, producer, consumers, first, orders: (order(producer), order(first)) };
        let (from, to) = wanted.orders;
        let ub = i64::from(self.parameters.ub);
        let lb = i64::from(self.parameters.lb);
        let lb = if to - lb <= from { 1 } else { lb };
        let by_chain = !self.parameters.direct_order
            && !phases.is_backward(producer)
            && to - lb >= i64::from(phases.backward_start);
        let found = by_chain.then(|| self.over_forward_ops(wanted, lb, ub)).flatten();
        let found = found.or_else(|| self.ahead(wanted, to - lb - 1, to - ub + 1));
        // Better late than at once.
        found.or_else(|| self.ahead(wanted, to - 1, from + 1)).into_iter().collect()
    }

    /// A backward op that reads what comes some ops after the producer in the forward phase: of those that are `lb` ops away, or a
    /// few more, the last before the consumer.
    fn over_forward_ops(&mut self, wanted: Return, lb: i64, ub: i64) -> Option<NodeId> {
        let Walker { analysis: Analysis { graph, .. }, phases, .. } = self.walker;
        self.search += 1;
        let mut nearest = vec![wanted.producer];
        let (mut away, mut looked_at) = (0, 0);
        while !nearest.is_empty() && away < ub && looked_at < MOST_LOOKED_AT {
            let mut best: Option<(u32, Reverse<NodeId>)> = None;
            let mut next = Vec::new();
            for &node in &nearest {
                looked_at += 1;
                for reader in
                    graph.outputs(node).flat_map(|tensor| graph.uses(tensor)).map(|reader| reader.node)
                {
                    if self.seen[reader.index()] == self.search {
                        continue;
                    }
                    if !phases.is_backward(reader) {
                        self.seen[reader.index()] = self.search;
                        next.push(reader);
                    } else if away >= lb
                        && let Some(order) = phases.order(reader)
                        && best.is_none_or(|best| (order, Reverse(reader)) > best)
                        && (wanted.orders.0 + 1..wanted.orders.1).contains(&i64::from(order))
                        && self.may_trigger(reader, wanted)
                        && self.is_needed(reader, wanted.consumers)
                    {
                        best = Some((order, Reverse(reader)));
                    }
                }
            }
            if let Some((_, Reverse(trigger))) = best {
                return Some(trigger);
            }
            away += 1;
            nearest = next;
        }
        None
    }

    /// The op from which the first consumer can be reached over data edges and that comes last among those with an order of at most
    /// `highest` and at least `lowest`, and after the producer; of several the first in the file.
    fn ahead(&mut self, wanted: Return, highest: i64, lowest: i64) -> Option<NodeId> {
        let Walker { analysis: Analysis { graph, .. }, phases, .. } = self.walker;
        let lowest = lowest.max(wanted.orders.0 + 1);
        if highest < lowest {
            return None;
        }
        self.search += 1;
        // Not all ops have an order, but all that lie between two with one have a level, and levels are as orders.
        let mut open: BinaryHeap<(u32, Reverse<NodeId>)> = BinaryHeap::new();
        open.extend(phases.level(wanted.first).map(|level| (level, Reverse(wanted.first))));
        for _ in 0..MOST_LOOKED_AT {
            let (_, Reverse(node)) = open.pop()?;
            if let Some(order) = phases.order(node).map(i64::from) {
                if order < lowest {
                    return None;
                }
                if order <= highest
                    && self.may_trigger(node, wanted)
                    && self.is_needed(node, &wanted.consumers[1..])
                {
                    return Some(node);
                }
            }
            for &input in graph.data_inputs(node) {
                let from = graph.producer(input);
                if from.index() >= graph.len() || graph.is_back_edge(from, node) {
                    continue;
                }
                if std::mem::replace(&mut self.seen[from.index()], self.search) != self.search {
                    open.extend(phases.level(from).map(|level| (level, Reverse(from))));
                }
            }
        }
        None
    }

    /// Whether an op may start the return: on a GPU, behind the producer and before each consumer in the graph's levels, so that no
    /// cycle comes of it, and alive whenever one of these is.
    fn may_trigger(&self, node: NodeId, wanted: Return) -> bool {
        let Walker { analysis, gpus, .. } = self.walker;
        let level = analysis.levels.level(node);
        gpus[node.index()].is_some()
            && level > analysis.levels.level(wanted.producer)
            && wanted.consumers.iter().all(|&consumer| level < analysis.levels.level(consumer))
            && is_alive_for(analysis, node, wanted.tensor, wanted.consumers)
    }

    /// Whether these consumers may wait for an op that they do not need: the step runs all of them, and who else needs one of them
    /// needs the op too.
    fn is_needed(&self, node: NodeId, consumers: &[NodeId]) -> bool {
        let Walker { analysis: Analysis { step, .. }, outsiders, .. } = self.walker;
        let may_wait = |&consumer: &NodeId| {
            step.certainly_contains(consumer)
                && step.certainly_contains(node)
                && outsiders.all_need(consumer, node)
        };
        consumers.iter().all(may_wait)
    }
}
