//! Op by op: how large an output is at most, given how large the inputs are at most.
//!
//! Each rule is a fact about an op's kernel. What many ops have in common their rows say (`ops::ShapeRule`); here is what few have. `tests/library/bounds.rs` holds them against TensorFlow.

use prost::Message;

use super::{
    Bounds, Most, arrays, axis_of, broadcast, entries, images, largest, lists, matrices, optionals, product,
    slices, sparse, values,
};
use crate::graph::NodeId;
use crate::ops::{Attr, AttrLookup, Fact, OpInfo, ShapeRule};
use crate::proto::tensorflow::AttrValue;
use crate::proto::tensorflow::attr_value::Value as AttrKind;

/// Whether the rule of an op says how large an output is, and not only what it does not exceed, where that is known of what it reads.
pub(super) fn are_exact(op: &OpInfo) -> bool {
    let has_exact_facts = matches!(
        op.facts().shape(),
        Some(
            ShapeRule::LikeFirst
                | ShapeRule::LikeInput(_)
                | ShapeRule::Broadcast
                | ShapeRule::Reduction
                | ShapeRule::Given(_)
        )
    );
    let name = op.name();
    has_exact_facts
        || op.facts().has(Fact::Reshapes)
        || matches!(
            name,
            "BatchMatMul"
                | "BatchMatMulV2"
                | "BatchMatMulV3"
                | "ConcatV2"
                | "ConjugateTranspose"
                | "ExpandDims"
                | "GatherV2"
                | "MatMul"
                | "Merge"
                | "Pack"
                | "Pad"
                | "PadV2"
                | "Reshape"
                | "Squeeze"
                | "Switch"
                | "Tile"
                | "Transpose"
                | "Unpack"
                | "UnsortedSegmentSum"
        )
}

