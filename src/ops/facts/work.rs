//! What sort of work an op is.

/// What sort of work an op is, as its name alone tells.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WorkKind {
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
    Recurrent {
        /// The input that is read: `[batch, features]`, or `[time, batch, features]`.
        input: usize,
        /// The inputs that are weights, each used once by each step of each example.
        weights: &'static [usize],
        /// How many products each weight takes part in: two where gradients of both factors are made.
        products: u32,
    },
    /// An optimizer's update. It reads its gradient, and reads and writes a variable and its slots.
    Update,
    /// Anything else, which takes as long as the memory does.
    Memory(Traffic),
}

/// What an op's kernel on a GPU takes beside its outputs, and gives back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ScratchRule {
    /// cuDNN's batch norm has channels first in training. Where they are last, so many copies in the other order.
    InOtherOrder {
        /// How many, each as large as the first input.
        copies: u32,
    },
    /// The maximum and the sum of each row, for which the kernel takes tensors as large as the output; sums are of 32 bits at least.
    OfRows,
    /// As much as its outputs are together.
    LikeOutputs,
}

/// Which of the three products of a convolution.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pass {
    /// The feature map, of image and filter.
    Forward,
    /// The gradient of the image.
    InputGradient,
    /// The gradient of the filter.
    FilterGradient,
}

/// What an op moves that is bound by memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Traffic {
    /// Each input is read and each output written, and some inputs are read again.
    Everything {
        /// Which, each as often as it stands here.
        again: &'static [usize],
    },
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
    Input {
        /// Which input.
        input: usize,
        /// How often its bytes are read or written.
        passes: u32,
    },
}
