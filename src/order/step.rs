//! Which ops run in a training step.

use crate::graph::{Graph, NodeId};

/// The ops of one step. A file holds more: initializers, the saver, summaries, an evaluation.
///
/// An edge between two ops of which neither needed the other makes a run of the second also run the first. Within a step
/// that is harmless; from an initializer into the step it would undo the training.
#[derive(Debug)]
pub struct Step {
    members: Vec<bool>,
    exclusive: Vec<bool>,
    is_known: bool,
}

/// Where a graph takes in data.
const INPUT_OPS: [&str; 5] =
    ["Placeholder", "PlaceholderV2", "PlaceholderWithDefault", "IteratorGetNext", "QueueDequeueV2"];

impl Step {
    /// The ops that `targets` need. With no targets: those that the optimizer's updates need, and those that depend on
    /// an input of the graph, with all that they need.
    pub fn of(graph: &Graph, targets: &[NodeId]) -> Step {
        let is_update = |&node: &NodeId| {
            let op = graph.op(node).name();
            op.starts_with("Apply")
                || op.starts_with("ResourceApply")
                || op.starts_with("ResourceSparseApply")
        };
        let mut members = vec![false; graph.len()];
        let mut mark = |node: NodeId| members[node.index()] = true;
        if targets.is_empty() {
            let mut fed = vec![false; graph.len()];
            for &node in graph.topological() {
                let is_input = INPUT_OPS.contains(&graph.op(node).name());
                let reads_fed = |from: NodeId| from.index() >= fed.len() || fed[from.index()];
                fed[node.index()] = is_input || graph.predecessors(node).any(reads_fed);
            }
            graph.node_ids().filter(|node| fed[node.index()] || is_update(node)).for_each(&mut mark);
        } else {
            targets.iter().copied().for_each(&mut mark);
        }
        close_over_predecessors(graph, &mut members);
        let exclusive = needed_by_nothing_else(graph, &members);
        Step { members, exclusive, is_known: !targets.is_empty() }
    }

    /// Whether somebody said what a step is run for; else this is a guess from what graphs usually hold.
    pub fn is_known(&self) -> bool {
        self.is_known
    }

    /// Whether the op certainly runs in each step and nothing but the step needs it, so that it may wait for anything that
    /// the step runs. (What an initializer or an evaluation needs too would make these wait for the training.)
    pub fn certainly_owns(&self, node: NodeId) -> bool {
        self.is_known && self.exclusive[node.index()]
    }

    /// Whether the op runs in each step, and that is not a guess.
    pub fn certainly_contains(&self, node: NodeId) -> bool {
        self.is_known && self.contains(node)
    }

    /// Whether the op runs in each step.
    pub fn contains(&self, node: NodeId) -> bool {
        self.members[node.index()]
    }
}

fn close_over_predecessors(graph: &Graph, members: &mut [bool]) {
    let mut open: Vec<NodeId> = graph.node_ids().filter(|node| members[node.index()]).collect();
    while let Some(node) = open.pop() {
        for from in graph.predecessors(node) {
            if from.index() < members.len() && !members[from.index()] {
                members[from.index()] = true;
                open.push(from);
            }
        }
    }
}

/// The members of a step that no other node needs.
fn needed_by_nothing_else(graph: &Graph, members: &[bool]) -> Vec<bool> {
    let mut exclusive = members.to_vec();
    let mut open: Vec<NodeId> = graph.node_ids().filter(|node| !members[node.index()]).collect();
    while let Some(node) = open.pop() {
        for from in graph.predecessors(node) {
            if from.index() < members.len() && std::mem::replace(&mut exclusive[from.index()], false) {
                open.push(from);
            }
        }
    }
    exclusive
}
