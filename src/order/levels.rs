//! The categorized topological sort.

use crate::graph::{Graph, NodeId, Rows};

/// The level of each node: 0 for ops with no inputs, else one more than the largest level among its data and control
/// inputs. The back edges of loops do not count.
///
/// TFLMS thinks in levels: two ops of the same level can run at the same time, and the distance of two ops is the
/// difference of their levels.
#[derive(Debug, Clone)]
pub struct Levels {
    of: Vec<u32>,
    rows: Rows<NodeId>,
}

impl Levels {
    /// Sorts a graph.
    pub fn of(graph: &Graph) -> Levels {
        let mut of = vec![0u32; graph.len()];
        let mut count = 0;
        for &node in graph.topological() {
            let in_graph = |from: &NodeId| from.index() < graph.len() && !graph.is_back_edge(*from, node);
            let before = graph.predecessors(node).filter(in_graph).map(|from| of[from.index()] + 1);
            let level = before.max().unwrap_or(0);
            of[node.index()] = level;
            count = count.max(level as usize + 1);
        }
        let rows =
            Rows::group(count, || graph.node_ids().map(|node| (of[node.index()] as usize, node)), NodeId(0));
        Levels { of, rows }
    }

    /// The level of a node.
    pub fn level(&self, node: NodeId) -> u32 {
        self.of[node.index()]
    }

    /// How many levels there are.
    pub fn count(&self) -> usize {
        self.rows.len()
    }

    /// The nodes of a level in the order of the file.
    pub fn nodes(&self, level: u32) -> &[NodeId] {
        self.rows.row(level as usize)
    }
}
