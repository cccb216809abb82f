//! What no integer of a tensor exceeds, however many there are.
//!
//! The rows of a sum over segments are as many as the largest of its numbers says, and where the entries of a sparse tensor lie is bounded by
//! its shape: so the sums of `embedding_lookup_sparse` are.

use std::collections::HashMap;

use super::{Bounds, product, values};
use crate::graph::TensorId;

/// How far back integers are followed.
const DEEPEST: u32 = 48;

/// Which of a tensor's integers: those at one place of the last dimension, or all.
type Column = Option<usize>;

/// What has been found, and how deep the search is.
#[derive(Default)]
pub(super) struct Entries {
    found: HashMap<(TensorId, Column), Option<i64>>,
    depth: u32,
}

/// What none of a tensor's integers exceeds.
pub(super) fn largest(bounds: &mut Bounds, tensor: TensorId) -> Option<i64> {
    of(bounds, tensor, None)
}

fn of(bounds: &mut Bounds, tensor: TensorId, column: Column) -> Option<i64> {
    if let Some(&found) = bounds.entries.found.get(&(tensor, column)) {
        return found;
    }
    let is_argument = bounds.graph.producer(tensor).index() >= bounds.graph.len();
    if is_argument || bounds.entries.depth >= DEEPEST {
        return None;
    }
    bounds.entries.depth += 1;
    let few = values::of(bounds, tensor);
    let largest = few.and_then(|few| few.iter().map(|value| value.at_most).max());
    let largest = largest.or_else(|| made_by(bounds, tensor, column));
    bounds.entries.depth -= 1;
    bounds.entries.found.insert((tensor, column), largest);
    largest
}

fn made_by(bounds: &mut Bounds, tensor: TensorId, column: Column) -> Option<i64> {
    let graph = bounds.graph;
    let node = graph.producer(tensor);
    let output = graph.output_index(tensor);
    let inputs = graph.data_inputs(node);
    let op = graph.op(node).name();
    // The columns of what a dimension is added to or taken from are others.
    let whole = column.is_none();
    match op {
        "Identity" | "StopGradient" | "PreventGradient" | "Snapshot" | "Cast" | "Switch" | "RefSwitch" => {
            of(bounds, *inputs.first()?, column)
        }
        "Reshape" | "ExpandDims" | "Squeeze" | "BroadcastTo" | "Tile" | "Slice" | "Transpose" if whole => {
            of(bounds, *inputs.first()?, None)
        }
        // Where entries lie: below the sizes of what was looked through.
        "Where" => at(&bounds.input(node, 0)?, column).map(|size| size - 1),
        "Unique" | "UniqueV2" | "UniqueWithCounts" | "UniqueWithCountsV2" => match output {
            0 if whole => of(bounds, *inputs.first()?, None),
            1 => Some(product(&bounds.input(node, 0)?)? - 1),
            _ => None,
        },
        "SparseReshape" if output == 0 => {
            let sizes = bounds.most(*inputs.first()?).and(sparse_shape(bounds, tensor))?;
            at(&sizes, column).map(|size| size - 1)
        }
        "SparseFillEmptyRows" => match (output, column) {
            (0, _) => {
                let rows = bounds.most_values(node, 2)?.first()?.saturating_sub(1);
                match column {
                    Some(0) => Some(rows),
                    _ => Some(of(bounds, *inputs.first()?, column)?.max(rows)),
                }
            }
            (1, _) => largest_of(bounds, &[*inputs.get(1)?, *inputs.get(3)?], None),
            (3, _) => {
                let (entries, rows) =
                    (*bounds.input(node, 0)?.first()?, *bounds.most_values(node, 2)?.first()?);
                Some(entries.saturating_add(rows).saturating_sub(1))
            }
            _ => None,
        },
        "StridedSlice" => {
            let rank = bounds.input(node, 0)?.len();
            let masks = ["ellipsis_mask", "new_axis_mask"].map(|mask| bounds.number(node, mask));
            let is_column = rank == 2
                && masks == [0, 0]
                && bounds.length(node, 1) == Some(rank)
                && bounds.number(node, "shrink_axis_mask") == 2;
            match (is_column, bounds.exact_values(node, 1)) {
                (true, Some(begins)) if whole => {
                    of(bounds, *inputs.first()?, Some(usize::try_from(*begins.get(1)?).ok()?))
                }
                _ if whole => of(bounds, *inputs.first()?, None),
                _ => None,
            }
        }
        "Gather" | "GatherV2" | "GatherNd" => {
            let rank = bounds.input(node, 0)?.len();
            let axis = match inputs.len() {
                2 => 0,
                _ => values::axis(bounds, node, 2, rank)?,
            };
            let keeps_columns = op != "GatherNd" && axis + 1 < rank;
            of(bounds, *inputs.first()?, column.filter(|_| keeps_columns))
        }
        "DynamicPartition" if whole => of(bounds, *inputs.first()?, None),
        "ConcatV2" if whole => largest_of(bounds, inputs.split_last()?.1, None),
        "Pack" if whole => largest_of(bounds, inputs, None),
        "Maximum" if whole => largest_of(bounds, inputs, None),
        "Minimum" if whole => {
            let known: Vec<i64> = inputs.iter().filter_map(|&input| of(bounds, input, None)).collect();
            known.into_iter().min()
        }
        "Select" | "SelectV2" if whole => largest_of(bounds, inputs.get(1..)?, None),
        "FloorMod" => {
            let &[by] = &*bounds.exact_values(node, 1)? else { return None };
            (by > 0).then_some(by - 1)
        }
        "FloorDiv" if whole => {
            let &[by] = &*bounds.exact_values(node, 1)? else { return None };
            let of_first = of(bounds, *inputs.first()?, None)?;
            (by > 0).then(|| of_first.div_euclid(by))
        }
        "Range" => {
            let (limit, delta) = (bounds.values(node, 1)?, bounds.exact_values(node, 2)?);
            let (&[limit], &[delta]) = (&*limit, &*delta) else { return None };
            (delta > 0).then_some(limit.at_most.saturating_sub(1))
        }
        _ => None,
    }
}

/// The largest of all tensors' integers, if all are known.
fn largest_of(bounds: &mut Bounds, tensors: &[TensorId], column: Column) -> Option<i64> {
    let all: Option<Vec<i64>> = tensors.iter().map(|&tensor| of(bounds, tensor, column)).collect();
    all?.into_iter().max()
}

/// One of some sizes, or the largest.
fn at(sizes: &[i64], column: Column) -> Option<i64> {
    match column {
        Some(column) => sizes.get(column).copied(),
        None => sizes.iter().copied().max(),
    }
}

/// What a sparse tensor's new shape is at most, which stands beside where its entries lie.
fn sparse_shape(bounds: &mut Bounds, indices: TensorId) -> Option<Vec<i64>> {
    let graph = bounds.graph;
    let shape = graph.outputs(graph.producer(indices)).nth(1)?;
    values::of(bounds, shape)?.iter().map(|value| (value.at_most >= 0).then_some(value.at_most)).collect()
}

/// The rows of a sum over segments: one for each number up to the largest.
pub(super) fn segments(bounds: &mut Bounds, numbers: TensorId) -> Option<i64> {
    Some(largest(bounds, numbers)?.checked_add(1)?.max(0))
}

/// What is left of an input without dimensions that are not known: of how many there are each one that it can be.
pub(super) fn without_some(sizes: &[i64], left: usize) -> Option<Vec<i64>> {
    let gone = sizes.len().checked_sub(left)?;
    (0..left).map(|place| sizes.get(place..=place + gone)?.iter().copied().max()).collect()
}
