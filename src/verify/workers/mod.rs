//! A graph for several workers trains as one process would with the mean of all their gradients.
//!
//! A rewritten file may hold swaps and reduces. It is taken apart: without what swaps (`witness`), the graph is the original with
//! reduces, and what the rules here say of it is shown against the original. That graph and the whole file are then two graphs of which
//! the second must compute what the first does, by all the other rules. Nothing rests on how the graph between was made: both proofs are
//! about it as it is.
//!
//! What is shown:
//!
//! * what was added has the known form (`form`, and the files that it names), and keys of collectives are unique (`collectives`);
//! * an original input reads what it read, or all workers' means or rows of just that tensor (`inputs`);
//! * nothing that was added is under a condition or in a loop, and within each step all collectives are in one order, since each waits for
//!   the one before: so all workers come to the same ones in the same order (`order`);
//! * whatever a step writes to a variable depends on a worker's data only by way of a reduce (`depends`);
//! * no mean is taken of what was clipped, scaled by a factor that depends on gradients, or added up by rows (`late`);
//! * a reader of a ref variable that a reduce delays is still on its side of each update (`ref_order`, the rule for swaps).
//!
//! Where the step is a function, its body is shown so, and the top level around it, where the broadcast is, by the rules of form and order;
//! keys are compared across the two. The function reads the number of workers from a variable of a name of its own.
//!
//! A placeholder for a single number is a setting, which all workers must be fed alike. That a loss is a mean over examples, and not a
//! sum, nobody can see in a graph.

mod broadcast;
mod buckets;
mod collectives;
mod depends;
mod expected;
mod form;
mod inputs;
mod late;
mod order;
mod ranks;
mod reduces;
mod witness;

use super::conditions::{self, Conditions};
use super::frames::{Frames, ROOT};
use super::graph::{Graph, NodeId};
use super::host_ops::Moved;
use super::report::{Report, Verified, VerifyError, ViolationKind};
use super::same_file::{self, Compare};
use super::step::Steps;
use super::{CheckOptions, acyclic, op_facts, ref_order, same_nodes};
use crate::format::{Model, Nodes};
use crate::ops::OpRegistry;

pub(super) use collectives::keys;
pub(super) use witness::without_swaps;

/// Which part of a training a graph is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Place {
    /// All of it.
    Graph,
    /// A function, which is a step.
    Function,
    /// What is around that function: the file's top level.
    AroundFunction,
}

/// Whether a graph has something for several workers.
pub(super) fn is_for_workers(nodes: Nodes<'_>) -> bool {
    (0..nodes.len()).any(|node| nodes.name(node).starts_with(form::PREFIX))
}

/// Proves that `parallel`, which has no swaps, is `original` with reduces.
pub(super) fn check(
    original: &Model,
    parallel: &Model,
    ops: &OpRegistry,
    options: &CheckOptions,
    place: Place,
) -> Result<Verified, VerifyError> {
    let mut report = Report::default();
    let (before, after) = (original.nodes(), parallel.nodes());
    same_file::check(original, parallel, &mut report);
    let Some(pairs) = same_nodes::pair(before, after, &mut report) else {
        return Err(report.into_error());
    };
    let compare = Compare::of(original, parallel);
    same_nodes::check((before, after), &pairs, &Moved::default(), compare, &mut report);
    let functions = op_facts::functions(original, ops).unwrap_or_default();
    let table = op_facts::OpTable::new(after, ops, &functions);
    let graph = Graph::new(before, after, &pairs, table, &mut report);
    report.stop()?;

    let formed = form::check(&graph, before, &pairs, place, &mut report);
    let Some(order) = acyclic::order(&graph, &mut report) else {
        return Err(report.into_error());
    };
    report.stop()?;

    let frames = Frames::new(&graph, &order);
    let conditions = Conditions::new(&graph, &order, &frames);
    let is_unconditional = |node| conditions.of(node) == conditions::ALWAYS && frames.of_inputs(node) == ROOT;
    let steps = Steps::find(original, &options.train_ops, &graph, is_unconditional, &mut report);
    if steps.any.is_none() && place != Place::AroundFunction {
        report.add(ViolationKind::LocalUpdate, || {
            let expected = "a train op, so that it is known what a step applies";
            ([], expected.to_string(), "none: give --train-op".to_string())
        });
    }
    report.stop()?;
    let chosen = depends::chosen(&graph, &frames, &conditions);
    order::check(&graph, &frames, &conditions, &order, &formed, &steps, &mut report);
    depends::check(&graph, &order, &chosen, &steps, &mut report);
    late::check(&graph, &order, &chosen, &formed, &mut report);
    ref_order::check(&graph, &frames, &order, &steps, &mut report);
    report.stop()?;
    Ok(Verified {
        reduces: formed.collectives.iter().filter(|one| one.is_of_step).count(),
        reduced_tensors: formed.reduced.len(),
        ..Verified::default()
    })
}

/// Marks these nodes and all that they need, as written.
fn needed(graph: &Graph<'_>, mut open: Vec<NodeId>) -> Vec<bool> {
    let mut marked = vec![false; graph.len() as usize];
    while let Some(node) = open.pop() {
        if !std::mem::replace(&mut marked[node as usize], true) {
            open.extend(graph.sources(node));
        }
    }
    marked
}
