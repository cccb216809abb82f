//! Under what condition each node is alive: a set of literals, all of which must hold.
//!
//! `Switch` puts out its data at one output and a dead tensor at the other. TensorFlow runs no op that has a dead
//! input, data or control, but passes the deadness on; only `Merge` is alive as soon as one data input is. So a
//! node's condition is what its inputs' conditions come to together, and a `Merge` of both branches of one predicate
//! is as free as the predicate.
//!
//! The sets are exact: a node is alive if and only if all its literals hold. Where no smaller set says the same, a
//! literal stands for the very thing ("one of these inputs is alive"), so comparing sets never claims too much.
//! Conditions come from the graph's structure and never from names.

use std::collections::HashMap;
use std::sync::Arc;

use super::frames::{FrameId, Frames};
use super::graph::{Control, Graph, NodeId, Tensor};
use super::op_facts::Flow;
use crate::proto::tensorflow::AttrValue;
use crate::proto::tensorflow::attr_value::Value;

/// A set of literals by its place in [`Conditions`].
pub(super) type SetId = u32;

/// The condition of what is always alive.
pub(super) const ALWAYS: SetId = 0;

/// More literals than this are taken together as one, which keeps all sets small.
const LARGEST_SET: usize = 48;

/// More different inputs than this are not compared with one another.
const MOST_MERGED: usize = 32;

/// Something that holds or not, in each iteration of its frame anew.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) enum Literal {
    /// A predicate chooses this output out of so many.
    Output { predicate: Tensor, output: u32, of: u32 },
    /// It is the first iteration: what an `Enter` gives out is there in this one only.
    FirstIteration,
    /// One of these sets holds.
    Either(Vec<SetId>),
    /// All of this set holds.
    Whole(SetId),
    /// A node is alive about which no more can be said.
    Alive(NodeId),
}

/// The condition of each node.
#[derive(Debug)]
pub(super) struct Conditions {
    literals: Vec<(FrameId, Literal)>,
    literal_ids: HashMap<(FrameId, Literal), u32>,
    sets: Vec<Arc<[u32]>>,
    set_ids: HashMap<Arc<[u32]>, SetId>,
    unions: HashMap<(SetId, SetId), SetId>,
    of_node: Vec<SetId>,
    /// The tensor that an `Identity` hands on, by node.
    handed_on: Vec<Option<Tensor>>,
    /// Loops of whose iterations too little is known.
    irregular: Vec<bool>,
}

impl Conditions {
    /// Finds the conditions of all nodes: of original ones in the original graph, of added ones from all their inputs.
    pub fn new(graph: &Graph<'_>, order: &[NodeId], frames: &Frames) -> Conditions {
        let count = graph.len() as usize;
        let nothing: Arc<[u32]> = Arc::new([]);
        let mut conditions = Conditions {
            literals: Vec::new(),
            literal_ids: HashMap::new(),
            sets: vec![nothing.clone()],
            set_ids: HashMap::from([(nothing, ALWAYS)]),
            unions: HashMap::new(),
            of_node: vec![ALWAYS; count],
            handed_on: vec![None; count],
            irregular: vec![false; frames.len()],
        };
        for &node in order {
            conditions.of_node[node as usize] = match graph.flow(node) {
                Flow::Merge => conditions.merge(graph, frames, node),
                Flow::Enter if graph.is_original(node) => conditions.enter(graph, frames, node),
                Flow::Exit if graph.is_original(node) => conditions.exit(graph, frames, node),
                _ => conditions.inputs(graph, frames, node),
            };
            if graph.nodes.op(node as usize) == "Identity" && graph.is_original(node) {
                conditions.handed_on[node as usize] = conditions.handed_on_by(graph, node);
            }
        }
        for &node in order.iter().filter(|&&node| graph.flow(node) == Flow::Merge) {
            conditions.check_loop(graph, frames, node);
        }
        conditions
    }

    /// The condition of a node.
    pub fn of(&self, node: NodeId) -> SetId {
        self.of_node[node as usize]
    }

