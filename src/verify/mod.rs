//! An independent check that a rewritten graph computes what the original one does.
//!
//! A rewrite decides where copies go and who waits for whom; a mistake there gives other numbers, or none, and seldom
//! an error. So nothing of the rewrite is believed. [`check`] takes two files and proves from them, rule by rule, that
//! the second computes what the first does. It shares no code with what plans or rewrites, and no list of ops either: what the planner
//! takes to be harmless, a wrong row of the checker's own would have to allow too. `tests/alone.rs` holds the lists against each other, and
//! refuses imports of anything but what is shared, which is little:
//!
//! * `format`, which finds nodes, names and inputs in a file, and `proto`, which decodes their attributes;
//! * `dtype`, the table of data types;
//! * of `ops` the signatures: which arguments an op has, of which types, and whether TensorFlow calls it stateful.
//!
//! What a rewrite may add, all of it under `lms/`:
//!
//! * `lms/swap_in/<node>/<output>_<use>`: a `PreventGradient` on the host that reads the tensor, or its swap-out,
//!   and is read in the tensor's place. Its control inputs are its triggers.
//! * `lms/swap_out/<node>/<output>`: the same for the tensor on its way out, where something waits for the copy's end.
//! * `lms/order/<number>`: a `NoOp`, by which an op waits for others.
//! * `lms/recompute/<node>/<number>`: a second copy of the node, whose outputs are read in place of the node's. It has
//!   the node's op, device and attributes, the mark `_lms_recompute` with the number, inputs that lead back to what the
//!   node reads, the node's control inputs, and triggers.
//! * `lms/initial/<node>/<output>_<number>`: the same as a swap-in, of what a variable begins with.
//!
//! Beyond that it may give other inputs to original nodes, and move those that compute nothing to the host: these have the device that they
//! had before as the attribute `_lms_device`, and what had to be with them has its `_class` as `_lms_class`.
//!
//! * `lms/parallel/…`: what several workers do together: see `workers`.
//!
//! Where a function was rewritten, the file holds it as it was too, and both are made flat to be compared: see `functions`. So it is with
//! what the top level of a graph calls: see `lowered`.
//!
//! # Kinds of violations
//!
//! Each rule has a file that says why it is one. Rules are looked at in three stages: first the files and their nodes;
//! then inputs, form and cycles; then what rests on these. A stage is looked at only if the ones before it hold.
//!
//! | kind | what is wrong | rule |
//! |---|---|---|
//! | `file_kind` | one is a GraphDef, the other a MetaGraphDef or SavedModel | `same_file` |
//! | `surroundings` | something around the nodes changed | `same_file` |
//! | `damaged` | a part that is needed does not decode | `same_file` |
//! | `duplicate_name` | two nodes have one name | `same_nodes` |
//! | `missing_node` | an original node is gone | `same_nodes` |
//! | `extra_node` | a new node is not under `lms/` | `same_nodes` |
//! | `reordered_node` | original nodes stand in another order | `same_nodes` |
//! | `changed_node` | an original node differs in more than inputs and a move to the host | `same_nodes` |
//! | `bad_input` | an input is malformed, dangling, or data behind control | `graph` |
//! | `input_count` | a node has more or fewer data inputs | `reads` |
//! | `wrong_tensor` | a data input reads another tensor | `reads` |
//! | `lost_control` | a control input is gone | `controls` |
//! | `unknown_added_op` | a node under `lms/` of no known kind | `form` |
//! | `added_name` | an added op's name does not say what it is | `form`, `recompute` |
//! | `added_op` | an added op has the wrong op or attributes | `form`, `recompute` |
//! | `added_inputs` | an added op has the wrong inputs | `form`, `recompute` |
//! | `added_device` | an added op is not where it must be | `form`, `recompute` |
//! | `unrepeatable` | an op is run again that may not give the same | `repeatable`, `branches` |
//! | `host_op` | an op went to the host that computes something, or without what belongs to it | `host_ops` |
//! | `persistent` | a variable or a handle is swapped | `swappable` |
//! | `ref_type` | a reference is swapped | `swappable` |
//! | `unswappable_type` | a string, resource or variant is swapped | `swappable` |
//! | `unknown_op` | an op whose definition a rule needs is not known | `swappable`, `repeatable` |
//! | `cycle` | nodes wait for one another | `acyclic` |
//! | `frame` | an added edge leads into or out of a loop | `frames` |
//! | `iteration` | an added edge leads to the next iteration | `frames` |
//! | `branch` | an added edge may be dead when its target is alive | `branches` |
//! | `ref_order` | a delayed reader may see a variable's next value | `ref_order` |
//! | `new_work` | a run would do what it did not do before | `new_work` |
//! | `local_update` | what one worker's data lead to is written to a variable | `workers::depends` |
//! | `late_reduce` | a mean is taken behind a clip, or another step that is not linear | `workers::late` |
//! | `shared_key` | two collectives have one key | `workers::form` |
//! | `conditional_reduce` | a collective may be left out | `workers::order` |
//! | `unordered_reduces` | two collectives have no certain order | `workers::order` |
//! | `new_effect` | the ops with an effect that come with a fetch are others than before | `effects` |

