//! Ref variables: what reads one must run before its update, also when it now waits for a swap-in.
//!
//! The reader of a ref variable sees the variable's buffer, not a copy, and so does whatever reads through an op that
//! passes buffers on. In the original graph such a reader may run early only because nothing holds it back; once it
//! waits for a swap-in, the update of the variable could overtake it. Most optimizers order the two anyway, since they
//! gate gradients by op. Where a graph does not, an edge is added.

use std::collections::{BTreeSet, HashMap};

use super::swaps::TensorSwap;
use super::{Analysis, Order, OrderReason};
use crate::graph::{Graph, NodeId, TensorId, reach};

/// Ops that hold a variable's buffer.
const VARIABLE_OPS: [&str; 3] = ["Variable", "VariableV2", "TemporaryVariable"];

/// Ops whose outputs are their inputs' buffers.
const PASSING_OPS: [&str; 18] = [
    "Identity",
    "RefIdentity",
    "IdentityN",
    "Reshape",
    "Squeeze",
    "ExpandDims",
    "StopGradient",
    "PreventGradient",
    "CheckNumerics",
    "Bitcast",
    "Switch",
    "RefSwitch",
    "Merge",
    "RefMerge",
    "Enter",
    "RefEnter",
    "Exit",
    "RefExit",
];

/// A reader and an update of one variable.
type Pair = (NodeId, NodeId);

/// The edges that keep each delayed reader before the updates of what it reads.
///
/// Where no edge can do that, because of branches or loops, the swaps that would delay the reader are dropped.
pub(super) fn guard(analysis: &Analysis, swaps: &mut Vec<TensorSwap>, orders: &[Order]) -> Vec<Order> {
    let variables = Variables::of(analysis.graph);
    if variables.is_empty() {
        return Vec::new();
    }
    loop {
        let pairs = unordered_pairs(analysis, &variables, swaps, orders);
        let (guarded, impossible): (Vec<Pair>, Vec<Pair>) =
            pairs.into_iter().partition(|&(reader, update)| analysis.flow.may_control(reader, update));
        if impossible.is_empty() {
            return guarded.into_iter().map(|pair| order(analysis.graph, pair)).collect();
        }
        // Each round drops a swap-in for one reader at least, so this ends.
        let readers: Vec<NodeId> = impossible.into_iter().map(|(reader, _)| reader).collect();
        drop_delays(analysis.graph, swaps, &readers);
    }
}

fn order(graph: &Graph, (reader, update): Pair) -> Order {
    Order {
        before: graph.name(reader).to_string(),
        after: graph.name(update).to_string(),
        reason: OrderReason::RefVariable,
    }
}

/// The readers and updates of each ref variable.
struct Variables {
    /// By variable, in the order of the file.
    all: Vec<Variable>,
}

#[derive(Default)]
struct Variable {
    readers: Vec<NodeId>,
    updates: Vec<NodeId>,
}

impl Variables {
    fn of(graph: &Graph) -> Variables {
        let holders = graph.node_ids().filter(|&node| VARIABLE_OPS.contains(&graph.op(node).name()));
        let all =
            holders.flat_map(|node| graph.outputs(node)).map(|tensor| Variable::of(graph, tensor)).collect();
        Variables { all }
    }

    fn is_empty(&self) -> bool {
        self.all.is_empty()
    }
}

impl Variable {
    /// Follows a buffer through all ops that pass it on.
    fn of(graph: &Graph, buffer: TensorId) -> Variable {
        let mut variable = Variable::default();
        let mut seen = BTreeSet::from([buffer]);
        let mut open = vec![buffer];
        while let Some(tensor) = open.pop() {
            for reader in graph.uses(tensor) {
                let node = reader.node;
                let passes = PASSING_OPS.contains(&graph.op(node).name());
                let updates =
                    !passes && graph.output_type(tensor).is_ref && takes_ref(graph, node, reader.slot);
                if updates {
                    variable.updates.push(node);
                } else {
                    variable.readers.push(node);
                }
                for output in graph.outputs(node) {
                    // An update returns the variable it updated.
                    let same = passes || updates && graph.output_type(output).is_ref;
                    if same && seen.insert(output) {
                        open.push(output);
                    }
                }
            }
        }
        for nodes in [&mut variable.readers, &mut variable.updates] {
            nodes.sort_unstable();
            nodes.dedup();
        }
        variable
    }
}

/// Whether a data input of a node takes a reference, not a value.
fn takes_ref(graph: &Graph, node: NodeId, slot: u32) -> bool {
    let ports = graph.op(node).input_ports(&graph.attrs(node));
    ports.is_ok_and(|ports| ports.get(slot as usize).is_some_and(|port| port.is_ref))
}

