//! Added ops have the form that is known to do nothing but copy, or nothing but order.
//!
//! A swap op is a `PreventGradient`: its kernel is Identity's, and Grappler leaves it where it is, on the host. The host
//! must be its owner's own: in another task the tensor would cross the network, and a device string that leaves parts out
//! may be placed in another task. An order op is a `NoOp`.

use prost::Message;

use super::graph::{Graph, NodeId, Role, Tensor};
use super::names::{AddedName, Task, is_host_of};
use super::op_facts::Outputs;
use super::report::{Report, ViolationKind};
use crate::dtype::DataType;
use crate::proto::tensorflow::AttrValue;
use crate::proto::tensorflow::attr_value::{ListValue, Value};

/// Looks at each added op.
pub(super) fn check(graph: &Graph<'_>, outputs: &mut Outputs, report: &mut Report) {
    for node in graph.ids() {
        match graph.role(node) {
            Role::Original => {}
            Role::SwapIn | Role::SwapOut | Role::Initial => swap(graph, outputs, node, report),
            Role::Order => order(graph, node, report),
            // It has the form of another node, and a rule of its own.
            Role::Recomputed => {}
            Role::Unknown => report.add(ViolationKind::UnknownAddedOp, || {
                let expected = "a name that begins with lms/swap_in/, lms/swap_out/, lms/order/, lms/recompute/ or \
                                lms/initial/";
                ([graph.name(node)], expected.to_string(), format!("a {}", graph.nodes.op(node as usize)))
            }),
        }
    }
}

fn swap(graph: &Graph<'_>, outputs: &mut Outputs, node: NodeId, report: &mut Report) {
    let name = graph.name(node);
    let op_is_right = is_op(graph, node, "PreventGradient", report);
    let Some(tensor) = swapped_tensor(graph, node, report) else { return };
    name_matches(graph, node, tensor, report);
    if op_is_right {
        swap_attrs(graph, outputs, node, tensor, report);
    }

    let owner = graph.nodes.device(tensor.node as usize);
    let device = graph.nodes.device(node as usize);
    if !is_host_of(device, owner, graph.serves_any_task()) {
        report.add(ViolationKind::AddedDevice, || {
            let Task { job, replica, task } = Task::of(owner);
            let expected = format!("a device /job:{job}/replica:{replica}/task:{task}/device:CPU:…");
            ([name, graph.name(tensor.node)], expected, format!("{device:?}"))
        });
    }
    for control in graph.control(node) {
        if !matches!(graph.role(control.from), Role::Original | Role::SwapOut | Role::Order) {
            report.add(ViolationKind::AddedInputs, || {
                let expected = "control inputs from original, swap-out and order ops";
                ([name], expected.to_string(), format!("`^{}`", graph.name(control.from)))
            });
        }
    }
}

/// The original tensor that a swap op gives out.
fn swapped_tensor(graph: &Graph<'_>, node: NodeId, report: &mut Report) -> Option<Tensor> {
    let name = graph.name(node);
    let (&[read], &[origin]) = (graph.data(node), graph.origins(node)) else {
        report.add(ViolationKind::AddedInputs, || {
            ([name], "one data input".to_string(), format!("{}", graph.data(node).len()))
        });
        return None;
    };
    let by_swap_out = graph.role(node) == Role::SwapIn && graph.role(read.node) == Role::SwapOut;
    if !graph.is_original(origin.node) || !(graph.is_original(read.node) || by_swap_out) {
        report.add(ViolationKind::AddedInputs, || {
            let expected = match graph.role(node) {
                Role::SwapIn => "an original tensor or output 0 of its swap-out as data input",
                _ => "an original tensor as data input",
            };
            ([name], expected.to_string(), format!("`{}`", graph.tensor_name(read)))
        });
        return None;
    }
    Some(origin)
}

fn name_matches(graph: &Graph<'_>, node: NodeId, tensor: Tensor, report: &mut Report) {
    let name = graph.name(node);
    let Some(
        AddedName::SwapIn(owner, output)
        | AddedName::SwapOut(owner, output)
        | AddedName::Initial(owner, output),
    ) = AddedName::parse(name)
    else {
        let expected = match graph.role(node) {
            Role::SwapIn => "a name lms/swap_in/<node>/<output>_<use>",
            Role::Initial => "a name lms/initial/<node>/<output>_<number>",
            _ => "a name lms/swap_out/<node>/<output>",
        };
        report.add(ViolationKind::AddedName, || ([name], expected.to_string(), "another form".to_string()));
        return;
    };
    if (owner, output) != (graph.name(tensor.node), tensor.output) {
        report.add(ViolationKind::AddedName, || {
            let found = format!("a swap of `{}`", graph.tensor_name(tensor));
            ([name], format!("a swap of `{owner}:{output}`, as the name says"), found)
        });
    }
}

