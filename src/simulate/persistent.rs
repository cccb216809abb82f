//! What stays in a GPU's memory from step to step.

use std::cell::LazyCell;
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

use super::constants::LARGEST_FOLDED_BYTES;
use super::pool::in_chunks;
use crate::graph::equal::{Classes, Likeness};
use crate::graph::{FrameId, Graph, NodeId, ResourceVariables, TensorId};
use crate::ops::{Attr, AttrLookup};
use crate::order::{Place, Placement};
use crate::plan::Analysis;

/// What stays in GPUs' memory from step to step, in whole chunks.
#[derive(Debug, Default)]
pub(super) struct Persistent {
    /// The variables that have memory of their own, also those that a step does not touch: an initializer made them.
    pub variables: Vec<Variable>,
    /// The constants of the initializer, as GPU and bytes: a session keeps what it has once run, and TensorFlow computes the zeros
    /// that optimizers begin with beforehand. Equal ones are one constant.
    pub initial_constants: Vec<(u16, u64)>,
    /// The constants of the step, and of those that are run in turn with it.
    pub constants: Vec<(u16, u64)>,
}

/// A variable on a GPU.
#[derive(Debug)]
pub(super) struct Variable {
    pub node: NodeId,
    pub gpu: u16,
    pub bytes: u64,
    /// Whether it begins as a constant, or with what another one begins with, and shares that memory until it is first updated.
    pub is_shared: bool,
}

impl Persistent {
    /// Finds them. `runs` says which ops a step runs, and `keeps_constants` whose constants stay.
    pub fn of(
        analysis: &Analysis,
        variables: &ResourceVariables,
        placement: &Placement,
        constant: &[bool],
        runs: impl Fn(NodeId) -> bool,
        keeps_constants: impl Fn(NodeId) -> bool,
    ) -> Persistent {
        let graph = analysis.graph;
        let bytes_of = |tensor: TensorId| analysis.sizes.bytes(tensor).filter(|&bytes| bytes > 0);
        let colocated_with = |value| graph.attrs(graph.producer(value)).colocated_with();
        let classes = LazyCell::new(|| Classes::of(graph, Likeness::Value));
        let merged = LazyCell::new(|| Classes::of(graph, Likeness::Certain));
        let mut persistent = Persistent::default();
        let mut initial: HashSet<(u16, Fingerprint)> = HashSet::new();
        let mut filled: HashSet<(u16, Fingerprint, Vec<String>)> = HashSet::new();
        let mut shared: HashSet<NodeId> = HashSet::new();
        for node in graph.node_ids() {
            let Place::Gpu(gpu) = placement.op(node) else { continue };
            let variable = |bytes| Variable { node, gpu, bytes: in_chunks(bytes), is_shared: false };
            match graph.op(node).name() {
                "VarHandleOp" => {
                    let bytes = handle_bytes(graph, node).filter(|&bytes| bytes > 0);
                    persistent.variables.extend(bytes.map(variable));
                }
                // Whoever calls a function holds what it gives, as if it were a variable's.
                "Variable" | "VariableV2" | "Placeholder" => {
                    let bytes = graph.outputs(node).next().and_then(bytes_of);
                    persistent.variables.extend(bytes.map(variable));
                }
                op @ ("Assign" | "AssignVariableOp") if !runs(node) => {
                    let &[variable, value, ..] = graph.data_inputs(node) else { continue };
                    if is_folded(analysis, placement, constant, value) {
                        if op == "AssignVariableOp" {
                            shared.insert(graph.producer(variable));
                        }
                        if initial.insert((gpu, fingerprint(analysis, value, &classes))) {
                            let bytes = bytes_of(value).map(|bytes| (gpu, in_chunks(bytes)));
                            persistent.initial_constants.extend(bytes);
                        }
                    } else if op == "AssignVariableOp"
                        && is_filled(graph, placement, value)
                        // TensorFlow makes one op of equal ones, and gives its output to both variables.
                        && !filled.insert((gpu, fingerprint(analysis, value, &classes), colocated_with(value)))
                    {
                        shared.insert(graph.producer(variable));
                    }
                }
                _ => {}
            }
        }
        for variable in &mut persistent.variables {
            variable.is_shared = shared.contains(&variable.node);
        }
        // What is never updated keeps to the constant's memory.
        persistent.variables.retain(|variable| {
            !variable.is_shared || variables.writers(variable.node).iter().any(|&writer| runs(writer))
        });
        // Constants are kept where they are read.
        let mut read: Vec<(u16, BTreeMap<TensorId, u64>)> = Vec::new();
        let mut places: HashMap<(u16, Fingerprint), usize> = HashMap::new();
        for node in graph.node_ids().filter(|&node| keeps_constants(node)) {
            for (&tensor, &place) in graph.data_inputs(node).iter().zip(placement.inputs(node)) {
                let producer = graph.producer(tensor);
                // TensorFlow copies those of the host in each step.
                let is_constant = producer.index() < graph.len()
                    && constant[producer.index()]
                    && !placement.names_host(producer);
                if let (true, Place::Gpu(gpu)) = (is_constant, place)
                    && let Some(bytes) = bytes_of(tensor)
                {
                    let place =
                        *places.entry((gpu, fingerprint(analysis, tensor, &classes))).or_insert(read.len());
                    if place == read.len() {
                        read.push((gpu, BTreeMap::new()));
                    }
                    read[place].1.insert(tensor, in_chunks(bytes));
                }
            }
        }
        for (gpu, equal) in read {
            persistent
                .constants
                .extend(equal.values().take(kept_of(analysis, &equal, &merged)).map(|&bytes| (gpu, bytes)));
        }
        persistent
    }

