//! Ops that a step no longer runs with a plan, since all that read them read second runs.
//!
//! The runtime runs what is needed for what is fetched, and nothing else. If each reader of an op's outputs is given what a second run made,
//! the first run is for nobody: the op only runs later. What is there for such an op alone, a swap for instance, does not happen either.

use std::collections::HashSet;

use rustc_hash::{FxHashMap, FxHashSet};

use super::{Analysis, Draft, Substitute, without_tensors};
use crate::graph::{NodeId, TensorId};

/// The ops of the step that do not run any more.
pub fn idle_ops(analysis: &Analysis, draft: &Draft) -> HashSet<NodeId> {
    let mut idle = HashSet::new();
    if draft.recomputations.is_empty() {
        return idle;
    }
    let needs = Needs::of(analysis, draft);
    let mut open: Vec<NodeId> = draft.recomputations.iter().map(|again| again.op).collect();
    while let Some(node) = open.pop() {
        if !idle.contains(&node) && needs.is_idle(node, &idle) {
            idle.insert(node);
            // What it read, and what it waited for, may have been there for it alone.
            open.extend(analysis.graph.predecessors(node));
            open.extend(needs.before.get(&node).into_iter().flatten());
        }
    }
    idle
}

/// The plan without what it does for ops that do not run any more.
pub fn without_idle(analysis: &Analysis, draft: Draft) -> Draft {
    let idle = idle_ops(analysis, &draft);
    let mut less = draft;
    let mut is_changed = false;
    for swap_in in less.swaps.iter_mut().flat_map(|swap| &mut swap.uses) {
        let before = swap_in.consumers.len();
        swap_in.consumers.retain(|consumer| !idle.contains(consumer));
        is_changed |= swap_in.consumers.len() < before;
    }
    if is_changed { without_tensors(&less, |_| false) } else { less }
}

/// Who needs what the first time it is made.
struct Needs<'a> {
    analysis: &'a Analysis<'a>,
    /// Readers that are given what a second run made.
    made_again: FxHashSet<(TensorId, NodeId)>,
    /// What second runs read of first ones, by way of a swap or not.
    read_again: FxHashSet<TensorId>,
    /// Ops that second runs wait for, and what a step is run for.
    awaited: FxHashSet<NodeId>,
    /// The ops that the plan lets wait for an op, or for whom it lets that start a return.
    after: FxHashMap<NodeId, Vec<NodeId>>,
    /// The same the other way round.
    before: FxHashMap<NodeId, Vec<NodeId>>,
}

impl<'a> Needs<'a> {
    fn of(analysis: &'a Analysis<'a>, draft: &Draft) -> Needs<'a> {
        let Analysis { graph, step, .. } = analysis;
        let mut needs = Needs {
            analysis,
            made_again: FxHashSet::default(),
            read_again: FxHashSet::default(),
            awaited: FxHashSet::default(),
            after: FxHashMap::default(),
            before: FxHashMap::default(),
        };
        let mut read_by_second_runs: FxHashSet<(TensorId, u32)> = FxHashSet::default();
        for again in &draft.recomputations {
            let is_made_again = |input: TensorId| {
                let substitute = again.inputs.iter().find(|&&(read, _)| read == input);
                matches!(substitute, Some((_, Substitute::Recomputation(_))))
            };
            let reads = graph.data_inputs(again.op).iter().copied();
            needs.read_again.extend(reads.filter(|&input| !is_made_again(input)));
            for (tensor, consumers) in &again.outputs {
                needs.made_again.extend(consumers.iter().map(|&consumer| (*tensor, consumer)));
            }
            needs.awaited.extend(graph.control_inputs(again.op));
            needs.awaited.extend(&again.triggers);
            read_by_second_runs.extend(again.inputs.iter().filter_map(|&(read, from)| match from {
                Substitute::SwapIn(which) => Some((read, which)),
                Substitute::Recomputation(_) => None,
            }));
        }
        for swap in &draft.swaps {
            for (which, swap_in) in (0u32..).zip(&swap.uses) {
                if read_by_second_runs.contains(&(swap.tensor, which)) {
                    needs.awaited.extend(&swap_in.triggers);
                } else {
                    needs.add_orders(&swap_in.triggers, &swap_in.consumers);
                }
            }
        }
        draft.orders.iter().for_each(|order| needs.add_orders(&[order.before], &[order.after]));
        needs.awaited.extend((0..step.run_count()).flat_map(|run| step.targets(run)));
        needs
    }

    fn add_orders(&mut self, before: &[NodeId], after: &[NodeId]) {
        for &before in before {
            self.after.entry(before).or_default().extend(after);
            after.iter().for_each(|&after| self.before.entry(after).or_default().push(before));
        }
    }

    /// Whether nobody needs the first run of an op, if nobody runs those that are known to be idle.
    fn is_idle(&self, node: NodeId, idle: &HashSet<NodeId>) -> bool {
        let Analysis { graph, step, .. } = self.analysis;
        let runs = |reader: NodeId| step.may_run(reader) && !idle.contains(&reader);
        let is_read = |tensor: TensorId| {
            let by = |reader: NodeId| runs(reader) && !self.made_again.contains(&(tensor, reader));
            self.read_again.contains(&tensor) || graph.uses(tensor).iter().any(|read| by(read.node))
        };
        node.index() < graph.len()
            && !graph.op(node).has_effect()
            && !self.awaited.contains(&node)
            && !graph.control_outputs(node).iter().any(|&after| runs(after))
            && !self.after.get(&node).is_some_and(|all| all.iter().any(|&after| runs(after)))
            && !graph.outputs(node).any(is_read)
    }
}
