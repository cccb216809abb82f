//! Why a plan cannot be carried out.

use crate::graph::DeviceError;
use crate::plan::{NotRecomputable, NotSwappable};

/// Why a plan cannot be carried out on a graph, or undone.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RewriteError {
    /// The graph has been rewritten before.
    #[error(
        "the graph has LMS ops already, such as {node:?}; take them out first: lms-rewrite --strip INPUT -o OUTPUT"
    )]
    AlreadyRewritten {
        /// One of them.
        node: String,
    },
    /// The plan was made for another graph.
    #[error(
        "the plan is for another graph: one of {planned_nodes} nodes with digest {planned}, but this one has {nodes} nodes and digest {found}"
    )]
    OtherGraph {
        /// The number of nodes that the plan names.
        planned_nodes: usize,
        /// The digest that the plan names.
        planned: String,
        /// The graph's number of nodes.
        nodes: usize,
        /// The graph's digest.
        found: String,
    },
    /// A name that no node has.
    #[error("the plan names {name:?} as {role}, but the graph has no such node")]
    NoSuchNode {
        /// The name.
        name: String,
        /// What the plan wants of it.
        role: &'static str,
    },
    /// A tensor that does not exist.
    #[error("the plan swaps {tensor:?}, but the graph has no such tensor (expected node:output)")]
    NoSuchTensor {
        /// The tensor.
        tensor: String,
    },
    /// A tensor that must stay.
    #[error("the plan swaps {tensor:?}, but it cannot be swapped: {why}")]
    NotSwappable {
        /// The tensor.
        tensor: String,
        /// Why.
        why: NotSwappable,
    },
    /// An op that must stay where it is.
    #[error(
        "the plan moves {node:?} to the host, but that is a {op}, which is on the host already or computes something: such an op might \
         give other numbers there"
    )]
    NotMovable {
        /// The op.
        node: String,
        /// Of which kind it is.
        op: String,
    },
    /// A tensor that the plan names twice.
    #[error("the plan swaps {tensor:?} twice")]
    SwappedTwice {
        /// The tensor.
        tensor: String,
    },
    /// A tensor that leaves and never comes back.
    #[error("the plan swaps {tensor:?}, but brings it back for nobody")]
    NeverBack {
        /// The tensor.
        tensor: String,
    },
    /// A consumer that does not read the tensor.
    #[error(
        "the plan brings {tensor:?} back for {consumer:?}, but that node does not read it, or reads it from an earlier swap-in of the plan"
    )]
    NotAConsumer {
        /// The tensor.
        tensor: String,
        /// The node.
        consumer: String,
    },
    /// An op that must not run twice.
    #[error("the plan runs {node:?} a second time, but that may not give the same: {why}")]
    NotRecomputable {
        /// The op.
        node: String,
        /// Why not.
        why: NotRecomputable,
    },
    /// A second run whose inputs are not there.
    #[error("the plan runs {node:?} a second time with {tensor:?} from where it is not")]
    NoSuchSubstitute {
        /// The op.
        node: String,
        /// The input.
        tensor: String,
    },
    /// An op that TensorFlow would not merge with its equals any more.
    #[error(
        "the plan has {node:?} wait for another op, so it would not be one with its equals any more, and a sum of three or more would add in another order"
    )]
    OrderOfSum {
        /// The op.
        node: String,
    },
    /// Ops in different loops.
    #[error("the plan has {first:?} and {second:?} wait for each other across the border of a loop")]
    AcrossFrames {
        /// One end.
        first: String,
        /// The other.
        second: String,
    },
    /// A collective that comes after one that is not there, or behind it.
    #[error("the plan has collective {number} come after one that does not come before it")]
    NoSuchCollective {
        /// Its place.
        number: usize,
    },
    /// A collective of nothing, of several types, or of tensors of unknown shapes.
    #[error("the plan's {name:?} puts nothing together, or what does not go together")]
    UnfitCollective {
        /// The collective.
        name: String,
    },
    /// A host device that is none.
    #[error("the plan's host device: {0}")]
    Device(#[from] DeviceError),
    /// An LMS op that does not look like one.
    #[error("node {node:?} has the name of an LMS op but not its form: {what}")]
    UnknownForm {
        /// The node.
        node: String,
        /// What is odd about it.
        what: &'static str,
    },
    /// Nothing to strip.
    #[error("the graph has no LMS ops")]
    NothingToStrip,
}
