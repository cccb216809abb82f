//! What ops do to a gradient on its way to an optimizer, and where gradients come from.

use crate::dtype::DataType;

/// What an op does to one of its inputs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Effect {
    /// The mean of results is the result of the mean, as long as the other inputs are the same on all workers.
    Linear,
    /// It is not.
    NotLinear,
}

/// The inputs of an op along which a gradient may come, each with what the op does to it; `output` is the output that is read.
/// `keeps_rows` leaves out ops that make other rows of it.
pub(super) fn operands(op: &str, inputs: usize, output: u32, keeps_rows: bool) -> Vec<(usize, Effect)> {
    use Effect::{Linear, NotLinear};
    match op {
        "Identity" | "StopGradient" | "PreventGradient" | "Snapshot" | "CheckNumerics"
        | "CheckNumericsV2" | "Neg" | "EnsureShape" | "Cast" | "Switch" => vec![(0, Linear)],
        "Reshape" | "Transpose" | "ExpandDims" | "Squeeze" if !keeps_rows => vec![(0, Linear)],
        "IdentityN" => vec![(output as usize, Linear)],
        "Mul" | "MulNoNan" | "Add" | "AddV2" | "Sub" | "AddN" => {
            (0..inputs).map(|slot| (slot, Linear)).collect()
        }
        "RealDiv" | "Div" | "DivNoNan" => vec![(0, Linear), (1, NotLinear)],
        "Minimum" | "Maximum" | "Pow" | "SquaredDifference" => vec![(0, NotLinear), (1, NotLinear)],
        "ClipByValue" | "Square" | "Sqrt" | "Rsqrt" | "Abs" | "Sign" | "Reciprocal" | "Inv" => {
            vec![(0, NotLinear)]
        }
        "Select" | "SelectV2" => vec![(1, Linear), (2, Linear)],
        _ => Vec::new(),
    }
}

/// Whether a backward pass, or a batch norm, ends in such an op: what it gives out is linear in what came back from the loss, or a mean
/// over the batch.
pub(super) fn ends_backward(op: &str) -> bool {
    ENDS.contains(&op)
        || op.contains("BackpropFilter")
        || op.contains("BackpropInput")
        || op.starts_with("FusedBatchNorm")
        || op.starts_with("BatchMatMul")
        || (op.ends_with("Grad") && !op.contains("Sqrt"))
        || op.ends_with("GradV2")
}

const ENDS: [&str; 40] = [
    "Add",
    "AddN",
    "AddV2",
    "BiasAddGrad",
    "BroadcastTo",
    "Concat",
    "ConcatV2",
    "Conv2D",
    "Conv3D",
    "CudnnRNNBackprop",
    "CudnnRNNBackpropV2",
    "CudnnRNNBackpropV3",
    "DepthToSpace",
    "Div",
    "DivNoNan",
    "DynamicStitch",
    "Einsum",
    "Exit",
    "ExpandDims",
    "Gather",
    "GatherV2",
    "MatMul",
    "Mean",
    "Mul",
    "MulNoNan",
    "Pack",
    "Pad",
    "RealDiv",
    "Reshape",
    "ScatterNd",
    "SegmentSum",
    "Select",
    "SelectV2",
    "Slice",
    "Split",
    "SplitV",
    "Squeeze",
    "StridedSlice",
    "Sub",
    "Sum",
];

/// A second table, of ops that only move a gradient's values.
const MOVE: [&str; 12] = [
    "ParallelConcat",
    "TensorArrayConcatV3",
    "TensorArrayGatherV3",
    "TensorArrayReadV3",
    "TensorListStack",
    "Tile",
    "Transpose",
    "Unpack",
    "UnsortedSegmentSum",
    "SparseTensorDenseMatMul",
    "SparseSegmentSum",
    "TensorScatterAdd",
];

/// As [`ends_backward`], of ops that only move values.
pub(super) fn moves_values(op: &str) -> bool {
    MOVE.contains(&op)
}

/// Whether TensorFlow's collectives take a mean of it.
pub(super) fn can_reduce(dtype: DataType) -> bool {
    [DataType::FLOAT, DataType::HALF, DataType::DOUBLE, DataType::BFLOAT16].contains(&dtype)
}

/// Whether they gather it.
pub(super) fn can_gather(dtype: DataType) -> bool {
    [DataType::FLOAT, DataType::HALF, DataType::DOUBLE, DataType::INT32, DataType::INT64].contains(&dtype)
}

/// Whether a variable of this type can be given to other workers.
pub(super) fn can_broadcast(dtype: DataType) -> bool {
    let whole = [
        DataType::BOOL,
        DataType::INT8,
        DataType::INT16,
        DataType::INT32,
        DataType::INT64,
        DataType::UINT8,
        DataType::UINT16,
        DataType::UINT32,
        DataType::UINT64,
    ];
    can_reduce(dtype) || whole.contains(&dtype)
}
