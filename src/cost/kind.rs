//! What sort of work an op is.

use crate::dtype::DataType;
use crate::ops::{OpInfo, passes_on};

/// What sort of work an op is, as its name alone tells.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// It renames, hands on or names a buffer, or runs on the host.
    Free,
    /// A convolution that mixes channels.
    Convolution(Pass),
    /// A convolution of each channel by itself.
    Depthwise(Pass),
    /// A product of two matrices, or of two batches of them, with the attributes that transpose its inputs.
    MatrixProduct([&'static str; 2]),
    /// Sums of products along named dimensions.
    Einsum,
    /// Some steps of a recurrent net.
    Recurrent(Recurrent),
    /// An optimizer's update. It reads its gradient, and reads and writes a variable and its slots.
    Update {
        /// Which input is the gradient.
        gradient: usize,
        /// How many variables and slots.
        variables: usize,
    },
    /// Anything else, which takes as long as the memory does.
    Memory(Traffic),
}

/// Which of the three products of a convolution.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Pass {
    Forward,
    InputGradient,
    FilterGradient,
}

/// Where a recurrent net's operands are among an op's inputs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Recurrent {
    /// What is read: `[batch, features]`, or `[time, batch, features]`.
    pub input: usize,
    /// The weights, each used once by each step of each example.
    pub weights: &'static [usize],
    /// How many products each weight takes part in: two where gradients of both factors are made.
    pub products: u32,
}

/// What an op moves that is bound by memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Traffic {
    /// Each input is read and each output written, and some inputs are read again.
    Everything { again: &'static [usize] },
    /// The first input and output, which are images; the rest are vectors, some of unknown size. In training the input is
    /// read twice, for its mean and variance come first.
    BatchNorm,
    /// The first two inputs, each twice, as sums over both come first, and the first output.
    BatchNormGradient,
    /// Only outputs are written.
    Outputs,
    /// What is written was read from a part of the inputs.
    Part,
    /// Passes over one input, as other operands are of its size or behind handles.
    Input { input: usize, passes: u32 },
}

/// The kind of an op.
pub(super) fn classify(op: &OpInfo) -> Kind {
    use Kind::{Convolution, Depthwise, Free, Memory};
    let name = op.name();
    if let Some(update) = update(op) {
        return update;
    }
    match name {
        "Conv" | "Conv2D" | "Conv3D" | "_FusedConv2D" => Convolution(Pass::Forward),
        "Conv2DBackpropInput" | "Conv2DBackpropInputV2" | "Conv3DBackpropInput" | "Conv3DBackpropInputV2" => {
            Convolution(Pass::InputGradient)
        }
        "Conv2DBackpropFilter"
        | "Conv2DBackpropFilterV2"
        | "Conv3DBackpropFilter"
        | "Conv3DBackpropFilterV2" => Convolution(Pass::FilterGradient),
        "DepthwiseConv2dNative" => Depthwise(Pass::Forward),
        "DepthwiseConv2dNativeBackpropInput" => Depthwise(Pass::InputGradient),
        "DepthwiseConv2dNativeBackpropFilter" => Depthwise(Pass::FilterGradient),
        "MatMul" | "_FusedMatMul" | "SparseMatMul" => Kind::MatrixProduct(["transpose_a", "transpose_b"]),
        "BatchMatMul" | "BatchMatMulV2" | "BatchMatMulV3" => Kind::MatrixProduct(["adj_x", "adj_y"]),
        "Einsum" => Kind::Einsum,
        _ => match recurrent(name) {
            Some(recurrent) => Kind::Recurrent(recurrent),
            None if is_free(name) => Free,
            None => Memory(traffic(name)),
        },
    }
}

fn recurrent(name: &str) -> Option<Recurrent> {
    let (input, weights, products): (_, &'static [usize], _) = match name {
        "LSTMBlockCell" => (0, &[3], 1),
        "BlockLSTM" | "BlockLSTMV2" => (1, &[4], 1),
        "BlockLSTMGrad" | "BlockLSTMGradV2" => (1, &[4], 2),
        "GRUBlockCell" | "GRUBlockCellGrad" => (0, &[2, 3], 1),
        "CudnnRNN" | "CudnnRNNV2" | "CudnnRNNV3" => (0, &[3], 1),
        "CudnnRNNBackprop" | "CudnnRNNBackpropV2" | "CudnnRNNBackpropV3" => (0, &[3], 2),
        _ => return None,
    };
    Some(Recurrent { input, weights, products })
}

