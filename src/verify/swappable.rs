//! What leaves the device is a value: no reference, no handle, no persistent state.
//!
//! A reference names a variable's buffer, and a copy of the buffer would no longer be the variable. Resources and
//! variants name things of their device. Strings are of the host already, and their copies are deep.

use super::graph::{Graph, NodeId, Tensor};
use super::op_facts::Outputs;
use super::report::{Report, ViolationKind};
use crate::dtype::DataType;

/// Looks at the tensor of each swap op.
pub(super) fn check(graph: &Graph<'_>, outputs: &mut Outputs, report: &mut Report) {
    for node in graph.ids().filter(|&node| graph.role(node).is_swap()) {
        for &tensor in graph.origins(node) {
            tensor_is_swappable(graph, outputs, node, tensor, report);
        }
    }
}

fn tensor_is_swappable(
    graph: &Graph<'_>,
    outputs: &mut Outputs,
    swap: NodeId,
    tensor: Tensor,
    report: &mut Report,
) {
    let facts = graph.op(tensor.node);
    let mut add = |kind, expected: &str, found: String| {
        report.add(kind, || ([graph.name(swap), graph.name(tensor.node)], expected.to_string(), found));
    };
    let op = graph.nodes.op(tensor.node as usize);
    if facts.is_variable {
        return add(ViolationKind::Persistent, "a tensor of one step", format!("the output of a {op}"));
    }
    if facts.info.is_none() {
        return add(ViolationKind::UnknownOp, "an op with a known definition", format!("op {op}"));
    }
    match outputs.of(graph, tensor) {
        None => {
            let found = format!("no output {} of op {op} with the node's attributes", tensor.output);
            add(ViolationKind::UnknownOp, "a tensor whose type the op's definition gives", found);
        }
        Some(port) if port.is_ref => {
            add(ViolationKind::RefType, "a value", format!("a reference ({} ref)", port.dtype));
        }
        Some(port) if [DataType::RESOURCE, DataType::VARIANT, DataType::STRING].contains(&port.dtype) => {
            add(
                ViolationKind::UnswappableType,
                "a tensor of numbers or truth values",
                port.dtype.to_string(),
            );
        }
        Some(_) => {}
    }
}
