//! With swap ops followed back, every data input reads the tensor that it read before.
//!
//! A swap op's kernel gives out what it got, so a node whose inputs lead back to the same tensors computes the same.

use super::graph::{Graph, NodeId};
use super::names::Input;
use super::report::{Report, ViolationKind};
use crate::format::Nodes;

/// Compares the data inputs of each original node with those that it had. `pairs` are the changed nodes and their
/// originals.
pub(super) fn check(graph: &Graph<'_>, original: Nodes<'_>, pairs: &[(NodeId, NodeId)], report: &mut Report) {
    for &(node, before) in pairs {
        let name = graph.name(node);
        let inputs = original.inputs(before as usize).filter(|input| !input.starts_with('^'));
        let inputs: Vec<&str> = inputs.collect();
        let count = inputs.len();
        let now = graph.origins(node);
        if count != now.len() {
            report.add(ViolationKind::InputCount, || {
                ([name], format!("{count} data inputs"), format!("{}", now.len()))
            });
            continue;
        }
        for (slot, (input, (&tensor, &direct))) in
            inputs.into_iter().zip(now.iter().zip(graph.data(node))).enumerate()
        {
            let same = match Input::parse(input) {
                Some(Input::Data(from, output)) => graph.name(tensor.node) == from && tensor.output == output,
                _ => false,
            };
            if !same {
                report.add(ViolationKind::WrongTensor, || {
                    let mut found = format!("`{}`", graph.tensor_name(tensor));
                    if direct != tensor {
                        found = format!("{found} by way of `{}`", graph.tensor_name(direct));
                    }
                    ([name], format!("`{input}` as input {slot}"), found)
                });
            }
        }
    }
}
