//! Whose output is the buffer of a ref variable.
//!
//! A ref variable gives out its buffer, and ops like `Identity` hand it on without a copy. Who reads it sees the value of
//! the moment, and not the one that the variable had when the step began.

use super::graph::{Graph, NONE, NodeId};

/// Which nodes give out a variable's buffer. Variables that one op may give out by turns count as one.
#[derive(Debug)]
pub(super) struct Buffers {
    /// For each node a node nearer to the one that stands for its buffer; [`NONE`] for nodes that give out no buffer.
    nearer: Vec<NodeId>,
}

impl Buffers {
    /// Follows the buffers of all ref variables.
    pub fn find(graph: &Graph<'_>) -> Buffers {
        let mut buffers = Buffers { nearer: vec![NONE; graph.len() as usize] };
        let mut open: Vec<NodeId> = graph.ids().filter(|&node| graph.op(node).is_ref_variable).collect();
        for &variable in &open {
            buffers.nearer[variable as usize] = variable;
        }
        while let Some(node) = open.pop() {
            for &to in graph.consumers(node) {
                let passes = graph.op(to).passes;
                let mut inputs = graph.data(to).iter().enumerate();
                if !inputs.any(|(slot, tensor)| tensor.node == node && passes.takes(slot)) {
                    continue;
                }
                if buffers.nearer[to as usize] == NONE {
                    buffers.nearer[to as usize] = node;
                    open.push(to);
                } else {
                    buffers.join(to, node);
                }
            }
        }
        buffers
    }

    /// Whether a node gives out a variable's buffer, or may.
    pub fn gives(&self, node: NodeId) -> bool {
        self.nearer[node as usize] != NONE
    }

    /// The node that stands for the buffer that a node gives out.
    pub fn of(&mut self, node: NodeId) -> Option<NodeId> {
        let mut at = node;
        if self.nearer[at as usize] == NONE {
            return None;
        }
        loop {
            let nearer = self.nearer[at as usize];
            if nearer == at {
                return Some(at);
            }
            // Halving the way keeps later walks short.
            self.nearer[at as usize] = self.nearer[nearer as usize];
            at = nearer;
        }
    }

    fn join(&mut self, a: NodeId, b: NodeId) {
        if let (Some(a), Some(b)) = (self.of(a), self.of(b)) {
            // The first in the file stands for both.
            self.nearer[a.max(b) as usize] = a.min(b);
        }
    }
}
