//! How many elements a tensor has at most.
//!
//! Where an op puts what it is given into an order or into dimensions that only the data know, each of these is bounded for itself, and the
//! product of all is far more than there can be: of a batched gather's gradient 938 MiB for 1.9. But no such op makes more of what it reads.

use std::collections::HashMap;

use super::{Bounds, is_full, product};
use crate::graph::{NodeId, TensorId};
use crate::ops::{Fact, ShapeRule};

/// Elements that a tensor does not exceed, as dimensions to be multiplied.
pub(in crate::shape) type Elements = Box<[i64]>;

/// Those of all tensors that were bounded.
pub(super) fn of_all(bounds: &Bounds) -> HashMap<TensorId, Elements> {
    let graph = bounds.graph;
    let mut all: HashMap<TensorId, Elements> = HashMap::with_capacity(bounds.found.len());
    for &node in graph.topological() {
        for tensor in graph.outputs(node) {
            let Some(most) = bounds.found.get(&tensor) else { continue };
            let source = graph.data_inputs(node).first().filter(|_| hands_elements_on(bounds, node, tensor));
            let known = source.and_then(|source| match bounds.shapes.get(*source) {
                shape if is_full(shape) => shape,
                _ => all.get(source).map(|elements| &**elements),
            });
            let is_fewer = |known: &&[i64]| match (product(known), product(most)) {
                (Some(known), Some(most)) => known < most,
                (known, _) => known.is_some(),
            };
            let elements = known.filter(is_fewer).map_or_else(|| most.clone(), Elements::from);
            all.insert(tensor, elements);
        }
    }
    all
}

/// Whether an output has no more elements than the op's first input, in whatever dimensions.
fn hands_elements_on(bounds: &Bounds, node: NodeId, output: TensorId) -> bool {
    let op = bounds.graph.op(node);
    bounds.graph.output_index(output) == 0
        && (op.facts().has(Fact::Reshapes)
            || op.facts().shape() == Some(ShapeRule::LikeFirst)
            || matches!(op.name(), "ConjugateTranspose" | "Transpose"))
}
