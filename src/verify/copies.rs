//! Which original node each recomputed op is a copy of.

use super::graph::{Graph, NodeId, Role};
use super::names::AddedName;

/// The recomputed ops and their originals, both ways. An op whose name names no original node is not among them.
#[derive(Debug, Default)]
pub(super) struct Copies {
    /// Copy and original, in the order of the copies.
    by_copy: Vec<(NodeId, NodeId)>,
    /// Original and copy, in the order of the originals.
    by_original: Vec<(NodeId, NodeId)>,
}

impl Copies {
    /// Reads the names of the recomputed ops.
    pub fn find(graph: &Graph<'_>) -> Copies {
        let original = |copy: NodeId| match AddedName::parse(graph.name(copy)) {
            Some(AddedName::Recomputed(name, _)) => {
                graph.names.get(name).copied().filter(|&node| graph.is_original(node))
            }
            _ => None,
        };
        let copies = graph.ids().filter(|&node| graph.role(node) == Role::Recomputed);
        let by_copy: Vec<_> = copies.filter_map(|copy| Some((copy, original(copy)?))).collect();
        let mut by_original: Vec<_> = by_copy.iter().map(|&(copy, original)| (original, copy)).collect();
        by_original.sort_unstable();
        Copies { by_copy, by_original }
    }

    /// Each copy with its original.
    pub fn by_copy(&self) -> &[(NodeId, NodeId)] {
        &self.by_copy
    }

    /// The node that an op is a copy of.
    pub fn original_of(&self, copy: NodeId) -> Option<NodeId> {
        let place = self.by_copy.binary_search_by_key(&copy, |&(copy, _)| copy).ok()?;
        Some(self.by_copy[place].1)
    }

    /// The copies of a node.
    pub fn of(&self, original: NodeId) -> impl Iterator<Item = NodeId> {
        let start = self.by_original.partition_point(|&(node, _)| node < original);
        let copies = self.by_original[start..].iter().take_while(move |&&(node, _)| node == original);
        copies.map(|&(_, copy)| copy)
    }

    /// How many different nodes have copies.
    pub fn originals(&self) -> usize {
        self.by_original.chunk_by(|a, b| a.0 == b.0).count()
    }
}
