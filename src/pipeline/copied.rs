//! What a plan copies in a step, weights and accumulators on the host included.

use std::collections::HashSet;

use crate::graph::{NodeId, TensorId};
use crate::order::Place;
use crate::plan::{Analysis, Draft, TensorSwap, Traffic, traffic};
use crate::simulate::Outline;

/// For each GPU what a step with a plan copies beyond what it copies as it is. Tensors of unknown size count nothing.
pub fn copied(outline: &Outline, draft: &Draft) -> Vec<Traffic> {
    let runs = |node| outline.runs_op(node);
    let mut copied = traffic(outline.analysis(), outline.placement(), draft, runs);
    for (gpu, bytes) in copied_at_the_start(outline, draft) {
        copied[usize::from(gpu)].in_bytes += bytes;
    }
    for (of, more) in copied.iter_mut().zip(outline.traffic_of_accumulators(draft)) {
        of.out_bytes += more.out_bytes;
        of.in_bytes += more.in_bytes;
    }
    copied
}

/// GPU and bytes of the weights on the host that nothing brings later: they come when the step begins, once for all who read them there.
fn copied_at_the_start(outline: &Outline, draft: &Draft) -> Vec<(u16, u64)> {
    let Analysis { graph, sizes, .. } = outline.analysis();
    let consumers = |swap: &TensorSwap| -> Vec<(TensorId, NodeId)> {
        let nodes = swap.uses.iter().flat_map(|swap_in| &swap_in.consumers);
        nodes.map(|&node| (swap.tensor, node)).collect()
    };
    let accumulators = outline.accumulators_among(&draft.host_ops);
    let is_weight = |node: &&NodeId| !accumulators.iter().any(|of| of.has(**node));
    let later: HashSet<(TensorId, NodeId)> = draft.swaps.iter().flat_map(consumers).collect();
    let mut copied = Vec::new();
    for tensor in draft.host_ops.iter().filter(is_weight).flat_map(|&node| graph.outputs(node)) {
        let readers = graph.uses(tensor).iter().filter(|reader| {
            outline.runs_op(reader.node)
                && !draft.is_host_op(reader.node)
                && !later.contains(&(tensor, reader.node))
        });
        let mut gpus: Vec<u16> = readers
            .filter_map(|reader| match outline.placement().inputs(reader.node).get(reader.slot as usize) {
                Some(&Place::Gpu(gpu)) => Some(gpu),
                _ => None,
            })
            .collect();
        gpus.sort_unstable();
        gpus.dedup();
        copied.extend(gpus.into_iter().map(|gpu| (gpu, sizes.bytes(tensor).unwrap_or(0))));
    }
    copied
}
