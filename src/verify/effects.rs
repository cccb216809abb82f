//! Whatever is fetched, the ops with an effect that run because of it are the same as before.
//!
//! A run does all that its fetches depend on. An added edge A → B brings A, and what A needs, into each run that needs B. Where an op
//! with an effect comes in that way, a run changes what it did not change before: the other train op's update, a queue's next
//! element, the next state of a random generator. A file does not say what somebody will fetch. So the rule is asked of each node
//! of the original graph, with nothing given: of the ops with an effect it needs the same ones in both graphs.
//!
//! What comes of constants alone is left out: nobody has to run it to know what it gives. So is what random numbers are drawn for that come of
//! nothing else, as the mask of a dropout: nobody runs that by itself. Who reads it is asked.
//!
//! Placeholders are asked about for those who only want to see a variable: what reads one, and needed nothing to be fed, needs nothing now.
//! What else has no effect is `new_work`'s: placeholders of others, and variables that must be initialized.
//!
//! Only effects that an added edge comes behind can be new. They are looked at 64 at a time, with one set of bits for the original graph
//! and one for the rewritten one.

use super::graph::{Graph, NodeId};
use super::op_facts::may_write_refs;
use super::ordered::DRAWING;
use super::report::{Report, ViolationKind};
use crate::ops::OpInfo;

/// Compares for each original node the effects that come with it, and for each that reads a variable the placeholders.
/// Of a function that is always called as a whole `is_shown` tells which effects may come before more than they did
/// ([`super::ordered`]), and nobody looks at a variable by itself.
pub(super) fn check(graph: &Graph<'_>, order: &[NodeId], is_shown: Option<&[bool]>, report: &mut Report) {
    let (mut effects, mut fed) = brought(graph);
    if let Some(is_shown) = is_shown {
        effects.retain(|&effect| !is_shown[effect as usize]);
        fed.clear();
    }
    if effects.is_empty() && fed.is_empty() {
        return;
    }
    let mut sweep = Sweep {
        graph,
        order,
        has_loops: graph.ids().any(|node| graph.is_loop_header(node)),
        before: vec![0; order.len()],
        after: vec![0; order.len()],
    };
    let comes_of_nothing = coming_of_nothing(graph, order);
    for batch in effects.chunks(64) {
        sweep.run(batch);
        let differs =
            |node: NodeId, before, after| if comes_of_nothing[node as usize] { 0 } else { before ^ after };
        sweep.compare(batch, differs, report);
    }
    for batch in fed.chunks(64) {
        sweep.run(batch);
        // Who had to be fed something may be fed more.
        let is_new = |node, before, after| match reads_variable(graph, node) && before == 0 {
            true => after,
            false => 0,
        };
        sweep.compare(batch, is_new, report);
    }
}

/// For each original node whether it comes of constants alone, and of random numbers that are drawn for it.
fn coming_of_nothing(graph: &Graph<'_>, order: &[NodeId]) -> Vec<bool> {
    let mut comes_of_nothing = vec![false; order.len()];
    for &node in order.iter().filter(|&&node| graph.is_original(node)) {
        let (facts, op) = (graph.op(node), graph.nodes.op(node as usize));
        let changes_more = facts.has_effect && !DRAWING.contains(&op);
        let comes_of_more = changes_more || facts.rests_on_state || facts.is_variable;
        comes_of_nothing[node as usize] = !comes_of_more
            && op != "PlaceholderWithDefault"
            && graph.original_sources(node).all(|from| comes_of_nothing[from as usize]);
    }
    comes_of_nothing
}

/// Whether a node gives a variable's value to whoever asks.
fn reads_variable(graph: &Graph<'_>, node: NodeId) -> bool {
    let of_ref = || graph.origins(node).iter().any(|from| graph.op(from.node).is_ref_variable);
    match graph.nodes.op(node as usize) {
        "ReadVariableOp" => true,
        "Identity" => of_ref(),
        _ => false,
    }
}

/// The ops with an effect, and the placeholders, that some added edge comes from or behind.
fn brought(graph: &Graph<'_>) -> (Vec<NodeId>, Vec<NodeId>) {
    let mut open: Vec<NodeId> = graph.ids().flat_map(|node| new_controls(graph, node)).collect();
    let mut seen = vec![false; graph.len() as usize];
    let (mut effects, mut fed) = (Vec::new(), Vec::new());
    while let Some(node) = open.pop() {
        if !std::mem::replace(&mut seen[node as usize], true) {
            effects.extend(Some(node).filter(|&node| graph.op(node).has_effect));
            fed.extend(Some(node).filter(|&node| is_fed(graph.nodes.op(node as usize))));
            open.extend(graph.sources(node));
        }
    }
    effects.sort_unstable();
    fed.sort_unstable();
    (effects, fed)
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

    /// Names for each effect the first node for which it differs, as `differs` has it of what came with a node before and comes now.
    fn compare(&self, effects: &[NodeId], differs: impl Fn(NodeId, u64, u64) -> u64, report: &mut Report) {
        let graph = self.graph;
        let mut told = 0u64;
        for &node in self.order.iter().filter(|&&node| graph.is_original(node)) {
            let (before, after) = (self.before[node as usize], self.after[node as usize]);
            let mut differing = differs(node, before, after) & !told;
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

/// Whether nothing runs with an op that does not feed it.
pub(super) fn is_fed(op: &str) -> bool {
    matches!(op, "Placeholder" | "PlaceholderV2")
}

/// Whether an op changes something that outlives its run; also if nothing is known of it.
pub(super) fn has_effect(op: &str, info: Option<&OpInfo>) -> bool {
    let is_stateful = info.is_none_or(OpInfo::is_stateful) || may_write_refs(info);
    let is_of_one_run = || OF_ONE_RUN.iter().any(|start| op.starts_with(start));
    is_stateful && !WITHOUT_EFFECT.contains(&op) && !is_of_one_run()
}

/// Ops that read a state or give a handle to it, and change nothing.
const WITHOUT_EFFECT: &[&str] = &[
    "AutoReloadVariable",
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
    "QueueSizeV2",
    "RandomShuffleQueueV2",
    "ReadVariableOp",
    "ResourceGather",
    "ResourceGatherNd",
    "StatelessRandomGetAlg",
    "TemporaryVariable",
    "VarHandleOp",
    "VarIsInitializedOp",
    "Variable",
    "VariableShape",
    "VariableV2",
    "_ReadVariablesOp",
    "_VarHandlesOp",
];

/// Beginnings of ops whose state ends with the run.
const OF_ONE_RUN: &[&str] = &["Stack", "TensorArray"];
