//! What can be wrong with a graph that a file holds.

use crate::ops::OpError;

/// Why the nodes of a file are no graph. Each message names the node.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum GraphError {
    /// A node without a name.
    #[error("node {index} (counted from 0) has no name")]
    NoName {
        /// Its place in the file.
        index: usize,
    },
    /// Two nodes of one name.
    #[error("two nodes are called {name:?}: nodes {first} and {second} (counted from 0)")]
    DuplicateName {
        /// The name.
        name: String,
        /// The place of one in the file.
        first: usize,
        /// The place of the other.
        second: usize,
    },
    /// An op that neither TensorFlow nor the file defines.
    #[error(
        "node {node:?}: nothing defines its op {op:?}; a MetaGraphDef carries the definitions of its ops, \
         and --op-defs gives them for a GraphDef"
    )]
    UnknownOp {
        /// The node.
        node: String,
        /// Its op.
        op: String,
    },
    /// Attributes that do not fit the op.
    #[error("node {node:?}: {error}")]
    Signature {
        /// The node.
        node: String,
        /// What does not fit.
        error: OpError,
    },
    /// An input of a node that does not exist.
    #[error("node {node:?} reads {input:?}, but no node has that name")]
    DanglingInput {
        /// The reader.
        node: String,
        /// The input as written.
        input: String,
    },
    /// An output that its node does not have.
    #[error("node {node:?} reads {input:?}, but that node has {outputs} outputs")]
    NoSuchOutput {
        /// The reader.
        node: String,
        /// The input as written.
        input: String,
        /// How many outputs the producer has.
        outputs: usize,
    },
    /// A data input behind a control input.
    #[error("node {node:?}: its data input {input:?} comes after a control input")]
    DataAfterControl {
        /// The node.
        node: String,
        /// The input.
        input: String,
    },
    /// A device string that is none.
    #[error("node {node:?}: {error}")]
    Device {
        /// The node.
        node: String,
        /// What is wrong with it.
        error: super::DeviceError,
    },
    /// Nodes that wait for each other.
    #[error("{} nodes wait for each other in a circle: {}{}", nodes.len(), nodes[..nodes.len().min(5)].join(" → "), if nodes.len() > 5 { " → …" } else { "" })]
    Cycle {
        /// The nodes of one circle, each read by the next, the last by the first.
        nodes: Vec<String>,
    },
    /// More than the numbers in use can count.
    #[error("the graph has more than {limit} {what}")]
    TooLarge {
        /// What there are too many of.
        what: &'static str,
        /// The most that there may be.
        limit: usize,
    },
}
