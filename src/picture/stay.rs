//! Why a tensor is not swapped.

use super::StayReason;
use crate::graph::{NodeId, TensorId};
use crate::order::Place;
use crate::plan::{Analysis, Draft, swappable};
use crate::simulate::Outline;

/// The first reason that there is for a tensor that a plan leaves where it is.
pub(super) fn reason(outline: &Outline, draft: &Draft, tensor: TensorId) -> StayReason {
    let analysis = outline.analysis();
    let Analysis { graph, step, shapes, sizes, ref_variables, .. } = analysis;
    let producer = graph.producer(tensor);
    if !step.contains(producer) {
        return StayReason::NotInStep;
    }
    if outline.liveness().is_dead(graph, tensor) {
        return StayReason::DeadBranch;
    }
    if let Err(because) = swappable(graph, ref_variables, tensor) {
        return StayReason::NotSwappable { because: because.to_string() };
    }
    if outline.entry(producer).is_none() {
        return StayReason::ComputedBeforehand;
    }
    if outline.placement().output(tensor) == Place::Host {
        return StayReason::NotOnGpu;
    }
    if sizes.bytes(tensor) == Some(0) {
        return StayReason::Empty;
    }
    let dimensions = shapes.rank(tensor);
    if dimensions.is_none_or(|dimensions| dimensions < 2) {
        return StayReason::FewDimensions { dimensions };
    }
    let readers = graph.uses(tensor).iter().map(|reader| reader.node);
    let in_step = readers.filter(|&node| outline.entry(node).is_some());
    let Some(levels_away) = in_step.map(|node| levels_between(analysis, tensor, node)).max() else {
        return StayReason::NotRead;
    };
    let swapped = draft.swaps.iter().flat_map(|swap| {
        let consumers = swap.uses.iter().flat_map(|swap_in| &swap_in.consumers);
        consumers.map(|&node| levels_between(analysis, swap.tensor, node))
    });
    match swapped.min() {
        None => StayReason::NothingSwapped,
        Some(swapped_from_levels) if levels_away < swapped_from_levels => {
            StayReason::ConsumersNear { levels_away, swapped_from_levels }
        }
        Some(_) => StayReason::NotChosen,
    }
}

/// How many levels a reader is behind a tensor's producer: 0 if it closes a loop.
fn levels_between(analysis: &Analysis, tensor: TensorId, reader: NodeId) -> u32 {
    let made_at = analysis.levels.level(analysis.graph.producer(tensor));
    analysis.levels.level(reader).saturating_sub(made_at)
}