/// Dimensions that an output does not exceed, if those of the inputs are bounded and the op has a rule.
pub(super) fn at_most(bounds: &mut Bounds, node: NodeId, output: u32) -> Option<Most> {
    let info = bounds.graph.op(node);
    let op = info.name();
    match info.facts().shape() {
        Some(ShapeRule::LikeFirst) => return (output == 0).then(|| bounds.input(node, 0))?,
        Some(ShapeRule::LikeInput(slot)) => return (output == 0).then(|| bounds.input(node, slot))?,
        Some(ShapeRule::Broadcast) => return Some(broadcast(&bounds.inputs(node)?)),
        Some(ShapeRule::Reduction) => return reduced(bounds, node),
        Some(ShapeRule::Windows) => return windows(bounds, node, output),
        Some(ShapeRule::Given(slot)) => return bounds.most_values(node, slot),
        None => {}
    }
    match op {
        // Of as many different elements as there are.
        "Unique" | "UniqueWithCounts" => match output {
            1 => bounds.input(node, 0),
            _ => Some(vec![product(&bounds.input(node, 0)?)?]),
        },
        "UniqueV2" | "UniqueWithCountsV2" => match &*bounds.input(node, 0)? {
            &[length] => Some(vec![length]),
            _ => None,
        },
        "Where" => {
            let sizes = bounds.input(node, 0)?;
            Some(vec![product(&sizes)?, sizes.len() as i64])
        }
        "ListDiff" | "SetDiff1D" => bounds.input(node, 0),
        "DynamicPartition" => {
            let (data, partitions) = (bounds.input(node, 0)?, bounds.input(node, 1)?);
            let mut most = vec![product(&partitions)?];
            most.extend_from_slice(data.get(partitions.len()..)?);
            Some(most)
        }
        "DynamicStitch" | "ParallelDynamicStitch" => stitched(bounds, node),
        "UnsortedSegmentSum"
        | "UnsortedSegmentProd"
        | "UnsortedSegmentMax"
        | "UnsortedSegmentMin"
        | "SegmentSumV2"
        | "SegmentProdV2"
        | "SegmentMaxV2"
        | "SegmentMinV2" => {
            let (data, segments) = (bounds.input(node, 0)?, bounds.input(node, 1)?);
            let mut most = bounds.most_values(node, 2).filter(|count| count.len() == 1)?;
            most.extend_from_slice(data.get(segments.len()..)?);
            Some(most)
        }
        "SparseSegmentSumGrad"
        | "SparseSegmentMeanGrad"
        | "SparseSegmentSqrtNGrad"
        | "SparseSegmentSumWithNumSegments"
        | "SparseSegmentMeanWithNumSegments"
        | "SparseSegmentSqrtNWithNumSegments" => {
            let data = bounds.input(node, 0)?;
            let mut most = bounds.most_values(node, 3).filter(|count| count.len() == 1)?;
            most.extend_from_slice(data.get(1..)?);
            Some(most)
        }
        "SegmentSum" | "SegmentMean" | "SegmentProd" | "SegmentMax" | "SegmentMin" => {
            segments(bounds, node, 1)
        }
        "SparseSegmentSum" | "SparseSegmentMean" | "SparseSegmentSqrtN" => segments(bounds, node, 2),
        // A row for each that was looked up, which are different.
        "SparseSegmentSumGradV2" | "SparseSegmentMeanGradV2" | "SparseSegmentSqrtNGradV2" => {
            let mut most = bounds.input(node, 1)?;
            if output == 0 {
                most.extend_from_slice(bounds.input(node, 0)?.get(1..)?);
            }
            Some(most)
        }
        "Gather" | "GatherV2" => gathered(bounds, node),
        "ResourceGather" => {
            let mut most = bounds.input(node, 1)?;
            // The handle has no shape of its own; the inference knows the rows'.
            let known = bounds.shapes.get(bounds.graph.outputs(node).next()?)?;
            most.extend(known.get(most.len()..)?.iter());
            Some(most)
        }
        "GatherNd" => {
            let (data, places) = (bounds.input(node, 0)?, bounds.input(node, 1)?);
            let (&deep, shape) = places.split_last()?;
            // So many dimensions are chosen from: that number must be known, not bounded.
            let known = bounds.shapes.get(*bounds.graph.data_inputs(node).get(1)?)?;
            let rest = (known.last() == Some(&deep)).then(|| data.get(usize::try_from(deep).ok()?..))??;
            Some([shape, rest].concat())
        }
        "Reshape" => reshaped(bounds, node),
        "ExpandDims" => {
            let mut most = bounds.input(node, 0)?;
            let axis = values::axis(bounds, node, 1, most.len() + 1)?;
            most.insert(axis, 1);
            Some(most)
        }
        "Squeeze" => squeezed(bounds, node),
        "Transpose" | "ConjugateTranspose" => {
            let most = bounds.input(node, 0)?;
            let order = bounds.exact_values(node, 1)?;
            order.into_iter().map(|place| most.get(usize::try_from(place).ok()?).copied()).collect()
        }
        "ConcatV2" | "Concat" => concatenated(bounds, node, op == "ConcatV2"),
        "Pack" => {
            let inputs = bounds.inputs(node)?;
            let mut most = largest(&inputs)?;
            let axis = axis_of(bounds.number(node, "axis"), most.len() + 1)?;
            most.insert(axis, inputs.len() as i64);
            Some(most)
        }
        "Unpack" => {
            let mut most = bounds.input(node, 0)?;
            let axis = axis_of(bounds.number(node, "axis"), most.len())?;
            most.remove(axis);
            Some(most)
        }
        "Split" => {
            let mut most = bounds.input(node, 1)?;
            let axis = values::axis(bounds, node, 0, most.len())?;
            most[axis] /= bounds.number(node, "num_split").max(1);
            Some(most)
        }
        "SplitV" => bounds.input(node, 0),
        "Slice" => {
            let most = bounds.input(node, 0)?;
            let Some(sizes) = bounds.exact_values(node, 2) else { return Some(most) };
            let size = |(most, size): (i64, i64)| if size < 0 { most } else { most.min(size) };
            (sizes.len() == most.len()).then(|| most.into_iter().zip(sizes).map(size).collect())
        }
        "StridedSlice" => slices::at_most(bounds, node),
        "Pad" | "PadV2" | "MirrorPad" => {
            let most = bounds.input(node, 0)?;
            let added = bounds.most_values(node, 1).filter(|added| added.len() == 2 * most.len())?;
            let sizes = most.iter().zip(added.chunks_exact(2));
            sizes.map(|(most, added)| most.checked_add(added[0])?.checked_add(added[1])).collect()
        }
        "Tile" => {
            let most = bounds.input(node, 0)?;
            let times = bounds.most_values(node, 1).filter(|times| times.len() == most.len())?;
            most.iter().zip(times).map(|(&most, times)| most.checked_mul(times)).collect()
        }
        "Range" => {
            let (start, delta) = (bounds.exact_values(node, 0)?, bounds.exact_values(node, 2)?);
            let limit = bounds.most_values(node, 1)?;
            let (&[start], &[limit], &[delta]) = (&*start, &*limit, &*delta) else { return None };
            (delta > 0).then(|| vec![((limit - start).max(0) as u64).div_ceil(delta as u64) as i64])
        }
        "ArgMax" | "ArgMin" => {
            let mut most = bounds.input(node, 0)?;
            let axis = values::axis(bounds, node, 1, most.len())?;
            most.remove(axis);
            Some(most)
        }
        "MatMul" => matrices::product(bounds, node, ["transpose_a", "transpose_b"]),
        "BatchMatMul" | "BatchMatMulV2" | "BatchMatMulV3" => {
            matrices::product(bounds, node, ["adj_x", "adj_y"])
        }
        "Einsum" => matrices::einsum(bounds, node),
        "SparseTensorDenseMatMul" => matrices::sparse_by_dense(bounds, node),
        "MatrixDiag" | "MatrixDiagV3" => matrices::of_diagonals(bounds, node),
        "MatrixDiagPart" | "MatrixDiagPartV3" => matrices::diagonals(bounds, node),
        "BiasAddGrad" => images::of_channels(bounds, node),
        "ResizeBilinear"
        | "ResizeNearestNeighbor"
        | "ResizeBicubic"
        | "ResizeArea"
        | "ResizeNearestNeighborGrad" => images::resized(bounds, node),
        "SpaceToDepth" => images::blocks(bounds, node, true),
        "DepthToSpace" => images::blocks(bounds, node, false),
        "SpaceToBatchND" => images::space_to_batch(bounds, node),
        "BatchToSpaceND" => images::batch_to_space(bounds, node),
        // Of each row of chances, so many.
        "Multinomial" | "StatelessMultinomial" => {
            let (&rows, &[samples]) = (bounds.input(node, 0)?.first()?, &*bounds.most_values(node, 1)?)
            else {
                return None;
            };
            Some(vec![rows, samples])
        }
        "Bincount" => bounds.most_values(node, 1).filter(|most| most.len() == 1),
        "DenseBincount" => {
            let mut most = bounds.input(node, 0)?;
            let &[values] = &*bounds.most_values(node, 1)? else { return None };
            *most.last_mut()? = values;
            Some(most)
        }
        "InTopK" | "InTopKV2" => bounds.input(node, 1),
        // All that was sampled may be what is true of each example.
        "ComputeAccidentalHits" => {
            let (classes, sampled) = (product(&bounds.input(node, 0)?)?, product(&bounds.input(node, 1)?)?);
            Some(vec![classes.checked_mul(sampled)?])
        }
        "OneHot" => {
            let mut most = bounds.input(node, 0)?;
            let &[depth] = &*bounds.most_values(node, 1)? else { return None };
            // By default the last.
            let axis = match bounds.graph.attrs(node).attr("axis") {
                Some(Attr::Int(axis)) => axis_of(axis, most.len() + 1)?,
                _ => most.len(),
            };
            most.insert(axis, depth);
            Some(most)
        }
        "TopKV2" => {
            let mut most = bounds.input(node, 0)?;
            let row = most.last_mut()?;
            *row = chosen(bounds, node, 1, *row);
            Some(most)
        }
        "NonMaxSuppression"
        | "NonMaxSuppressionV2"
        | "NonMaxSuppressionV3"
        | "NonMaxSuppressionV4"
        | "NonMaxSuppressionV5" => {
            let boxes = *bounds.input(node, 0)?.first()?;
            Some(vec![chosen(bounds, node, 2, boxes)])
        }
        "LinSpace" => bounds.most_values(node, 2).filter(|most| most.len() == 1),
        "CropAndResize" => {
            let (image, boxes) = (bounds.input(node, 0)?, bounds.input(node, 1)?);
            let &[height, width] = &*bounds.most_values(node, 3)? else { return None };
            Some(vec![*boxes.first()?, height, width, *image.get(3)?])
        }
        "SoftmaxCrossEntropyWithLogits" | "SparseSoftmaxCrossEntropyWithLogits" => {
            let logits = bounds.input(node, 0)?;
            Some(if output == 0 { vec![*logits.first()?] } else { logits })
        }
        "BroadcastGradientArgs" => {
            let lengths = [bounds.input(node, 0)?, bounds.input(node, 1)?];
            Some(vec![lengths.iter().filter_map(|length| length.first()).copied().max()?])
        }
        "LookupTableFind" | "LookupTableFindV2" => bounds.input(node, 1),
        "Select" => bounds.input(node, 1).or_else(|| bounds.input(node, 2)),
        // All of one shape: the least bound that is known holds.
        "AddN" | "AccumulateNV2" => {
            let known = (0..bounds.graph.data_inputs(node).len()).filter_map(|slot| bounds.input(node, slot));
            known.min_by_key(|most| product(most))
        }
        "TensorListStack" => lists::stacked(bounds, node),
        "TensorArrayReadV2" | "TensorArrayReadV3" => arrays::element(bounds, node),
        "TensorArrayGatherV2" | "TensorArrayGatherV3" => arrays::gathered(bounds, node),
        "OptionalGetValue" => {
            let optional = *bounds.graph.data_inputs(node).first()?;
            let held = optionals::held(bounds.graph, optional, output as usize)?;
            let each: Option<Vec<Most>> = held.into_iter().map(|tensor| bounds.most(tensor)).collect();
            largest(&each?)
        }
        "IdentityN" => bounds.input(node, output as usize),
        "Switch" | "RefSwitch" => bounds.input(node, 0),
        "Merge" | "RefMerge" => merged(bounds, node, output),
        _ => sparse::at_most(bounds, node, output),
    }
}

