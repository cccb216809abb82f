//! TensorFlow's ops that are not stateful by their definitions and yet may not be run again.
//!
//! Many of these are the same each time on a CPU, or where the session asks for it. A graph does not say which, so they
//! are refused everywhere.

/// Why an op may not be run again, as in "it ..."; none if its name does not speak against it.
pub(super) fn reason(op: &str) -> Option<&'static str> {
    let has = |names: &[&str]| names.contains(&op);
    if has(RANDOM) {
        return Some("draws random numbers");
    }
    if has(DEPENDS_ON_MORE) {
        return Some("depends on more than its inputs");
    }
    if has(FED) {
        return Some("may be fed");
    }
    if writes_to_input(op) {
        return Some("writes to its input");
    }
    if OTHER_SYSTEMS.iter().any(|start| op.starts_with(start)) {
        return Some("belongs to a system of which nothing is known here");
    }
    if has(ADDS_IN_ANY_ORDER) || SUMS_BACKWARDS.iter().any(|part| op.contains(part)) {
        return Some("may add up or write in another order each time");
    }
    None
}

/// Whether an op writes into the tensor that it reads, which others may read too.
pub(super) fn writes_to_input(op: &str) -> bool {
    ["InplaceAdd", "InplaceSub", "InplaceUpdate", "_ParallelConcatUpdate"].contains(&op)
}

/// Their seeds set where they begin, and each run goes on from there.
const RANDOM: &[&str] = &["FractionalAvgPool", "FractionalMaxPool", "RiscRandomUniform"];

/// On the time, on other requests, on other devices' runs, on code from outside, or on what watches the run.
const DEPENDS_ON_MORE: &[&str] = &[
    "Batch",
    "CustomAggregator",
    "DebugIdentity",
    "DebugNanCount",
    "DebugNumericSummary",
    "DebugNumericSummaryV2",
    "GetDeadline",
    "MlirPassthroughOp",
    "PyFuncStateless",
    "SdcaOptimizer",
    "SdcaOptimizerV2",
    "Unbatch",
    "UnbatchGrad",
    "XlaAllReduce",
    "XlaCustomCall",
    "XlaCustomCallV2",
    "XlaReduceScatter",
];

/// What is fed for the original is not fed for the copy.
const FED: &[&str] = &["PlaceholderWithDefault"];

/// Beginnings of ops of meshes, of TPUs and of compilers that work on the graph after us.
const OTHER_SYSTEMS: &[&str] =
    &["CopyToMesh", "DTensor", "Relayout", "Risc", "TPU", "XlaSparse", "_Mkl", "__Mkl"];

/// On a GPU many threads add to one number, in no certain order, and sums of floats depend on the order. Or several
/// write to one place, and the last stays.
const ADDS_IN_ANY_ORDER: &[&str] = &[
    "AdjustContrast",
    "AdjustContrastv2",
    "BiasAddGrad",
    "Bincount",
    "BlockLSTMGrad",
    "BlockLSTMGradV2",
    "CTCLossV2",
    "CropAndResizeGradBoxes",
    "CropAndResizeGradImage",
    "DenseBincount",
    "FakeQuantWithMinMaxVarsGradient",
    "FakeQuantWithMinMaxVarsPerChannelGradient",
    "GRUBlockCellGrad",
    "LSTMBlockCellGrad",
    "MaxPool3DGrad",
    "MaxPoolGrad",
    "MaxPoolGradV2",
    "MaxPoolGradWithArgmax",
    "ParallelDynamicStitch",
    "RaggedBincount",
    "RaggedFillEmptyRowsGrad",
    "ResizeBilinearGrad",
    "ResizeNearestNeighborGrad",
    "ScatterNd",
    "ScatterNdNonAliasingAdd",
    "SegmentMean",
    "SegmentProd",
    "SegmentProdV2",
    "SegmentSum",
    "SegmentSumV2",
    "SoftmaxCrossEntropyWithLogits",
    "SparseBincount",
    "SparseFillEmptyRowsGrad",
    "SparseSegmentMean",
    "SparseSegmentMeanGrad",
    "SparseSegmentMeanGradV2",
    "SparseSegmentMeanWithNumSegments",
    "SparseSegmentSqrtN",
    "SparseSegmentSqrtNGrad",
    "SparseSegmentSqrtNGradV2",
    "SparseSegmentSqrtNWithNumSegments",
    "SparseSegmentSum",
    "SparseSegmentSumGrad",
    "SparseSegmentSumGradV2",
    "SparseSegmentSumWithNumSegments",
    "SparseSoftmaxCrossEntropyWithLogits",
    "SparseTensorDenseMatMul",
    "SparseToDense",
    "TensorScatterAdd",
    "TensorScatterSub",
    "TensorScatterUpdate",
    "UnsortedSegmentProd",
    "UnsortedSegmentSum",
];

/// Gradients of convolutions and batch norms, under all their names: their libraries choose algorithms that add up so.
const SUMS_BACKWARDS: &[&str] = &["Backprop", "BatchNormGrad", "BatchNormWithGlobalNormalizationGrad"];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ops::OpRegistry;

    #[test]
    fn the_names_are_of_ops_that_the_definitions_would_let_pass() {
        let registry = OpRegistry::builtin();
        for op in [RANDOM, DEPENDS_ON_MORE, FED, ADDS_IN_ANY_ORDER].concat() {
            let info = registry.get(op);
            assert!(info.is_some_and(|info| !info.is_stateful()), "{op}");
            assert!(reason(op).is_some(), "{op}");
        }
        for part in [OTHER_SYSTEMS, SUMS_BACKWARDS].concat() {
            let mut named = registry.iter().filter(|op| op.name().contains(part) && !op.is_stateful());
            assert!(named.next().is_some(), "{part}");
        }
    }

    #[test]
    fn what_a_model_is_made_of_forwards_may_be_run_again() {
        for op in [
            "AddV2",
            "BiasAdd",
            "Cast",
            "Conv2D",
            "FusedBatchNormV3",
            "MatMul",
            "MaxPool",
            "Mean",
            "Mul",
            "Relu",
            "Reshape",
            "Softmax",
            "StatelessRandomUniform",
            "Sum",
            "Transpose",
        ] {
            assert_eq!(reason(op), None, "{op}");
        }
    }
}
