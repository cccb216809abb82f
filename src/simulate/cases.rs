//! Which sides of branches a step takes.
//!
//! Only a run decides that. To count both sides at once is enough for either, but it may be far more than any step takes: a batch norm that is
//! fed whether it trains is in the graph twice. So of the branches that matter most each way through is a *case* of its own, in which what is
//! not taken takes no time and no memory. What is said of a step is said of the case that takes the most, and a plan has to fit in all of them.
//! Of other branches both sides count.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use super::loops::Loops;
use super::pool::in_chunks;
use super::program::{Buffer, buffer};
use crate::graph::{FrameId, Graph, Liveness, NodeId, TensorId};
use crate::ops::Flow;
use crate::order::{Place, Placement};
use crate::plan::Analysis;
use crate::shape::Sizes;

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
            let liveness = (!chosen.is_empty()).then(|| Liveness::of(analysis.graph, Some(true), &chosen));
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
}

/// The only input of a `Merge` that there is, none if there may be several; of what certainly is not made `is_absent` knows.
pub(super) fn only_input(graph: &Graph, merge: NodeId, is_absent: impl Fn(TensorId) -> bool) -> Option<u32> {
    let mut present = (0..).zip(graph.data_inputs(merge)).filter(|&(_, &input)| !is_absent(input));
    let (slot, _) = present.next()?;
    present.next().is_none().then_some(slot)
}

/// The largest input of a `Merge` that its branch made, where another branch may give what was there before: if that of a layer that may be
/// left out counted, what the layer makes would be gone.
pub(super) fn largest_made(
    graph: &Graph,
    sizes: &Sizes,
    merge: NodeId,
    is_absent: impl Fn(TensorId) -> bool,
) -> Option<u32> {
    let inputs = graph.data_inputs(merge);
    let is_head = inputs.iter().any(|&input| graph.is_back_edge(graph.producer(input), merge));
    let is_made = |input: TensorId| !is_head && !is_absent(input) && is_made_in_branch(graph, sizes, input);
    let made = (0..).zip(inputs).filter(|&(_, &input)| is_made(input));
    made.max_by_key(|&(slot, &input)| (sizes.bytes(input), Reverse(slot))).map(|(slot, _)| slot)
}

/// Whether a tensor has memory that was not there before the branch in which it is.
fn is_made_in_branch(graph: &Graph, sizes: &Sizes, mut tensor: TensorId) -> bool {
    loop {
        let node = graph.producer(tensor);
        if node.index() >= graph.len() {
            return false;
        }
        match graph.flow(node) {
            Some(Flow::Switch) => return false,
            // The end of another branch within this one, of which one side may be from before.
            Some(Flow::Merge) => return true,
            _ => {}
        }
        match buffer(graph, sizes, node, tensor) {
            Buffer::Input(slot) => match graph.data_inputs(node).get(slot as usize) {
                Some(&input) => tensor = input,
                None => return false,
            },
            made => return made.may_be_own(),
        }
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
    // A loop may choose anew in each iteration.
    let is_made_once = |choice: TensorId| {
        let maker = graph.producer(choice);
        maker.index() >= graph.len() || flow.frame(maker) == FrameId::TOP
    };
    // For each choice what its two sides make.
    let mut sides: BTreeMap<TensorId, [u64; 2]> = BTreeMap::new();
    let mut all_bytes = 0u64;
    for node in graph.node_ids().filter(|&node| runs(node) && placement.op(node) != Place::Host) {
        let own = graph.outputs(node).filter(|&output| {
            placement.output(output) != Place::Host && buffer(graph, sizes, node, output).may_be_own()
        });
        let bytes = own
            .map(|output| loops.bytes(output, in_chunks(analysis.sizes.bytes(output).unwrap_or(0))))
            .fold(0u64, u64::saturating_add);
        all_bytes = all_bytes.saturating_add(bytes);
        for (choice, side) in flow.branches_of(flow.condition(node)) {
            if is_made_once(choice)
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
    choices.sort_by_key(|&(choice, made)| (Reverse(made), choice));
    choices.truncate(MOST_CHOICES);
    let mut choices: Vec<TensorId> = choices.into_iter().map(|(choice, _)| choice).collect();
    choices.sort_unstable();
    choices
}