/// How many of `all` an op chooses at most that is told a number by an input; all, if nobody knows the number.
fn chosen(bounds: &mut Bounds, node: NodeId, slot: usize, all: i64) -> i64 {
    match bounds.most_values(node, slot).as_deref() {
        Some(&[count]) => count.min(all),
        _ => all,
    }
}

/// Whichever branch was taken, of those that may be. What a loop brings back is not known here.
fn merged(bounds: &Bounds, node: NodeId, output: u32) -> Option<Most> {
    let graph = bounds.graph;
    let inputs = graph.data_inputs(node);
    let turns = inputs.iter().any(|&input| graph.is_back_edge(graph.producer(input), node));
    if output > 0 || turns {
        return None;
    }
    let alive = inputs.iter().filter(|&&input| !bounds.is_dead(input));
    if alive.clone().count() > 1 {
        bounds.is_exact.set(false);
    }
    largest(&alive.map(|&input| bounds.most(input)).collect::<Option<Vec<Most>>>()?)
}

/// A row for each place up to the largest that is named, as long as those of the data.
fn stitched(bounds: &mut Bounds, node: NodeId) -> Option<Most> {
    let inputs = bounds.graph.data_inputs(node);
    let (places, data) = inputs.split_at(inputs.len() / 2);
    let largest: Option<Vec<i64>> = places.iter().map(|&places| entries::segments(bounds, places)).collect();
    let mut most = vec![largest?.into_iter().max()?];
    let rank = bounds.most(*places.first()?)?.len();
    most.extend_from_slice(bounds.most(*data.first()?)?.get(rank..)?);
    Some(most)
}

