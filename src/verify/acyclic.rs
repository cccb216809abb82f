//! The rewritten graph has no cycle but its loops.
//!
//! TensorFlow refuses a graph with a cycle, or waits for ever. The one exception is a loop's own edge, from
//! `NextIteration` to `Merge`.
//!
//! A loop is done only once it has gone around. So what it gives out counts as behind what it carries around: what waits for an `Exit` and
//! is waited for by what the loop begins with would wait for ever, though no edges but the loop's own lead from the one to the other.
//!
//! A recomputed op counts as behind its original, though it reads nothing of it. Then who reads the copy is behind the
//! original as before, so that the order that is found here is one of the original graph too; all rules that go along it
//! rest on that. An original that waits for its own copy is refused by this, which no rewrite has a use for.

use std::collections::{HashMap, HashSet};

use super::graph::{Graph, NONE, NodeId};
use super::op_facts::Flow;
use super::report::{Report, ViolationKind};

/// The nodes in an order in which each is behind all its inputs, loops' own edges aside; none if there is a cycle.
pub(super) fn order(graph: &Graph<'_>, report: &mut Report) -> Option<Vec<NodeId>> {
    let loops = Loops::of(graph);
    let mut given_out: HashMap<NodeId, Vec<NodeId>> = HashMap::new();
    for exit in graph.ids() {
        loops.carried_around(exit).for_each(|next| given_out.entry(next).or_default().push(exit));
    }
    let waits_for = |node: NodeId| loops.behind(node).count();
    let mut missing: Vec<u32> = graph.ids().map(|node| waits_for(node) as u32).collect();
    let mut order = Vec::with_capacity(missing.len());
    order.extend(graph.ids().filter(|&node| missing[node as usize] == 0));
    let mut next = 0;
    while let Some(&node) = order.get(next) {
        next += 1;
        let done = given_out.get(&node).into_iter().flatten().copied();
        for to in graph.consumers(node).iter().copied().chain(graph.copies.of(node)).chain(done) {
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
    let cycle = find_cycle(&loops, &missing);
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
fn find_cycle(loops: &Loops<'_>, missing: &[u32]) -> Vec<NodeId> {
    let stuck = |node: NodeId| missing[node as usize] > 0;
    let mut step_of = vec![NONE; missing.len()];
    let mut path = Vec::new();
    let mut node = loops.graph.ids().find(|&node| stuck(node));
    // Each stuck node waits for a stuck one, so the walk comes back to itself.
    while let Some(at) = node {
        if step_of[at as usize] != NONE {
            return path.split_off(step_of[at as usize] as usize);
        }
        step_of[at as usize] = path.len() as u32;
        path.push(at);
        node = loops.behind(at).find(|&from| stuck(from));
    }
    path
}

/// A graph's loops.
struct Loops<'g> {
    graph: &'g Graph<'g>,
    /// For each `LoopCond` what is carried around that decides about going on.
    decided_by: HashMap<NodeId, Vec<NodeId>>,
}

impl<'g> Loops<'g> {
    fn of(graph: &'g Graph<'g>) -> Loops<'g> {
        let decisions = graph.ids().filter(|&node| graph.flow(node) == Flow::LoopCond);
        let decided_by = decisions.map(|decision| {
            let (mut open, mut seen, mut carried) = (vec![decision], HashSet::new(), Vec::new());
            while let Some(node) = open.pop() {
                if graph.is_loop_header(node) {
                    carried.extend(nexts(graph, node));
                } else if graph.flow(node) != Flow::Enter && seen.insert(node) {
                    open.extend(graph.is_behind(node));
                }
            }
            (decision, carried)
        });
        Loops { graph, decided_by: decided_by.collect() }
    }

    /// What a node is behind, loops' own edges aside.
    fn behind(&self, node: NodeId) -> impl Iterator<Item = NodeId> {
        let graph = self.graph;
        let read = graph.is_behind(node).filter(move |&from| !graph.is_back_edge(from, node));
        read.chain(self.carried_around(node))
    }

    /// What a loop carries around for one of its `Exit` ops: what that gives out, and what decides when it does; nothing of other ops.
    fn carried_around(&self, exit: NodeId) -> impl Iterator<Item = NodeId> {
        let graph = self.graph;
        let switch =
            graph.data(exit).first().map(|tensor| tensor.node).filter(|_| graph.flow(exit) == Flow::Exit);
        let read =
            switch.map(|switch| graph.data(switch)).unwrap_or_default().iter().map(|tensor| tensor.node);
        read.flat_map(|from| {
            let decides = self.decided_by.get(&from).into_iter().flatten().copied();
            let own = (graph.flow(from) == Flow::Merge).then(|| nexts(graph, from)).into_iter().flatten();
            own.chain(decides)
        })
    }
}

/// What comes around to a loop's `Merge`.
fn nexts(graph: &Graph<'_>, merge: NodeId) -> impl Iterator<Item = NodeId> {
    graph.data(merge).iter().map(|tensor| tensor.node).filter(|&from| graph.flow(from) == Flow::NextIteration)
}
