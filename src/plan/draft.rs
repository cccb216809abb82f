//! A plan in numbers.

use std::collections::HashMap;

use super::{Analysis, Order, OrderReason, Plan, Swap, SwapIn};
use crate::graph::{Graph, NodeId, TensorId};

/// A plan in numbers: what strategies make and the simulator judges. A [`Plan`] is its written form.
#[derive(Debug, Clone, Default)]
pub struct Draft {
    /// The tensors that leave.
    pub swaps: Vec<TensorSwap>,
    /// Ops that must run one after the other.
    pub orders: Vec<NodeOrder>,
}

/// A swap in numbers.
#[derive(Debug, Clone)]
pub struct TensorSwap {
    /// The tensor that leaves.
    pub tensor: TensorId,
    /// Ops that wait until the copy to the host is complete.
    pub waiting: Vec<NodeId>,
    /// The times that it comes back.
    pub uses: Vec<TensorUse>,
}

/// A swap-in in numbers.
#[derive(Debug, Clone)]
pub struct TensorUse {
    /// Who reads the copy that comes back; from a strategy by level, then in the order of the file.
    pub consumers: Vec<NodeId>,
    /// The ops that must have run before the copy to the GPU starts.
    pub triggers: Vec<NodeId>,
}

/// An order of two ops in numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NodeOrder {
    /// The op that runs first.
    pub before: NodeId,
    /// The op that runs second.
    pub after: NodeId,
    /// What for.
    pub reason: OrderReason,
}

/// A plan that names what its graph does not have.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the plan names {name:?}, which the graph does not have: the plan is for another graph")]
pub struct UnknownName {
    /// A node, or a tensor as `node:output`.
    pub name: String,
}

impl Draft {
    /// The plan with names.
    pub fn named(self, analysis: &Analysis) -> (Vec<Swap>, Vec<Order>) {
        let name = |node: NodeId| analysis.graph.name(node).to_string();
        let names = |nodes: Vec<NodeId>| nodes.into_iter().map(name).collect();
        let swap_in = |swap_in: TensorUse| SwapIn {
            consumers: names(swap_in.consumers),
            triggers: names(swap_in.triggers),
        };
        let swap = |swap: TensorSwap| Swap {
            tensor: analysis.graph.tensor_name(swap.tensor).to_string(),
            bytes: analysis.sizes.bytes(swap.tensor),
            waiting: names(swap.waiting),
            swap_ins: swap.uses.into_iter().map(swap_in).collect(),
        };
        let order = |order: NodeOrder| Order {
            before: name(order.before),
            after: name(order.after),
            reason: order.reason,
        };
        (self.swaps.into_iter().map(swap).collect(), self.orders.into_iter().map(order).collect())
    }

    /// The numbers of a written plan.
    ///
    /// # Errors
    ///
    /// If it names what the graph does not have.
    pub fn of(plan: &Plan, graph: &Graph) -> Result<Draft, UnknownName> {
        let by_name: HashMap<&str, NodeId> = graph.node_ids().map(|node| (graph.name(node), node)).collect();
        let unknown = |name: &str| UnknownName { name: name.to_string() };
        let node = |name: &String| by_name.get(&**name).copied().ok_or_else(|| unknown(name));
        let nodes = |names: &[String]| names.iter().map(node).collect::<Result<Vec<_>, _>>();
        let tensor = |name: &str| {
            let (node, output) = name.rsplit_once(':')?;
            graph.outputs(*by_name.get(node)?).nth(output.parse().ok()?)
        };
        let mut draft = Draft::default();
        for swap in &plan.swaps {
            let uses = swap.swap_ins.iter().map(|swap_in| {
                Ok(TensorUse { consumers: nodes(&swap_in.consumers)?, triggers: nodes(&swap_in.triggers)? })
            });
            draft.swaps.push(TensorSwap {
                tensor: tensor(&swap.tensor).ok_or_else(|| unknown(&swap.tensor))?,
                waiting: nodes(&swap.waiting)?,
                uses: uses.collect::<Result<_, _>>()?,
            });
        }
        for order in &plan.orders {
            let (before, after) = (node(&order.before)?, node(&order.after)?);
            draft.orders.push(NodeOrder { before, after, reason: order.reason });
        }
        Ok(draft)
    }
}
