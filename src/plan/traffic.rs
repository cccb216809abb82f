//! What a plan copies.

use std::collections::HashSet;

use super::{Analysis, Draft, TensorSwap};
use crate::graph::NodeId;
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
/// What the host makes needs no copy out, and the first of its copies to a GPU is one that the graph makes anyway. Tensors of
/// unknown size count nothing.
pub fn traffic(
    analysis: &Analysis,
    placement: &Placement,
    draft: &Draft,
    runs: impl Fn(NodeId) -> bool,
) -> Vec<Traffic> {
    let mut traffic = vec![Traffic::default(); placement.gpus().len()];
    for swap in draft.swaps.iter().filter(|swap| analysis.step.contains(analysis.graph.producer(swap.tensor)))
    {
        let bytes = analysis.sizes.bytes(swap.tensor).unwrap_or(0);
        match placement.output(swap.tensor) {
            Place::Gpu(gpu) => {
                let returns = swap.uses.iter().filter(|back| back.consumers.iter().any(|&node| runs(node)));
                let of = &mut traffic[usize::from(gpu)];
                let returned = bytes * returns.count() as u64;
                if returned > 0 && !draft.begins_on_host(analysis.graph, placement, swap.tensor) {
                    of.out_bytes += bytes;
                }
                of.in_bytes += returned;
            }
            Place::Host => {
                for (gpu, of) in (0u16..).zip(&mut traffic) {
                    of.in_bytes += bytes * added_copies(analysis, placement, swap, gpu, &runs);
                }
            }
        }
    }
    traffic
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
