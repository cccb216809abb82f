//! Which kernels write their result over an input that is not used again.
//!
//! Memory depends on it: a chain of such ops runs in one tensor's room. The CPU's and the GPU's kernels of these ops are
//! mostly instances of the same C++ class. So the list holds the ops whose CPU kernel, run natively, was seen to allocate
//! nothing when its input dies, and some of the same families. Batch norm is not among them, forward or backward.

/// Does the kernel of this op take over an input of the result's type and shape, whichever dies?
pub fn takes_over(op: &str) -> bool {
    OPS.binary_search(&op).is_ok()
}

#[rustfmt::skip]
const OPS: &[&str] = &[
    "Abs", "Acos", "Acosh", "Add", "AddN", "AddV2", "Asin",
    "Asinh", "Atan", "Atan2", "Atanh", "BesselI0e", "BesselI1e", "Betainc",
    "BiasAdd", "Ceil", "ClipByValue", "Cos", "Cosh", "Digamma", "Div",
    "DivNoNan", "Elu", "EluGrad", "Erf", "Erfc", "Erfinv", "Exp",
    "Expm1", "Floor", "FloorDiv", "FloorMod", "Igamma", "IgammaGradA", "Igammac",
    "Inv", "InvGrad", "LeakyRelu", "LeakyReluGrad", "Lgamma", "Log", "Log1p",
    "LogSoftmax", "MatrixBandPart", "Maximum", "Minimum", "Mul", "MulNoNan", "Ndtri",
    "Neg", "NextAfter", "OnesLike", "Polygamma", "Pow", "RealDiv", "Reciprocal",
    "ReciprocalGrad", "Relu", "Relu6", "Relu6Grad", "ReluGrad", "Rint", "Round",
    "Rsqrt", "RsqrtGrad", "Select", "SelectV2", "Selu", "SeluGrad", "Sigmoid",
    "SigmoidGrad", "Sign", "Sin", "Sinh", "Snapshot", "Softmax", "SoftmaxCrossEntropyWithLogits",
    "Softplus", "SoftplusGrad", "Softsign", "SoftsignGrad", "SparseSoftmaxCrossEntropyWithLogits", "Sqrt", "SqrtGrad",
    "Square", "SquaredDifference", "Sub", "Tan", "Tanh", "TanhGrad", "TruncateDiv",
    "Xdivy", "Xlog1py", "Xlogy", "ZerosLike", "Zeta",
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_list_is_sorted() {
        assert!(OPS.is_sorted());
        assert!(takes_over("Relu") && takes_over("AddN"));
        assert!(!takes_over("Conv2D") && !takes_over("FusedBatchNormGradV3"));
    }
}
