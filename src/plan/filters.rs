//! Which ops a user lets take part.

use serde::{Deserialize, Serialize};

use crate::graph::{Graph, NodeId};

/// A choice of ops by the beginning of their names and by their types.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct NameOrType {
    /// Beginnings of names.
    pub scopes: Vec<String>,
    /// Op types.
    pub types: Vec<String>,
}

impl NameOrType {
    fn is_empty(&self) -> bool {
        self.scopes.is_empty() && self.types.is_empty()
    }

    fn contains(&self, graph: &Graph, node: NodeId) -> bool {
        let name = graph.name(node);
        self.scopes.iter().any(|scope| name.starts_with(scope.as_str()))
            || self.types.iter().any(|op| graph.op(node).name() == op)
    }
}

/// The eight filters of TFLMS: whose outputs may leave, and for whom they may come back.
///
/// An op that is excluded is out. Where something is included, what is not included is out too.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Filters {
    /// Producers whose outputs stay.
    pub exclude_output_by: NameOrType,
    /// The only producers whose outputs may leave.
    pub include_output_by: NameOrType,
    /// Consumers that go on reading the original.
    pub exclude_input_by: NameOrType,
    /// The only consumers that may read what came back.
    pub include_input_by: NameOrType,
}

impl Filters {
    /// Whether an op's outputs may leave.
    pub fn admit_producer(&self, graph: &Graph, node: NodeId) -> bool {
        admit(&self.exclude_output_by, &self.include_output_by, graph, node)
    }

    /// Whether an op may read what came back.
    pub fn admit_consumer(&self, graph: &Graph, node: NodeId) -> bool {
        admit(&self.exclude_input_by, &self.include_input_by, graph, node)
    }
}

fn admit(excluded: &NameOrType, included: &NameOrType, graph: &Graph, node: NodeId) -> bool {
    !excluded.contains(graph, node) && (included.is_empty() || included.contains(graph, node))
}
