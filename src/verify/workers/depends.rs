//! Whatever a step writes to a variable depends on a worker's data only by way of a reduce.
//!
//! All workers begin with the same variables. If all of them write the same in each step, these stay the same. What may differ between
//! workers is what is fed or read, random numbers, and what depends on these: by data, by the choice of a branch, and by whether something
//! runs at all. What a reduce gives out is the same on all.

use std::collections::HashSet;

use super::super::conditions::{ALWAYS, Conditions};
use super::super::frames::{Frames, ROOT};
use super::super::graph::{Graph, NodeId, Tensor};
use super::super::op_facts::Flow;
use super::super::report::{Report, ViolationKind};
use super::super::step::Steps;
use crate::proto::tensorflow::attr_value::Value;

/// Stateful ops that give the same wherever their inputs are the same.
const SAME_EVERYWHERE: &[&str] = &[
    "AutoReloadVariable",
    "Empty",
    "GuaranteeConst",
    "HashTable",
    "HashTableV2",
    "IsVariableInitialized",
    "LookupTableFindV2",
    "LookupTableSizeV2",
    "NoOp",
    "ReadVariableOp",
    "ResourceGather",
    "ResourceGatherNd",
    "TemporaryVariable",
    "VarHandleOp",
    "VarIsInitializedOp",
    "Variable",
    "VariableShape",
    "VariableV2",
];

/// Ops that look at no values.
const ASK_FOR_SHAPES: &[&str] = &["OnesLike", "Rank", "Shape", "ShapeN", "Size", "ZerosLike"];

/// Ops that hand a variable or its handle on.
const HAND_ON: &[&str] =
    &["Assign", "Enter", "Identity", "Merge", "RefEnter", "RefIdentity", "RefMerge", "RefSwitch", "Switch"];

/// Looks at each op of a step that writes to a variable.
pub(super) fn check(
    graph: &Graph<'_>,
    order: &[NodeId],
    chosen: &[bool],
    steps: &Steps,
    report: &mut Report,
) {
    let differs = spread(graph, order, chosen, &HashSet::new());
    let Some(in_step) = &steps.any else { return };
    for node in graph.ids().filter(|&node| in_step[node as usize] && graph.is_original(node)) {
        if !writes_variable(graph, node) {
            continue;
        }
        let bad = graph.data(node).iter().find(|tensor| differs[tensor.node as usize]);
        let waits = || waits_for_choice(graph, (&differs, chosen), node);
        if bad.is_some() || waits() {
            report.add(ViolationKind::LocalUpdate, || {
                let what = bad.map_or("whether it runs".to_string(), |&tensor| {
                    format!("`{}`", graph.tensor_name(tensor))
                });
                let expected =
                    "what is written to a variable to depend on data by way of reduces only".to_string();
                ([graph.name(node)], expected, format!("{what}, which differs between workers"))
            });
        }
    }
}

/// Marks what may differ between workers; `cut` are tensors that are taken not to.
pub(super) fn spread(
    graph: &Graph<'_>,
    order: &[NodeId],
    chosen: &[bool],
    cut: &HashSet<Tensor>,
) -> Vec<bool> {
    let mut differs: Vec<bool> = graph.ids().map(|node| begins_to_differ(graph, node)).collect();
    let has_loops = graph.ids().any(|node| graph.flow(node) == Flow::NextIteration);
    loop {
        let mut changed = false;
        for &node in order {
            // Sums and rows of all workers are the same on all.
            let is_all_workers = graph.nodes.op(node as usize).starts_with("Collective");
            if differs[node as usize] || is_all_workers {
                continue;
            }
            let only_shape = ASK_FOR_SHAPES.contains(&graph.nodes.op(node as usize));
            let reads = graph.data(node).iter().any(|tensor| {
                differs[tensor.node as usize]
                    && !cut.contains(tensor)
                    && !(only_shape && has_fixed_shape(graph, *tensor))
            });
            if reads || waits_for_choice(graph, (&differs, chosen), node) {
                differs[node as usize] = true;
                changed = true;
            }
        }
        if !changed || !has_loops {
            return differs;
        }
    }
}

fn begins_to_differ(graph: &Graph<'_>, node: NodeId) -> bool {
    let op = graph.nodes.op(node as usize);
    if op.starts_with("Placeholder") {
        // Rank 0: a setting.
        let shape = graph.nodes.attr(node as usize, "shape").and_then(|shape| shape.value);
        let is_number =
            matches!(shape, Some(Value::Shape(shape)) if !shape.unknown_rank && shape.dim.is_empty());
        let declared =
            || fixed_shape(graph, Tensor { node, output: 0 }).is_some_and(|shape| shape.is_empty());
        return !(is_number && has_type_attr(graph, node) || declared());
    }
    if op.starts_with("Collective") || SAME_EVERYWHERE.contains(&op) {
        return false;
    }
    let is_stateful = graph.op(node).info.is_none_or(|info| info.is_stateful());
    is_stateful && !writes_variable(graph, node)
}

/// Placeholders of the oldest graphs give the shape of rank 0 for an unknown one.
fn has_type_attr(graph: &Graph<'_>, node: NodeId) -> bool {
    graph.nodes.op(node as usize) != "PlaceholderV2"
        || fixed_shape(graph, Tensor { node, output: 0 }).is_some()
}

fn fixed_shape(graph: &Graph<'_>, tensor: Tensor) -> Option<Vec<i64>> {
    match graph.nodes.attr(tensor.node as usize, "_output_shapes")?.value? {
        Value::List(list) => {
            let shape = list.shape.into_iter().nth(tensor.output as usize)?;
            let sizes: Vec<i64> = shape.dim.iter().map(|dim| dim.size).collect();
            (!shape.unknown_rank && sizes.iter().all(|&size| size >= 0)).then_some(sizes)
        }
        _ => None,
    }
}

fn has_fixed_shape(graph: &Graph<'_>, tensor: Tensor) -> bool {
    fixed_shape(graph, tensor).is_some()
}

/// Whether a node waits for one that a choice between branches may leave out, and that choice may differ.
fn waits_for_choice(graph: &Graph<'_>, (differs, chosen): (&[bool], &[bool]), node: NodeId) -> bool {
    let mut controls = graph.control(node).iter().map(|control| control.from as usize);
    controls.any(|from| differs[from] && chosen[from])
}

/// Marks what is not alive in each step: under a condition, or in a loop, whose iterations may be none.
pub(super) fn chosen(graph: &Graph<'_>, frames: &Frames, conditions: &Conditions) -> Vec<bool> {
    graph.ids().map(|node| conditions.of(node) != ALWAYS || frames.of_outputs(node) != ROOT).collect()
}

/// Whether an op may write to a variable that it takes, by its handle or its reference.
pub(super) fn writes_variable(graph: &Graph<'_>, node: NodeId) -> bool {
    let facts = graph.op(node);
    facts.has_effect
        && (facts.may_write_refs() || graph.data(node).iter().any(|&tensor| leads_to_variable(graph, tensor)))
}

fn leads_to_variable(graph: &Graph<'_>, tensor: Tensor) -> bool {
    let mut at = tensor;
    for _ in 0..64 {
        if graph.op(at.node).is_variable {
            return true;
        }
        let handed = HAND_ON.contains(&graph.nodes.op(at.node as usize));
        match graph.data(at.node).first() {
            Some(&next) if handed => at = next,
            _ => return false,
        }
    }
    false
}
