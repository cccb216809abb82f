//! Whatever is fetched, the ops with an effect that run because of it are the same as before.
//!
//! A run does all that its fetches depend on. An added edge A → B brings A, and what A needs, into each run that needs B. Where an op
//! with an effect comes in that way, a run changes what it did not change before: the other train op's update, a queue's next
//! element, the next state of a random generator. A file does not say what somebody will fetch. So the rule is asked of each node
//! of the original graph, with nothing given: of the ops with an effect it needs the same ones in both graphs.
//!
//! What has no effect beyond its run is `new_work`'s: placeholders that must be fed, and variables that must be initialized.
//!
//! Only effects that an added edge comes behind can be new. They are looked at 64 at a time, with one set of bits for the original graph
//! and one for the rewritten one.

use super::graph::{Graph, NodeId};
use super::op_facts::OpFacts;
use super::report::{Report, ViolationKind};

/// Compares for each original node the effects that come with it.
pub(super) fn check(graph: &Graph<'_>, order: &[NodeId], report: &mut Report) {
    let effects = brought(graph);
    if effects.is_empty() {
        return;
    }
    let mut sweep = Sweep {
        graph,
        order,
        has_loops: graph.ids().any(|node| graph.is_loop_header(node)),
        before: vec![0; order.len()],
        after: vec![0; order.len()],
    };
    for batch in effects.chunks(64) {
        sweep.run(batch);
        sweep.compare(batch, report);
    }
}

/// The ops with an effect that some added edge comes from or behind.
fn brought(graph: &Graph<'_>) -> Vec<NodeId> {
    let mut open: Vec<NodeId> = graph.ids().flat_map(|node| new_controls(graph, node)).collect();
    let mut seen = vec![false; graph.len() as usize];
    let mut effects = Vec::new();
    while let Some(node) = open.pop() {
        if !std::mem::replace(&mut seen[node as usize], true) {
            effects
                .extend(Some(node).filter(|&node| has_effect(graph.op(node), graph.nodes.op(node as usize))));
            open.extend(graph.sources(node));
        }
    }
    effects.sort_unstable();
    effects
}

/// The ops that a node waits for and that nobody waited for in its place in the original graph.
fn new_controls<'g>(graph: &'g Graph<'_>, node: NodeId) -> impl Iterator<Item = NodeId> + 'g {
    graph.control(node).iter().filter(|control| control.added).map(|control| control.from)
}

/// Who comes behind which effects, for up to 64 of them at a time.
struct Sweep<'g, 'a> {
    graph: &'g Graph<'a>,
    order: &'g [NodeId],
    has_loops: bool,
    /// Which of the effects a node needs in the original graph.
    before: Vec<u64>,
    /// Which it needs in the rewritten one.
    after: Vec<u64>,
}

impl Sweep<'_, '_> {
    fn run(&mut self, effects: &[NodeId]) {
        self.before.fill(0);
        self.after.fill(0);
        for (bit, &effect) in effects.iter().enumerate() {
            self.before[effect as usize] = 1 << bit;
            self.after[effect as usize] = 1 << bit;
        }
        // A loop's own edges lead back up the order: what they bring shows in the next round.
        let mut again = true;
        while again {
            again = false;
            for &node in self.order {
                let needed = |bits: &[u64], from: NodeId| bits[from as usize];
                let mut before = self.before[node as usize];
                if self.graph.is_original(node) {
                    let sources = self.graph.original_sources(node);
                    before |= sources.fold(0, |bits, from| bits | needed(&self.before, from));
                }
                let sources = self.graph.sources(node);
                let after =
                    sources.fold(self.after[node as usize], |bits, from| bits | needed(&self.after, from));
                again |= self.has_loops
                    && (before != self.before[node as usize] || after != self.after[node as usize]);
                self.before[node as usize] = before;
                self.after[node as usize] = after;
            }
        }
    }

    /// Names for each effect the first node for which it is new or lost.
    fn compare(&self, effects: &[NodeId], report: &mut Report) {
        let graph = self.graph;
        let mut told = 0u64;
        for &node in self.order.iter().filter(|&&node| graph.is_original(node)) {
            let (before, after) = (self.before[node as usize], self.after[node as usize]);
            let mut differing = (before ^ after) & !told;
            told |= differing;
            while differing != 0 {
                let bit = differing.trailing_zeros();
                differing &= differing - 1;
                let effect = effects[bit as usize];
                report.add(ViolationKind::NewEffect, || {
                    let op = graph.nodes.op(effect as usize);
                    let (expected, found) = match before >> bit & 1 {
                        0 => ("does not run", "an added edge that makes it run"),
                        _ => ("runs", "no edge that makes it run"),
                    };
                    let expected =
                        format!("that the first, {op}, {expected} where the second is fetched alone");
                    ([graph.name(effect), graph.name(node)], expected, found.to_string())
                });
            }
        }
    }
}

/// Whether an op changes something that outlives its run; also if nothing is known of it.
fn has_effect(facts: &OpFacts<'_>, op: &str) -> bool {
    facts.is_needy
        && !facts.is_variable
        && !WITHOUT_EFFECT.contains(&op)
        && !OF_ONE_RUN.iter().any(|start| op.starts_with(start))
}

/// Ops that are fed, read a state or give a handle to it, and change nothing.
const WITHOUT_EFFECT: &[&str] = &[
    "DeviceIndex",
    "Empty",
    "FIFOQueueV2",
    "GuaranteeConst",
    "HashTableV2",
    "Iterator",
    "IteratorV2",
    "LookupTableFindV2",
    "LookupTableSizeV2",
    "MutableHashTableV2",
    "PaddingFIFOQueueV2",
    "Placeholder",
    "PlaceholderV2",
    "QueueSizeV2",
    "RandomShuffleQueueV2",
    "ReadVariableOp",
    "ResourceGather",
    "ResourceGatherNd",
    "StatelessRandomGetAlg",
    "VarIsInitializedOp",
    "VariableShape",
    "_ReadVariablesOp",
];

/// Beginnings of ops whose state ends with the run.
const OF_ONE_RUN: &[&str] = &["Stack", "TensorArray"];
