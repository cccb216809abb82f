//! Nodes and tensors by the names that files and people have for them.

use std::collections::HashMap;

use super::{Graph, NodeId, TensorId};

/// The nodes of a graph by name.
#[derive(Debug)]
pub struct ByName<'g> {
    graph: &'g Graph<'g>,
    nodes: HashMap<&'g str, NodeId>,
}

impl<'g> ByName<'g> {
    /// Looks at all nodes once.
    pub fn of(graph: &'g Graph<'g>) -> ByName<'g> {
        ByName { graph, nodes: graph.node_ids().map(|node| (graph.name(node), node)).collect() }
    }

    /// The node of this name.
    pub fn node(&self, name: &str) -> Option<NodeId> {
        self.nodes.get(name).copied()
    }

    /// The tensor `node:output`.
    pub fn tensor(&self, name: &str) -> Option<TensorId> {
        let (node, output) = name.rsplit_once(':')?;
        self.graph.outputs(self.node(node)?).nth(output.parse().ok()?)
    }

    /// The same; of a name without an output the node's first.
    pub fn tensor_or_first(&self, name: &str) -> Option<TensorId> {
        match name.contains(':') {
            true => self.tensor(name),
            false => self.graph.outputs(self.node(name)?).next(),
        }
    }
}
