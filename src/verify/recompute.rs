//! A recomputed op is its original again: the same op on the same device, with the same attributes and inputs.
//!
//! Then it gives out what the original does (where its op gives the same each time, which is a rule of its own), and
//! whoever reads it in the original's place reads the same. Its inputs may be copies of what the original reads.
//!
//! The one thing that differs is the mark `_lms_recompute`: TensorFlow merges nodes that differ in nothing but their
//! names, and would undo the copy. The original's control inputs are orders that the program asked for, so the copy keeps
//! them too. Others hold it back until it is needed.

use prost::Message;

use super::graph::{Graph, NodeId, Role};
use super::names::AddedName;
use super::report::{Report, ViolationKind};
use crate::proto::tensorflow::AttrValue;
use crate::proto::tensorflow::attr_value::Value;

/// The attribute that makes a copy differ from its original and from other copies.
const MARK: &str = "_lms_recompute";

/// Compares each recomputed op with its original.
pub(super) fn check(graph: &Graph<'_>, report: &mut Report) {
    for copy in graph.ids().filter(|&node| graph.role(node) == Role::Recomputed) {
        match (AddedName::parse(graph.name(copy)), graph.copies.original_of(copy)) {
            (Some(AddedName::Recomputed(_, number)), Some(original)) => {
                fields(graph, copy, original, report);
                mark(graph, copy, original, number, report);
                data_inputs(graph, copy, original, report);
                control_inputs(graph, copy, original, report);
            }
            (Some(AddedName::Recomputed(name, _)), None) => report.add(ViolationKind::AddedName, || {
                let expected = "the name of an original node in lms/recompute/<node>/<number>";
                ([graph.name(copy)], expected.to_string(), format!("`{name}`"))
            }),
            _ => report.add(ViolationKind::AddedName, || {
                ([graph.name(copy)], "a name lms/recompute/<node>/<number>".into(), "another form".into())
            }),
        }
    }
}

/// All that a node says is as in the original but its name, its inputs and the mark.
fn fields(graph: &Graph<'_>, copy: NodeId, original: NodeId, report: &mut Report) {
    let nodes = graph.nodes;
    let names = [graph.name(copy), graph.name(original)];
    let (op, device) = (nodes.op(original as usize), nodes.device(original as usize));
    if nodes.op(copy as usize) != op {
        return report.add(ViolationKind::AddedOp, || {
            (names, format!("op {op}"), format!("op {}", nodes.op(copy as usize)))
        });
    }
    if nodes.device(copy as usize) != device {
        return report.add(ViolationKind::AddedDevice, || {
            (names, format!("device {device:?}"), format!("{:?}", nodes.device(copy as usize)))
        });
    }
    let (before, after) = (attrs(graph, original), attrs(graph, copy));
    let attrs_differ = before.is_none() || before != after;
    if attrs_differ || !other_fields(graph, copy).eq(other_fields(graph, original)) {
        report.add(ViolationKind::AddedOp, || {
            let what = if attrs_differ { "attributes" } else { "fields" };
            let expected = format!("the first to have the {what} of the second, and the mark");
            (names, expected, "others".to_string())
        });
    }
}

/// The attributes of a node but the mark, by name: a map's entries are in no certain order. Of several of one name the
/// last counts, so these stay in theirs. None if there is an entry that is not as all are written.
fn attrs<'a>(graph: &Graph<'a>, node: NodeId) -> Option<Vec<(&'a [u8], &'a [u8])>> {
    let written = graph.nodes.fields_but_inputs(node as usize).filter(|field| field.first() == Some(&ATTR));
    let mut attrs: Vec<_> = graph.nodes.attrs(node as usize).collect();
    if written.count() != attrs.len() {
        return None;
    }
    attrs.retain(|(key, _)| *key != MARK.as_bytes());
    attrs.sort_by_key(|&(key, _)| key);
    Some(attrs)
}

/// The fields of a node but name, inputs and attributes.
fn other_fields<'a>(graph: &Graph<'a>, node: NodeId) -> impl Iterator<Item = &'a [u8]> {
    let fields = graph.nodes.fields_but_inputs(node as usize);
    fields.filter(|field| !matches!(field.first(), Some(&(NAME | ATTR))))
}

/// What the field `name` of a node begins with.
const NAME: u8 = 0x0a;
/// What each field `attr` begins with.
const ATTR: u8 = 0x2a;

/// The copy has the mark once, with its number, and the original has it not.
fn mark(graph: &Graph<'_>, copy: NodeId, original: NodeId, number: u32, report: &mut Report) {
    let marks = |node: NodeId| {
        graph.nodes.attrs(node as usize).filter(|(key, _)| *key == MARK.as_bytes()).map(|(_, value)| value)
    };
    let mut found = marks(copy);
    let wanted = AttrValue { value: Some(Value::I(i64::from(number))) };
    let is_right = |value: &[u8]| AttrValue::decode(value).is_ok_and(|value| value == wanted);
    let only = found.next().is_some_and(is_right) && found.next().is_none();
    if !only || marks(original).next().is_some() {
        report.add(ViolationKind::AddedOp, || {
            let expected =
                format!("the attribute {MARK} = {number} in the first, and none of that name in the second");
            ([graph.name(copy), graph.name(original)], expected, "it otherwise".to_string())
        });
    }
}

/// Slot by slot the inputs lead back to the tensors that the original reads.
fn data_inputs(graph: &Graph<'_>, copy: NodeId, original: NodeId, report: &mut Report) {
    let names = [graph.name(copy), graph.name(original)];
    let (wanted, found) = (graph.origins(original), graph.origins(copy));
    if wanted.len() != found.len() {
        return report.add(ViolationKind::AddedInputs, || {
            (names, format!("{} data inputs", wanted.len()), format!("{}", found.len()))
        });
    }
    for (slot, (wanted, found)) in wanted.iter().zip(found).enumerate() {
        if wanted != found {
            report.add(ViolationKind::AddedInputs, || {
                let mut read = format!("`{}`", graph.tensor_name(*found));
                let direct = graph.data(copy)[slot];
                if direct != *found {
                    read = format!("{read} by way of `{}`", graph.tensor_name(direct));
                }
                (names, format!("`{}` as input {slot}", graph.tensor_name(*wanted)), read)
            });
        }
    }
}

/// The original's control inputs are all there; the others are of ops that may hold a copy back.
fn control_inputs(graph: &Graph<'_>, copy: NodeId, original: NodeId, report: &mut Report) {
    let names = [graph.name(copy), graph.name(original)];
    let mut found: Vec<NodeId> = graph.control(copy).iter().map(|control| control.from).collect();
    found.sort_unstable();
    for control in graph.control(original).iter().filter(|control| !control.added) {
        if found.binary_search(&control.from).is_err() {
            report.add(ViolationKind::LostControl, || {
                let expected = format!("the control input `^{}` of the second", graph.name(control.from));
                (names, expected, "none in the first".to_string())
            });
        }
    }
    for control in graph.control(copy) {
        if !matches!(graph.role(control.from), Role::Original | Role::SwapOut | Role::Order) {
            report.add(ViolationKind::AddedInputs, || {
                let expected = "control inputs from original, swap-out and order ops";
                ([graph.name(copy)], expected.to_string(), format!("`^{}`", graph.name(control.from)))
            });
        }
    }
}
