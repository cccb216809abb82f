//! The rewritten graph has no cycle but its loops.
//!
//! TensorFlow refuses a graph with a cycle, or waits for ever. The one exception is a loop's own edge, from
//! `NextIteration` to `Merge`.
//!
//! A recomputed op counts as behind its original, though it reads nothing of it. Then who reads the copy is behind the
//! original as before, so that the order that is found here is one of the original graph too; all rules that go along it
//! rest on that. An original that waits for its own copy is refused by this, which no rewrite has a use for.

use super::graph::{Graph, NONE, NodeId};
use super::report::{Report, ViolationKind};

/// The nodes in an order in which each is behind all its inputs, loops' own edges aside; none if there is a cycle.
pub(super) fn order(graph: &Graph<'_>, report: &mut Report) -> Option<Vec<NodeId>> {
    let waits_for =
        |node: NodeId| graph.is_behind(node).filter(|&from| !graph.is_back_edge(from, node)).count();
    let mut missing: Vec<u32> = graph.ids().map(|node| waits_for(node) as u32).collect();
    let mut order = Vec::with_capacity(missing.len());
    order.extend(graph.ids().filter(|&node| missing[node as usize] == 0));
    let mut next = 0;
    while let Some(&node) = order.get(next) {
        next += 1;
        for to in graph.consumers(node).iter().copied().chain(graph.copies.of(node)) {
            if !graph.is_back_edge(node, to) {
                missing[to as usize] -= 1;
                if missing[to as usize] == 0 {
                    order.push(to);
                }
            }
        }
    }
    if order.len() == missing.len() {
        return Some(order);
    }
    let cycle = find_cycle(graph, &missing);
    report.add(ViolationKind::Cycle, || {
        let mut names: Vec<&str> = cycle.iter().take(8).map(|&node| graph.name(node)).collect();
        if cycle.len() > names.len() {
            names.push("…");
        }
        let first = cycle.first().map_or("", |&node| graph.name(node));
        let found = format!("{} nodes that wait for one another: {}", cycle.len(), names.join(" ← "));
        ([first], "no cycle".to_string(), found)
    });
    None
}

/// A cycle among the nodes that still miss an input.
fn find_cycle(graph: &Graph<'_>, missing: &[u32]) -> Vec<NodeId> {
    let stuck = |node: NodeId| missing[node as usize] > 0;
    let mut step_of = vec![NONE; missing.len()];
    let mut path = Vec::new();
    let mut node = graph.ids().find(|&node| stuck(node));
    // Each stuck node waits for a stuck one, so the walk comes back to itself.
    while let Some(at) = node {
        if step_of[at as usize] != NONE {
            return path.split_off(step_of[at as usize] as usize);
        }
        step_of[at as usize] = path.len() as u32;
        path.push(at);
        node = graph.is_behind(at).find(|&from| stuck(from) && !graph.is_back_edge(from, at));
    }
    path
}