mod acyclic;
mod branches;
mod buffers;
mod checked;
mod conditions;
mod controls;
mod copies;
mod effects;
mod form;
mod frames;
mod functions;
mod graph;
mod host_ops;
mod lowered;
mod names;
mod new_work;
mod op_facts;
mod ordered;
mod reads;
mod recompute;
mod ref_order;
mod repeatable;
mod report;
mod same_file;
mod same_nodes;
mod step;
mod swappable;
mod triggers;
mod unrepeatable_ops;
mod unseen;
mod workers;

#[cfg(test)]
mod tests;

pub use checked::{Checked, prove};
use graph::{Graph, NONE, NodeId, Role};
use report::Report;
pub use report::{Verified, VerifyError, Violation, ViolationKind};
use same_file::Compare;

use crate::format::{Model, Nodes};
use crate::ops::OpRegistry;

/// What a caller knows about a model beyond its file.
#[derive(Debug, Clone, Default)]
pub struct CheckOptions {
    /// Names of ops that are run together for a training step, beside those in the collection `train_op`, each of which is run for one
    /// of its own.
    pub train_ops: Vec<String>,
    /// Whether the graph is a function, which always runs as a whole: for the only train op, and nobody fetches a part of it.
    pub is_function: bool,
}

/// Proves that `rewritten` computes what `original` does. `ops` must know the ops of both.
///
/// # Errors
///
/// If it is not proved: because it is not so, or because this check cannot see that it is.
pub fn check(original: &Model, rewritten: &Model, ops: &OpRegistry) -> Result<Verified, VerifyError> {
    check_with(original, rewritten, ops, &CheckOptions::default())
}

/// As [`check`], with what the caller knows.
///
/// # Errors
///
/// As for [`check`].
pub fn check_with(
    original: &Model,
    rewritten: &Model,
    ops: &OpRegistry,
    options: &CheckOptions,
) -> Result<Verified, VerifyError> {
    if lowered::was_lowered(original, rewritten) {
        return lowered::check(original, rewritten, ops, options);
    }
    let rewritten_functions = functions::rewritten_functions(original, rewritten);
    if rewritten_functions.is_empty() {
        return check_graphs(original, rewritten, ops, options, workers::Place::Graph);
    }
    functions::check(original, rewritten, &rewritten_functions, ops)
}

/// The check of a graph's top level, and of what is around it: at once, or in two steps where reduces were added.
fn check_graphs(
    original: &Model,
    rewritten: &Model,
    ops: &OpRegistry,
    options: &CheckOptions,
    place: workers::Place,
) -> Result<Verified, VerifyError> {
    if workers::is_for_workers(original.nodes()) || !workers::is_for_workers(rewritten.nodes()) {
        return check_swaps(original, rewritten, ops, options);
    }
    let parallel = workers::without_swaps(rewritten).map_err(|error| {
        let mut report = Report::default();
        report.add(ViolationKind::Damaged, || {
            ([], "a file that holds without its swaps".to_string(), error.to_string())
        });
        report.into_error()
    })?;
    let reduces = workers::check(original, &parallel, ops, options, place)?;
    let swaps = check_swaps(&parallel, rewritten, ops, options)?;
    let (reduces, reduced_tensors) = (reduces.reduces, reduces.reduced_tensors);
    Ok(Verified { nodes: original.nodes().len(), reduces, reduced_tensors, ..swaps })
}

