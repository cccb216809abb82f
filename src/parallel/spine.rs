//! The way back from an optimizer's input, an op at a time.

use std::collections::HashMap;

use super::depends::{Marks, is_marked};
use super::ops::{Effect, operands};
use super::updates::Applied;
use crate::graph::{Graph, NodeId, TensorId};
use crate::plan::Analysis;

/// One step back: from what an op gives out to the input along which the gradient came.
#[derive(Debug, Clone, Copy)]
pub(super) struct StepBack {
    /// The op.
    pub node: NodeId,
    /// The input.
    pub slot: usize,
    /// What it reads there.
    pub input: TensorId,
    /// What it does to it.
    pub effect: Effect,
}

/// The way of one gradient.
#[derive(Debug, Clone)]
pub(super) struct Spine {
    pub applied: Applied,
    /// The steps back, the one nearest to the update first.
    pub steps: Vec<StepBack>,
    /// Of a sparse gradient: the indices of the rows at the end of the way.
    pub indices: Option<TensorId>,
}

/// For ops with several inputs along which a gradient might come: which of these is taken.
pub(super) type Choices = HashMap<NodeId, usize>;

impl Spine {
    /// Walks back as far as ops are known.
    pub fn walk(analysis: &Analysis, marks: &Marks, choices: &Choices, applied: Applied) -> Spine {
        let graph = analysis.graph;
        let mut spine = Spine { applied, steps: Vec::new(), indices: None };
        let unique = applied.indices.and_then(|indices| unique_of(graph, indices));
        // Rows that nobody adds up keep the indices that they have.
        spine.indices =
            applied.indices.map(|indices| unique.map_or(indices, |unique| graph.data_inputs(unique)[0]));
        let mut at = applied.tensor;
        while let Some(step) = step_back(analysis, marks, choices, at, applied.indices.is_some(), unique) {
            // A loop has no end on this way; the step before led to it.
            if spine.steps.iter().any(|before| before.node == step.node) {
                break;
            }
            at = step.input;
            spine.steps.push(step);
        }
        spine
    }

    /// The tensor after so many steps back.
    pub fn tensor(&self, steps: usize) -> TensorId {
        match steps.checked_sub(1) {
            None => self.applied.tensor,
            Some(last) => self.steps[last].input,
        }
    }
}

/// The inputs along which a gradient may have come to a tensor, the likely ones first.
pub(super) fn candidates(
    analysis: &Analysis,
    marks: &Marks,
    tensor: TensorId,
    keeps_rows: bool,
) -> Vec<(usize, Effect)> {
    let graph = analysis.graph;
    let node = graph.producer(tensor);
    if node.index() >= graph.len() {
        return Vec::new();
    }
    let inputs = graph.data_inputs(node);
    let shape = analysis.shapes.get(tensor);
    let mut found = operands(graph.op(node).name(), inputs.len(), graph.output_index(tensor), keeps_rows);
    found.retain(|&(slot, _)| inputs.get(slot).is_some_and(|&input| is_marked(graph, marks, input)));
    let changes_shape = matches!(graph.op(node).name(), "Reshape" | "Transpose" | "ExpandDims" | "Squeeze");
    // A factor of one number for a whole tensor is no gradient of it.
    let has_shape =
        |slot: usize| changes_shape || shape.is_none() || analysis.shapes.get(inputs[slot]) == shape;
    if found.iter().any(|&(slot, _)| has_shape(slot)) {
        found.retain(|&(slot, _)| has_shape(slot));
    }
    if keeps_rows && inputs.len() > 1 {
        // What is multiplied with rows must fit any number of rows.
        let fits = |&(slot, _): &(usize, Effect)| {
            let rank = analysis.shapes.rank(inputs[slot]);
            let other = |(at, &input): (usize, &TensorId)| {
                at == slot
                    || is_marked(graph, marks, input)
                    || analysis.shapes.rank(input).zip(rank).is_some_and(|(other, rank)| other < rank)
            };
            graph.op(node).name() == "Switch" || inputs.iter().enumerate().all(other)
        };
        found.retain(fits);
    }
    found
}

fn step_back(
    analysis: &Analysis,
    marks: &Marks,
    choices: &Choices,
    tensor: TensorId,
    keeps_rows: bool,
    unique: Option<NodeId>,
) -> Option<StepBack> {
    let graph = analysis.graph;
    let node = graph.producer(tensor);
    if node.index() < graph.len() && keeps_rows && adds_up_rows(graph, node, unique) {
        let input = graph.data_inputs(node)[0];
        return Some(StepBack { node, slot: 0, input, effect: Effect::NotLinear });
    }
    let found = candidates(analysis, marks, tensor, keeps_rows);
    let &(slot, effect) = found.get(choices.get(&node).copied().unwrap_or(0))?;
    Some(StepBack { node, slot, input: graph.data_inputs(node)[slot], effect })
}

/// The `Unique` that made these indices, perhaps by way of ops that pass them on.
fn unique_of(graph: &Graph, indices: TensorId) -> Option<NodeId> {
    let mut at = indices;
    for _ in 0..16 {
        let node = graph.producer(at);
        if node.index() >= graph.len() {
            return None;
        }
        match graph.op(node).name() {
            "Unique" | "UniqueV2" if graph.output_index(at) == 0 => return Some(node),
            "Identity" | "Snapshot" | "PreventGradient" => at = *graph.data_inputs(node).first()?,
            _ => return None,
        }
    }
    None
}

/// Whether an op adds up the rows that this `Unique` found to have one index.
fn adds_up_rows(graph: &Graph, node: NodeId, unique: Option<NodeId>) -> bool {
    let Some(unique) = unique.filter(|_| graph.op(node).name() == "UnsortedSegmentSum") else { return false };
    let segments = graph.data_inputs(node).get(1);
    segments.is_some_and(|&segments| graph.producer(segments) == unique && graph.output_index(segments) == 1)
}
