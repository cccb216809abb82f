//! Swaps in numbers, as strategies make them.

use super::{Analysis, Swap, SwapIn};
use crate::graph::{NodeId, TensorId};

/// A swap in numbers.
#[derive(Debug)]
pub(super) struct TensorSwap {
    pub tensor: TensorId,
    pub waiting: Vec<NodeId>,
    pub uses: Vec<TensorUse>,
}

/// A swap-in in numbers.
#[derive(Debug)]
pub(super) struct TensorUse {
    /// By level, then in the order of the file.
    pub consumers: Vec<NodeId>,
    pub triggers: Vec<NodeId>,
}

impl TensorSwap {
    /// The same with names.
    pub fn named(self, analysis: &Analysis) -> Swap {
        let graph = analysis.graph;
        let names = |nodes: Vec<NodeId>| nodes.into_iter().map(|node| graph.name(node).to_string()).collect();
        Swap {
            tensor: graph.tensor_name(self.tensor).to_string(),
            bytes: analysis.sizes.bytes(self.tensor),
            waiting: names(self.waiting),
            swap_ins: self
                .uses
                .into_iter()
                .map(|swap_in| SwapIn {
                    consumers: names(swap_in.consumers),
                    triggers: names(swap_in.triggers),
                })
                .collect(),
        }
    }
}