    /// The condition of a tensor: its node's, and of a `Switch` also that this output is chosen.
    pub fn of_tensor(&mut self, graph: &Graph<'_>, frames: &Frames, tensor: Tensor) -> SetId {
        let own = self.of(tensor.node);
        if graph.flow(tensor.node) != Flow::Switch {
            return own;
        }
        let literal = match graph.origins(tensor.node).get(1) {
            Some(&predicate) => Literal::Output {
                predicate: self.root(predicate),
                output: tensor.output,
                of: outputs_of_switch(graph, tensor.node),
            },
            None => Literal::Alive(tensor.node),
        };
        self.with(own, frames, frames.of_inputs(tensor.node), literal)
    }

    /// Whether at most one of the inputs that an original `Merge` has in the original graph is alive, whatever is chosen.
    pub fn has_one_input(&mut self, graph: &Graph<'_>, frames: &Frames, merge: NodeId) -> bool {
        let tensors = graph.origins(merge);
        if tensors.len() > MOST_MERGED || graph.is_loop_header(merge) {
            return false;
        }
        let inputs: Vec<SetId> =
            tensors.iter().map(|&tensor| self.of_tensor(graph, frames, tensor)).collect();
        let mut pairs =
            inputs.iter().enumerate().flat_map(|(at, &a)| inputs[..at].iter().map(move |&b| (a, b)));
        pairs.all(|(a, b)| self.exclude(a, b))
    }

    /// Whether the two sets ask for different outputs of one predicate.
    fn exclude(&self, a: SetId, b: SetId) -> bool {
        let outputs = |set: SetId| {
            self.sets[set as usize].iter().filter_map(|&literal| match &self.literals[literal as usize] {
                (frame, Literal::Output { predicate, output, .. }) => Some((*frame, *predicate, *output)),
                _ => None,
            })
        };
        outputs(a).any(|(frame, predicate, output)| {
            outputs(b).any(|(of, by, other)| (of, by) == (frame, predicate) && other != output)
        })
    }

    /// Whether all that `weaker` asks for is in `stronger`: what has the one is alive whenever what has the other is.
    pub fn implies(&self, stronger: SetId, weaker: SetId) -> bool {
        self.first_missing(stronger, weaker).is_none()
    }

    /// A literal of `weaker` that `stronger` does not have.
    pub fn first_missing(&self, stronger: SetId, weaker: SetId) -> Option<&Literal> {
        if stronger == weaker || weaker == ALWAYS {
            return None;
        }
        let stronger = &self.sets[stronger as usize];
        let missing =
            self.sets[weaker as usize].iter().find(|literal| stronger.binary_search(literal).is_err());
        missing.map(|&literal| &self.literals[literal as usize].1)
    }

    /// The part of a condition that says in which iterations there is anything at all, dead or alive.
    pub fn iterations(&mut self, set: SetId) -> SetId {
        self.filter(set, |(_, literal)| matches!(literal, Literal::FirstIteration | Literal::Whole(_)))
    }

    /// Whether too little is known of a loop to prove anything about edges in it.
    pub fn is_irregular(&self, frame: FrameId) -> bool {
        self.irregular[frame as usize]
    }

    /// All literals of two sets.
    pub fn both(&mut self, frames: &Frames, a: SetId, b: SetId) -> SetId {
        if a == b || b == ALWAYS {
            return a;
        }
        if a == ALWAYS {
            return b;
        }
        let key = (a.min(b), a.max(b));
        if let Some(&known) = self.unions.get(&key) {
            return known;
        }
        let mut all: Vec<u32> =
            self.sets[a as usize].iter().chain(&*self.sets[b as usize]).copied().collect();
        all.sort_unstable();
        all.dedup();
        let mut set = self.intern(all);
        if self.sets[set as usize].len() > LARGEST_SET {
            let frame_of = |&literal: &u32| self.literals[literal as usize].0;
            let deepest =
                self.sets[set as usize].iter().map(frame_of).max_by_key(|&frame| frames.depth(frame));
            let whole = self.literal(deepest.unwrap_or_default(), Literal::Whole(set));
            set = self.intern(vec![whole]);
        }
        self.unions.insert(key, set);
        set
    }