/// A row for each segment, as long as those of the data.
fn segments(bounds: &mut Bounds, node: NodeId, numbers: usize) -> Option<Most> {
    let data = bounds.input(node, 0)?;
    let mut most = vec![entries::segments(bounds, *bounds.graph.data_inputs(node).get(numbers)?)?];
    most.extend_from_slice(data.get(1..)?);
    Some(most)
}

fn reduced(bounds: &mut Bounds, node: NodeId) -> Option<Most> {
    let most = bounds.input(node, 0)?;
    let keeps = bounds.flag(node, "keep_dims");
    let Some(axes) = bounds.exact_values(node, 1) else {
        // Along whichever axis: all that is known is how many dimensions are left.
        bounds.is_exact.set(false);
        let left = bounds.shapes.rank(bounds.graph.outputs(node).next()?);
        let left = left.or_else(|| most.len().checked_sub(bounds.length(node, 1)?));
        // What a dimension becomes that is kept is one, also where there was nothing.
        return match keeps {
            true => Some(most.into_iter().map(|size| size.max(1)).collect()),
            false => entries::without_some(&most, left?),
        };
    };
    let axes: Option<Vec<usize>> = axes.into_iter().map(|axis| axis_of(axis, most.len())).collect();
    let axes = axes?;
    let sizes = most.into_iter().enumerate();
    let left = sizes.filter_map(|(axis, size)| match axes.contains(&axis) {
        true => keeps.then_some(1),
        false => Some(size),
    });
    Some(left.collect())
}

