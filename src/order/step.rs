//! Which ops run in a training step.

use std::ops::Range;

use crate::graph::{Condition, ControlFlow, FrameId, Graph, NodeId};
use crate::ops::{Fact, WorkKind};

/// The ops of one step. A file holds more: initializers, the saver, summaries, an evaluation.
///
/// An edge between two ops of which neither needed the other makes a run of the second also run the first. Within a step
/// that is harmless; from an initializer into the step it would undo the training.
///
/// A file may hold several train ops that are run in turn, each for a step of its own. An op of one step must not be made to run
/// in another, so the step knows the other runs too.
#[derive(Debug, Clone)]
pub struct Step {
    /// For each run of a train op what it is run for.
    targets: Vec<Vec<NodeId>>,
    /// The runs among them that are this step's.
    planned: Range<usize>,
    /// These, and those that are run in turn with them, as bits.
    in_turn: u64,
    members: Vec<bool>,
    exclusive: Vec<bool>,
    is_known: bool,
    /// For each node the runs that need it, as bits. All runs behind the last bit share that one.
    runs: Vec<u64>,
}

impl Step {
    /// The ops that `targets`, which are run together, need. With no targets: those that the optimizer's updates need, and those that
    /// depend on an input of the graph, with all that they need.
    pub fn of(graph: &Graph, targets: &[NodeId]) -> Step {
        match targets.is_empty() {
            true => Step::guessed(graph),
            false => Step::of_runs(graph, &[targets.to_vec()], 0..1),
        }
    }

    /// The ops that some of these runs need, each of which is run for targets of its own. Without any run it is guessed what a step
    /// runs.
    pub fn of_runs(graph: &Graph, runs: &[Vec<NodeId>], planned: Range<usize>) -> Step {
        if runs.iter().all(Vec::is_empty) {
            return Step::guessed(graph);
        }
        let mut bits = vec![0u64; graph.len()];
        for (number, targets) in runs.iter().enumerate() {
            let bit = bit_of(number);
            let mut open: Vec<NodeId> = targets.clone();
            let mut seen = vec![false; graph.len()];
            while let Some(node) = open.pop() {
                if node.index() < graph.len() && !std::mem::replace(&mut seen[node.index()], true) {
                    bits[node.index()] |= bit;
                    open.extend(graph.predecessors(node));
                }
            }
        }
        let is_planned = planned.clone().fold(0, |planned, number| planned | bit_of(number));
        let members: Vec<bool> = bits.iter().map(|runs| runs & is_planned != 0).collect();
        let exclusive = needed_by_nothing_else(graph, &members);
        let (targets, in_turn) = (runs.to_vec(), is_planned);
        Step { targets, planned, in_turn, members, exclusive, is_known: true, runs: bits }
    }

    fn guessed(graph: &Graph) -> Step {
        let is_update = |&node: &NodeId| graph.op(node).facts().work() == WorkKind::Update;
        let mut fed = vec![false; graph.len()];
        for &node in graph.topological() {
            let is_input = graph.op(node).facts().has(Fact::TakesData);
            let reads_fed = |from: NodeId| from.index() >= fed.len() || fed[from.index()];
            fed[node.index()] = is_input || graph.predecessors(node).any(reads_fed);
        }
        let mut members: Vec<bool> =
            graph.node_ids().map(|node| fed[node.index()] || is_update(&node)).collect();
        close_over_predecessors(graph, &mut members);
        let exclusive = needed_by_nothing_else(graph, &members);
        let (targets, runs) = (Vec::new(), vec![0; graph.len()]);
        Step { targets, planned: 0..0, in_turn: 0, members, exclusive, is_known: false, runs }
    }

    /// How many runs there are that each are a step of their own.
    pub fn run_count(&self) -> usize {
        self.planned.len()
    }

    /// What one of the runs is run for.
    pub fn targets(&self, run: usize) -> &[NodeId] {
        self.targets.get(self.planned.start + run).map_or(&[], Vec::as_slice)
    }

    /// The step of one of the runs alone.
    pub fn of_run(&self, graph: &Graph, run: usize) -> Step {
        let number = self.planned.start + run;
        Step { in_turn: self.in_turn, ..Step::of_runs(graph, &self.targets, number..number + 1) }
    }

