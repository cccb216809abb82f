//! What a report has to say of zeros that TensorFlow would keep.

use crate::order::Place;
use crate::shape::Shapes;
use crate::simulate::{Outline, in_chunks};
use crate::size::Size;

/// What keeps less than this part of the step's peak is not told.
const LEAST_PART: f64 = 0.01;

/// What whoever runs the step has to turn off, if Grappler would fill tensors beforehand that the step fills, and keep them
/// (`constant_folding.cc`, for shapes that the graph knows). The gradient of each `tf.cond` has such zeros, for the side that is not taken.
pub fn kept_zeros_note(outline: &Outline, peak_bytes: u64) -> Option<String> {
    let analysis = outline.analysis();
    let graph = analysis.graph;
    let declared = Shapes::declared(graph);
    let is_known =
        |tensor: &_| declared.get(*tensor).is_some_and(|shape| shape.iter().all(|&size| size >= 0));
    let fills = graph.node_ids().filter(|&node| {
        matches!(graph.op(node).name(), "Fill" | "ZerosLike" | "OnesLike") && outline.entry(node).is_some()
    });
    let filled = fills
        .flat_map(|node| graph.outputs(node))
        .filter(|tensor| outline.placement().output(*tensor) != Place::Host && is_known(tensor));
    let bytes: u64 = filled.map(|tensor| in_chunks(analysis.sizes.bytes(tensor).unwrap_or(0))).sum();
    (bytes as f64 > peak_bytes as f64 * LEAST_PART).then(|| {
        format!(
            "TensorFlow's constant_folding fills tensors beforehand that the step fills, and keeps up to {} of them: turn it off where the \
             step is to run (lms-train has it off)",
            Size(bytes)
        )
    })
}
