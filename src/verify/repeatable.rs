//! What is run again gives the same again, to the bit, and does nothing else.
//!
//! TensorFlow calls ops stateful whose second run may give something else or has an effect: random numbers, variables,
//! queues, prints. Some are not called so and yet are no functions of their inputs; these are refused by name. Of ops
//! without a definition, and of ops that run a function, nothing is known.
//!
//! The inputs must be the same values at the later time. Tensors are; what a reference to a variable names is not, nor a
//! resource or a variant. (What was read of a resource variable is a tensor like others: who writes to the variable
//! while the tensor is in use writes to a copy.) A ref variable's buffer is the same until the next update, so its readers may
//! run again before that, which [`super::ref_order`] looks at; who hands the buffer on may not. Strings are refused as for
//! swaps.
//!
//! A `Switch` does as its inputs say. A `Merge` takes the first of its inputs that is there and alive; `branches` looks at whether there can be but one.
//!
//! The same bits are those of one op on one device. Feeds are placeholders: a step that feeds another tensor in place of
//! an original's output feeds nothing to the copies.

use super::buffers::Buffers;
use super::graph::{Graph, NodeId};
use super::op_facts::{self, Flow, Outputs};
use super::report::{Report, ViolationKind};
use super::unrepeatable_ops;
use crate::dtype::DataType;
use crate::ops::Port;

/// Looks at the original of each recomputed op.
pub(super) fn check(graph: &Graph<'_>, outputs: &mut Outputs, report: &mut Report) {
    if graph.copies.by_copy().is_empty() {
        return;
    }
    let buffers = Buffers::find(graph);
    let in_place = graph.ids().find(|&node| unrepeatable_ops::writes_to_input(graph.nodes.op(node as usize)));
    for &(copy, original) in graph.copies.by_copy() {
        let wrong = op(graph, original)
            .or_else(|| ports(graph, original))
            .or_else(|| inputs(graph, outputs, &buffers, copy, original))
            .or_else(|| {
                let found = format!("`{}`, by which a tensor may change later", graph.name(in_place?));
                Some(Wrong {
                    kind: ViolationKind::Unrepeatable,
                    expected: "no op that writes to an input",
                    found,
                })
            });
        if let Some(Wrong { kind, expected, found }) = wrong {
            report.add(kind, || ([graph.name(copy), graph.name(original)], expected.to_string(), found));
        }
    }
}

/// Why a node may not be run again.
struct Wrong {
    kind: ViolationKind,
    expected: &'static str,
    found: String,
}

fn unrepeatable(expected: &'static str, found: String) -> Option<Wrong> {
    Some(Wrong { kind: ViolationKind::Unrepeatable, expected, found })
}

fn unknown(expected: &'static str, found: String) -> Option<Wrong> {
    Some(Wrong { kind: ViolationKind::UnknownOp, expected, found })
}

/// What speaks against the node's op.
fn op(graph: &Graph<'_>, node: NodeId) -> Option<Wrong> {
    let facts = graph.op(node);
    let op = graph.nodes.op(node as usize);
    if facts.info.is_none() {
        return unknown("an op with a known definition", format!("op {op}"));
    }
    if facts.runs_function {
        return unrepeatable("an op that runs no function", format!("op {op}"));
    }
    if facts.flow != Flow::Plain && !matches!(op, "Switch" | "Merge") {
        return unrepeatable("an op of no loop", format!("op {op}"));
    }
    if facts.has_effect || facts.rests_on_state {
        return unrepeatable("an op without state, effects or feeds", format!("op {op}"));
    }
    let reason = unrepeatable_ops::reason(op)?;
    unrepeatable("an op that gives the same each time", format!("op {op}, which {reason}"))
}

/// What speaks against the types of its inputs and outputs.
fn ports(graph: &Graph<'_>, node: NodeId) -> Option<Wrong> {
    let info = graph.op(node).info?;
    let inputs = op_facts::inputs(graph.nodes, info, node);
    let outputs = op_facts::outputs(graph.nodes, info, node);
    let (Some(inputs), Some(outputs)) = (inputs, outputs) else {
        return unknown("attributes that say what the op takes and gives", format!("op {}", info.name()));
    };
    if outputs.is_empty() {
        return unrepeatable("an op that gives something", format!("op {}", info.name()));
    }
    inputs.iter().chain(&outputs).find_map(port)
}

/// What speaks against an input or output of this type.
fn port(port: &Port) -> Option<Wrong> {
    if port.is_ref {
        return unrepeatable("values only", format!("a reference ({} ref)", port.dtype));
    }
    let named = [DataType::RESOURCE, DataType::VARIANT, DataType::STRING].contains(&port.dtype);
    named.then(|| unrepeatable("numbers and truth values only", port.dtype.to_string())).flatten()
}

/// What speaks against the tensors that the node reads, or those that the copy reads in their place.
fn inputs(
    graph: &Graph<'_>,
    outputs: &mut Outputs,
    buffers: &Buffers,
    copy: NodeId,
    original: NodeId,
) -> Option<Wrong> {
    let expected = "inputs that stay as they are";
    if buffers.gives(original) {
        let found = format!("`{}`, which may hand on a variable's buffer", graph.name(original));
        return unrepeatable("an op that gives a tensor of its own", found);
    }
    for (read, origin) in graph.data(copy).iter().zip(graph.origins(original)) {
        // The buffer itself is the same as long as the variable is. When a copy of it was made is another question.
        if read != origin && (buffers.gives(read.node) || buffers.gives(origin.node)) {
            let found = format!("`{}`, which may be a variable's buffer", graph.tensor_name(*read));
            return unrepeatable(expected, found);
        }
    }
    for &tensor in graph.origins(original) {
        match outputs.of(graph, tensor) {
            Some(port) if !port.is_ref => {}
            Some(_) => {
                return unrepeatable(expected, format!("`{}`, a reference", graph.tensor_name(tensor)));
            }
            None => {
                let found = format!("`{}`, of which nothing is known", graph.tensor_name(tensor));
                return unknown(expected, found);
            }
        }
    }
    None
}
