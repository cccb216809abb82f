//! Ref variables: what reads one must run before its update, also when it now waits for a swap-in.
//!
//! The reader of a ref variable sees the variable's buffer, not a copy, and so does whatever reads through an op that
//! passes buffers on. In the original graph such a reader may run early only because nothing holds it back; once it
//! waits for a swap-in, the update of the variable could overtake it. Most optimizers order the two anyway, since they
//! gate gradients by op. Where a graph does not, an edge is added.

use rustc_hash::{FxHashMap as HashMap, FxHashSet as HashSet};

use super::without::without_tensors;
use super::{Analysis, Draft, NodeOrder, OpRecomputation, OrderReason, Substitute, TensorUse};
use crate::graph::{Graph, NodeId, RefVariables, TensorId, reach};

/// A reader and an update of one variable.
type Pair = (NodeId, NodeId);

/// Adds the edges that keep each delayed reader before the updates of what it reads.
///
/// Where no edge can do that, because of branches or loops or since nobody knows what a step runs, the swaps that would
/// delay the reader are dropped.
pub fn guard(analysis: &Analysis, draft: &mut Draft) {
    let variables = &analysis.ref_variables;
    if variables.all().is_empty() {
        return;
    }
    loop {
        let Unordered { pairs, late } = unordered_pairs(analysis, variables, draft);
        // An edge must not make the step run what it did not run before.
        let may_order = |&(reader, update): &Pair| {
            analysis.step.certainly_contains(reader)
                && analysis.step.certainly_owns(update)
                && analysis.flow.may_control(reader, update)
                && analysis.may_wait(update, reader)
        };
        let (guarded, mut impossible): (Vec<Pair>, Vec<Pair>) = pairs.into_iter().partition(may_order);
        impossible.extend(late);
        if impossible.is_empty() {
            let order = |(before, after)| NodeOrder { before, after, reason: OrderReason::RefVariable };
            draft.orders.extend(guarded.into_iter().map(order));
            return;
        }
        // Each round drops what delays one reader at least, so this ends.
        let readers: Vec<NodeId> = impossible.into_iter().map(|(reader, _)| reader).collect();
        drop_delays(analysis.graph, draft, &readers);
    }
}

/// Readers and updates that a plan must order.
#[derive(Default)]
struct Unordered {
    /// Those that nothing orders.
    pairs: Vec<Pair>,
    /// Readers of second runs behind updates of what these read.
    late: Vec<Pair>,
}

/// The readers that a swap may delay, and the second ones, with the updates of the same step that nothing orders them
/// against.
fn unordered_pairs(analysis: &Analysis, variables: &RefVariables, draft: &Draft) -> Unordered {
    let graph = analysis.graph;
    let delayed = downstream(graph, held_back(draft));
    // Where it is not known what a step runs, it is what depends on a swapped tensor.
    let dependent = (!analysis.step.is_known())
        .then(|| downstream(graph, draft.swaps.iter().map(|swap| graph.producer(swap.tensor)).collect()));
    let in_step = |update: &NodeId| match &dependent {
        None => analysis.step.contains(*update),
        Some(dependent) => dependent[update.index()],
    };
    // What no run does together cannot come in the wrong order, and what no step runs does not come at all.
    let meet = |reader, update| !analysis.step.is_known() || analysis.step.share_a_run(reader, update);
    let mut wanted: Vec<Pair> = Vec::new();
    // Who runs again may have lost the readers that held an update back.
    let runs_again: HashSet<NodeId> = draft.recomputations.iter().map(|again| again.op).collect();
    let is_free = |reader: &&NodeId| delayed[reader.index()] || runs_again.contains(reader);
    for variable in variables.all() {
        for &reader in variable.readers.iter().filter(is_free) {
            let meets = |update: &&NodeId| **update != reader && in_step(update) && meet(reader, **update);
            let updates = variable.updates.iter().filter(meets);
            wanted.extend(updates.map(|&update| (reader, update)));
        }
    }
    let again = second_reads(variables, draft, |reader, update| in_step(&update) && meet(reader, update));
    if wanted.is_empty() && again.is_empty() {
        return Unordered::default();
    }
    let order = order_with(analysis, draft);
    let forward = unreached(&order, &wanted, |(reader, update)| (reader, update));
    let mut pairs = unreached(&order, &forward, |(reader, update)| (update, reader));
    // A second run is over when one of its readers begins, so it is enough that one comes before the update.
    let all: Vec<Pair> = again.iter().flatten().copied().collect();
    let free: HashSet<Pair> =
        unreached(&order, &all, |(reader, update)| (reader, update)).into_iter().collect();
    let unordered = again.iter().filter(|pairs| pairs.iter().all(|pair| free.contains(pair)));
    let first: Vec<Pair> = unordered.filter_map(|pairs| pairs.first()).copied().collect();
    let not_late: HashSet<Pair> =
        unreached(&order, &first, |(reader, update)| (update, reader)).into_iter().collect();
    let (open, late): (Vec<Pair>, Vec<Pair>) = first.into_iter().partition(|pair| not_late.contains(pair));
    pairs.extend(open);
    pairs.sort_unstable();
    pairs.dedup();
    Unordered { pairs, late }
}

