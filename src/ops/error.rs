//! Why a node does not fit its op.

use thiserror::Error;

/// Why the inputs or outputs of a node cannot be told from its op and its attributes.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum OpError {
    /// The node lacks an attribute that has no default.
    #[error("op {op}: attribute `{attr}` is missing")]
    MissingAttr {
        /// The op's name.
        op: String,
        /// The attribute's name.
        attr: String,
    },
    /// An attribute holds a value of another kind than the op's definition says.
    #[error("op {op}: attribute `{attr}` is not {expected}")]
    WrongKind {
        /// The op's name.
        op: String,
        /// The attribute's name.
        attr: String,
        /// What the value should have been.
        expected: &'static str,
    },
    /// An attribute that counts tensors is negative.
    #[error("op {op}: attribute `{attr}` counts {value} tensors")]
    NegativeCount {
        /// The op's name.
        op: String,
        /// The attribute's name.
        attr: String,
        /// The attribute's value.
        value: i64,
    },
    /// The node would have more inputs or outputs than any real graph.
    #[error("op {op}: argument `{arg}` brings the node to more than {limit} inputs or outputs")]
    TooManyPorts {
        /// The op's name.
        op: String,
        /// The argument's name.
        arg: String,
        /// The most that is allowed.
        limit: usize,
    },
    /// The op's definition gives an argument no type at all.
    #[error("op {op}: the definition gives argument `{arg}` no type")]
    UntypedArg {
        /// The op's name.
        op: String,
        /// The argument's name.
        arg: String,
    },
}