/// The readers that a swap may delay with the updates of the same step that nothing orders them against.
fn unordered_pairs(
    analysis: &Analysis,
    variables: &Variables,
    swaps: &[TensorSwap],
    orders: &[Order],
) -> Vec<Pair> {
    let graph = analysis.graph;
    let consumers = swaps.iter().flat_map(|swap| &swap.uses).flat_map(|swap_in| &swap_in.consumers);
    let delayed = downstream(graph, consumers.copied());
    let mut wanted: Vec<Pair> = Vec::new();
    for variable in &variables.all {
        for &reader in variable.readers.iter().filter(|reader| delayed[reader.index()]) {
            let updates = variable.updates.iter().filter(|&&update| update != reader);
            wanted.extend(
                updates.filter(|&&update| analysis.step.contains(update)).map(|&update| (reader, update)),
            );
        }
    }
    if wanted.is_empty() {
        return wanted;
    }
    let order = order_with(analysis, orders);
    let forward = unreached(&order, &wanted, |(reader, update)| (reader, update));
    let mut unordered = unreached(&order, &forward, |(reader, update)| (update, reader));
    unordered.sort_unstable();
    unordered.dedup();
    unordered
}

/// The nodes by level and then by place in the file, and their successors with the edges of a plan.
struct PlannedOrder<'a> {
    graph: &'a Graph<'a>,
    nodes: Vec<NodeId>,
    added: HashMap<NodeId, Vec<NodeId>>,
}

fn order_with<'a>(analysis: &'a Analysis, orders: &[Order]) -> PlannedOrder<'a> {
    let graph = analysis.graph;
    let nodes =
        (0..analysis.levels.count() as u32).flat_map(|level| analysis.levels.nodes(level)).copied().collect();
    let mut added: HashMap<NodeId, Vec<NodeId>> = HashMap::new();
    if !orders.is_empty() {
        let by_name: HashMap<&str, NodeId> = graph.node_ids().map(|node| (graph.name(node), node)).collect();
        for order in orders {
            if let (Some(&before), Some(&after)) = (by_name.get(&*order.before), by_name.get(&*order.after)) {
                added.entry(before).or_default().push(after);
            }
        }
    }
    PlannedOrder { graph, nodes, added }
}

/// Those pairs whose first end (as `ends` has it) does not reach the second.
fn unreached(order: &PlannedOrder, pairs: &[Pair], ends: impl Fn(Pair) -> Pair) -> Vec<Pair> {
    let mut by_target: HashMap<NodeId, Vec<Pair>> = HashMap::new();
    for &pair in pairs {
        by_target.entry(ends(pair).1).or_default().push(pair);
    }
    let mut targets: Vec<NodeId> = by_target.keys().copied().collect();
    targets.sort_unstable();
    let mut unreached = Vec::new();
    let successors = |node: NodeId| {
        let added = order.added.get(&node).into_iter().flatten().copied();
        order.graph.successors(node).filter(move |&next| !order.graph.is_back_edge(node, next)).chain(added)
    };
    reach::for_each_batch(&order.nodes, successors, &targets, |batch, reached| {
        for (bit, target) in batch.iter().enumerate() {
            for &pair in &by_target[target] {
                if reached[ends(pair).0.index()] >> bit & 1 == 0 {
                    unreached.push(pair);
                }
            }
        }
    });
    unreached
}

/// Which nodes wait for one of these, themselves included.
fn downstream(graph: &Graph, from: impl Iterator<Item = NodeId>) -> Vec<bool> {
    let mut found = vec![false; graph.len()];
    let mut open: Vec<NodeId> = from.collect();
    for node in &open {
        found[node.index()] = true;
    }
    while let Some(node) = open.pop() {
        for next in graph.successors(node) {
            if !found[next.index()] {
                found[next.index()] = true;
                open.push(next);
            }
        }
    }
    found
}

/// Drops the swap-ins that any of these readers waits for.
fn drop_delays(graph: &Graph, swaps: &mut Vec<TensorSwap>, readers: &[NodeId]) {
    let mut waits = vec![false; graph.len()];
    let mut open = readers.to_vec();
    while let Some(node) = open.pop() {
        if !std::mem::replace(&mut waits[node.index()], true) {
            open.extend(graph.predecessors(node).filter(|from| from.index() < graph.len()));
        }
    }
    for swap in swaps.iter_mut() {
        swap.uses.retain(|swap_in| !swap_in.consumers.iter().any(|consumer| waits[consumer.index()]));
    }
    swaps.retain(|swap| !swap.uses.is_empty());
}