/// The check of a graph that swaps.
fn check_swaps(
    original: &Model,
    rewritten: &Model,
    ops: &OpRegistry,
    options: &CheckOptions,
) -> Result<Verified, VerifyError> {
    let mut report = Report::default();
    let (before, after) = (original.nodes(), rewritten.nodes());

    // The files and their nodes.
    same_file::check(original, rewritten, &mut report);
    let Some(pairs) = same_nodes::pair(before, after, &mut report) else {
        return Err(report.into_error());
    };
    let moved = host_ops::Moved::find(before, after, &pairs);
    let compare = Compare::of(original, rewritten);
    same_nodes::check((before, after), &pairs, &moved, compare, &mut report);
    let functions = op_facts::functions(original, ops).unwrap_or_else(|| {
        report.add(ViolationKind::Damaged, || {
            ([], "a function library that can be read".to_string(), "one that does not decode".to_string())
        });
        Vec::new()
    });
    let table = op_facts::OpTable::new(after, ops, &functions);
    let graph = Graph::new(before, after, &pairs, table, &mut report);
    report.stop()?;

    // Inputs and form.
    let changed = changed_inputs(&graph, before, &pairs);
    reads::check(&graph, before, &changed, &mut report);
    controls::check(&graph, before, &changed, &mut report);
    let mut outputs = op_facts::Outputs::default();
    host_ops::check(&graph, &mut outputs, &moved, &mut report);
    form::check(&graph, &mut outputs, &mut report);
    swappable::check(&graph, &mut outputs, &mut report);
    recompute::check(&graph, &mut report);
    repeatable::check(&graph, &mut outputs, &mut report);
    let Some(order) = acyclic::order(&graph, &mut report) else {
        return Err(report.into_error());
    };
    report.stop()?;

    // What rests on these.
    let frames = frames::Frames::new(&graph, &order);
    frames::check(&graph, &frames, &mut report);
    report.stop()?;
    let conditions = branches::check(&graph, &frames, &order, &mut report);
    let is_unconditional = |node: NodeId| {
        let always = |conditions: &conditions::Conditions| conditions.of(node) == conditions::ALWAYS;
        conditions.as_ref().is_none_or(always) && frames.of_inputs(node) == frames::ROOT
    };
    let steps = step::Steps::find(original, &options.train_ops, &graph, is_unconditional, &mut report);
    ref_order::check(&graph, &frames, &order, &steps, &mut report);
    new_work::check(&graph, &frames, &order, &steps, &mut report);
    let is_shown =
        options.is_function.then(|| ordered::shown(&graph, &order, &steps, &mut outputs, is_unconditional));
    effects::check(&graph, &order, is_shown.as_deref(), &mut report);
    report.stop()?;
    Ok(Verified { host_ops: moved.to_host.len(), ..count(&graph) })
}

/// The original nodes whose inputs changed, or read what the original graph has not, with their originals.
fn changed_inputs(graph: &Graph<'_>, original: Nodes<'_>, pairs: &[NodeId]) -> Vec<(NodeId, NodeId)> {
    let changed = |&(node, before): &(NodeId, NodeId)| {
        before != NONE
            && (graph.sources(node).any(|from| !graph.is_original(from))
                || original.raw(before as usize) != graph.nodes.raw(node as usize))
    };
    (0..).zip(pairs.iter().copied()).filter(changed).collect()
}

fn count(graph: &Graph<'_>) -> Verified {
    let mut verified = Verified::default();
    let mut swapped: Vec<graph::Tensor> = Vec::new();
    for node in graph.ids() {
        match graph.role(node) {
            Role::Original => verified.nodes += 1,
            Role::SwapIn => verified.swap_ins += 1,
            Role::SwapOut => verified.swap_outs += 1,
            Role::Order => verified.order_ops += 1,
            Role::Recomputed => verified.recomputed_ops += 1,
            Role::Initial => verified.initial_values += 1,
            Role::Unknown => {}
        }
        if matches!(graph.role(node), Role::SwapIn | Role::SwapOut) {
            swapped.extend(graph.origins(node));
        }
        if graph.is_original(node) {
            let inputs = graph.data(node).iter().zip(graph.origins(node));
            verified.rewired_inputs += inputs.filter(|(direct, origin)| direct != origin).count();
        }
        let added = graph.control(node).iter().filter(|control| control.added);
        verified.added_control_edges += added.count();
    }
    verified.recomputed_nodes = graph.copies.originals();
    swapped.sort_unstable();
    swapped.dedup();
    verified.swapped_tensors = swapped.len();
    verified
}
