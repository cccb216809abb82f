//! An op that went to the host computes nothing, and what must be where it is went along.
//!
//! Kernels of different devices may round differently, so what computes stays where it was. What keeps a value, assigns it or passes it
//! on gives the same to the bit anywhere; so does what keeps the elements of a stack or a list, parts a tensor into such, joins them
//! again, or leads a handle in and out of loops. A variable's handle, a reference to its buffer, and a stack's handle are of use only on
//! their own device, and a list would be copied to another one as a whole; and TensorFlow places ops together that say so with `_class`,
//! and fails where they cannot be.
//!
//! Such an op has another device than before, and its old one as the attribute `_lms_device`. What had to be with it and stays (what
//! makes a variable's initial value, say) names the same device as the other did, and its `_class` is called `_lms_class`. So is that of an op
//! that went and had to be with one that stays.

use std::collections::HashSet;

use prost::Message;

use super::graph::{Graph, NONE, NodeId, Tensor};
use super::names::{Task, is_host_of};
use super::op_facts::Outputs;
use super::report::{Report, ViolationKind};
use super::same_file::{Compare, same_meaning};
use crate::dtype::DataType;
use crate::format::Nodes;
use crate::proto::tensorflow::attr_value::Value;

/// The attribute with the device that a node had before.
const MARK: &str = "_lms_device";

/// The attribute that names what a node must be with, and what it is called where that went.
const CLASS: &str = "_class";
/// See [`CLASS`].
const CLASS_BEFORE: &str = "_lms_class";

/// Ops that keep a value or the elements of a stack or a list, assign them, or pass them on.
const COMPUTE_NOTHING: [&str; 36] = [
    "Assign",
    "AssignVariableOp",
    "Const",
    "EmptyTensorList",
    "Enter",
    "Exit",
    "Identity",
    "IsVariableInitialized",
    "Merge",
    "NextIteration",
    "ReadVariableOp",
    "StackCloseV2",
    "StackPopV2",
    "StackPushV2",
    "StackV2",
    "Switch",
    "TensorListConcat",
    "TensorListConcatV2",
    "TensorListElementShape",
    "TensorListFromTensor",
    "TensorListGather",
    "TensorListGetItem",
    "TensorListLength",
    "TensorListPopBack",
    "TensorListPushBack",
    "TensorListReserve",
    "TensorListResize",
    "TensorListScatter",
    "TensorListScatterV2",
    "TensorListSetItem",
    "TensorListSplit",
    "TensorListStack",
    "VarHandleOp",
    "VarIsInitializedOp",
    "Variable",
    "VariableV2",
];

/// The nodes that went to the host, and those that stayed and had to be with them, both in the order of the file.
#[derive(Debug, Default)]
pub(super) struct Moved {
    pub to_host: Vec<NodeId>,
    pub left: Vec<NodeId>,
}

impl Moved {
    /// Finds them by their marks. `pairs` says which original each node is.
    pub fn find(original: Nodes<'_>, rewritten: Nodes<'_>, pairs: &[NodeId]) -> Moved {
        let has = |nodes: Nodes<'_>, node: usize, mark: &str| {
            nodes.attrs(node).any(|(key, _)| key == mark.as_bytes())
        };
        let marked = |mark: &str| -> Vec<NodeId> {
            let is_new = |&(node, &before): &(usize, &NodeId)| {
                before != NONE && has(rewritten, node, mark) && !has(original, before as usize, mark)
            };
            pairs.iter().enumerate().filter(is_new).map(|(node, _)| node as NodeId).collect()
        };
        let to_host: Vec<NodeId> = marked(MARK);
        let mut left = marked(CLASS_BEFORE);
        left.retain(|node| to_host.binary_search(node).is_err());
        Moved { to_host, left }
    }

    /// Whether a node is one of them.
    pub fn contains(&self, node: NodeId) -> bool {
        self.to_host.binary_search(&node).is_ok() || self.left.binary_search(&node).is_ok()
    }
}

