//! The phases of a step as TFLMS 1 sees them: which ops are backward ops, where the walk begins, and which op comes before which.

use super::parameters::{Parameters, TflmsV1Error};
use crate::graph::{Graph, NodeId};

/// Scopes that TensorFlow makes for gradients; in a name a number may follow, as in `gradients_1`.
const GRADIENTS: [&str; 2] = ["gradients", "gradient_tape"];

/// How many places to begin at are compared at once, one bit each.
const BATCH: usize = 64;

/// How many batches are compared. Those that lead to most ops come first, so that more than one is rare.
const MOST_BATCHES: usize = 16;

/// Of no order.
const NONE: u32 = u32::MAX;

/// The phases of a graph.
#[derive(Debug)]
pub(super) struct Phases {
    /// For each node whether it is of the backward phase.
    backward: Vec<bool>,
    /// For each node how many ops come before it on a way from where the walk begins; [`NONE`] where no way leads there.
    levels: Vec<u32>,
    /// The same without the levels that no op is left on; [`NONE`] also for updates, and for backward ops on a level with other ops.
    orders: Vec<u32>,
    /// The order of the first backward op.
    pub backward_start: u32,
    /// Where the walk begins, in the order of the file.
    pub seeds: Vec<NodeId>,
}

impl Phases {
    /// Finds the phases.
    pub fn of(graph: &Graph, parameters: &Parameters) -> Result<Phases, TflmsV1Error> {
        let Parameters { optimizer_scopes, starting_scopes, .. } = parameters;
        let in_scope = |node: NodeId, scopes: &[String]| {
            scopes.iter().any(|scope| graph.name(node).starts_with(scope.as_str()))
        };
        let is_backward = |node| match optimizer_scopes.is_empty() {
            true => is_gradient(graph.name(node)),
            false => in_scope(node, optimizer_scopes),
        };
        let backward: Vec<bool> = graph.node_ids().map(is_backward).collect();
        if !backward.contains(&true) {
            return Err(TflmsV1Error::NoBackwardOps { scopes: optimizer_scopes.clone() });
        }
        let seeds: Vec<NodeId> = match starting_scopes.is_empty() {
            true => find_seeds(graph, &backward),
            false => graph.node_ids().filter(|&node| in_scope(node, starting_scopes)).collect(),
        };
        if seeds.is_empty() && !starting_scopes.is_empty() {
            return Err(TflmsV1Error::NoStart { scopes: starting_scopes.clone() });
        }
        let levels = find_levels(graph, &backward, &seeds);
        let mut phases = Phases { backward, levels, orders: Vec::new(), backward_start: NONE, seeds };
        phases.find_orders(graph);
        Ok(phases)
    }

    /// Whether an op is of the backward phase.
    pub fn is_backward(&self, node: NodeId) -> bool {
        self.backward[node.index()]
    }

    /// The place of an op in the order of both phases.
    pub fn order(&self, node: NodeId) -> Option<u32> {
        Some(self.orders[node.index()]).filter(|&order| order != NONE)
    }

    /// How many ops come before one on a way from where the walk begins. Where two ops have orders, theirs are as their levels.
    pub fn level(&self, node: NodeId) -> Option<u32> {
        Some(self.levels[node.index()]).filter(|&level| level != NONE)
    }

    fn find_orders(&mut self, graph: &Graph) {
        // What follows backward ops and is none updates something.
        let mut updates = vec![false; graph.len()];
        for &node in graph.topological() {
            updates[node.index()] = !self.is_backward(node)
                && data_predecessors(graph, node).any(|from| self.is_backward(from) || updates[from.index()]);
        }
        let count = self.levels.iter().filter(|&&level| level != NONE).max().map_or(0, |&level| level + 1);
        let (mut others, mut any) = (vec![false; count as usize], vec![false; count as usize]);
        let has_level = |node: &NodeId| self.levels[node.index()] != NONE;
        for node in graph.node_ids().filter(has_level) {
            others[self.levels[node.index()] as usize] |= !self.is_backward(node);
        }
        // Where other ops could run at the same time, nobody knows when a backward op does; of updates nobody wants to know.
        let is_ordered = |node: &NodeId| {
            has_level(node)
                && match self.is_backward(*node) {
                    true => !others[self.levels[node.index()] as usize],
                    false => !updates[node.index()],
                }
        };
        for node in graph.node_ids().filter(is_ordered) {
            any[self.levels[node.index()] as usize] = true;
        }
        let mut next = 0;
        let numbers: Vec<u32> = any
            .iter()
            .map(|&any| {
                let number = next;
                next += u32::from(any);
                number
            })
            .collect();
        let mut orders = vec![NONE; graph.len()];
        for node in graph.node_ids().filter(is_ordered) {
            orders[node.index()] = numbers[self.levels[node.index()] as usize];
        }
        let of_backward = graph.node_ids().filter(|&node| self.is_backward(node));
        self.backward_start = of_backward.map(|node| orders[node.index()]).min().unwrap_or(NONE);
        self.orders = orders;
    }
}

/// Whether a name has a scope that TensorFlow makes for gradients.
fn is_gradient(name: &str) -> bool {
    let is_scope = |part: &str| {
        let rest = GRADIENTS.iter().find_map(|scope| part.strip_prefix(scope));
        rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('_'))
    };
    name.split('/').rev().skip(1).any(is_scope)
}

