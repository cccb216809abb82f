//! What stays in a GPU's memory from step to step.

use std::collections::HashSet;

use super::pool::in_chunks;
use crate::graph::{Graph, NodeId, TensorId};
use crate::ops::{Attr, AttrLookup};
use crate::order::{Place, Placement};
use crate::plan::Analysis;

/// TensorFlow computes an op with constant inputs beforehand if its result has fewer bytes, and keeps it as a constant
/// (`ConstantFoldingOptions::max_constant_size_in_bytes`).
const LARGEST_FOLDED_BYTES: u64 = 10 << 20;

/// For each GPU the sizes, in whole chunks, of all that is there when a step begins.
///
/// These are the variables, also those that a step does not touch: an initializer made them. Then the step's constants. And
/// the constants of the initializer: a session keeps what it has once run, and TensorFlow computes the zeros that optimizers begin
/// with beforehand. (Equal ones are one constant. That the variables share their memory with it ends with the first step.)
pub(super) fn sizes(
    analysis: &Analysis,
    placement: &Placement,
    runs: impl Fn(NodeId) -> bool,
) -> Vec<Vec<u64>> {
    let graph = analysis.graph;
    let mut sizes = vec![Vec::new(); placement.gpus().len()];
    let mut initial: HashSet<(u16, Fingerprint)> = HashSet::new();
    for node in graph.node_ids() {
        let Place::Gpu(gpu) = placement.op(node) else { continue };
        let first = graph.outputs(node).next();
        let bytes = match graph.op(node).name() {
            "VarHandleOp" => handle_bytes(graph, node),
            "Variable" | "VariableV2" => first.and_then(|tensor| analysis.sizes.bytes(tensor)),
            "Const" if runs(node) => first
                .filter(|&tensor| is_on_gpu(placement, tensor))
                .and_then(|tensor| analysis.sizes.bytes(tensor)),
            "Assign" | "AssignVariableOp" if !runs(node) => {
                let value = graph.data_inputs(node).get(1).copied();
                value
                    .and_then(|value| folded(analysis, placement, value))
                    .and_then(|(bytes, fingerprint)| initial.insert((gpu, fingerprint)).then_some(bytes))
            }
            _ => None,
        };
        sizes[usize::from(gpu)].extend(bytes.filter(|&bytes| bytes > 0).map(in_chunks));
    }
    sizes
}

fn is_on_gpu(placement: &Placement, tensor: TensorId) -> bool {
    placement.output(tensor) != Place::Host
}

/// The bytes of a resource variable, which its handle has as attributes.
fn handle_bytes(graph: &Graph, node: NodeId) -> Option<u64> {
    let attrs = graph.attrs(node);
    let Some(Attr::Type(dtype)) = attrs.attr("dtype") else { return None };
    let shape = attrs.shape("shape")?;
    let mut sizes = shape.iter().map(|&size| u64::try_from(size).ok());
    sizes.try_fold(dtype.size_in_bytes()?, |bytes, size| bytes.checked_mul(size?))
}

/// What makes two constants equal: how they are made, of what value, in which shape.
type Fingerprint = (String, Vec<u8>, Vec<i64>);

/// The size of what an initializer assigns, if TensorFlow computes it beforehand, on the GPU.
fn folded(analysis: &Analysis, placement: &Placement, value: TensorId) -> Option<(u64, Fingerprint)> {
    let graph = analysis.graph;
    let producer = graph.producer(value);
    if producer.index() >= graph.len() || !is_on_gpu(placement, value) {
        return None;
    }
    let content = |node: NodeId| Some(graph.attrs(node).raw("value")?.to_vec());
    let op = graph.op(producer).name();
    let filler = match op {
        "Const" => content(producer)?,
        "Fill" => {
            let filler = graph.producer(*graph.data_inputs(producer).get(1)?);
            (filler.index() < graph.len() && graph.op(filler).name() == "Const")
                .then(|| content(filler))??
        }
        "ZerosLike" | "OnesLike" => Vec::new(),
        _ => return None,
    };
    let bytes = analysis.sizes.bytes(value).filter(|&bytes| bytes < LARGEST_FOLDED_BYTES)?;
    let shape = analysis.shapes.get(value)?.to_vec();
    Some((bytes, (op.to_string(), filler, shape)))
}
