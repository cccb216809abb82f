//! Every original node is there: once, in the same order, and the same but for its inputs and perhaps its device.
//!
//! Order matters where a node's place is its identity (TensorFlow breaks ties between ready ops by it), and a node's
//! op, device and attributes are what it computes. Only inputs may change, and the devices of what goes to the host; other rules look
//! at these.

use super::graph::{NONE, NodeId};
use super::host_ops::{self, Moved};
use super::names::{ADDED_PREFIX, NameMap};
use super::report::{Report, ViolationKind};
use super::same_file::{Compare, same_meaning};
use crate::format::Nodes;

/// For each node of the rewritten graph the original it is, or [`NONE`] if it was added.
///
/// None if the two graphs do not correspond; the report then says why.
pub(super) fn pair(original: Nodes<'_>, rewritten: Nodes<'_>, report: &mut Report) -> Option<Vec<NodeId>> {
    let mut pairs = Vec::with_capacity(rewritten.len());
    let mut next = 0;
    for node in 0..rewritten.len() {
        let name = rewritten.name(node);
        if next < original.len() && original.name(next) == name {
            pairs.push(next as NodeId);
            next += 1;
        } else if name.starts_with(ADDED_PREFIX) {
            pairs.push(NONE);
        } else {
            explain(original, rewritten, report);
            return None;
        }
    }
    if next < original.len() {
        explain(original, rewritten, report);
        return None;
    }
    Some(pairs)
}

/// Says why two graphs do not correspond.
fn explain(original: Nodes<'_>, rewritten: Nodes<'_>, report: &mut Report) {
    let before = by_name(original, "the original graph", report);
    let after = by_name(rewritten, "the rewritten graph", report);
    for node in 0..original.len() {
        let name = original.name(node);
        if !after.contains_key(name) {
            report.add(ViolationKind::MissingNode, || {
                ([name], "the node in the rewritten graph".into(), "no node of this name".into())
            });
        }
    }
    let mut last: Option<NodeId> = None;
    for node in 0..rewritten.len() {
        let name = rewritten.name(node);
        match before.get(name) {
            Some(&place) if last.is_some_and(|last| place < last) => {
                let ahead = last.map_or("", |last| original.name(last as usize));
                report.add(ViolationKind::ReorderedNode, || {
                    (
                        [name, ahead],
                        "the original order of the nodes".into(),
                        "the first behind the second".into(),
                    )
                });
            }
            Some(&place) => last = Some(place),
            None if name.starts_with(ADDED_PREFIX) => {}
            None => report.add(ViolationKind::ExtraNode, || {
                (
                    [name],
                    format!("an original node or one under {ADDED_PREFIX}"),
                    "a node that the original graph has not".into(),
                )
            }),
        }
    }
}

/// The nodes by name; reports names that come twice.
pub(super) fn by_name<'a>(nodes: Nodes<'a>, graph: &str, report: &mut Report) -> NameMap<'a, NodeId> {
    let mut names = NameMap::with_capacity_and_hasher(nodes.len(), Default::default());
    for node in 0..nodes.len() {
        let name = nodes.name(node);
        if names.insert(name, node as NodeId).is_some() {
            report.add(ViolationKind::DuplicateName, || {
                ([name], format!("one node of this name in {graph}"), "several".into())
            });
        }
    }
    names
}

/// Compares each original node with what became of it, inputs aside, and what a move to the host changes.
pub(super) fn check(
    (original, rewritten): (Nodes<'_>, Nodes<'_>),
    pairs: &[NodeId],
    moved: &Moved,
    compare: Compare,
    report: &mut Report,
) {
    for (after, &before) in pairs.iter().enumerate().filter(|(_, before)| **before != NONE) {
        let before = before as usize;
        if original.raw(before) == rewritten.raw(after) {
            continue;
        }
        let same = match compare {
            _ if moved.contains(after as NodeId) => {
                host_ops::same_otherwise((original, before), (rewritten, after), compare)
            }
            Compare::Bytes => original.fields_but_inputs(before).eq(rewritten.fields_but_inputs(after)),
            Compare::Meaning => {
                same_meaning("tensorflow.NodeDef", original.raw(before), rewritten.raw(after))
            }
        };
        if !same {
            report.add(ViolationKind::ChangedNode, || {
                let (expected, found) = difference(original, before, rewritten, after);
                ([original.name(before)], expected, found)
            });
        }
    }
}

/// What differs between two nodes, in words.
fn difference(before: Nodes<'_>, old: usize, after: Nodes<'_>, new: usize) -> (String, String) {
    if before.op(old) != after.op(new) {
        return (format!("op {}", before.op(old)), format!("op {}", after.op(new)));
    }
    if before.device(old) != after.device(new) {
        return (format!("device {:?}", before.device(old)), format!("device {:?}", after.device(new)));
    }
    let (expected, found) = ("the node's fields but its inputs as they were", "other attributes or fields");
    for (name, value) in before.attrs(old) {
        if !after.attrs(new).any(|attr| attr == (name, value)) {
            let attr = String::from_utf8_lossy(name);
            return (format!("attribute `{attr}` as it was"), "another value or none".to_string());
        }
    }
    (expected.to_string(), found.to_string())
}