/// The ops whose outputs an op reads, but for the back edges of loops.
fn data_predecessors<'a>(graph: &'a Graph, node: NodeId) -> impl Iterator<Item = NodeId> + use<'a> {
    let producers = graph.data_inputs(node).iter().map(|&input| graph.producer(input));
    producers.filter(move |from| from.index() < graph.len() && !graph.is_back_edge(*from, node))
}

/// Where the walk begins if nobody says so: of the forward ops that a backward op reads those from which the most others can be
/// reached, within the forward phase.
fn find_seeds(graph: &Graph, backward: &[bool]) -> Vec<NodeId> {
    let is_forward = |node: NodeId| !backward[node.index()];
    let readers =
        |node: NodeId| graph.outputs(node).flat_map(|tensor| graph.uses(tensor)).map(|reader| reader.node);
    let is_candidate = |node: NodeId| is_forward(node) && readers(node).any(|reader| !is_forward(reader));
    let candidates: Vec<bool> = graph.node_ids().map(is_candidate).collect();
    // From what a candidate leads to less can be reached than from the candidate.
    let mut above = vec![false; graph.len()];
    let mut depths = vec![0u32; graph.len()];
    for &node in graph.topological().iter().filter(|&&node| is_forward(node)) {
        for from in data_predecessors(graph, node).filter(|&from| is_forward(from)) {
            above[node.index()] |= above[from.index()] || candidates[from.index()];
            depths[node.index()] = depths[node.index()].max(depths[from.index()] + 1);
        }
    }
    // How many candidates are at least so deep: no more can be reached over an op of that depth.
    let deepest = depths.iter().max().map_or(0, |&depth| depth as usize);
    let mut at_least = vec![0u32; deepest + 2];
    for node in graph.node_ids().filter(|node| candidates[node.index()]) {
        at_least[depths[node.index()] as usize] += 1;
    }
    for depth in (0..=deepest).rev() {
        at_least[depth] += at_least[depth + 1];
    }
    let most_reached = |node: NodeId| {
        let forward = readers(node).filter(|&reader| is_forward(reader));
        forward.map(|reader| at_least[depths[reader.index()] as usize]).max().unwrap_or(0)
    };
    let mut sources: Vec<(u32, NodeId)> = graph
        .node_ids()
        .filter(|node| candidates[node.index()] && !above[node.index()])
        .map(|node| (most_reached(node), node))
        .collect();
    sources.sort_by_key(|&(most, node)| (std::cmp::Reverse(most), node));
    let (mut best, mut seeds) = (0, Vec::new());
    for batch in sources.chunks(BATCH).take(MOST_BATCHES) {
        if batch.first().is_none_or(|&(most, _)| most < best) {
            break;
        }
        for (count, &(_, node)) in reached(graph, backward, &candidates, batch).into_iter().zip(batch) {
            if count > best {
                best = count;
                seeds.clear();
            }
            if count == best && count > 0 {
                seeds.push(node);
            }
        }
    }
    seeds.sort_unstable();
    seeds
}

/// How many candidates can be reached from each op of a batch, itself left out.
fn reached(graph: &Graph, backward: &[bool], candidates: &[bool], batch: &[(u32, NodeId)]) -> Vec<u32> {
    let mut bits = vec![0u64; graph.len()];
    for (bit, (_, node)) in batch.iter().enumerate() {
        bits[node.index()] = 1 << bit;
    }
    let mut counts = vec![0; batch.len()];
    for &node in graph.topological().iter().filter(|node| !backward[node.index()]) {
        let from_above = data_predecessors(graph, node)
            .filter(|from| !backward[from.index()])
            .fold(0, |all, from| all | bits[from.index()]);
        bits[node.index()] |= from_above;
        let mut left = if candidates[node.index()] { from_above } else { 0 };
        while left != 0 {
            counts[left.trailing_zeros() as usize] += 1;
            left &= left - 1;
        }
    }
    counts
}

/// For each op that can be reached from where the walk begins how many ops come before it, of those on a way from there to a backward
/// op.
fn find_levels(graph: &Graph, backward: &[bool], seeds: &[NodeId]) -> Vec<u32> {
    let mut is_reached = vec![false; graph.len()];
    for seed in seeds {
        is_reached[seed.index()] = true;
    }
    for &node in graph.topological() {
        is_reached[node.index()] |= data_predecessors(graph, node).any(|from| is_reached[from.index()]);
    }
    let mut leads_back = backward.to_vec();
    for &node in graph.topological().iter().rev() {
        if leads_back[node.index()] {
            for from in data_predecessors(graph, node) {
                leads_back[from.index()] = true;
            }
        }
    }
    let mut levels = vec![NONE; graph.len()];
    for &node in graph.topological().iter().filter(|node| is_reached[node.index()]) {
        let on_the_way = graph.predecessors(node).filter(|from| {
            from.index() < graph.len()
                && !graph.is_back_edge(*from, node)
                && is_reached[from.index()]
                && leads_back[from.index()]
        });
        levels[node.index()] = on_the_way.map(|from| levels[from.index()] + 1).max().unwrap_or(0);
    }
    levels
}

#[cfg(test)]
mod tests {
    use super::is_gradient;

    #[test]
    fn scopes_of_gradients_are_known() {
        for name in ["gradients/a", "training/SGD/gradients/a", "gradients_1/b/c", "gradient_tape/model/d"] {
            assert!(is_gradient(name), "{name}");
        }
        for name in ["gradients", "my_gradients/a", "gradientsum/a", "a/gradients"] {
            assert!(!is_gradient(name), "{name}");
        }
    }
}
