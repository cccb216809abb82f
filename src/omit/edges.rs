//! Edges that a plan adds.

use std::fmt;

use serde::Serialize;

use super::Difference;
use crate::graph::{Graph, NodeId, TensorId};
use crate::plan::{Draft, OrderReason};

/// An edge that a plan adds, by its place in the plan.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Edge {
    /// An op starts a return of a swapped tensor.
    Return {
        /// The swap.
        swap: usize,
        /// The return among the swap's.
        number: usize,
        /// What starts it.
        trigger: NodeId,
    },
    /// An op starts a second run.
    SecondRun {
        /// The recomputation.
        number: usize,
        /// What starts it.
        trigger: NodeId,
    },
    /// An op waits until a tensor is out.
    SwapOut {
        /// The swap.
        swap: usize,
        /// Who waits.
        waiting: NodeId,
    },
    /// Two ops run one after the other.
    Order {
        /// The order.
        number: usize,
    },
}

/// Why there is an edge.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum EdgeReason {
    /// It starts a return.
    StartsReturn {
        /// Of this tensor.
        tensor: String,
    },
    /// It starts a second run.
    StartsSecondRun {
        /// Of this op.
        op: String,
    },
    /// The op waits until a tensor is out.
    WaitsForSwapOut {
        /// This tensor.
        tensor: String,
    },
    /// The plan orders the two ops.
    Order(OrderReason),
}

/// What is to be said of an added edge.
///
/// Shown, it is a few lines of text.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct EdgeExplanation {
    /// Where it begins.
    pub from: String,
    /// Where it leads.
    pub to: String,
    /// Why it is there.
    pub reasons: Vec<EdgeReason>,
    /// What leaving it out changes; none if the step would not compute the same without it.
    pub without: Option<Difference>,
}

/// The edges that a plan adds between two places that a user names: from an op, or a tensor that leaves, to an op that waits or
/// runs again, or to a tensor that returns.
///
/// A tensor is `NODE:OUTPUT`; the name of a node alone stands for it and for all of its outputs.
pub fn edges(draft: &Draft, graph: &Graph, from: &str, to: &str) -> Vec<Edge> {
    let is_node = |name: &str, node: NodeId| graph.name(node) == name;
    let is_tensor = |name: &str, tensor: TensorId| {
        is_node(name, graph.producer(tensor)) || graph.tensor_name(tensor).to_string() == name
    };
    let mut edges = Vec::new();
    for (number, swap) in draft.swaps.iter().enumerate() {
        if is_tensor(to, swap.tensor) {
            for (which, swap_in) in swap.uses.iter().enumerate() {
                let triggers = swap_in.triggers.iter().filter(|&&trigger| is_node(from, trigger));
                edges.extend(triggers.map(|&trigger| Edge::Return { swap: number, number: which, trigger }));
            }
        }
        if is_tensor(from, swap.tensor) {
            let waiting = swap.waiting.iter().filter(|&&waiting| is_node(to, waiting));
            edges.extend(waiting.map(|&waiting| Edge::SwapOut { swap: number, waiting }));
        }
    }
    for (number, again) in draft.recomputations.iter().enumerate() {
        if is_node(to, again.op) || again.outputs.iter().any(|&(tensor, _)| is_tensor(to, tensor)) {
            let triggers = again.triggers.iter().filter(|&&trigger| is_node(from, trigger));
            edges.extend(triggers.map(|&trigger| Edge::SecondRun { number, trigger }));
        }
    }
    for (number, order) in draft.orders.iter().enumerate() {
        if is_node(from, order.before) && is_node(to, order.after) {
            edges.push(Edge::Order { number });
        }
    }
    edges
}

/// The plan without some of its edges.
pub fn without_edges(draft: &Draft, edges: &[Edge]) -> Draft {
    let mut less = draft.clone();
    let mut is_ordered = vec![true; less.orders.len()];
    for &edge in edges {
        match edge {
            Edge::Return { swap, number, trigger } => {
                less.swaps[swap].uses[number].triggers.retain(|&other| other != trigger);
            }
            Edge::SecondRun { number, trigger } => {
                less.recomputations[number].triggers.retain(|&other| other != trigger);
            }
            Edge::SwapOut { swap, waiting } => less.swaps[swap].waiting.retain(|&other| other != waiting),
            Edge::Order { number } => is_ordered[number] = false,
        }
    }
    let mut is_ordered = is_ordered.into_iter();
    less.orders.retain(|_| is_ordered.next() == Some(true));
    less
}

/// Explains edges between the same two places. `compare` simulates the plan that it is given.
pub fn explain_edges(
    draft: &Draft,
    graph: &Graph,
    (from, to): (&str, &str),
    edges: &[Edge],
    compare: impl FnOnce(&Draft) -> Difference,
) -> EdgeExplanation {
    let tensor = |swap: usize| graph.tensor_name(draft.swaps[swap].tensor).to_string();
    let mut reasons: Vec<EdgeReason> = Vec::new();
    for &edge in edges {
        let reason = match edge {
            Edge::Return { swap, .. } => EdgeReason::StartsReturn { tensor: tensor(swap) },
            Edge::SecondRun { number, .. } => {
                EdgeReason::StartsSecondRun { op: graph.name(draft.recomputations[number].op).to_string() }
            }
            Edge::SwapOut { swap, .. } => EdgeReason::WaitsForSwapOut { tensor: tensor(swap) },
            Edge::Order { number } => EdgeReason::Order(draft.orders[number].reason),
        };
        if !reasons.contains(&reason) {
            reasons.push(reason);
        }
    }
    let is_needed = reasons.contains(&EdgeReason::Order(OrderReason::RefVariable));
    let without = (!is_needed).then(|| compare(&without_edges(draft, edges)));
    EdgeExplanation { from: from.to_string(), to: to.to_string(), reasons, without }
}

impl fmt::Display for EdgeReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            EdgeReason::StartsReturn { tensor } => {
                write!(
                    f,
                    "it starts the return of {tensor}, which earlier would take memory before it is needed"
                )
            }
            EdgeReason::StartsSecondRun { op } => write!(
                f,
                "it starts the second run of {op}, which earlier would take memory before it is needed"
            ),
            EdgeReason::WaitsForSwapOut { tensor } => {
                write!(f, "the op waits until {tensor} is out and its memory free")
            }
            EdgeReason::Order(OrderReason::Serialization) => f.write_str(
                "ops of one level run one after the other, so that they need no memory at the same time",
            ),
            EdgeReason::Order(OrderReason::RefVariable) => {
                f.write_str("a variable is read, or copied, before it is updated")
            }
            EdgeReason::Order(OrderReason::Budget) => {
                f.write_str("it keeps to the order for which the memory of the step was planned")
            }
        }
    }
}

impl fmt::Display for EdgeExplanation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{} -> {}", self.from, self.to)?;
        for reason in &self.reasons {
            writeln!(f, "  {:<12} {reason}", "added")?;
        }
        match &self.without {
            Some(difference) => difference.fmt(f),
            None => writeln!(f, "  {:<12} the step might compute something else", "without it"),
        }
    }
}