/// Whether of a node that is one of them nothing changed but what must: inputs aside, device and marks.
pub(super) fn same_otherwise(
    (original, before): (Nodes<'_>, usize),
    (rewritten, after): (Nodes<'_>, usize),
    compare: Compare,
) -> bool {
    let went = device_before(rewritten, after);
    let class = |nodes: Nodes<'_>, node, name| nodes.attr(node, name).map(|class| class.encode_to_vec());
    let old_class = class(original, before, CLASS);
    let is_freed = old_class.is_some()
        && old_class == class(rewritten, after, CLASS_BEFORE)
        && class(rewritten, after, CLASS).is_none();
    let same_marks = match &went {
        Some(device) => {
            let is_bound = old_class == class(rewritten, after, CLASS)
                && class(rewritten, after, CLASS_BEFORE) == class(original, before, CLASS_BEFORE);
            *device == original.device(before) && (is_freed || is_bound)
        }
        None => is_freed && original.device(before) == rewritten.device(after),
    };
    let changing = [MARK, CLASS, CLASS_BEFORE];
    let (before, after): (Vec<&[u8]>, Vec<&[u8]>) = (
        original.fields_beside_device(before, &changing).collect(),
        rewritten.fields_beside_device(after, &changing).collect(),
    );
    same_marks
        && match compare {
            Compare::Bytes => before == after,
            Compare::Meaning => same_meaning("tensorflow.NodeDef", &before.concat(), &after.concat()),
        }
}

/// The device that a node's mark names.
fn device_before(nodes: Nodes<'_>, node: usize) -> Option<String> {
    match nodes.attr(node, MARK)?.value {
        Some(Value::S(device)) => String::from_utf8(device).ok(),
        _ => None,
    }
}

/// Looks at all that went to the host.
pub(super) fn check(graph: &Graph<'_>, outputs: &mut Outputs, moved: &Moved, report: &mut Report) {
    if moved.to_host.is_empty() && moved.left.is_empty() {
        return;
    }
    let all: HashSet<NodeId> = moved.to_host.iter().copied().collect();
    for &node in &moved.to_host {
        computes_nothing(graph, node, report);
        is_on_host(graph, node, report);
    }
    for &node in &moved.left {
        is_where_it_was(graph, node, &all, report);
    }
    let is_on_host = |node: NodeId| {
        all.contains(&node) || graph.nodes.device(node as usize).to_ascii_uppercase().contains("CPU:")
    };
    let mut part = |kept: NodeId, other: NodeId, how: &str| {
        report.add(ViolationKind::HostOp, || {
            let names = [graph.name(kept), graph.name(other)];
            (names, format!("both on the host, as {how}"), "one of them elsewhere".to_string())
        });
    };
    for node in graph.ids().filter(|&node| graph.is_original(node)) {
        // What a handle or a reference leads to, and a list.
        for &Tensor { node: from, output } in graph.data(node) {
            let is_bound = outputs.of(graph, Tensor { node: from, output }).is_none_or(|port| {
                port.is_ref || matches!(port.dtype, DataType::RESOURCE | DataType::VARIANT)
            });
            if is_bound && (all.contains(&from) || all.contains(&node)) {
                if !is_on_host(node) {
                    part(from, node, "the second works on what the first keeps");
                } else if !is_on_host(from) {
                    part(node, from, "the first works on what the second keeps");
                }
            }
        }
        for name in colocated_with(graph.nodes, node, CLASS) {
            let Some(&named) = graph.names.get(&*name) else { continue };
            if (all.contains(&named) || all.contains(&node)) && !(is_on_host(named) && is_on_host(node)) {
                part(node, named, "the first is to be where the second is");
            }
        }
    }
}

fn computes_nothing(graph: &Graph<'_>, node: NodeId, report: &mut Report) {
    let op = graph.nodes.op(node as usize);
    if !COMPUTE_NOTHING.contains(&op) {
        report.add(ViolationKind::HostOp, || {
            let expected = "an op that computes nothing, to be on another device than before";
            ([graph.name(node)], expected.to_string(), format!("op {op}"))
        });
    }
}

fn is_on_host(graph: &Graph<'_>, node: NodeId, report: &mut Report) {
    let before = device_before(graph.nodes, node as usize);
    let owner = before.as_deref().map(Task::of);
    let device = graph.nodes.device(node as usize);
    if !before.as_deref().is_some_and(|before| is_host_of(device, before, graph.serves_any_task())) {
        report.add(ViolationKind::HostOp, || {
            let expected = match owner {
                Some(Task { job, replica, task }) => {
                    format!("a device /job:{job}/replica:{replica}/task:{task}/device:CPU:…")
                }
                None => format!("the old device as `{MARK}`"),
            };
            ([graph.name(node)], expected, format!("{device:?}"))
        });
    }
}

/// Nothing but what went to the host was to be with a node that is no more where that is, and it names the same device.
fn is_where_it_was(graph: &Graph<'_>, node: NodeId, moved: &HashSet<NodeId>, report: &mut Report) {
    let device = graph.nodes.device(node as usize);
    for name in colocated_with(graph.nodes, node, CLASS_BEFORE) {
        let named = graph.names.get(&*name).filter(|named| moved.contains(named));
        let before = named.and_then(|&named| device_before(graph.nodes, named as usize));
        if before.as_deref() != Some(device) {
            report.add(ViolationKind::HostOp, || {
                let expected = format!("{name:?} on the host, and on {device:?} before");
                (
                    [graph.name(node)],
                    expected,
                    before.map_or("not on the host".into(), |it| format!("{it:?}")),
                )
            });
        }
    }
}

/// The ops that a node must be in the same place as, by an attribute of this name.
fn colocated_with(nodes: Nodes<'_>, node: NodeId, class: &str) -> Vec<String> {
    let Some(Value::List(list)) = nodes.attr(node as usize, class).and_then(|class| class.value) else {
        return Vec::new();
    };
    let names = list.s.iter().filter_map(|name| std::str::from_utf8(name).ok()?.strip_prefix("loc:@"));
    names.map(str::to_string).collect()
}
