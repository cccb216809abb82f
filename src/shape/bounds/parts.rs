//! Ops that copy nothing, here: what they make is a part of their input, where it lies.
//!
//! TensorFlow's kernels do so for any device where what they make begins at an address that is as round as a tensor's own has to be, and lies
//! in one piece: parts of the first dimension (`IsDim0SliceAligned` in its `ops_util.h`), and dimensions that are only named in
//! another order (`NonSingletonDimensionsAlign` in `transpose_op.h`). So the whole input is in memory as long as any part is.

use super::{Bounds, axis_of, slices};
use crate::graph::{Graph, NodeId, TensorId};
use crate::shape::Shapes;

/// Addresses of tensors are multiples of this (`EIGEN_MAX_ALIGN_BYTES` as TensorFlow is built).
const ALIGNED_BYTES: i64 = 64;

/// For each node whether all that its op makes is a part of the input that [`source`] names, where that lies.
pub(in crate::shape) fn of(graph: &Graph, shapes: &Shapes) -> Vec<bool> {
    let mut bounds = Bounds::new(graph, shapes);
    graph.node_ids().map(|node| is_part(&mut bounds, node).unwrap_or(false)).collect()
}

/// The input of which an op makes parts.
pub(in crate::shape) fn source(op: &str) -> u32 {
    u32::from(op == "Split")
}

fn is_part(bounds: &mut Bounds, node: NodeId) -> Option<bool> {
    let (graph, shapes) = (bounds.graph, bounds.shapes);
    let op = graph.op(node).name();
    if !matches!(op, "Cast" | "Transpose" | "Slice" | "StridedSlice" | "Unpack" | "Split" | "SplitV") {
        return None;
    }
    let input = *graph.data_inputs(node).get(source(op) as usize)?;
    if op == "Cast" {
        let dtype = |tensor: TensorId| graph.output_type(tensor).dtype;
        return Some(graph.outputs(node).all(|output| dtype(output) == dtype(input)));
    }
    let from = full(shapes, input)?;
    let element = graph.output_type(input).dtype.size_in_bytes()? as i64;
    let is_aligned = |elements: i64| elements.checked_mul(element).map(|bytes| bytes % ALIGNED_BYTES == 0);
    // Of a vector parts begin anywhere, of all else where a first index does.
    let rows_are_aligned = || match from {
        [first, inner @ ..] if *first > 0 && !inner.is_empty() => is_aligned(super::product(inner)?),
        _ => Some(false),
    };
    let begins_aligned = |begin: Option<i64>, end: Option<i64>| match from {
        [_] => Some(is_aligned(begin?)? && is_aligned(end?)?),
        _ => rows_are_aligned(),
    };
    match op {
        "Transpose" => {
            let order = bounds.exact_values(node, 1)?;
            let moves = |&dimension: &i64| from.get(dimension as usize) != Some(&1);
            Some(order.into_iter().filter(moves).is_sorted())
        }
        "Unpack" => {
            let axis = bounds.number(node, "axis");
            Some(axis_of(axis, from.len()) == Some(0) && rows_are_aligned()?)
        }
        "Split" | "SplitV" => {
            if graph.outputs(node).len() == 1 {
                return Some(true);
            }
            let &[axis] = &*bounds.exact_values(node, if op == "Split" { 0 } else { 2 })? else {
                return None;
            };
            Some(axis_of(axis, from.len()) == Some(0) && rows_are_aligned()?)
        }
        "Slice" => {
            let to = full(shapes, graph.outputs(node).next()?)?;
            if to == from {
                return Some(true);
            }
            let begin = bounds.exact_values(node, 1).and_then(|begins| begins.first().copied());
            Some(to.get(1..) == from.get(1..) && begins_aligned(begin, to.first().copied())?)
        }
        "StridedSlice" => {
            let to = full(shapes, graph.outputs(node).next()?)?;
            let rows = slices::rows(bounds, node, (from, to))?;
            Some(rows.is_whole || begins_aligned(rows.begin, rows.end)?)
        }
        _ => None,
    }
}

/// A shape of which nothing is open.
fn full(shapes: &Shapes, tensor: TensorId) -> Option<&[i64]> {
    shapes.get(tensor).filter(|shape| shape.iter().all(|&size| size >= 0))
}