fn windows(bounds: &Bounds, node: NodeId, output: u32) -> Option<Most> {
    let most = bounds.input(node, 0)?;
    let known = bounds.shapes.get(bounds.graph.outputs(node).nth(output as usize)?)?;
    let channels = match bounds.graph.attrs(node).string("data_format") {
        Some(format) if format.starts_with(b"NC") => 1,
        _ => known.len().checked_sub(1)?,
    };
    // What the inference leaves open is not filled in for channels: there may be more of them.
    let is_bounded = known.len() == most.len() && known.get(channels).is_some_and(|&size| size >= 0);
    let padding = bounds.graph.attrs(node).string("padding");
    (is_bounded && matches!(padding, Some(b"SAME" | b"VALID"))).then_some(most)
}

fn gathered(bounds: &mut Bounds, node: NodeId) -> Option<Most> {
    let (data, places) = (bounds.input(node, 0)?, bounds.input(node, 1)?);
    let axis = match bounds.graph.data_inputs(node).len() {
        2 => 0,
        _ => values::axis(bounds, node, 2, data.len())?,
    };
    let batch = usize::try_from(bounds.number(node, "batch_dims")).ok()?;
    Some([data.get(..axis)?, places.get(batch..)?, data.get(axis + 1..)?].concat())
}

fn reshaped(bounds: &mut Bounds, node: NodeId) -> Option<Most> {
    let wanted = bounds.values(node, 1)?;
    let given: Option<Most> = wanted.iter().map(|value| value.exact().filter(|&size| size >= 0)).collect();
    if given.is_some() {
        return given;
    }
    let elements = product(&bounds.input(node, 0)?)?;
    let is_open = |value: &values::Value| value.exact() == Some(-1);
    // Of the others, those that are only bounded may be as small as one.
    let known = wanted.iter().filter(|value| !is_open(value)).filter_map(|value| value.exact());
    let known = product(&known.collect::<Vec<_>>())?.max(1);
    wanted
        .iter()
        .map(|value| match is_open(value) {
            true => Some(elements / known),
            false => (value.at_most >= 0).then_some(value.at_most),
        })
        .collect()
}

fn squeezed(bounds: &Bounds, node: NodeId) -> Option<Most> {
    let most = bounds.input(node, 0)?;
    let value = AttrValue::decode(bounds.graph.attrs(node).raw("squeeze_dims")?).ok()?.value?;
    let AttrKind::List(list) = value else { return None };
    // Without axes all that are 1 go, and which these are is not known of what is bounded.
    let axes: Option<Vec<usize>> = list.i.iter().map(|&axis| axis_of(axis, most.len())).collect();
    let axes = axes.filter(|axes| !axes.is_empty())?;
    let left = most.into_iter().enumerate().filter(|(axis, _)| !axes.contains(axis));
    Some(left.map(|(_, size)| size).collect())
}

fn concatenated(bounds: &mut Bounds, node: NodeId, axis_is_last: bool) -> Option<Most> {
    let count = bounds.graph.data_inputs(node).len().checked_sub(1)?;
    let (slots, axis_slot) = if axis_is_last { (0..count, count) } else { (1..count + 1, 0) };
    let parts: Option<Vec<Most>> = slots.map(|slot| bounds.input(node, slot)).collect();
    let parts = parts?;
    let mut most = largest(&parts)?;
    let axis = values::axis(bounds, node, axis_slot, most.len())?;
    most[axis] = parts.iter().try_fold(0i64, |sum, part| sum.checked_add(part[axis]))?;
    Some(most)
}
