//! Edges that keep the runtime to the schedule.

use std::collections::VecDeque;

use super::holds::Holds;
use crate::graph::{Condition, NodeId};
use crate::order::Place;
use crate::plan::{NodeOrder, OrderReason};
use crate::tune::planned::timeline::{Course, Position};

/// Of how many of the ops before it an op may wait for one: the last that it may wait for at all.
const LASTS: usize = 8;

/// How far back it is looked whether an op needs another anyway.
const DEPTH: u32 = 3;

/// The edges that let the ops that matter run one after the other on each GPU.
pub(in crate::tune::planned) fn orders(course: &Course, holds: &Holds) -> Vec<NodeOrder> {
    let analysis = course.outline.analysis();
    let program = course.program;
    // For each GPU, and within each branch.
    let branches: Vec<Condition> = holds.branches().collect();
    let mut lasts: Vec<VecDeque<(Position, NodeId)>> =
        vec![VecDeque::with_capacity(LASTS); course.rooms.len()];
    let mut lasts_within = vec![lasts.clone(); branches.len()];
    let mut orders = Vec::new();
    for (place, &op) in course.order.numbered() {
        let (Some(node), Place::Gpu(gpu)) = (course.node_at(place), program.place(op)) else { continue };
        if !holds.matters(place) {
            continue;
        }
        let gpu_number = usize::from(gpu);
        let condition = analysis.flow.condition(node);
        let branch = branches.iter().position(|&branch| analysis.flow.implies(condition, branch));
        let last = branch.map_or(&lasts[gpu_number], |branch| &lasts_within[branch][gpu_number]);
        let mut allowed = last.iter().filter(|&&(at, before)| {
            holds.may_wait(course, node, at) && analysis.flow.may_control(before, node)
        });
        if let Some(&(_, before)) = allowed.next()
            && !needs(course, node, before, DEPTH)
        {
            orders.push(NodeOrder { before, after: node, reason: OrderReason::Budget });
        }
        if holds.may_hold(gpu, place) {
            remember(&mut lasts[gpu_number], (place, node));
        }
        for (branch, last) in lasts_within.iter_mut().enumerate() {
            if holds.may_hold_within(branch, gpu, place) {
                remember(&mut last[gpu_number], (place, node));
            }
        }
    }
    orders
}

/// The last comes first.
fn remember(lasts: &mut VecDeque<(Position, NodeId)>, last: (Position, NodeId)) {
    lasts.truncate(LASTS - 1);
    lasts.push_front(last);
}

/// Whether an op needs another within so many steps.
fn needs(course: &Course, node: NodeId, before: NodeId, depth: u32) -> bool {
    let graph = course.outline.analysis().graph;
    let earliest = course.place_of_node(before);
    let may_need = |from| match (course.place_of_node(from), earliest) {
        (Some(at), Some(earliest)) => at > earliest,
        _ => false,
    };
    graph
        .predecessors(node)
        .any(|from| from == before || depth > 0 && may_need(from) && needs(course, from, before, depth - 1))
}