/// For each second run of an op that reads a variable, and each update of that, the pairs of those who wait for the run and the
/// update.
fn second_reads(
    variables: &RefVariables,
    draft: &Draft,
    meet: impl Fn(NodeId, NodeId) -> bool,
) -> Vec<Vec<Pair>> {
    let mut runs_of: HashMap<NodeId, Vec<usize>> = HashMap::default();
    for (number, again) in draft.recomputations.iter().enumerate() {
        runs_of.entry(again.op).or_default().push(number);
    }
    let behind = behind_second_runs(draft);
    let mut reads = Vec::new();
    for variable in variables.all() {
        let runs = variable.readers.iter().filter_map(|reader| runs_of.get(reader)).flatten();
        for &run in runs {
            for &update in &variable.updates {
                let pairs: Vec<Pair> = behind[run].iter().map(|&reader| (reader, update)).collect();
                if pairs.iter().any(|&(reader, update)| meet(reader, update)) {
                    reads.push(pairs);
                }
            }
        }
    }
    reads
}

/// For each second run the ops of the graph that wait for it: its readers, and if it has none, those of the runs that read it.
fn behind_second_runs(draft: &Draft) -> Vec<Vec<NodeId>> {
    let mut behind: Vec<Vec<NodeId>> = draft
        .recomputations
        .iter()
        .map(|again| again.outputs.iter().flat_map(|(_, nodes)| nodes).copied().collect())
        .collect();
    // A run reads only those before it in the plan.
    for (number, again) in draft.recomputations.iter().enumerate().rev() {
        for (_, from) in &again.inputs {
            if let Substitute::Recomputation(from) = *from
                && let (Some(first), Some(readers)) =
                    (behind[number].first().copied(), behind.get_mut(from as usize))
            {
                readers.push(first);
            }
        }
    }
    behind
}

/// The nodes by level and then by place in the file, and their successors with the edges of a plan.
struct PlannedOrder<'a> {
    graph: &'a Graph<'a>,
    nodes: Vec<NodeId>,
    added: HashMap<NodeId, Vec<NodeId>>,
    /// Who waits for the second run of the first, and no longer for the first run.
    severed: HashSet<(NodeId, NodeId)>,
}

fn order_with<'a>(analysis: &'a Analysis, draft: &Draft) -> PlannedOrder<'a> {
    let graph = analysis.graph;
    let levels = 0..analysis.levels.count() as u32;
    let nodes = levels.flat_map(|level| analysis.levels.nodes(level)).copied().collect();
    let mut added: HashMap<NodeId, Vec<NodeId>> = HashMap::default();
    for swap_in in draft.swaps.iter().flat_map(|swap| &swap.uses) {
        for &trigger in &swap_in.triggers {
            added.entry(trigger).or_default().extend(&swap_in.consumers);
        }
    }
    for again in &draft.recomputations {
        for &trigger in &again.triggers {
            added.entry(trigger).or_default().extend(again.outputs.iter().flat_map(|(_, nodes)| nodes));
        }
    }
    // Who waits for a second run waits for what that reads.
    for (again, behind) in draft.recomputations.iter().zip(behind_second_runs(draft)) {
        for &tensor in graph.data_inputs(again.op) {
            if again.inputs.iter().all(|&(replaced, _)| replaced != tensor) {
                added.entry(graph.producer(tensor)).or_default().extend(&behind);
            }
        }
    }
    for order in &draft.orders {
        added.entry(order.before).or_default().push(order.after);
    }
    PlannedOrder { graph, nodes, added, severed: severed(graph, draft) }
}