/// `T` is the tensor's type, `message` is any text, and `_output_shapes` is the tensor's shape.
fn swap_attrs(graph: &Graph<'_>, outputs: &mut Outputs, node: NodeId, tensor: Tensor, report: &mut Report) {
    let name = graph.name(node);
    let mut add = |expected: String, found: String| {
        report.add(ViolationKind::AddedOp, || ([name, graph.name(tensor.node)], expected, found));
    };
    let Some(attrs) = plain_attrs(graph, node) else {
        return add("a node of nothing but name, op, input, device, attr".to_string(), "more".to_string());
    };
    let mut has_type = false;
    for (key, value) in &attrs {
        match (*key, &value.value) {
            ("T", Some(Value::Type(number))) => {
                has_type = true;
                let found = DataType::new(*number);
                match outputs.of(graph, tensor) {
                    Some(port) if port.dtype != found => {
                        add(format!("the tensor's type {}", port.dtype), format!("{found}"));
                    }
                    _ => {}
                }
            }
            ("message", Some(Value::S(_))) => {}
            ("_output_shapes", Some(Value::List(shapes))) => {
                if !is_shape_of(graph, shapes, tensor) {
                    add("`_output_shapes` with the tensor's shape".into(), "another shape".into());
                }
            }
            _ => add("no attributes but T, message, _output_shapes".into(), format!("`{key}`: {value:?}")),
        }
    }
    if !has_type {
        add("an attribute T".to_string(), "none".to_string());
    }
}

/// Whether `shapes` is just the shape that the tensor's producer gives for it.
fn is_shape_of(graph: &Graph<'_>, shapes: &ListValue, tensor: Tensor) -> bool {
    let Some(AttrValue { value: Some(Value::List(known)) }) =
        graph.nodes.attr(tensor.node as usize, "_output_shapes")
    else {
        return false;
    };
    let expected = known.shape.into_iter().nth(tensor.output as usize).map(|shape| vec![shape]);
    expected.is_some_and(|shape| *shapes == ListValue { shape, ..ListValue::default() })
}

/// The attributes of an added node; none if it has fields that no added node has, or an attribute twice.
fn plain_attrs<'a>(graph: &Graph<'a>, node: NodeId) -> Option<Vec<(&'a str, AttrValue)>> {
    // The keys of name, op, device and attr.
    let plain = |field: &[u8]| matches!(field.first(), Some(0x0a | 0x12 | 0x22 | 0x2a));
    if !graph.nodes.fields_but_inputs(node as usize).all(plain) {
        return None;
    }
    let mut attrs: Vec<(&str, AttrValue)> = Vec::new();
    for (name, value) in graph.nodes.attrs(node as usize) {
        let name = std::str::from_utf8(name).ok()?;
        // An added op has three attributes at most; one with many more need not be looked at to its end.
        if attrs.len() > 8 || attrs.iter().any(|(known, _)| *known == name) {
            return None;
        }
        attrs.push((name, AttrValue::decode(value).ok()?));
    }
    Some(attrs)
}

fn order(graph: &Graph<'_>, node: NodeId, report: &mut Report) {
    let name = graph.name(node);
    if AddedName::parse(name) != Some(AddedName::Order) {
        report.add(ViolationKind::AddedName, || {
            ([name], "a name lms/order/<number>".to_string(), "another form".to_string())
        });
    }
    if let Some(&read) = graph.data(node).first() {
        report.add(ViolationKind::AddedInputs, || {
            ([name], "control inputs only".to_string(), format!("`{}`", graph.tensor_name(read)))
        });
    }
    if is_op(graph, node, "NoOp", report) {
        let attrs = plain_attrs(graph, node);
        let no_shapes = Value::List(ListValue::default());
        let empty = |(key, value): &(&str, AttrValue)| {
            *key == "_output_shapes" && value.value.as_ref() == Some(&no_shapes)
        };
        if !attrs.is_some_and(|attrs| attrs.iter().all(empty)) {
            report.add(ViolationKind::AddedOp, || {
                ([name], "no attributes".to_string(), "some, or other fields".to_string())
            });
        }
    }
    order_device(graph, node, report);
}

/// An order op is in the task of an op that it waits for, or leaves its place to TensorFlow.
fn order_device(graph: &Graph<'_>, node: NodeId, report: &mut Report) {
    let device = graph.nodes.device(node as usize);
    let own = Task::of(device);
    let device_of = |from| graph.nodes.device(from as usize);
    if device.is_empty() || graph.sources(node).any(|from| Task::of(device_of(from)) == own) {
        return;
    }
    report.add(ViolationKind::AddedDevice, || {
        let expected = "no device, or one in the task of an op that it waits for";
        ([graph.name(node)], expected.to_string(), format!("{device:?}"))
    });
}

fn is_op(graph: &Graph<'_>, node: NodeId, expected: &str, report: &mut Report) -> bool {
    let op = graph.nodes.op(node as usize);
    if op != expected {
        report.add(ViolationKind::AddedOp, || {
            ([graph.name(node)], format!("op {expected}"), format!("op {op}"))
        });
    }
    op == expected
}
