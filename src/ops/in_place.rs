//! Which ops make no buffer of their own.

use std::collections::HashSet;
use std::sync::OnceLock;

/// Whether an op asks a tensor for its shape only.
pub fn reads_no_values(op: &str) -> bool {
    matches!(op, "OnesLike" | "Rank" | "Shape" | "ShapeN" | "Size" | "ZerosLike")
}

/// Whether an op's kernels write their result over an input of the same type and size that nobody else reads.
///
/// Memory depends on it: a chain of such ops runs in one tensor's room. The CPU's and the GPU's kernels of these ops are
/// mostly instances of the same C++ class. So the list holds the ops whose CPU kernel was seen to allocate nothing when
/// its input dies, and some of the same families. Batch norm is not among them, forward or backward.
pub fn takes_over(op: &str) -> bool {
    static OPS: OnceLock<HashSet<&str>> = OnceLock::new();
    OPS.get_or_init(|| include_str!("takes_over.txt").lines().collect()).contains(op)
}

/// The input whose buffer an output of an op is, whoever else reads it; none if it has a buffer of its own.
///
/// A `Merge` passes on whichever input is alive; the answer is its first.
pub fn passes_on(op: &str, output: u32) -> Option<u32> {
    match op {
        "IdentityN" => Some(output),
        "Switch" | "RefSwitch" => Some(0),
        "Identity"
        | "Reshape"
        | "Squeeze"
        | "ExpandDims"
        | "StopGradient"
        | "PreventGradient"
        | "Merge"
        | "RefMerge"
        | "Enter"
        | "RefEnter"
        | "Exit"
        | "RefExit"
        | "NextIteration"
        | "RefNextIteration"
        | "RefIdentity"
        | "RefSelect"
        | "Bitcast"
        | "LoopCond"
        | "EnsureShape"
        | "PlaceholderWithDefault"
        | "CheckNumerics"
        | "DebugGradientIdentity"
        // An optional holds its first component; most have but one.
        | "OptionalFromValue"
        | "OptionalGetValue"
            if output == 0 =>
        {
            Some(0)
        }
        _ => None,
    }
}

/// Whether an op hands its input on as it is when the output is as large.
///
/// So do TensorFlow's kernels (`tests/buffers.rs` asks them): a gradient through an op that broadcasts is summed over no axes at
/// all where nothing was broadcast, and costs nothing then.
pub fn only_resizes(op: &str) -> bool {
    matches!(
        op,
        "Sum"
            | "Prod"
            | "Max"
            | "Min"
            | "Mean"
            | "All"
            | "Any"
            | "BroadcastTo"
            | "MirrorPad"
            | "Pad"
            | "PadV2"
            | "Slice"
            | "Tile"
    )
}

/// Whether an op's outputs lie in memory that is there in each step anyway: variables, what reads and updates them in
/// place, and constants.
pub fn is_persistent(op: &str) -> bool {
    matches!(
        op,
        "Const"
            | "ImmutableConst"
            | "Variable"
            | "VariableV2"
            | "VarHandleOp"
            | "ReadVariableOp"
            | "Assign"
            | "AssignAdd"
            | "AssignSub"
    ) || op.starts_with("Apply")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ops::OpRegistry;

    #[test]
    fn all_are_ops_of_tensorflow() {
        let lines: Vec<&str> = include_str!("takes_over.txt").lines().collect();
        assert!(lines.is_sorted() && lines.iter().all(|op| OpRegistry::builtin().get(op).is_some()));
        assert!(takes_over("Relu") && takes_over("AddN"));
        assert!(!takes_over("Conv2D") && !takes_over("FusedBatchNormGradV3"));
    }

    #[test]
    fn no_op_is_of_two_kinds() {
        for op in OpRegistry::builtin().iter().map(|op| op.name()) {
            let kinds = [takes_over(op), passes_on(op, 0).is_some(), is_persistent(op), only_resizes(op)];
            assert!(kinds.iter().filter(|kind| **kind).count() <= 1, "{op}");
        }
    }
}
