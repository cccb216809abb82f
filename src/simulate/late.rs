//! What ops wait for through constants.
//!
//! No step runs a constant, but one can have control inputs, and who reads it then waits for these. TensorFlow makes such
//! constants for gradients: they keep an op that reads nothing else from running, and taking memory, before its time.

use std::collections::HashMap;

use crate::graph::{ControlFlow, FrameId, Graph, NodeId, Rows};

/// What leaves a loop comes behind its body, which is gone through once: without the edges back, nothing in the graph would say so.
fn ends_of_loops(
    graph: &Graph,
    flow: &ControlFlow,
    is_run: impl Fn(NodeId) -> bool,
) -> Vec<(NodeId, NodeId)> {
    let mut loops: HashMap<FrameId, (Vec<NodeId>, Vec<NodeId>)> = HashMap::new();
    for node in graph.node_ids().filter(|&node| flow.frame(node) != FrameId::TOP && is_run(node)) {
        let (ends, exits) = match graph.op(node).name() {
            "NextIteration" | "RefNextIteration" | "StackPush" | "StackPushV2" => (Some(node), None),
            "Exit" | "RefExit" => (None, Some(node)),
            _ => continue,
        };
        let of_loop = loops.entry(flow.frame(node)).or_default();
        of_loop.0.extend(ends);
        of_loop.1.extend(exits);
    }
    let pairs = loops.into_values().flat_map(|(ends, exits)| {
        exits.into_iter().flat_map(move |exit| ends.clone().into_iter().map(move |end| (end, exit)))
    });
    pairs.collect()
}

/// How many ops a constant waits for; of more, which are seldom, the others count for nothing, so that edges stay few.
const MOST_WAITS: usize = 32;

/// Edges between the ops of a step that lead through constants.
#[derive(Debug, Clone)]
pub(super) struct Late {
    before: Rows<NodeId>,
    after: Rows<NodeId>,
    /// For each constant that waits for ops of the step, these.
    behind: HashMap<NodeId, Vec<NodeId>>,
}

impl Late {
    /// Finds them; `constant` says of each node whether it is constant, `runs` whether a step runs it.
    pub fn of(graph: &Graph, flow: &ControlFlow, constant: &[bool], runs: impl Fn(NodeId) -> bool) -> Late {
        let is_there = |node: NodeId| node.index() < graph.len();
        let is_constant = |node: NodeId| is_there(node) && constant[node.index()];
        let is_run = |node: NodeId| is_there(node) && !constant[node.index()] && runs(node);
        let mut behind: HashMap<NodeId, Vec<NodeId>> = HashMap::new();
        let mut edges: Vec<(NodeId, NodeId)> = Vec::new();
        for &node in graph.topological() {
            let through = graph.predecessors(node).filter_map(|from| behind.get(&from)).flatten();
            if is_constant(node) {
                let own = graph.control_inputs(node).iter().filter(|&&from| is_run(from));
                let mut all: Vec<NodeId> = through.chain(own).copied().collect();
                all.sort_unstable();
                all.dedup();
                all.truncate(MOST_WAITS);
                if !all.is_empty() {
                    behind.insert(node, all);
                }
            } else if is_run(node) {
                edges.extend(through.map(|&before| (before, node)));
            }
        }
        edges.extend(ends_of_loops(graph, flow, is_run));
        edges.sort_unstable();
        edges.dedup();
        let rows = |entry: fn(&(NodeId, NodeId)) -> (usize, NodeId)| {
            Rows::group(graph.len(), || edges.iter().map(entry), NodeId(0))
        };
        let (before, after) = (rows(|edge| (edge.1.index(), edge.0)), rows(|edge| (edge.0.index(), edge.1)));
        Late { before, after, behind }
    }

    /// The ops that an op waits for in this way.
    pub fn before(&self, node: NodeId) -> &[NodeId] {
        self.before.row(node.index())
    }

    /// The ops that a constant waits for, and so whoever is made to wait for that.
    pub fn behind(&self, constant: NodeId) -> &[NodeId] {
        self.behind.get(&constant).map_or(&[], Vec::as_slice)
    }

    /// The ops that wait for it.
    pub fn after(&self, node: NodeId) -> &[NodeId] {
        self.after.row(node.index())
    }
}
