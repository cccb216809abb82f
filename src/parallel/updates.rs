//! The ops of a step that write to variables.

use super::ParallelError;
use super::depends::{Marks, is_marked};
use crate::dtype::DataType;
use crate::graph::{Graph, NodeId, TensorId};
use crate::ops::{Attr, AttrLookup};
use crate::plan::Analysis;

/// One thing that an op writes to a variable and that depends on data.
#[derive(Debug, Clone, Copy)]
pub(super) struct Applied {
    /// The op.
    pub update: NodeId,
    /// What it takes.
    pub tensor: TensorId,
    /// Which rows of the variable that is for; none if for all.
    pub indices: Option<TensorId>,
}

/// How an op writes.
enum Writes {
    /// Its inputs are the variable and numbers, the same for all of the variable.
    Dense,
    /// The inputs of these names are rows and their indices.
    Rows(&'static str),
    /// In another way.
    Otherwise,
}

/// Whether an op is a variable, or its handle.
pub(super) fn is_variable(graph: &Graph, node: NodeId) -> bool {
    matches!(graph.op(node).name(), "VarHandleOp" | "Variable" | "VariableV2")
}

/// The type of a variable's values.
pub(crate) fn variable_type(graph: &Graph, node: NodeId) -> Option<DataType> {
    match graph.attrs(node).attr("dtype") {
        Some(Attr::Type(dtype)) => Some(dtype),
        _ => None,
    }
}

/// Whether an op may write to a variable that it takes.
pub(super) fn may_write(graph: &Graph, node: NodeId) -> bool {
    let op = graph.op(node);
    op.has_effect()
        && (op.inputs().iter().any(|arg| arg.is_ref)
            || graph.data_inputs(node).iter().any(|&input| leads_to_variable(graph, input)))
}

/// Whether a tensor is a variable or its handle, perhaps by way of ops that pass it on.
fn leads_to_variable(graph: &Graph, tensor: TensorId) -> bool {
    let mut node = graph.producer(tensor);
    for _ in 0..64 {
        if node.index() >= graph.len() {
            return false;
        }
        if is_variable(graph, node) {
            return true;
        }
        let passes_on = [
            "Identity",
            "Switch",
            "Enter",
            "RefSwitch",
            "RefIdentity",
            "RefEnter",
            "Assign",
            "RefMerge",
            "Merge",
        ];
        match graph.data_inputs(node).first() {
            Some(&next) if passes_on.contains(&graph.op(node).name()) => node = graph.producer(next),
            _ => return false,
        }
    }
    false
}

/// Whether an op gives a variable a new value, and is no optimizer's.
pub(super) fn is_assignment(graph: &Graph, node: NodeId) -> bool {
    graph.op(node).name().starts_with("Assign")
}

/// All that the step's ops write to variables and that depends on data.
pub(super) fn find(analysis: &Analysis, marks: &Marks) -> Result<Vec<Applied>, ParallelError> {
    let graph = analysis.graph;
    let mut found = Vec::new();
    let updates = graph.node_ids().filter(|&node| analysis.step.contains(node) && may_write(graph, node));
    for update in updates {
        let op = graph.op(update).name();
        let variables = |&&tensor: &&TensorId| !leads_to_variable(graph, tensor);
        let inputs: Vec<TensorId> = graph.data_inputs(update).iter().filter(variables).copied().collect();
        let mut marked: Vec<TensorId> =
            inputs.iter().copied().filter(|&tensor| is_marked(graph, marks, tensor)).collect();
        marked.dedup();
        if marked.is_empty() {
            continue;
        }
        match writes(op) {
            Writes::Dense => {
                found.extend(marked.into_iter().map(|tensor| Applied { update, tensor, indices: None }));
            }
            Writes::Rows(values) => {
                let unknown = || ParallelError::UnknownUpdate {
                    node: graph.name(update).to_string(),
                    op: op.to_string(),
                };
                let input = |name| named_input(graph, update, name).ok_or_else(unknown);
                let (tensor, indices) = (input(values)?, input("indices")?);
                if marked.iter().any(|&other| other != tensor && other != indices) {
                    return Err(unknown());
                }
                found.push(Applied { update, tensor, indices: Some(indices) });
            }
            Writes::Otherwise => {
                let (node, op) = (graph.name(update).to_string(), op.to_string());
                return Err(ParallelError::UnknownUpdate { node, op });
            }
        }
    }
    Ok(found)
}

fn writes(op: &str) -> Writes {
    let plain = op.strip_prefix("Resource").unwrap_or(op);
    match plain {
        "Assign"
        | "AssignAdd"
        | "AssignSub"
        | "AssignVariableOp"
        | "AssignAddVariableOp"
        | "AssignSubVariableOp" => Writes::Dense,
        "ScatterAdd" | "ScatterSub" => Writes::Rows("updates"),
        _ if plain.starts_with("Apply") => Writes::Dense,
        _ if plain.starts_with("SparseApply") => Writes::Rows("grad"),
        _ => Writes::Otherwise,
    }
}

/// The input of this name, of an op whose inputs are all single.
fn named_input(graph: &Graph, node: NodeId, name: &str) -> Option<TensorId> {
    let args = graph.op(node).inputs();
    let single = args.iter().all(|arg| arg.number_attr.is_empty() && arg.type_list_attr.is_empty());
    let slot = args.iter().position(|arg| arg.name == name).filter(|_| single)?;
    graph.data_inputs(node).get(slot).copied()
}
