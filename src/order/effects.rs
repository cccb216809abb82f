//! Which effects come with an op.

use rustc_hash::FxHashMap as HashMap;

use crate::graph::{Graph, NodeId};

/// For each op of a graph the ops with an effect that it needs, itself included.
///
/// An edge by which B waits for A makes each run that needs B run A too, and what A needs. If all effects of A are effects of B
/// anyway, no run does anything new because of it, whatever is fetched: not the update of another train op, not the next element
/// of a queue. And since B is behind all updates that A is behind, it reads no variable on another side of an update than before. Chains of
/// such edges are of the same kind.
///
/// Ops with the same effects share one set. There are few sets, though each update at the end of a step has its own.
#[derive(Debug)]
pub struct Effects {
    /// For each node its set.
    set_of: Vec<u32>,
    /// For each node whether it has or needs an effect that is in no set: nobody may be made to wait for it.
    is_final: Vec<bool>,
    /// How many words a set has.
    words: usize,
    bits: Vec<u64>,
}

/// The set with nothing in it.
const EMPTY: u32 = 0;

/// So many effects have a place in the sets, which then take some tens of MiB at most.
const MOST_EFFECTS: usize = 1 << 14;

impl Effects {
    /// Finds them.
    pub fn of(graph: &Graph) -> Effects {
        let mut is_final: Vec<bool> = graph.node_ids().map(|node| graph.op(node).has_effect()).collect();
        let leads_on = |node: &NodeId| is_final[node.index()] && leads_on(graph, *node);
        let effects: Vec<NodeId> = graph.node_ids().filter(leads_on).take(MOST_EFFECTS).collect();
        let mut sets = Sets::new(effects.len().div_ceil(64));
        let mut own = vec![EMPTY; graph.len()];
        for (number, node) in effects.iter().enumerate() {
            own[node.index()] = sets.single(number);
        }
        let mut set_of = own;
        // A loop's own edges lead back up the order: what they bring shows in the next round.
        let mut again = true;
        while again {
            again = false;
            for &node in graph.topological() {
                let (mut set, was_final) = (set_of[node.index()], is_final[node.index()]);
                for from in graph.predecessors(node).filter(|from| from.index() < graph.len()) {
                    set = sets.union(set, set_of[from.index()]);
                    is_final[node.index()] |= is_final[from.index()];
                }
                let changed = set != set_of[node.index()] || was_final != is_final[node.index()];
                again |= changed && graph.op(node).name().ends_with("NextIteration");
                set_of[node.index()] = set;
            }
        }
        Effects { set_of, is_final, words: sets.words, bits: sets.bits }
    }

    /// Whether an op may wait for another one without any run having an effect that it did not have.
    pub fn may_wait(&self, op: NodeId, other: NodeId) -> bool {
        let (of_op, of_other) = (self.set_of[op.index()], self.set_of[other.index()]);
        let has_all = || {
            let mut pairs = self.set(of_op).iter().zip(self.set(of_other));
            pairs.all(|(of_op, of_other)| of_other & !of_op == 0)
        };
        !self.is_final[other.index()] && (of_other == EMPTY || of_op == of_other || has_all())
    }

    fn set(&self, number: u32) -> &[u64] {
        &self.bits[number as usize * self.words..][..self.words]
    }
}

/// Whether what waits for an op is more than the end of a run. Of an update that only a train op waits for nobody else is ever behind,
/// so its effect needs no place in the sets.
fn leads_on(graph: &Graph, node: NodeId) -> bool {
    let is_end = |next: NodeId| {
        graph.op(next).name() == "NoOp"
            && graph.successors(next).all(|after| graph.op(after).name() == "NoOp")
    };
    graph.successors(node).any(|next| !is_end(next))
}

/// Sets of numbers, each kept once.
struct Sets {
    words: usize,
    bits: Vec<u64>,
    numbers: HashMap<Box<[u64]>, u32>,
    unions: HashMap<(u32, u32), u32>,
}

impl Sets {
    fn new(words: usize) -> Sets {
        let mut sets =
            Sets { words, bits: Vec::new(), numbers: HashMap::default(), unions: HashMap::default() };
        sets.number_of(vec![0; words].into_boxed_slice());
        sets
    }

    fn single(&mut self, number: usize) -> u32 {
        let mut set = vec![0; self.words].into_boxed_slice();
        set[number / 64] = 1 << (number % 64);
        self.number_of(set)
    }

    fn union(&mut self, one: u32, other: u32) -> u32 {
        let (low, high) = (one.min(other), one.max(other));
        if low == high || low == EMPTY {
            return high;
        }
        if let Some(&known) = self.unions.get(&(low, high)) {
            return known;
        }
        let row = |set: u32| self.bits[set as usize * self.words..][..self.words].iter();
        let both: Box<[u64]> = row(low).zip(row(high)).map(|(one, other)| one | other).collect();
        let found = self.number_of(both);
        self.unions.insert((low, high), found);
        found
    }

    fn number_of(&mut self, set: Box<[u64]>) -> u32 {
        if let Some(&known) = self.numbers.get(&set) {
            return known;
        }
        let number = self.numbers.len() as u32;
        self.bits.extend_from_slice(&set);
        self.numbers.insert(set, number);
        number
    }
}
