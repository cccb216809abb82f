//! What stays in a GPU's memory from step to step.

use std::collections::HashSet;

use super::constants::LARGEST_FOLDED_BYTES;
use super::pool::in_chunks;
use crate::graph::{Graph, NodeId, TensorId};
use crate::ops::{Attr, AttrLookup};
use crate::order::{Place, Placement};
use crate::plan::Analysis;

/// For each GPU the sizes, in whole chunks, of all that is there when a step begins.
///
/// These are the variables, also those that a step does not touch: an initializer made them. Then the step's constants. And
/// the constants of the initializer: a session keeps what it has once run, and TensorFlow computes the zeros that optimizers begin
/// with beforehand. (Equal ones are one constant. That the variables share their memory with it ends with the first step.)
pub(super) fn sizes(
    analysis: &Analysis,
    placement: &Placement,
    constant: &[bool],
    runs: impl Fn(NodeId) -> bool,
) -> Vec<Vec<u64>> {
    let graph = analysis.graph;
    let bytes_of = |tensor: TensorId| analysis.sizes.bytes(tensor).filter(|&bytes| bytes > 0);
    let mut sizes = vec![Vec::new(); placement.gpus().len()];
    let mut initial: HashSet<(u16, Fingerprint)> = HashSet::new();
    for node in graph.node_ids() {
        let Place::Gpu(gpu) = placement.op(node) else { continue };
        let bytes = match graph.op(node).name() {
            "VarHandleOp" => handle_bytes(graph, node),
            "Variable" | "VariableV2" => graph.outputs(node).next().and_then(bytes_of),
            "Assign" | "AssignVariableOp" if !runs(node) => {
                let value = graph.data_inputs(node).get(1).copied();
                value.filter(|&value| is_folded(analysis, placement, constant, value)).and_then(|value| {
                    let is_new = initial.insert((gpu, fingerprint(analysis, value)));
                    bytes_of(value).filter(|_| is_new)
                })
            }
            _ => None,
        };
        sizes[usize::from(gpu)].extend(bytes.filter(|&bytes| bytes > 0).map(in_chunks));
    }
    // Constants are kept where they are read.
    let mut read: HashSet<(u16, Fingerprint)> = HashSet::new();
    for node in graph.node_ids().filter(|&node| runs(node)) {
        for (&tensor, &place) in graph.data_inputs(node).iter().zip(placement.inputs(node)) {
            let producer = graph.producer(tensor);
            let is_constant = producer.index() < graph.len() && constant[producer.index()];
            if let (true, Place::Gpu(gpu)) = (is_constant, place)
                && let Some(bytes) = bytes_of(tensor)
                && read.insert((gpu, fingerprint(analysis, tensor)))
            {
                sizes[usize::from(gpu)].push(in_chunks(bytes));
            }
        }
    }
    sizes
}

/// The bytes of a resource variable, which its handle has as attributes.
fn handle_bytes(graph: &Graph, node: NodeId) -> Option<u64> {
    let attrs = graph.attrs(node);
    let Some(Attr::Type(dtype)) = attrs.attr("dtype") else { return None };
    let shape = attrs.shape("shape")?;
    let mut sizes = shape.iter().map(|&size| u64::try_from(size).ok());
    sizes.try_fold(dtype.size_in_bytes()?, |bytes, size| bytes.checked_mul(size?))
}

/// What makes two constants equal: how they are made, of what value, in which shape; of others than plain ones, which they are.
type Fingerprint = (String, Vec<u8>, Vec<i64>);

fn fingerprint(analysis: &Analysis, tensor: TensorId) -> Fingerprint {
    let graph = analysis.graph;
    let producer = graph.producer(tensor);
    let content = |node: NodeId| graph.attrs(node).raw("value").unwrap_or_default().to_vec();
    let op = graph.op(producer).name();
    let shape = analysis.shapes.get(tensor).unwrap_or_default().to_vec();
    let filler = graph.data_inputs(producer).get(1).map(|&value| graph.producer(value));
    match (op, filler) {
        ("Const", _) => (op.to_string(), content(producer), shape),
        ("Fill", Some(filler)) if filler.index() < graph.len() && graph.op(filler).name() == "Const" => {
            (op.to_string(), content(filler), shape)
        }
        ("ZerosLike" | "OnesLike", _) => (op.to_string(), Vec::new(), shape),
        _ => (graph.tensor_name(tensor).to_string(), Vec::new(), shape),
    }
}

/// Whether what an initializer assigns is computed beforehand, and kept on the GPU.
fn is_folded(analysis: &Analysis, placement: &Placement, constant: &[bool], value: TensorId) -> bool {
    let producer = analysis.graph.producer(value);
    let is_zeros = || matches!(analysis.graph.op(producer).name(), "ZerosLike" | "OnesLike");
    producer.index() < analysis.graph.len()
        && placement.output(value) != Place::Host
        && (constant[producer.index()] || is_zeros())
        && analysis.sizes.bytes(value).is_some_and(|bytes| bytes < LARGEST_FOLDED_BYTES)
}