/// The edges from ops to their readers that second runs make end elsewhere.
fn severed(graph: &Graph, draft: &Draft) -> HashSet<(NodeId, NodeId)> {
    let outputs = draft.recomputations.iter().flat_map(|again| &again.outputs);
    let redirected: HashSet<(TensorId, NodeId)> =
        outputs.flat_map(|(tensor, nodes)| nodes.iter().map(|&node| (*tensor, node))).collect();
    let waits = |node: NodeId, reader: NodeId| {
        let mut read = graph.data_inputs(reader).iter().filter(|&&input| graph.producer(input) == node);
        read.any(|&input| !redirected.contains(&(input, reader)))
            || graph.control_inputs(reader).contains(&node)
    };
    redirected
        .iter()
        .map(|&(tensor, reader)| (graph.producer(tensor), reader))
        .filter(|&(node, reader)| !waits(node, reader))
        .collect()
}

/// Those pairs whose first end (as `ends` has it) does not reach the second.
fn unreached(order: &PlannedOrder, pairs: &[Pair], ends: impl Fn(Pair) -> Pair) -> Vec<Pair> {
    let mut by_target: HashMap<NodeId, Vec<Pair>> = HashMap::default();
    for &pair in pairs {
        by_target.entry(ends(pair).1).or_default().push(pair);
    }
    let mut targets: Vec<NodeId> = by_target.keys().copied().collect();
    targets.sort_unstable();
    let mut unreached = Vec::new();
    let successors = |node: NodeId| {
        let added = order.added.get(&node).into_iter().flatten().copied();
        let is_there = move |&next: &NodeId| {
            !order.graph.is_back_edge(node, next) && !order.severed.contains(&(node, next))
        };
        order.graph.successors(node).filter(is_there).chain(added)
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

/// The nodes that wait for something that they did not wait for before.
fn held_back(draft: &Draft) -> Vec<NodeId> {
    let consumers = draft.swaps.iter().flat_map(|swap| &swap.uses).flat_map(|swap_in| &swap_in.consumers);
    let waiting = draft.swaps.iter().flat_map(|swap| &swap.waiting);
    let after = draft.orders.iter().map(|order| &order.after);
    let outputs = draft.recomputations.iter().flat_map(|again| &again.outputs);
    let readers = outputs.flat_map(|(_, consumers)| consumers);
    consumers.chain(waiting).chain(after).chain(readers).copied().collect()
}

/// Which nodes wait for one of these, themselves included.
fn downstream(graph: &Graph, mut open: Vec<NodeId>) -> Vec<bool> {
    let mut found = vec![false; graph.len()];
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

/// Drops whatever makes one of these readers wait. One recomputation may read another, so all of them stay or go.
fn drop_delays(graph: &Graph, draft: &mut Draft, readers: &[NodeId]) {
    let mut leads_to_reader = vec![false; graph.len()];
    let mut open = readers.to_vec();
    while let Some(node) = open.pop() {
        if !std::mem::replace(&mut leads_to_reader[node.index()], true) {
            open.extend(graph.predecessors(node).filter(|from| from.index() < graph.len()));
        }
    }
    let readers: HashSet<NodeId> = readers.iter().copied().collect();
    let delays = |again: &OpRecomputation| {
        let mut behind = again.outputs.iter().flat_map(|(_, nodes)| nodes);
        readers.contains(&again.op) || behind.any(|node| leads_to_reader[node.index()])
    };
    if draft.recomputations.iter().any(delays) {
        draft.recomputations.clear();
        draft.swaps.iter_mut().for_each(|swap| swap.uses.retain(|swap_in| !swap_in.consumers.is_empty()));
    }
    draft.orders.retain(|order| !leads_to_reader[order.after.index()]);
    let delays = |swap_in: &TensorUse| swap_in.consumers.iter().any(|node| leads_to_reader[node.index()]);
    draft.swaps.iter_mut().for_each(|swap| swap.waiting.retain(|node| !leads_to_reader[node.index()]));
    if draft.recomputations.is_empty() {
        draft.swaps.iter_mut().for_each(|swap| swap.uses.retain(|swap_in| !delays(swap_in)));
        draft.swaps.retain(|swap| !swap.uses.is_empty());
    } else {
        // Second runs may read the returns.
        let delaying = draft.swaps.iter().filter(|swap| swap.uses.iter().any(delays));
        let delaying: HashSet<TensorId> = delaying.map(|swap| swap.tensor).collect();
        *draft = without_tensors(draft, |tensor| delaying.contains(&tensor));
    }
}
