//! Who outside of the step needs what the step runs.
//!
//! Predictions, metrics and summaries hang on the ops of a step, and a run that fetches one of these runs the ops that it needs, and no
//! others. Whoever needs an op runs all that this op waits for too. So that it is not made to run anything new, an op may be
//! made to wait for another one if all outsiders that need the one need the other already. What this allows may be put
//! together to chains: along each of its edges those who need something only become more towards the beginning.
//!
//! What is within a loop is no outsider: TensorFlow fetches nothing that has several values ("Retval has already been set"). Who reads it
//! behind the loop is one.

use crate::graph::{FrameId, Graph, NodeId};
use crate::ops::{Fact, Flow};
use crate::plan::Analysis;
use crate::simulate::gives_zero;

/// Outsiders are told apart up to this number; what others need may wait for nothing by this rule.
const MOST_OUTSIDERS: usize = 512;

/// For each op the outsiders that need it.
#[derive(Debug)]
pub(super) struct Outsiders {
    /// For each node so many words, with a bit for each outsider.
    words: usize,
    bits: Vec<u64>,
    /// For each node whether an outsider needs it that has no bit.
    has_more: Vec<bool>,
}

impl Outsiders {
    /// Finds out who needs what is of interest, of all the step's ops.
    pub fn of(analysis: &Analysis, is_of_interest: impl Fn(NodeId) -> bool) -> Outsiders {
        let graph = analysis.graph;
        let mut comes_of_it = vec![false; graph.len()];
        let mut is_outsider = vec![false; graph.len()];
        graph.until_stable(|| {
            let mut changes = false;
            for &node in graph.topological() {
                let mut before = graph.predecessors(node).filter(|from| from.index() < graph.len());
                let reads = before.any(|from| comes_of_it[from.index()]);
                let (is, of) = match analysis.step.contains(node) {
                    true => (reads || is_of_interest(node), &mut comes_of_it),
                    false if is_hidden(analysis, node) => (reads, &mut comes_of_it),
                    false => (reads && !is_idle(analysis, node), &mut is_outsider),
                };
                changes |= is != std::mem::replace(&mut of[node.index()], is);
            }
            changes
        });
        let count = is_outsider.iter().filter(|&&is| is).count();
        let words = count.min(MOST_OUTSIDERS).div_ceil(64);
        let mut found =
            Outsiders { words, bits: vec![0; graph.len() * words], has_more: vec![false; graph.len()] };
        for (number, node) in graph.node_ids().filter(|node| is_outsider[node.index()]).enumerate() {
            match found.bits[node.index() * words..][..words].get_mut(number / 64) {
                Some(word) => *word |= 1 << (number % 64),
                None => found.has_more[node.index()] = true,
            }
        }
        graph.until_stable(|| {
            let mut changes = false;
            let hands_on = |node: NodeId| analysis.step.contains(node) || is_hidden(analysis, node);
            for &node in graph.topological().iter().rev().filter(|&&node| hands_on(node)) {
                for next in graph.successors(node) {
                    changes |= found.hand_on(next, node);
                }
            }
            changes
        });
        found
    }

    /// Whether all outsiders that need an op need the other one too.
    pub fn all_need(&self, op: NodeId, other: NodeId) -> bool {
        !self.has_more[op.index()]
            && self.row(op).iter().zip(self.row(other)).all(|(of_one, of_other)| of_one & !of_other == 0)
    }

    fn row(&self, node: NodeId) -> &[u64] {
        &self.bits[node.index() * self.words..][..self.words]
    }

    /// Whoever needs an op needs this one that is before it. Whether that was not known.
    fn hand_on(&mut self, op: NodeId, before: NodeId) -> bool {
        let mut changes = self.has_more[op.index()] && !self.has_more[before.index()];
        for word in 0..self.words {
            let of_op = self.bits[op.index() * self.words + word];
            let of_before = &mut self.bits[before.index() * self.words + word];
            changes |= of_op & !*of_before != 0;
            *of_before |= of_op;
        }
        self.has_more[before.index()] |= self.has_more[op.index()];
        changes
    }
}

/// Whether no run can fetch what a node gives, as it is within a loop, and none is of use that only runs it, as it has no effect.
pub(super) fn is_hidden(analysis: &Analysis, node: NodeId) -> bool {
    analysis.flow.output_frame(node) != FrameId::TOP && !analysis.graph.op(node).has_effect()
}

/// Whether nobody reads a node, and nobody runs it by itself, since it tells nothing: what asks for shapes only, as the zeros do that stand for
/// the gradient of an output that nobody differentiates, and what [`is_left_of_loop`].
fn is_idle(analysis: &Analysis, node: NodeId) -> bool {
    let graph = analysis.graph;
    let asks_for_shapes = graph.op(node).facts().has(Fact::ReadsNoValues);
    is_left_of_loop(analysis, node) || asks_for_shapes && graph.successors(node).next().is_none()
}

/// Whether a node is what a loop leaves that nobody reads, and that tells nothing: of a counter that went down to zero, or of a TensorArray's
/// flow.
pub(super) fn is_left_of_loop(analysis: &Analysis, node: NodeId) -> bool {
    let graph = analysis.graph;
    graph.flow(node) == Some(Flow::Exit)
        && graph.successors(node).next().is_none()
        && (gives_zero(analysis, node) || gives_flow(graph, node))
}

/// How many ops are followed back to where a flow comes from.
const MOST_FOLLOWED: usize = 64;

/// Whether the way out of a loop gives the flow of a TensorArray: a number that stands for the order of what is done with that.
fn gives_flow(graph: &Graph, exit: NodeId) -> bool {
    let mut node = exit;
    for _ in 0..MOST_FOLLOWED {
        let comes_first = |&&input: &&_| !graph.is_back_edge(graph.producer(input), node);
        let Some(&from) = graph.data_inputs(node).iter().find(comes_first) else { return false };
        node = graph.producer(from);
        if node.index() >= graph.len() {
            return false;
        }
        match (graph.op(node).name(), graph.flow(node)) {
            ("TensorArrayV3" | "TensorArrayGradV3", _) => return graph.output_index(from) == 1,
            ("TensorArrayWriteV3" | "TensorArrayScatterV3" | "TensorArraySplitV3", _) => return true,
            ("Identity", _) | (_, Some(Flow::Switch | Flow::Merge | Flow::Enter | Flow::Exit)) => {}
            _ => return false,
        }
    }
    false
}