/// An optimizer's op. Its variables and slots are references or resources, which its definition says.
fn update(op: &OpInfo) -> Option<Kind> {
    const FAMILIES: [&str; 4] = ["Apply", "ResourceApply", "SparseApply", "ResourceSparseApply"];
    if !FAMILIES.iter().any(|family| op.name().starts_with(family)) {
        return None;
    }
    let gradient = op.inputs().iter().position(|arg| matches!(arg.name.as_str(), "grad" | "delta"))?;
    let is_variable = |dtype| DataType::new(dtype) == DataType::RESOURCE;
    let variables = op.inputs().iter().filter(|arg| arg.is_ref || is_variable(arg.r#type)).count();
    Some(Kind::Update { gradient, variables })
}

fn is_free(name: &str) -> bool {
    // Of those that pass a buffer on, this one looks at all of it.
    passes_on(name, 0).is_some() && name != "CheckNumerics"
        || name.starts_with("Stack")
        || name.starts_with("Placeholder")
        || matches!(
            name,
            "_SwitchN"
                | "ControlTrigger"
                | "NoOp"
                | "Const"
                | "HostConst"
                | "_Arg"
                | "_Retval"
                | "_Send"
                | "_Recv"
                | "_HostSend"
                | "_HostRecv"
                | "VarHandleOp"
                | "Variable"
                | "VariableV2"
                | "TemporaryVariable"
                | "DestroyTemporaryVariable"
                | "ReadVariableOp"
                | "AssignVariableOp"
                | "VarIsInitializedOp"
                | "IsVariableInitialized"
                | "VariableShape"
                | "DestroyResourceOp"
                | "Shape"
                | "ShapeN"
                | "Size"
                | "Rank"
                | "BroadcastArgs"
                | "BroadcastGradientArgs"
                | "ConcatOffset"
                | "InvertPermutation"
                | "TensorArrayV3"
                | "TensorArrayGradV3"
                | "TensorArrayReadV3"
                | "TensorArraySizeV3"
                | "TensorArrayCloseV3"
                | "Assert"
                | "Print"
                | "PrintV2"
                | "IteratorGetNext"
                | "QueueDequeueV2"
                | "QueueDequeueManyV2"
                | "SaveV2"
                | "RestoreV2"
                | "Timestamp"
        )
}

fn traffic(name: &str) -> Traffic {
    match name {
        "ZerosLike" | "OnesLike" => Traffic::Outputs,
        "Slice"
        | "StridedSlice"
        | "Gather"
        | "GatherV2"
        | "GatherNd"
        | "ResourceGather"
        | "ResourceGatherNd"
        | "TensorArrayGatherV3"
        | "TensorArrayConcatV3" => Traffic::Part,
        "FusedBatchNorm" | "FusedBatchNormV2" | "FusedBatchNormV3" | "_FusedBatchNormEx" => {
            Traffic::BatchNorm
        }
        "FusedBatchNormGrad" | "FusedBatchNormGradV2" | "FusedBatchNormGradV3" => Traffic::BatchNormGradient,
        // The greatest value, the sum, then the quotients.
        "Softmax"
        | "LogSoftmax"
        | "SoftmaxCrossEntropyWithLogits"
        | "SparseSoftmaxCrossEntropyWithLogits" => Traffic::Everything { again: &[0, 0] },
        "Assign" | "TensorArraySplitV3" => Traffic::Input { input: 1, passes: 2 },
        "TensorArrayScatterV3" => Traffic::Input { input: 2, passes: 2 },
        "TensorArrayWriteV3" => Traffic::Input { input: 2, passes: 0 },
        "AssignAdd" | "AssignSub" | "AssignAddVariableOp" | "AssignSubVariableOp" => {
            Traffic::Input { input: 1, passes: 3 }
        }
        // It makes a tensor; those below change a variable.
        "ScatterNd" => Traffic::Everything { again: &[] },
        _ if name.starts_with("Scatter") || name.starts_with("ResourceScatter") => {
            Traffic::Input { input: 2, passes: 3 }
        }
        _ => Traffic::Everything { again: &[] },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ops::OpRegistry;

    #[test]
    fn operands_are_where_the_definitions_say() {
        let registry = OpRegistry::builtin();
        let argument = |op: &OpInfo, index: usize| op.inputs()[index].name.clone();
        for op in registry.iter() {
            let name = op.name();
            match classify(op) {
                Kind::Convolution(pass) if !name.starts_with('_') => {
                    assert_eq!(
                        argument(op, if pass == Pass::FilterGradient { 0 } else { 1 }),
                        match pass {
                            Pass::FilterGradient => "input",
                            _ => "filter",
                        }
                    );
                    if pass != Pass::Forward {
                        assert_eq!(argument(op, 2), "out_backprop", "{name}");
                    }
                }
                Kind::Recurrent(recurrent) => {
                    let input = argument(op, recurrent.input);
                    assert!(matches!(input.as_str(), "x" | "input"), "{name}: {input}");
                    for &index in recurrent.weights {
                        let weights = argument(op, index);
                        assert!(
                            matches!(weights.as_str(), "w" | "w_ru" | "w_c" | "params"),
                            "{name}: {weights}"
                        );
                    }
                }
                Kind::Memory(Traffic::Input { input, .. }) => {
                    let value = argument(op, input);
                    assert!(matches!(value.as_str(), "value" | "updates"), "{name}: {value}");
                }
                Kind::Update { variables, .. } => assert!(variables > 0, "{name}"),
                _ => {}
            }
        }
    }

    /// What shares its input's buffer moves nothing, but for a check of all values.
    #[test]
    fn what_passes_a_buffer_on_is_free() {
        let registry = OpRegistry::builtin();
        for op in registry.iter().filter(|op| passes_on(op.name(), 0).is_some()) {
            assert_eq!(classify(op) == Kind::Free, op.name() != "CheckNumerics", "{}", op.name());
        }
    }

    #[test]
    fn adam_moves_its_variable_and_two_slots() {
        let adam = OpRegistry::builtin().get("ResourceApplyAdam").expect("an op of TensorFlow");
        assert_eq!(classify(adam), Kind::Update { gradient: 9, variables: 3 });
    }
}