    /// Whether the op runs in this step, or in one that is run in turn with it.
    pub fn runs_in_turn(&self, node: NodeId) -> bool {
        self.runs[node.index()] & self.in_turn != 0
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

    /// Whether each run that needs an op needs the other one too, so that none does more if the op waits for the other.
    pub fn runs_whenever(&self, other: NodeId, op: NodeId) -> bool {
        self.runs[op.index()] & !self.runs[other.index()] == 0
    }

    /// Whether some run needs both.
    pub fn share_a_run(&self, one: NodeId, other: NodeId) -> bool {
        self.runs[one.index()] & self.runs[other.index()] != 0
    }

    /// Whether the op runs in a step, or nobody knows what does.
    pub fn may_run(&self, node: NodeId) -> bool {
        !self.is_known || self.contains(node)
    }

    /// Whether the op runs in each step.
    pub fn contains(&self, node: NodeId) -> bool {
        self.members[node.index()]
    }
}

/// The ops of a collection of train ops that each are run for a step of its own. An optimizer that is called in a branch of `tf.cond` puts its
/// op there too, which is no step where another train op runs it: TensorFlow fetches nothing that lies within a branch or a loop.
pub fn run_alone(graph: &Graph, collected: impl Iterator<Item = NodeId>) -> Vec<NodeId> {
    let mut train_ops: Vec<NodeId> = collected.collect();
    if train_ops.len() < 2 || graph.node_ids().all(|node| graph.flow(node).is_none()) {
        return train_ops;
    }
    let flow = ControlFlow::of(graph);
    let is_within = |&op: &NodeId| flow.condition(op) != Condition::ALWAYS || flow.frame(op) != FrameId::TOP;
    let outside: Vec<NodeId> = train_ops.iter().copied().filter(|op| !is_within(op)).collect();
    let run_by_others = Step::of_runs(graph, &[outside], 0..1);
    train_ops.retain(|op| !is_within(op) || !run_by_others.certainly_contains(*op));
    train_ops
}

fn bit_of(run: usize) -> u64 {
    1 << run.min(63)
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::{Model, ReadOptions};
    use crate::ops::OpRegistry;

    /// As of `tf.cond(go, lambda: optimizer.minimize(loss), tf.no_op)`.
    const GRAPH: &str = r#"
        node { name: "go" op: "Placeholder" attr { key: "dtype" value { type: DT_BOOL } } }
        node { name: "choice" op: "Switch" input: "go" input: "go" attr { key: "T" value { type: DT_BOOL } } }
        node { name: "no" op: "Identity" input: "choice" attr { key: "T" value { type: DT_BOOL } } }
        node { name: "yes" op: "Identity" input: "choice:1" attr { key: "T" value { type: DT_BOOL } } }
        node { name: "minimize" op: "NoOp" input: "^yes" }
        node { name: "done" op: "Identity" input: "yes" input: "^minimize" attr { key: "T" value { type: DT_BOOL } } }
        node { name: "either" op: "Merge" input: "no" input: "done" attr { key: "T" value { type: DT_BOOL } } attr { key: "N" value { i: 2 } } }
        node { name: "train" op: "NoOp" input: "^either" }
        node { name: "other" op: "NoOp" input: "^go" }
    "#;

    #[test]
    fn what_an_optimizer_puts_in_a_branch_is_no_step_of_its_own() {
        let model = Model::from_bytes("a graph", GRAPH.as_bytes().to_vec(), &ReadOptions::default()).unwrap();
        let graph = Graph::of_model(&model, OpRegistry::builtin()).unwrap();
        let find = |name: &&str| graph.node_ids().find(|&node| graph.name(node) == *name);
        let collected = ["minimize", "train", "other"];
        let alone = run_alone(&graph, collected.iter().filter_map(find));
        let names: Vec<&str> = alone.into_iter().map(|node| graph.name(node)).collect();
        assert_eq!(names, ["train", "other"]);
        // Of one that nobody else runs, somebody must think that it is one.
        let alone = run_alone(&graph, ["minimize", "other"].iter().filter_map(find));
        assert_eq!(alone.len(), 2);
    }
}
