//! A plan in numbers.

use std::hash::{Hash as _, Hasher as _};

use rustc_hash::{FxHashSet, FxHasher};

use super::{
    Analysis, InitialValue, Order, OrderReason, Plan, Recomputation, RecomputationInput, RecomputationOutput,
    Substitute, Swap, SwapIn,
};
use crate::graph::{ByName, Device, Graph, NodeId, TensorId};
use crate::order::{Place, Placement};

/// A plan in numbers: what strategies make and the simulator judges. A [`Plan`] is its written form.
#[derive(Debug, Clone, Default, Hash)]
pub struct Draft {
    /// The tensors that leave, and those of the host that come when they are needed.
    pub swaps: Vec<TensorSwap>,
    /// Ops that must run one after the other.
    pub orders: Vec<NodeOrder>,
    /// Ops that run a second time. One may read another that stands before it.
    pub recomputations: Vec<OpRecomputation>,
    /// Values that variables begin with, which go by way of the host, and who gives them to the variables.
    pub initial_values: Vec<(TensorId, NodeId)>,
    /// Ops that go to the host, in the order of the file.
    pub host_ops: Vec<NodeId>,
}

/// A swap in numbers.
#[derive(Debug, Clone, Hash)]
pub struct TensorSwap {
    /// The tensor.
    pub tensor: TensorId,
    /// Ops that wait until the copy to the host is complete.
    pub waiting: Vec<NodeId>,
    /// The times that it comes back.
    pub uses: Vec<TensorUse>,
}

/// A swap-in in numbers.
#[derive(Debug, Clone, Hash)]
pub struct TensorUse {
    /// Who reads the copy that comes back; from a strategy by level, then in the order of the file.
    pub consumers: Vec<NodeId>,
    /// The ops that must have run before the copy to the GPU starts.
    pub triggers: Vec<NodeId>,
}

/// A second run of an op in numbers.
#[derive(Debug, Clone, Hash)]
pub struct OpRecomputation {
    /// The op.
    pub op: NodeId,
    /// The ops that must have run before it runs again.
    pub triggers: Vec<NodeId>,
    /// Those of its inputs that it reads from elsewhere the second time.
    pub inputs: Vec<(TensorId, Substitute)>,
    /// For each of its outputs the ops that read it in place of what was made the first time.
    pub outputs: Vec<(TensorId, Vec<NodeId>)>,
}

/// An order of two ops in numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
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
    /// Whether the plan changes nothing.
    pub fn is_empty(&self) -> bool {
        self.swaps.is_empty()
            && self.orders.is_empty()
            && self.recomputations.is_empty()
            && self.initial_values.is_empty()
            && self.host_ops.is_empty()
    }

    /// The ops that must run one after the other, to be asked for.
    pub fn ordered_pairs(&self) -> FxHashSet<(NodeId, NodeId)> {
        self.orders.iter().map(|order| (order.before, order.after)).collect()
    }

    /// What tells one plan from another: two that differ have the same one only by a chance of one in 2^64.
    pub(crate) fn fingerprint(&self) -> u64 {
        let mut hasher = FxHasher::default();
        self.hash(&mut hasher);
        hasher.finish()
    }

    /// Whether an op goes to the host.
    pub fn is_host_op(&self, node: NodeId) -> bool {
        self.host_ops.binary_search(&node).is_ok()
    }

    /// Whether a tensor is on the host when it is swapped, so that it need not go there: a weight that the plan puts there, what is
    /// fed, or what an input pipeline gives. `placement` is that of the graph as it is.
    pub fn begins_on_host(&self, graph: &Graph, placement: &Placement, tensor: TensorId) -> bool {
        placement.output(tensor) == Place::Host || self.is_host_op(graph.producer(tensor))
    }

    /// Puts names to the numbers, into a plan.
    pub fn write_to(self, plan: &mut Plan, analysis: &Analysis) {
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
        let tensor_name = |tensor: TensorId| analysis.graph.tensor_name(tensor).to_string();
        let recomputation = |again: OpRecomputation| Recomputation {
            op: name(again.op),
            triggers: names(again.triggers),
            inputs: again
                .inputs
                .into_iter()
                .map(|(tensor, from)| RecomputationInput { tensor: tensor_name(tensor), from })
                .collect(),
            outputs: again
                .outputs
                .into_iter()
                .map(|(tensor, consumers)| RecomputationOutput {
                    tensor: tensor_name(tensor),
                    consumers: names(consumers),
                })
                .collect(),
        };
        plan.swaps = self.swaps.into_iter().map(swap).collect();
        plan.orders = self.orders.into_iter().map(order).collect();
        plan.recomputations = self.recomputations.into_iter().map(recomputation).collect();
        let initial_value =
            |(tensor, assign)| InitialValue { tensor: tensor_name(tensor), assign: name(assign) };
        plan.initial_values = self.initial_values.into_iter().map(initial_value).collect();
        plan.host_ops = names(self.host_ops);
    }

    /// The written form, with the strategy that made it and what that was set to; `host` is where tensors go when they leave.
    pub fn into_plan(
        self,
        analysis: &Analysis,
        strategy: &str,
        parameters: serde_json::Value,
        host: &Device,
    ) -> Plan {
        let mut plan = Plan::new(analysis, strategy, &host.to_string());
        plan.parameters = parameters;
        self.write_to(&mut plan, analysis);
        plan
    }

    /// The numbers of a written plan.
    ///
    /// # Errors
    ///
    /// If it names what the graph does not have.
    pub fn of(plan: &Plan, graph: &Graph) -> Result<Draft, UnknownName> {
        let by_name = ByName::of(graph);
        let unknown = |name: &str| UnknownName { name: name.to_string() };
        let node = |name: &String| by_name.node(name).ok_or_else(|| unknown(name));
        let nodes = |names: &[String]| names.iter().map(node).collect::<Result<Vec<_>, _>>();
        let tensor = |name: &str| by_name.tensor(name).ok_or_else(|| unknown(name));
        let mut draft = Draft::default();
        for swap in &plan.swaps {
            let uses = swap.swap_ins.iter().map(|swap_in| {
                Ok(TensorUse { consumers: nodes(&swap_in.consumers)?, triggers: nodes(&swap_in.triggers)? })
            });
            draft.swaps.push(TensorSwap {
                tensor: tensor(&swap.tensor)?,
                waiting: nodes(&swap.waiting)?,
                uses: uses.collect::<Result<_, _>>()?,
            });
        }
        for order in &plan.orders {
            let (before, after) = (node(&order.before)?, node(&order.after)?);
            draft.orders.push(NodeOrder { before, after, reason: order.reason });
        }
        for again in &plan.recomputations {
            let input = |input: &RecomputationInput| Ok((tensor(&input.tensor)?, input.from));
            let output =
                |output: &RecomputationOutput| Ok((tensor(&output.tensor)?, nodes(&output.consumers)?));
            draft.recomputations.push(OpRecomputation {
                op: node(&again.op)?,
                triggers: nodes(&again.triggers)?,
                inputs: again.inputs.iter().map(input).collect::<Result<_, _>>()?,
                outputs: again.outputs.iter().map(output).collect::<Result<_, _>>()?,
            });
        }
        for value in &plan.initial_values {
            draft.initial_values.push((tensor(&value.tensor)?, node(&value.assign)?));
        }
        draft.host_ops = nodes(&plan.host_ops)?;
        draft.host_ops.sort_unstable();
        Ok(draft)
    }
}