    fn with(&mut self, set: SetId, frames: &Frames, frame: FrameId, literal: Literal) -> SetId {
        let literal = self.literal(frame, literal);
        let single = self.intern(vec![literal]);
        self.both(frames, set, single)
    }

    fn literal(&mut self, frame: FrameId, literal: Literal) -> u32 {
        let next = self.literals.len() as u32;
        let literals = &mut self.literals;
        *self.literal_ids.entry((frame, literal)).or_insert_with_key(|key| {
            literals.push(key.clone());
            next
        })
    }

    /// The set of these literals, which are in order.
    fn intern(&mut self, set: Vec<u32>) -> SetId {
        let set: Arc<[u32]> = set.into();
        let next = self.sets.len() as SetId;
        let sets = &mut self.sets;
        *self.set_ids.entry(set).or_insert_with_key(|key| {
            sets.push(key.clone());
            next
        })
    }

    fn filter(&mut self, set: SetId, keep: impl Fn(&(FrameId, Literal)) -> bool) -> SetId {
        let all = &self.sets[set as usize];
        let kept: Vec<u32> =
            all.iter().copied().filter(|&literal| keep(&self.literals[literal as usize])).collect();
        if kept.len() == all.len() { set } else { self.intern(kept) }
    }

    /// All inputs must be alive.
    fn inputs(&mut self, graph: &Graph<'_>, frames: &Frames, node: NodeId) -> SetId {
        let mut set = ALWAYS;
        for &tensor in inputs_of(graph, node) {
            let of_input = self.of_tensor(graph, frames, tensor);
            set = self.both(frames, set, of_input);
        }
        for &Control { from, added } in graph.control(node) {
            if !added || !graph.is_original(node) {
                set = self.both(frames, set, self.of(from));
            }
        }
        set
    }

    fn enter(&mut self, graph: &Graph<'_>, frames: &Frames, node: NodeId) -> SetId {
        let set = self.inputs(graph, frames, node);
        let constant = graph.nodes.attr(node as usize, "is_constant");
        if constant == Some(AttrValue { value: Some(Value::B(true)) }) {
            return set;
        }
        self.with(set, frames, frames.of_outputs(node), Literal::FirstIteration)
    }

    /// The one value that leaves a loop leaves it whenever the loop is entered, whatever held inside.
    fn exit(&mut self, graph: &Graph<'_>, frames: &Frames, node: NodeId) -> SetId {
        let set = self.inputs(graph, frames, node);
        let outside = frames.depth(frames.of_outputs(node));
        let stays = |&(frame, _): &(FrameId, Literal)| frames.depth(frame) <= outside;
        let kept = self.filter(set, stays);
        // `Switch` gives the value to `Exit` when the loop ends; under another condition `Exit` may never be alive.
        let odd = self.filter(set, |literal| !stays(literal) && !is_loop_condition(graph, &literal.1, 0));
        if odd == ALWAYS {
            return kept;
        }
        self.with(kept, frames, frames.of_outputs(node), Literal::Alive(node))
    }

    /// One data input must be alive.
    fn merge(&mut self, graph: &Graph<'_>, frames: &Frames, node: NodeId) -> SetId {
        let frame = frames.of_inputs(node);
        let is_header = graph.is_loop_header(node);
        let mut inputs = Vec::new();
        for &tensor in inputs_of(graph, node) {
            if graph.flow(tensor.node) == Flow::NextIteration {
                continue;
            }
            let mut set = self.of_tensor(graph, frames, tensor);
            if is_header {
                // Later iterations get theirs from `NextIteration`.
                let hidden =
                    self.filter(set, |(of, literal)| *of == frame && matches!(literal, Literal::Whole(_)));
                if hidden != ALWAYS {
                    return self.with(ALWAYS, frames, frame, Literal::Alive(node));
                }
                set = self.filter(set, |literal| *literal != (frame, Literal::FirstIteration));
            }
            inputs.push(set);
        }
        inputs.sort_unstable();
        inputs.dedup();
        if inputs.len() > MOST_MERGED {
            return self.with(ALWAYS, frames, frame, Literal::Either(inputs));
        }
        // What is alive only when another is makes no difference.
        let implied = |set: SetId| inputs.iter().any(|&other| other != set && self.implies(set, other));
        let needed: Vec<SetId> = inputs.iter().copied().filter(|&set| !implied(set)).collect();
        match needed[..] {
            [] => return ALWAYS,
            [only] => return only,
            _ => {}
        }
        let shared = |literal: &u32| needed.iter().all(|&set| self.has(set, *literal));
        let common: Vec<u32> = self.sets[needed[0] as usize].iter().copied().filter(shared).collect();
        let exhaustive = self.covers_all_outputs(&needed, &common);
        let common = self.intern(common);
        if exhaustive { common } else { self.with(common, frames, frame, Literal::Either(needed)) }
    }

