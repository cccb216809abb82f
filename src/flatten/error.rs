//! Why a function cannot be made flat.

use crate::format::FormatError;
use crate::graph::DeviceError;
use crate::ops::OpError;

/// Why a function cannot be made flat, or not be written back. Nothing was written.
#[derive(Debug, thiserror::Error)]
pub enum FlattenError {
    /// A part of the file that does not decode.
    #[error(transparent)]
    Format(#[from] FormatError),
    /// A function that the library does not have.
    #[error("the file has no function {name:?}; it has {}", listed(choices))]
    NoFunction {
        /// What was asked for.
        name: String,
        /// The names that there are.
        choices: Vec<String>,
    },
    /// A signature that the file does not have.
    #[error("the file has no signature {name:?}; it has {}", listed(choices))]
    NoSignature {
        /// What was asked for.
        name: String,
        /// The names that there are.
        choices: Vec<String>,
    },
    /// More than one signature that updates variables.
    #[error("more than one signature updates variables; choose one with --signature: {}", choices.join(", "))]
    SeveralSignatures {
        /// Their names.
        choices: Vec<String>,
    },
    /// A signature whose outputs are not those of one call.
    #[error("signature {name:?} does not call one function: {what}")]
    NotACall {
        /// The signature.
        name: String,
        /// What it is instead.
        what: String,
    },
    /// A call of a function that the library does not have.
    #[error("function {function:?}: node {node:?} calls {callee:?}, which the file does not have")]
    MissingFunction {
        /// Where the call is.
        function: String,
        /// The call.
        node: String,
        /// What it calls.
        callee: String,
    },
    /// Functions that call each other in a circle.
    #[error("functions call each other in a circle, which no flat graph has: {}", functions.join(" → "))]
    Recursive {
        /// The functions, each called by the one before it.
        functions: Vec<String>,
    },
    /// More nodes than can be handled.
    #[error("function {function:?} has more than {limit} nodes once its calls are flat")]
    TooLarge {
        /// The function.
        function: String,
        /// The most that there may be.
        limit: u64,
    },
    /// A function that trains nothing.
    #[error("function {function:?} updates no variable: it is no training step")]
    NoEffect {
        /// The function.
        function: String,
    },
    /// An argument of which something must be known and is not.
    #[error("function {function:?}: {why} of its argument {argument:?} cannot be found")]
    UnknownArgument {
        /// The function.
        function: String,
        /// The argument.
        argument: String,
        /// What is not known.
        why: &'static str,
    },
    /// An argument that stands for several tensors.
    #[error("function {function:?}: its argument {argument:?} is a list of tensors, which is not supported")]
    ListArgument {
        /// The function.
        function: String,
        /// The argument.
        argument: String,
    },
    /// An input or return that names nothing.
    #[error("function {function:?}: {reader:?} reads {input:?}, which is not there")]
    BadInput {
        /// The function.
        function: String,
        /// The node or return that reads.
        reader: String,
        /// What it reads.
        input: String,
    },
    /// A loop that cannot be one.
    #[error("function {function:?}: the loop {node:?} {how}")]
    Loop {
        /// The function.
        function: String,
        /// The loop.
        node: String,
        /// What is wrong with it.
        how: &'static str,
    },
    /// Two nodes or arguments of one name.
    #[error("function {function:?} has two nodes or arguments called {name:?}")]
    DuplicateName {
        /// The function.
        function: String,
        /// The name.
        name: String,
    },
    /// An op that neither TensorFlow nor the file defines.
    #[error(
        "function {function:?}: node {node:?}: nothing defines its op {op:?}; --op-defs gives definitions"
    )]
    UnknownOp {
        /// The function.
        function: String,
        /// The node.
        node: String,
        /// Its op.
        op: String,
    },
    /// Attributes that do not fit the op.
    #[error("function {function:?}: node {node:?}: {error}")]
    Signature {
        /// The function.
        function: String,
        /// The node.
        node: String,
        /// What does not fit.
        error: OpError,
    },
    /// A device string that is none.
    #[error("function {function:?}: node {node:?}: {error}")]
    Device {
        /// The function.
        function: String,
        /// The node.
        node: String,
        /// What is wrong with it.
        error: DeviceError,
    },
    /// A call that reads its own result.
    #[error("function {function:?}: its argument {argument:?} is what the call returns for it")]
    Circle {
        /// The function.
        function: String,
        /// The argument.
        argument: String,
    },
    /// An attribute that the caller should give and does not.
    #[error(
        "function {function:?}: node {node:?}: nobody gives the attribute {attr:?} that it takes from its caller"
    )]
    NoAttribute {
        /// The function.
        function: String,
        /// The node.
        node: String,
        /// The attribute.
        attr: String,
    },
    /// A file that was not made by writing a function back.
    #[error("the file does not give the original back: {what}")]
    NotReversible {
        /// What is in the way.
        what: String,
    },
}

/// The most names that a message lists.
const MOST_NAMES: usize = 8;

fn listed(names: &[String]) -> String {
    match names.len() {
        0 => "none".to_string(),
        count if count > MOST_NAMES => format!("{}, … ({count} in all)", names[..MOST_NAMES].join(", ")),
        _ => names.join(", "),
    }
}
