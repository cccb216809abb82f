//! What a plan copies.

use std::collections::HashSet;

use super::{Analysis, Draft, TensorSwap};
use crate::graph::{NodeId, TensorId};
use crate::ops::Flow;
use crate::order::{Place, Placement};

/// Bytes that a step copies between a GPU and the host.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Traffic {
    /// To the host.
    pub out_bytes: u64,
    /// To the GPU.
    pub in_bytes: u64,
}

/// For each GPU what the swaps of a plan copy beyond what the graph copies as it is. `runs` says of each node whether a step runs it.
///
/// What the host makes needs no copy out, and the first of its copies to a GPU is one that the graph makes anyway. A `Switch` that reads what
/// comes back is on the host, and what it gives to a branch is copied from there: of a branch that is not taken, nothing, so that what is
/// said here is the most that it can be. Tensors of unknown size count nothing.
pub fn traffic(
    analysis: &Analysis,
    placement: &Placement,
    draft: &Draft,
    runs: impl Fn(NodeId) -> bool,
) -> Vec<Traffic> {
    let mut traffic = vec![Traffic::default(); placement.gpus().len()];
    let swapped: HashSet<(TensorId, NodeId)> = draft
        .swaps
        .iter()
        .flat_map(|swap| swap.uses.iter().flat_map(|back| &back.consumers).map(|&node| (swap.tensor, node)))
        .collect();
    let switches = switches_on_host(analysis, placement, &swapped);
    let is_on_gpu = |node: NodeId| runs(node) && !switches.contains(&node);
    for swap in draft.swaps.iter().filter(|swap| analysis.step.contains(analysis.graph.producer(swap.tensor)))
    {
        let bytes = analysis.sizes.bytes(swap.tensor).unwrap_or(0);
        match placement.output(swap.tensor) {
            Place::Gpu(gpu) => {
                let returns =
                    swap.uses.iter().filter(|back| back.consumers.iter().any(|&node| is_on_gpu(node)));
                let of = &mut traffic[usize::from(gpu)];
                let is_read = swap.uses.iter().flat_map(|back| &back.consumers).any(|&node| runs(node));
                let is_on_host = draft.begins_on_host(analysis.graph, placement, swap.tensor)
                    || switches.contains(&analysis.graph.producer(swap.tensor));
                if bytes > 0 && is_read && !is_on_host {
                    of.out_bytes += bytes;
                }
                of.in_bytes += bytes * returns.count() as u64;
            }
            Place::Host => {
                for (gpu, of) in (0u16..).zip(&mut traffic) {
                    of.in_bytes += bytes * added_copies(analysis, placement, swap, gpu, &runs);
                }
            }
        }
    }
    for &switch in &switches {
        for tensor in analysis.graph.outputs(switch) {
            let bytes = analysis.sizes.bytes(tensor).unwrap_or(0);
            let reads = |node: NodeId| is_on_gpu(node) && !swapped.contains(&(tensor, node));
            for gpu in read_on(analysis, placement, tensor, reads) {
                traffic[usize::from(gpu)].in_bytes += bytes;
            }
        }
    }
    traffic
}

/// The `Switch` ops of GPUs that a plan brings to the host, as it does what they hand on: TensorFlow puts them where their data come from.
fn switches_on_host(
    analysis: &Analysis,
    placement: &Placement,
    swapped: &HashSet<(TensorId, NodeId)>,
) -> HashSet<NodeId> {
    let graph = analysis.graph;
    let mut found = HashSet::new();
    if swapped.is_empty() {
        return found;
    }
    for &node in graph.topological() {
        let is_on_gpu = graph.flow(node) == Some(Flow::Switch) && placement.op(node) != Place::Host;
        if let (true, Some(&data)) = (is_on_gpu, graph.data_inputs(node).first())
            && (swapped.contains(&(data, node)) || found.contains(&graph.producer(data)))
        {
            found.insert(node);
        }
    }
    found
}

/// The GPUs in whose memory some of a tensor's readers want it.
fn read_on(
    analysis: &Analysis,
    placement: &Placement,
    tensor: TensorId,
    reads: impl Fn(NodeId) -> bool,
) -> HashSet<u16> {
    let readers = analysis.graph.uses(tensor).iter().filter(|reader| reads(reader.node));
    let gpus = readers.filter_map(|reader| match placement.inputs(reader.node)[reader.slot as usize] {
        Place::Gpu(gpu) => Some(gpu),
        Place::Host => None,
    });
    gpus.collect()
}

/// How many more copies of a tensor of the host a GPU gets with a plan.
fn added_copies(
    analysis: &Analysis,
    placement: &Placement,
    swap: &TensorSwap,
    gpu: u16,
    runs: impl Fn(NodeId) -> bool,
) -> u64 {
    let readers = analysis.graph.uses(swap.tensor).iter().filter(|reader| {
        runs(reader.node) && placement.inputs(reader.node)[reader.slot as usize] == Place::Gpu(gpu)
    });
    let readers: HashSet<NodeId> = readers.map(|reader| reader.node).collect();
    let returns = swap.uses.iter().filter(|back| back.consumers.iter().any(|node| readers.contains(node)));
    let later: HashSet<NodeId> = swap.uses.iter().flat_map(|back| &back.consumers).copied().collect();
    let has_first = !readers.is_empty() && readers.is_subset(&later);
    (returns.count() as u64).saturating_sub(u64::from(has_first))
}
