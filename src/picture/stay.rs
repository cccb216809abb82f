//! Why a tensor is not swapped.

use super::{Explained, FilteredOps, StayReason};
use crate::graph::{NodeId, TensorId};
use crate::order::Place;
use crate::plan::{Analysis, returnable, swappable};
use crate::simulate::Outline;
use crate::tune::describe;

/// The first reason that there is for a tensor that a plan leaves where it is.
pub(super) fn reason(outline: &Outline, plan: Explained, tensor: TensorId) -> StayReason {
    let analysis = outline.analysis();
    let Analysis { graph, step, shapes, sizes, ref_variables, .. } = analysis;
    let producer = graph.producer(tensor);
    if !step.contains(producer) {
        return StayReason::NotInStep;
    }
    if outline.liveness().is_dead(graph, tensor) {
        return StayReason::DeadBranch;
    }
    if plan.draft.is_host_op(producer) {
        return StayReason::OnHost;
    }
    let readers = || graph.uses(tensor).iter().filter(|reader| outline.entry(reader.node).is_some());
    let swaps_whole_tensors = describe(plan.strategy).is_some_and(|known| known.can.swaps_whole_tensors);
    let is_brought = swaps_whole_tensors
        && outline.placement().output(tensor) == Place::Host
        && returnable(graph, ref_variables, tensor).is_ok()
        && readers()
            .any(|reader| outline.placement().inputs(reader.node)[reader.slot as usize] != Place::Host);
    if let Err(because) = swappable(graph, ref_variables, tensor)
        && !is_brought
    {
        return StayReason::NotSwappable { because: because.to_string() };
    }
    if outline.entry(producer).is_none() {
        return StayReason::ComputedBeforehand;
    }
    if outline.placement().output(tensor) == Place::Host && !is_brought {
        return StayReason::NotOnGpu;
    }
    if sizes.bytes(tensor) == Some(0) {
        return StayReason::Empty;
    }
    let in_step: Vec<NodeId> = readers().map(|reader| reader.node).collect();
    let Some(levels_away) = in_step.iter().map(|&node| levels_between(analysis, tensor, node)).max() else {
        return StayReason::NotRead;
    };
    if plan.draft.is_empty() {
        return StayReason::NothingSwapped;
    }
    let filters = plan.filters;
    if let Some(filter) = filters.refuse_producer(graph, producer) {
        return StayReason::Filtered { filter: filter.to_string(), ops: FilteredOps::Producer };
    }
    if swaps_whole_tensors {
        // A tensor stays whole there: one consumer that may read no copy keeps it.
        let refusal = in_step.iter().find_map(|&node| filters.refuse_consumer(graph, node));
        return refusal.map_or(StayReason::NotNeeded, |filter| StayReason::Filtered {
            filter: filter.to_string(),
            ops: FilteredOps::Consumers,
        });
    }
    let dimensions = shapes.rank(tensor);
    if dimensions.is_none_or(|dimensions| dimensions < 2) {
        return StayReason::FewDimensions { dimensions };
    }
    let swapped = plan.draft.swaps.iter().flat_map(|swap| {
        let consumers = swap.uses.iter().flat_map(|swap_in| &swap_in.consumers);
        consumers.map(|&node| levels_between(analysis, swap.tensor, node))
    });
    let Some(swapped_from_levels) = swapped.min() else { return StayReason::NothingSwapped };
    if levels_away < swapped_from_levels {
        return StayReason::ConsumersNear { levels_away, swapped_from_levels };
    }
    let far = in_step.iter().filter(|&&node| levels_between(analysis, tensor, node) >= swapped_from_levels);
    let refusals: Option<Vec<_>> = far.map(|&node| filters.refuse_consumer(graph, node)).collect();
    match refusals.and_then(|refusals| refusals.first().copied()) {
        Some(filter) => StayReason::Filtered { filter: filter.to_string(), ops: FilteredOps::Consumers },
        None => StayReason::NotChosen,
    }
}

/// How many levels a reader is behind a tensor's producer: 0 if it closes a loop.
fn levels_between(analysis: &Analysis, tensor: TensorId, reader: NodeId) -> u32 {
    let made_at = analysis.levels.level(analysis.graph.producer(tensor));
    analysis.levels.level(reader).saturating_sub(made_at)
}
