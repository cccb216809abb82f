//! Which effects come with an op, and whether something must be fed for it.

use rustc_hash::FxHashMap as HashMap;

use super::Step;
use super::ordered::{draws_random_numbers, free_effects};
use crate::graph::{Graph, NodeId};
use crate::ops::{Fact, Flow};

/// For each op of a graph the ops with an effect that it needs, itself included.
///
/// An edge by which B waits for A makes each run that needs B run A too, and what A needs. If all effects of A are effects of B
/// anyway, no run does anything new because of it, whatever is fetched: not the update of another train op, not the next element
/// of a queue. And since B is behind all updates that A is behind, it reads no variable on another side of an update than before. Chains of
/// such edges are of the same kind.
///
/// What comes of constants alone nobody has to run to know: zeros in the place of a branch that is not taken, which are best made late. Nor does
/// anybody run by itself what is drawn at random and comes of nothing else: the mask of a dropout, which TensorFlow would make when the step
/// begins, with those of all other layers. Such an op has the effects here that all have in common who need it.
///
/// Besides, who only wants to see a variable feeds nothing: what reads one waits for nothing that must be fed, and for nothing that may be
/// made to wait for that.
///
/// Of a function nobody fetches a part. Neither rule is needed there for what the graph keeps in order by itself ([`super::ordered`]).
///
/// Ops with the same effects share one set. There are few sets, though each update at the end of a step has its own.
#[derive(Debug, Clone)]
pub struct Effects {
    /// For each node its set.
    set_of: Vec<u32>,
    /// For each node whether it has or needs an effect that is in no set: nobody may be made to wait for it.
    is_final: Vec<bool>,
    /// How many words a set has.
    words: usize,
    bits: Vec<u64>,
    /// For each node whether a variable that can be seen without feeding anything is seen by it, or by what needs it.
    shows_variable: Vec<bool>,
}

/// The set with nothing in it.
const EMPTY: u32 = 0;

/// So many effects have a place in the sets, which then take some tens of MiB at most.
const MOST_EFFECTS: usize = 1 << 14;

impl Effects {
    /// Finds them.
    pub fn of(graph: &Graph) -> Effects {
        let shows_variable = showing_variables(graph, &fed(graph));
        Effects::among(graph, |_| true, shows_variable)
    }

    /// Those of a function that always runs as a whole, for `step`.
    pub fn of_function(graph: &Graph, step: &Step) -> Effects {
        let is_free = free_effects(graph, step);
        Effects::among(graph, |node| !is_free[node.index()], vec![false; graph.len()])
    }

    /// Those of the ops that count.
    fn among(graph: &Graph, counts: impl Fn(NodeId) -> bool, shows_variable: Vec<bool>) -> Effects {
        let has_effect = |node: NodeId| graph.op(node).has_effect() && counts(node);
        let mut is_final: Vec<bool> = graph.node_ids().map(has_effect).collect();
        let leads_on = |node: &NodeId| is_final[node.index()] && leads_on(graph, *node);
        let effects: Vec<NodeId> = graph.node_ids().filter(leads_on).take(MOST_EFFECTS).collect();
        let mut sets = Sets::new(effects.len().div_ceil(64));
        let mut own = vec![EMPTY; graph.len()];
        for (number, node) in effects.iter().enumerate() {
            own[node.index()] = sets.single(number);
            is_final[node.index()] = false;
        }
        let mut set_of: Vec<u32> = own;
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
                again |= changed && graph.flow(node) == Some(Flow::NextIteration);
                set_of[node.index()] = set;
            }
        }
        let comes_of_nothing = coming_of_nothing(graph);
        for &node in graph.topological().iter().rev().filter(|node| comes_of_nothing[node.index()]) {
            let after = graph.successors(node).map(|next| set_of[next.index()]);
            if let Some(common) = after.reduce(|one, other| sets.intersection(one, other)) {
                set_of[node.index()] = common;
            }
        }
        Effects { set_of, is_final, words: sets.words, bits: sets.bits, shows_variable }
    }

    /// Whether an op may wait for another one without any run having an effect that it did not have, or a look at a variable a need to
    /// be fed.
    pub fn may_wait(&self, op: NodeId, other: NodeId) -> bool {
        let (of_op, of_other) = (self.set_of[op.index()], self.set_of[other.index()]);
        let has_all = || {
            let mut pairs = self.set(of_op).iter().zip(self.set(of_other));
            pairs.all(|(of_op, of_other)| of_other & !of_op == 0)
        };
        // Nor for what may come to wait for something that is fed: of such edges there are chains.
        let hides_variable = self.shows_variable[op.index()] && !self.shows_variable[other.index()];
        if self.is_final[other.index()] || hides_variable {
            return false;
        }
        of_other == EMPTY || of_op == of_other || has_all()
    }

    fn set(&self, number: u32) -> &[u64] {
        &self.bits[number as usize * self.words..][..self.words]
    }
}

