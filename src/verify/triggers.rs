//! Which triggers a swap op or a recomputed op brings to who reads it: its own, and those of the added ops that it reads.
//!
//! Chains of recomputed ops may be long and be read at each place, so nothing is walked twice: each op has one bit for
//! "there are triggers", and the op nearest to it that has the same ones stands for the whole set.

use super::graph::{Graph, NONE, NodeId};

/// So many sets are remembered for a node; forgetting one costs time only.
const REMEMBERED: usize = 4;

/// The triggers behind each swap op and recomputed op, and who has them behind itself already.
#[derive(Debug)]
pub(super) struct Triggers {
    /// For each swap op or recomputed op with triggers the first op of the chain that has the same ones.
    set: Vec<NodeId>,
    /// Whether there are some that are not known to be of the step.
    more_than_step: Vec<bool>,
    /// For each original node some sets that it or one of its inputs' nodes reads, the latest first.
    known: Vec<[NodeId; REMEMBERED]>,
}

impl Triggers {
    /// Finds them along `order`. `step` marks what the train op needs, if it is known.
    pub fn find(graph: &Graph<'_>, order: &[NodeId], step: Option<&[bool]>) -> Triggers {
        let mut triggers = Triggers {
            set: vec![NONE; order.len()],
            more_than_step: vec![false; order.len()],
            known: Vec::new(),
        };
        let in_step = |node: NodeId| step.is_some_and(|step| step[node as usize]);
        for &node in order.iter().filter(|&&node| graph.stands_for(node).next().is_some()) {
            let own = graph.control(node).iter().filter(|control| control.added);
            let mut more = false;
            let mut sets = Vec::new();
            for control in own {
                more |= !in_step(control.from);
                sets.push(node);
            }
            for from in graph.data(node).iter().map(|tensor| tensor.node as usize) {
                more |= triggers.more_than_step[from];
                sets.push(triggers.set[from]);
            }
            sets.retain(|&set| set != NONE);
            sets.dedup();
            triggers.more_than_step[node as usize] = more;
            triggers.set[node as usize] = match sets[..] {
                [] => NONE,
                [only] => only,
                _ => node,
            };
        }
        if graph.copies.originals() > 0 {
            triggers.remember(graph, order);
        }
        triggers
    }

    /// Whether a node brings a trigger to its readers; `beyond_step` if those of the step do not count.
    pub fn brings(&self, node: NodeId, beyond_step: bool) -> bool {
        match beyond_step {
            true => self.more_than_step[node as usize],
            false => self.set[node as usize] != NONE,
        }
    }

    /// Those of the nodes that an original node reads which may bring it something. What its inputs' nodes bring comes to
    /// them first, and they are looked at for themselves.
    pub fn brought_by_data(&self, graph: &Graph<'_>, node: NodeId, beyond_step: bool) -> Vec<NodeId> {
        let read = graph.data(node).iter().map(|tensor| tensor.node);
        let mut found: Vec<NodeId> = read.filter(|&from| self.brings(from, beyond_step)).collect();
        if !found.is_empty() && !self.known.is_empty() {
            let mut known: Vec<NodeId> =
                ahead(graph, node).flat_map(|from| self.known[from as usize]).collect();
            known.sort_unstable();
            found.retain(|&from| known.binary_search(&self.set[from as usize]).is_err());
        }
        found
    }

    fn remember(&mut self, graph: &Graph<'_>, order: &[NodeId]) {
        let mut place = vec![0u32; order.len()];
        for (at, &node) in (0..).zip(order) {
            place[node as usize] = at;
        }
        self.known = vec![[NONE; REMEMBERED]; order.len()];
        let mut sets: Vec<NodeId> = Vec::new();
        for &node in order.iter().filter(|&&node| graph.is_original(node)) {
            sets.extend(graph.data(node).iter().map(|tensor| self.set[tensor.node as usize]));
            sets.extend(ahead(graph, node).flat_map(|from| self.known[from as usize]));
            sets.retain(|&set| set != NONE);
            sets.sort_unstable_by_key(|&set| std::cmp::Reverse(place[set as usize]));
            sets.dedup();
            for (known, set) in self.known[node as usize].iter_mut().zip(sets.drain(..)) {
                *known = set;
            }
        }
    }
}

/// Where the inputs of an original node come from, without a loop's own edges: of two nodes that each come before the
/// other, neither may rest on the other.
fn ahead(graph: &Graph<'_>, node: NodeId) -> impl Iterator<Item = NodeId> {
    graph.original_sources(node).filter(move |&from| !graph.is_back_edge(from, node))
}
