//! Which sides of branches a step takes.
//!
//! Only a run decides that. To count both sides at once is enough for either, but it may be far more than any step takes: a batch norm that is
//! fed whether it trains is in the graph twice. So of the branches that matter most each way through is a *case* of its own, in which what is
//! not taken takes no time and no memory. What is said of a step is said of the case that takes the most, and a plan has to fit in all of them.
//! Of other branches both sides count.

use std::collections::BTreeMap;

use super::liveness::{Liveness, renamed};
use super::loops::Loops;
use super::outline::output_bytes;
use super::pool::in_chunks;
use super::program::buffer;
use crate::graph::{FrameId, Graph, NodeId, TensorId};
use crate::order::{Place, Placement};
use crate::plan::Analysis;

/// Of so many choices each combination is a case.
const MOST_CHOICES: usize = 3;

/// What branches keep less of than this part of all that a step makes is not worth a case.
const LEAST_PART: f64 = 0.01;

/// What is chosen in a step, as far as that matters.
#[derive(Debug, Clone, Default)]
pub(super) struct Case {
    /// The tensors that branches go by, each with what it is.
    chosen: Vec<(TensorId, bool)>,
    /// What then does not run; none if nothing is chosen.
    liveness: Option<Liveness>,
}

impl Case {
    /// All that may be chosen; one case in which nothing is, if no branch matters. `runs` says which ops a step may run.
    pub fn all(
        analysis: &Analysis,
        placement: &Placement,
        loops: &Loops,
        runs: impl Fn(NodeId) -> bool,
    ) -> Vec<Case> {
        let choices = choices(analysis, placement, loops, runs);
        let ways = 0..1u32 << choices.len();
        let case = |way: u32| {
            let is_chosen = |at: usize| way & (1 << at) == 0;
            let chosen: Vec<(TensorId, bool)> =
                choices.iter().enumerate().map(|(at, &choice)| (choice, is_chosen(at))).collect();
            let liveness = (!chosen.is_empty()).then(|| Liveness::with(analysis.graph, true, &chosen));
            Case { chosen, liveness }
        };
        ways.map(case).collect()
    }

    /// The tensors that branches go by, each with what it is taken to be.
    pub fn chosen(&self) -> &[(TensorId, bool)] {
        &self.chosen
    }

    /// Whether an op does not run.
    pub fn is_idle(&self, node: NodeId) -> bool {
        self.liveness.as_ref().is_some_and(|liveness| liveness.is_dead_op(node))
    }

    /// Whether nobody makes a tensor.
    pub fn is_absent(&self, graph: &Graph, tensor: TensorId) -> bool {
        self.liveness.as_ref().is_some_and(|liveness| liveness.is_dead(graph, tensor))
    }

    /// The input of a `Merge` that it gives, if the case tells.
    pub fn given_by(&self, graph: &Graph, merge: NodeId) -> Option<u32> {
        let inputs = graph.data_inputs(merge);
        let mut present = (0..).zip(inputs).filter(|&(_, &input)| !self.is_absent(graph, input));
        let (slot, _) = present.next()?;
        (self.liveness.is_some() && inputs.len() > 1 && present.next().is_none()).then_some(slot)
    }
}

/// What the branches go by of which both sides make the most, at most [`MOST_CHOICES`], in the order of the file.
fn choices(
    analysis: &Analysis,
    placement: &Placement,
    loops: &Loops,
    runs: impl Fn(NodeId) -> bool,
) -> Vec<TensorId> {
    let Analysis { graph, flow, sizes, .. } = analysis;
    // For each choice what its two sides make.
    let mut sides: BTreeMap<TensorId, [u64; 2]> = BTreeMap::new();
    let mut all_bytes = 0u64;
    for node in graph.node_ids().filter(|&node| runs(node) && placement.op(node) != Place::Host) {
        let own = graph.outputs(node).filter(|&output| {
            placement.output(output) != Place::Host && buffer(graph, sizes, node, output).may_be_own()
        });
        let bytes = own
            .map(|output| loops.bytes(output, in_chunks(output_bytes(analysis, node, output).unwrap_or(0))))
            .fold(0u64, u64::saturating_add);
        all_bytes = all_bytes.saturating_add(bytes);
        for (predicate, side) in flow.branches_of(flow.condition(node)) {
            if let Some(choice) = choice_of(analysis, predicate)
                && let Some(made) = sides.entry(choice).or_default().get_mut(side as usize)
            {
                *made = made.saturating_add(bytes);
            }
        }
    }
    let least = (all_bytes as f64 * LEAST_PART) as u64;
    let lesser = |made: &[u64; 2]| made[0].min(made[1]);
    let mut choices: Vec<(TensorId, u64)> = sides
        .iter()
        .map(|(&choice, made)| (choice, lesser(made)))
        .filter(|&(_, made)| made > least)
        .collect();
    choices.sort_by_key(|&(choice, made)| (std::cmp::Reverse(made), choice));
    choices.truncate(MOST_CHOICES);
    let mut choices: Vec<TensorId> = choices.into_iter().map(|(choice, _)| choice).collect();
    choices.sort_unstable();
    choices
}

/// What a step chooses once that branches on a tensor go by, under whatever name; none if a loop chooses anew in each iteration.
fn choice_of(analysis: &Analysis, predicate: TensorId) -> Option<TensorId> {
    let Analysis { graph, flow, .. } = analysis;
    let choice = renamed(graph, predicate);
    let maker = graph.producer(choice);
    (maker.index() >= graph.len() || flow.frame(maker) == FrameId::TOP).then_some(choice)
}
