//! Who calls a function from the top level of its file, and which of its results is the loss.

use super::Flat;
use crate::format::op_name;
use crate::graph::{Graph, NodeId};
use crate::proto::tensorflow::tensor_info::Encoding;
use crate::proto::tensorflow::{MetaGraphDef, SignatureDef, TensorInfo};

/// The first node of the file's top level that calls the function; `graph` is the top level's.
pub fn find_call(graph: &Graph, function: &str) -> Option<NodeId> {
    let calls = |node: &NodeId| {
        graph.attrs(*node).function("f").is_some_and(|called| called == function)
            || graph.op(*node).name() == function
    };
    graph.node_ids().find(calls)
}

/// The signature whose outputs an op of the top level makes.
pub fn signature_of<'m>(meta_graph: &'m MetaGraphDef, op: &str) -> Option<&'m SignatureDef> {
    let makes = |signature: &&SignatureDef| {
        let mut outputs = signature.outputs.values().filter_map(tensor_of);
        outputs.any(|tensor| op_name(tensor) == op)
    };
    meta_graph.signature_def.values().find(makes)
}

/// The tensor that a signature names, if it is one.
pub fn tensor_of(info: &TensorInfo) -> Option<&str> {
    match &info.encoding {
        Some(Encoding::Name(name)) => Some(name),
        _ => None,
    }
}

/// Which result of a function is the loss: what was asked for, by its name in the signature or the function, or as an output of the
/// call; else the one called `loss`, else the only one.
pub fn loss_of(
    call: &str,
    signature: Option<&SignatureDef>,
    flat: &Flat,
    asked: Option<&str>,
) -> Option<usize> {
    let output = |tensor: &str| -> Option<usize> {
        let (name, output) = tensor.rsplit_once(':').unwrap_or((tensor, "0"));
        output.parse().ok().filter(|_| name == call)
    };
    let of_signature = |name: &str| output(tensor_of(signature?.outputs.get(name)?)?);
    let of_function = |name: &str| flat.returns.iter().position(|(_, returned)| returned == name);
    let named = |name: &str| of_signature(name).or_else(|| of_function(name));
    let found = match asked {
        Some(wanted) => output(wanted).or_else(|| named(wanted)),
        None => named("loss").or_else(|| (flat.returns.len() == 1).then_some(0)),
    };
    found.filter(|&index| index < flat.returns.len())
}