    /// All sizes of each GPU.
    pub fn sizes(&self, gpus: usize) -> Vec<Vec<u64>> {
        let mut sizes = vec![Vec::new(); gpus];
        let variables = self.variables.iter().map(|variable| (variable.gpu, variable.bytes));
        for (gpu, bytes) in variables.chain(self.initial_constants.iter().chain(&self.constants).copied()) {
            sizes[usize::from(gpu)].push(bytes);
        }
        sizes
    }
}

/// The bytes of a resource variable, which its handle has as attributes.
pub(super) fn handle_bytes(graph: &Graph, node: NodeId) -> Option<u64> {
    let attrs = graph.attrs(node);
    let Some(Attr::Type(dtype)) = attrs.attr("dtype") else { return None };
    let shape = attrs.shape("shape")?;
    let mut sizes = shape.iter().map(|&size| u64::try_from(size).ok());
    sizes.try_fold(dtype.size_in_bytes()?, |bytes, size| bytes.checked_mul(size?))
}

/// What makes two constants equal: how they are made, of what value, in which shape; of the file's own, what they are to be beside, which
/// TensorFlow keeps apart (what it computes beforehand forgets it); of others than plain ones, which they are.
#[derive(Debug, Default, PartialEq, Eq, Hash)]
struct Fingerprint {
    made_by: String,
    value: Vec<u8>,
    shape: Vec<i64>,
    beside: Vec<String>,
}

fn fingerprint(
    analysis: &Analysis,
    tensor: TensorId,
    classes: &LazyCell<Classes, impl FnOnce() -> Classes>,
) -> Fingerprint {
    let graph = analysis.graph;
    let producer = graph.producer(tensor);
    let content = |node: NodeId| graph.attrs(node).raw("value").unwrap_or_default().to_vec();
    let op = graph.op(producer).name();
    let shape = analysis.shapes.get(tensor).unwrap_or_default().to_vec();
    let filler = graph.data_inputs(producer).get(1).map(|&value| graph.producer(value));
    let made_by = op.to_string();
    match (op, filler) {
        ("Const", _) => {
            let beside = graph.attrs(producer).colocated_with();
            Fingerprint { made_by, value: content(producer), shape, beside }
        }
        ("Fill", Some(filler)) if filler.index() < graph.len() && graph.op(filler).name() == "Const" => {
            Fingerprint { made_by, value: content(filler), shape, ..Fingerprint::default() }
        }
        ("ZerosLike" | "OnesLike", _) => Fingerprint { made_by, shape, ..Fingerprint::default() },
        // What equal ops make of equal constants is equal too.
        _ => {
            let made_by = match classes.shared(producer) {
                Some(class) => format!("{class}:{}", graph.output_index(tensor)),
                None => graph.tensor_name(tensor).to_string(),
            };
            Fingerprint { made_by, shape, ..Fingerprint::default() }
        }
    }
}

/// How many of several equal constants TensorFlow keeps.
///
/// Those that wait for something else are not equal (`OptimizerCSE::Optimize`): the zeros of one branch are not those of another, but where one
/// condition decides about both. It compares equal ones with the first of them alone, and of those that it computes beforehand the first are
/// those of loops, which wait for their iteration.
fn kept_of(
    analysis: &Analysis,
    equal: &BTreeMap<TensorId, u64>,
    merged: &LazyCell<Classes, impl FnOnce() -> Classes>,
) -> usize {
    if equal.len() == 1 {
        return 1;
    }
    let Analysis { graph, flow, .. } = analysis;
    let is_computed_in_loop =
        |node: &NodeId| !graph.data_inputs(*node).is_empty() && flow.frame(*node) != FrameId::TOP;
    let makers = equal.keys().map(|&tensor| graph.producer(tensor));
    let (in_loops, others): (Vec<_>, Vec<_>) = makers.partition(is_computed_in_loop);
    match in_loops[..] {
        [] => unlike_the_first(graph, &others, merged),
        _ => unlike_the_first(graph, &in_loops, merged) + others.len(),
    }
}

/// How many remain of constants, of which those go that wait for what the first one waits for.
fn unlike_the_first(graph: &Graph, makers: &[NodeId], merged: &Classes) -> usize {
    let Some((&first, others)) = makers.split_first() else { return 0 };
    let waits = waits_of_constant(graph, first, merged);
    1 + others.iter().filter(|&&other| waits_of_constant(graph, other, merged) != waits).count()
}

/// The classes of what a constant waits for: what it is computed of is gone, and what that waited for remains.
fn waits_of_constant(graph: &Graph, maker: NodeId, merged: &Classes) -> BTreeSet<Option<usize>> {
    let (mut seen, mut open) = (HashSet::from([maker]), vec![maker]);
    let mut waits = BTreeSet::new();
    while let Some(node) = open.pop() {
        waits.extend(graph.control_inputs(node).iter().map(|&before| merged.get(before)));
        let producers = graph.data_inputs(node).iter().map(|&input| graph.producer(input));
        open.extend(producers.filter(|&of| of.index() < graph.len() && seen.insert(of)));
    }
    waits
}

/// Whether a tensor is on a GPU and filled with one value.
fn is_filled(graph: &Graph, placement: &Placement, value: TensorId) -> bool {
    let producer = graph.producer(value);
    producer.index() < graph.len()
        && placement.output(value) != Place::Host
        && matches!(graph.op(producer).name(), "Fill" | "ZerosLike" | "OnesLike")
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
