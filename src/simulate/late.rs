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

/// How many ops a constant waits for in any case: the last ones. It waits for all as long as that makes no more edges than there are nodes:
/// `with tf.control_dependencies(updates):` has each constant of an optimizer wait for each update.
const SOME_WAITS: usize = 32;

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
        let mut position = vec![0u32; graph.len()];
        let mut made = 0;
        for (place, &node) in (0..).zip(graph.topological()) {
            position[node.index()] = place;
            let through = graph.predecessors(node).filter_map(|from| behind.get(&from)).flatten();
            if is_constant(node) {
                let own = graph.control_inputs(node).iter().filter(|&&from| is_run(from));
                let mut all: Vec<NodeId> = through.chain(own).copied().collect();
                all.sort_unstable_by_key(|before| position[before.index()]);
                all.dedup();
                // Each of its readers waits for each of them.
                let readers = graph.successors(node).count().max(1);
                let most = (graph.len().saturating_sub(made) / readers).max(SOME_WAITS);
                all.drain(..all.len().saturating_sub(most));
                made += all.len() * readers;
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

#[cfg(test)]
mod tests {
    use std::fmt::Write as _;

    use super::*;
    use crate::format::{Model, ReadOptions};
    use crate::ops::OpRegistry;

    /// An optimizer's last update waits for those of all batch norms, and what reads the constant that it adds for the optimizer.
    #[test]
    fn who_reads_a_constant_waits_for_the_last_that_it_waits_for() {
        let float = "attr { key: 'T' value { type: DT_FLOAT } }";
        let fed = "attr { key: 'dtype' value { type: DT_FLOAT } }";
        let text = |constants: usize| {
            let mut text = format!("node {{ name: 'x' op: 'Placeholder' {fed} }}\n");
            let mut controls = String::new();
            for update in 0..100 {
                writeln!(text, "node {{ name: 'u{update}' op: 'Relu' input: 'x' {float} }}").unwrap();
                write!(controls, "input: '^u{update}' ").unwrap();
            }
            writeln!(text, "node {{ name: 'last' op: 'Relu' input: 'u99' {float} }}").unwrap();
            for number in 0..constants {
                writeln!(text, "node {{ name: 'c{number}' op: 'Const' input: '^last' {controls} {fed} }}")
                    .unwrap();
                writeln!(text, "node {{ name: 'r{number}' op: 'Relu' input: 'c{number}' {float} }}").unwrap();
            }
            text
        };
        let waits = |constants: usize| {
            let bytes = text(constants).into_bytes();
            let model = Model::from_bytes("test.pbtxt", bytes, &ReadOptions::default()).unwrap();
            let graph = Graph::of_model(&model, OpRegistry::builtin()).unwrap();
            let constant: Vec<bool> = graph.node_ids().map(|node| graph.op(node).name() == "Const").collect();
            let late = Late::of(&graph, &ControlFlow::of(&graph), &constant, |_| true);
            let reader = |number: usize| {
                let name = format!("r{number}");
                graph.node_ids().find(|&node| graph.name(node) == name).unwrap()
            };
            let before = |number| -> Vec<&str> {
                late.before(reader(number)).iter().map(|&node| graph.name(node)).collect()
            };
            let (first, last) = (before(0), before(constants - 1));
            assert!(first.contains(&"last") && last.contains(&"last"), "{first:?} {last:?}");
            (first.len(), last.len())
        };
        assert_eq!(waits(1), (101, 101));
        assert_eq!(waits(50), (101, SOME_WAITS));
    }
}