    fn has(&self, set: SetId, literal: u32) -> bool {
        self.sets[set as usize].binary_search(&literal).is_ok()
    }

    /// Whether the sets differ only in the output that one predicate chooses, and each output is in one of them.
    fn covers_all_outputs(&self, sets: &[SetId], common: &[u32]) -> bool {
        let mut chosen = Vec::new();
        let mut of_all = None;
        for &set in sets {
            let mut own =
                self.sets[set as usize].iter().filter(|literal| common.binary_search(literal).is_err());
            let (Some(&literal), None) = (own.next(), own.next()) else { return false };
            let (frame, Literal::Output { predicate, output, of }) = &self.literals[literal as usize] else {
                return false;
            };
            let same = (*frame, *predicate, *of);
            if *of_all.get_or_insert(same) != same {
                return false;
            }
            chosen.push(*output);
        }
        chosen.sort_unstable();
        chosen.dedup();
        of_all.is_some_and(|(_, _, of)| chosen.iter().copied().eq(0..of))
    }

    /// A loop goes on as long as its `LoopCond` says. If something else than that decides whether a value reaches the
    /// next iteration, there are iterations with a part of the loop's values only.
    fn check_loop(&mut self, graph: &Graph<'_>, frames: &Frames, header: NodeId) {
        let frame = frames.of_inputs(header);
        for &tensor in graph.origins(header) {
            if graph.flow(tensor.node) != Flow::NextIteration {
                continue;
            }
            let outside = self.of(header);
            let again = self.of(tensor.node);
            let set = self.filter(again, |literal| !is_loop_condition(graph, &literal.1, 1));
            if !self.implies(outside, set) {
                self.irregular[frame as usize] = true;
            }
        }
    }

    /// What an `Identity` hands on. A read of a reference is no such thing: two reads may see two values.
    fn handed_on_by(&self, graph: &Graph<'_>, node: NodeId) -> Option<Tensor> {
        let &read = graph.origins(node).first()?;
        (!graph.op(read.node).gives_ref).then(|| self.root(read))
    }

    fn root(&self, tensor: Tensor) -> Tensor {
        self.handed_on[tensor.node as usize].filter(|_| tensor.output == 0).unwrap_or(tensor)
    }
}

/// The data inputs of an original node in the original graph, and of an added one as written.
fn inputs_of<'g>(graph: &'g Graph<'_>, node: NodeId) -> &'g [Tensor] {
    if graph.is_original(node) { graph.origins(node) } else { graph.data(node) }
}

/// Whether a literal says that a loop's `LoopCond` chooses this output.
fn is_loop_condition(graph: &Graph<'_>, literal: &Literal, wanted: u32) -> bool {
    match literal {
        Literal::Output { predicate, output, .. } => {
            graph.flow(predicate.node) == Flow::LoopCond && *output == wanted
        }
        _ => false,
    }
}

fn outputs_of_switch(graph: &Graph<'_>, switch: NodeId) -> u32 {
    if graph.nodes.op(switch as usize) != "_SwitchN" {
        return 2;
    }
    match graph.nodes.attr(switch as usize, "num_outs") {
        Some(AttrValue { value: Some(Value::I(outputs)) }) => u32::try_from(outputs).unwrap_or(u32::MAX),
        _ => u32::MAX,
    }
}