/// For each node whether it comes of no state, but for a generator that draws for it alone, and of nothing that is fed.
fn coming_of_nothing(graph: &Graph) -> Vec<bool> {
    let mut comes_of_nothing = vec![false; graph.len()];
    for &node in graph.topological() {
        let op = graph.op(node);
        let mut before = graph.predecessors(node);
        let has_state = op.is_stateful() || op.has_effect() || op.facts().has(Fact::Fed);
        comes_of_nothing[node.index()] = (!has_state || draws_random_numbers(op.name()))
            && before.all(|from| comes_of_nothing.get(from.index()) == Some(&true));
    }
    comes_of_nothing
}

/// For each node whether it needs a placeholder.
fn fed(graph: &Graph) -> Vec<bool> {
    let mut is_fed = vec![false; graph.len()];
    for &node in graph.topological() {
        let before = graph.predecessors(node).filter(|from| from.index() < graph.len());
        is_fed[node.index()] =
            graph.op(node).must_be_fed() || before.into_iter().any(|from| is_fed[from.index()]);
    }
    is_fed
}

/// The ops that read variables, of those that run though nothing is fed, and all that these need.
fn showing_variables(graph: &Graph, is_fed: &[bool]) -> Vec<bool> {
    let reads = |node: &NodeId| match graph.op(*node).name() {
        "ReadVariableOp" => true,
        "Identity" => graph.data_inputs(*node).iter().any(|&input| graph.output_type(input).is_ref),
        _ => false,
    };
    let mut open: Vec<NodeId> =
        graph.node_ids().filter(|node| !is_fed[node.index()] && reads(node)).collect();
    let mut shows = vec![false; graph.len()];
    while let Some(node) = open.pop() {
        if !std::mem::replace(&mut shows[node.index()], true) {
            open.extend(graph.predecessors(node).filter(|from| from.index() < graph.len()));
        }
    }
    shows
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

    fn intersection(&mut self, one: u32, other: u32) -> u32 {
        if one == other {
            return one;
        }
        let row = |set: u32| self.bits[set as usize * self.words..][..self.words].iter();
        let both: Box<[u64]> = row(one).zip(row(other)).map(|(one, other)| one & other).collect();
        self.number_of(both)
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::{Model, ReadOptions};
    use crate::ops::OpRegistry;

    const GRAPH: &str = r#"
        node { name: "in" op: "Placeholder" attr { key: "dtype" value { type: DT_FLOAT } } }
        node { name: "a" op: "Relu" input: "in" attr { key: "T" value { type: DT_FLOAT } } }
        node { name: "size" op: "Const" attr { key: "dtype" value { type: DT_INT32 } } }
        node {
          name: "noise" op: "RandomUniform" input: "size"
          attr { key: "T" value { type: DT_INT32 } } attr { key: "dtype" value { type: DT_FLOAT } }
        }
        node { name: "b" op: "Mul" input: "a" input: "noise" attr { key: "T" value { type: DT_FLOAT } } }
        node { name: "c" op: "Relu" input: "b" attr { key: "T" value { type: DT_FLOAT } } }
        node { name: "v" op: "VarHandleOp" attr { key: "dtype" value { type: DT_FLOAT } } attr { key: "shape" value { shape {} } } }
        node { name: "read" op: "ReadVariableOp" input: "v" attr { key: "dtype" value { type: DT_FLOAT } } }
        node { name: "update" op: "AssignSubVariableOp" input: "v" input: "c" attr { key: "dtype" value { type: DT_FLOAT } } }
        node { name: "train" op: "NoOp" input: "^update" }
        node { name: "zeros" op: "ZerosLike" input: "fixed" attr { key: "T" value { type: DT_FLOAT } } }
        node { name: "fixed" op: "Const" attr { key: "dtype" value { type: DT_FLOAT } } }
        node { name: "d" op: "Mul" input: "c" input: "zeros" attr { key: "T" value { type: DT_FLOAT } } }
        node { name: "e" op: "Mul" input: "behind" input: "zeros" attr { key: "T" value { type: DT_FLOAT } } }
        node { name: "behind" op: "Relu" input: "c" input: "^count" attr { key: "T" value { type: DT_FLOAT } } }
        node { name: "count" op: "AssignSubVariableOp" input: "v" input: "c" attr { key: "dtype" value { type: DT_FLOAT } } }
        node {
          name: "drawn" op: "RandomUniform" input: "size"
          attr { key: "T" value { type: DT_INT32 } } attr { key: "dtype" value { type: DT_FLOAT } }
        }
        node { name: "mask" op: "Relu" input: "drawn" attr { key: "T" value { type: DT_FLOAT } } }
        node { name: "f" op: "Mul" input: "c" input: "mask" attr { key: "T" value { type: DT_FLOAT } } }
        node {
          name: "shown" op: "RandomUniform" input: "size"
          attr { key: "T" value { type: DT_INT32 } } attr { key: "dtype" value { type: DT_FLOAT } }
        }
        node { name: "g" op: "Mul" input: "c" input: "shown" attr { key: "T" value { type: DT_FLOAT } } }
        node { name: "look" op: "Relu" input: "shown" attr { key: "T" value { type: DT_FLOAT } } }
    "#;

    #[test]
    fn an_op_waits_for_no_effect_that_it_has_not() {
        let model = Model::from_bytes("a graph", GRAPH.as_bytes().to_vec(), &ReadOptions::default()).unwrap();
        let graph = Graph::of_model(&model, OpRegistry::builtin()).unwrap();
        let effects = Effects::of(&graph);
        let node = |name: &str| graph.node_ids().find(|&node| graph.name(node) == name).unwrap();
        let may_wait = |op: &str, other: &str| effects.may_wait(node(op), node(other));
        // What is constant may come as late as all who need it; what has no effect may come before anything.
        assert!(may_wait("zeros", "c") && !may_wait("zeros", "behind"));
        assert!(may_wait("a", "v") && may_wait("size", "v") && may_wait("in", "v"));
        // What one needs anyway it may wait for.
        assert!(may_wait("c", "a") && may_wait("b", "c") && may_wait("update", "noise"));
        // Another random number, another update.
        assert!(!may_wait("a", "noise") && !may_wait("a", "b"));
        // A mask may come as late as who reads it, if nobody else asks for it.
        assert!(may_wait("drawn", "c") && may_wait("mask", "c") && !may_wait("drawn", "behind"));
        assert!(!may_wait("shown", "c") && !may_wait("look", "c") && may_wait("look", "shown"));
        // To see a variable nothing must be fed.
        assert!(!may_wait("read", "a") && !may_wait("v", "a") && may_wait("read", "v"));
        assert!(may_wait("zeros", "a") && !may_wait("read", "zeros"));
        assert!(!may_wait("c", "behind") && may_wait("behind", "count"));
        // Nobody waits for an update at the end of a step.
        assert!(!may_wait("c", "update") && !may_wait("behind", "update") && !may_wait("count", "train"));
    }
}
