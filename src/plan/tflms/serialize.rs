//! Levels whose ops run one after the other.

use super::ThresholdPlanner;
use crate::graph::NodeId;
use crate::plan::{NodeOrder, OrderReason};

/// The edges that serialize the chosen levels.
pub(super) fn orders(planner: &ThresholdPlanner) -> Vec<NodeOrder> {
    let levels = &planner.analysis.levels;
    let mut chosen = vec![false; levels.count()];
    for slice in &planner.parameters.serialization {
        for level in slice.levels(levels.count()) {
            chosen[level as usize] = true;
        }
    }
    if let Some(limit) = planner.parameters.serialization_by_size {
        for (level, chosen) in chosen.iter_mut().enumerate() {
            let bytes = ops_of(planner, level as u32).map(|node| planner.analysis.op_bytes(node));
            *chosen |= bytes.fold(0, u64::saturating_add) > limit;
        }
    }
    let mut orders = Vec::new();
    for level in (0..levels.count()).filter(|&level| chosen[level]) {
        for (before, after) in chain(planner, level as u32) {
            orders.push(NodeOrder { before, after, reason: OrderReason::Serialization });
        }
    }
    orders
}

/// The ops of a level that can be made to wait for one another.
fn ops_of<'a>(planner: &'a ThresholdPlanner, level: u32) -> impl Iterator<Item = NodeId> + use<'a> {
    let nodes = planner.analysis.levels.nodes(level).iter().copied();
    nodes.filter(|&node| planner.may_hold_up_others(node))
}

/// Each op of a level with the last one before it on the same GPU that may control it.
fn chain(planner: &ThresholdPlanner, level: u32) -> Vec<(NodeId, NodeId)> {
    let flow = &planner.analysis.flow;
    // Ops of one frame and condition form a chain; the last of each is enough to look at.
    let mut lasts: Vec<NodeId> = Vec::new();
    let mut edges = Vec::new();
    for node in ops_of(planner, level) {
        let same_gpu = |last: &NodeId| planner.gpus[last.index()] == planner.gpus[node.index()];
        let may_wait =
            |&&last: &&NodeId| flow.may_control(last, node) && planner.analysis.may_wait(node, last);
        let before = lasts.iter().filter(|last| same_gpu(last)).rfind(may_wait);
        // What is needed without the step too must not wait for the step; others may wait for it.
        if let Some(&before) = before
            && planner.analysis.step.certainly_owns(node)
        {
            edges.push((before, node));
        }
        let alike = |last: &NodeId| {
            same_gpu(last)
                && flow.frame(*last) == flow.frame(node)
                && flow.condition(*last) == flow.condition(node)
        };
        lasts.retain(|last| !alike(last));
        lasts.push(node);
    }
    edges
}
