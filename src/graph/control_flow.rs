//! Control flow of TensorFlow 1: which nodes run when.
//!
//! `Switch` passes its input on to one of two outputs; what reads the other is *dead* and passes death on, over data and
//! control edges alike, up to the next `Merge`, which takes the input that is alive. `Enter` and `Exit` lead into and out
//! of the *frame* of a loop, whose ops run once in each iteration.
//!
//! Both matter to whoever adds an edge. An edge must not cross a frame. And an edge from an op that is dead makes
//! its target dead too: silently, the step runs and some updates do not happen. So an op may control another only if it
//! is alive whenever the other is. This module knows that from the structure, never from names.

use std::collections::HashMap;

use super::{Graph, NodeId, TensorId};
use crate::ops::Flow;

/// Of a `Merge` with more inputs it is not found out whether one alone is alive.
const MOST_INPUTS: usize = 16;

/// A frame: the top level, or the body of one loop.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FrameId(u32);

impl FrameId {
    /// Outside all loops.
    pub const TOP: FrameId = FrameId(0);
}

/// When a node is alive: a set of choices that all must have been made, by number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Condition(u32);

impl Condition {
    /// No condition: alive in each step.
    pub const ALWAYS: Condition = Condition(0);
}

/// One choice.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
enum Choice {
    /// A `Switch` on this predicate took this output.
    Branch { predicate: TensorId, output: u32 },
    /// This `Merge` got an input, from branches that are not the two sides of one choice.
    Merged(NodeId),
}

/// The tensor that a predicate is a copy of: `cond` passes its predicate through `Identity` ops.
pub fn origin(graph: &Graph, mut tensor: TensorId) -> TensorId {
    loop {
        let producer = graph.producer(tensor);
        if producer.index() >= graph.len() {
            return tensor;
        }
        match (graph.op(producer).name(), graph.data_inputs(producer)) {
            ("Identity", &[copied]) => tensor = copied,
            _ => return tensor,
        }
    }
}

/// The frames and conditions of all nodes of a graph.
#[derive(Debug, Clone)]
pub struct ControlFlow {
    frames: Vec<FrameId>,
    output_frames: Vec<FrameId>,
    parents: Vec<FrameId>,
    conditions: Vec<Condition>,
    /// The conditions of the outputs of `Switch` ops.
    branches: HashMap<TensorId, Condition>,
    sets: Sets,
}

impl ControlFlow {
    /// Finds the frames and conditions of all nodes. Linear in the size of the graph.
    pub fn of(graph: &Graph) -> ControlFlow {
        let mut finder = Finder {
            graph,
            frame_ids: HashMap::new(),
            flow: ControlFlow {
                frames: vec![FrameId::TOP; graph.len()],
                output_frames: vec![FrameId::TOP; graph.len()],
                parents: vec![FrameId::TOP],
                conditions: vec![Condition::ALWAYS; graph.len()],
                branches: HashMap::new(),
                sets: Sets::new(),
            },
        };
        for &node in graph.topological() {
            finder.visit(node);
        }
        finder.flow
    }

    /// The frame that a node runs in. `Enter` runs outside of the loop that it leads into, `Exit` inside.
    pub fn frame(&self, node: NodeId) -> FrameId {
        self.frames[node.index()]
    }

    /// The frame that a node's readers run in: another than its own for `Enter` and `Exit`.
    pub fn output_frame(&self, node: NodeId) -> FrameId {
        self.output_frames[node.index()]
    }

    /// The frame around a loop; the top level is around itself.
    pub fn around(&self, frame: FrameId) -> FrameId {
        self.parents.get(frame.0 as usize).copied().unwrap_or(FrameId::TOP)
    }

    /// When a node is alive, provided that its loop, if it is in one, does a further iteration.
    pub fn condition(&self, node: NodeId) -> Condition {
        self.conditions[node.index()]
    }

    /// When a tensor is alive: when its producer is and, for a `Switch`, took this output.
    pub fn tensor_condition(&self, graph: &Graph, tensor: TensorId) -> Condition {
        let producer = graph.producer(tensor);
        match self.branches.get(&tensor) {
            Some(&condition) => condition,
            // A function's arguments are always there.
            None if producer.index() >= graph.len() => Condition::ALWAYS,
            None => self.condition(producer),
        }
    }

    /// The outputs that a `Switch` has to take for a condition to hold, each with what it goes by.
    pub fn branches_of(&self, condition: Condition) -> impl Iterator<Item = (TensorId, u32)> {
        self.sets.get(condition).iter().filter_map(|choice| match *choice {
            Choice::Branch { predicate, output } => Some((predicate, output)),
            Choice::Merged(_) => None,
        })
    }

    /// Whether whatever satisfies `stronger` satisfies `weaker` too.
    pub fn implies(&self, stronger: Condition, weaker: Condition) -> bool {
        weaker == Condition::ALWAYS || weaker == stronger || self.sets.contains(stronger, weaker)
    }

    /// Whether an edge may be added between two ops: the same frame, and the first alive whenever the second is.
    pub fn may_control(&self, from: NodeId, to: NodeId) -> bool {
        self.output_frame(from) == self.frame(to)
            && !self.enters_loop(from)
            && self.implies(self.condition(to), self.condition(from))
    }

    /// Whether at most one of the inputs of a `Merge` is alive in a step, whatever is chosen: then it gives the same each time. Not so for
    /// the head of a loop.
    pub fn has_one_input(&self, graph: &Graph, merge: NodeId) -> bool {
        let inputs = graph.data_inputs(merge);
        let is_head = || inputs.iter().any(|&input| graph.is_back_edge(graph.producer(input), merge));
        let condition = |input: TensorId| self.tensor_condition(graph, input);
        let mut pairs =
            inputs.iter().enumerate().flat_map(|(at, &a)| inputs[..at].iter().map(move |&b| (a, b)));
        inputs.len() <= MOST_INPUTS
            && !is_head()
            && pairs.all(|(a, b)| self.sets.exclude(condition(a), condition(b)))
    }

    /// Whether a node leads into a loop. Its output is there in the first iteration, and only if it is constant in the
    /// others.
    pub fn enters_loop(&self, node: NodeId) -> bool {
        let (from, to) = (self.frame(node), self.output_frame(node));
        from != to && self.parents[to.0 as usize] == from
    }
}

/// All sets of choices that occur, each once.
#[derive(Debug, Clone)]
struct Sets {
    sets: Vec<Vec<Choice>>,
    numbers: HashMap<Vec<Choice>, Condition>,
    unions: HashMap<(Condition, Condition), Condition>,
}

impl Sets {
    fn new() -> Sets {
        Sets {
            sets: vec![Vec::new()],
            numbers: HashMap::from([(Vec::new(), Condition::ALWAYS)]),
            unions: HashMap::new(),
        }
    }

    fn get(&self, condition: Condition) -> &[Choice] {
        &self.sets[condition.0 as usize]
    }

    /// The number of a sorted set.
    fn number(&mut self, set: Vec<Choice>) -> Condition {
        if let Some(&known) = self.numbers.get(&set) {
            return known;
        }
        let new = Condition(self.sets.len() as u32);
        self.sets.push(set.clone());
        self.numbers.insert(set, new);
        new
    }

    fn union(&mut self, a: Condition, b: Condition) -> Condition {
        if a == b || b == Condition::ALWAYS {
            return a;
        }
        if a == Condition::ALWAYS {
            return b;
        }
        if let Some(&known) = self.unions.get(&(a, b)) {
            return known;
        }
        let mut both = [self.get(a), self.get(b)].concat();
        both.sort_unstable();
        both.dedup();
        let union = self.number(both);
        self.unions.insert((a, b), union);
        union
    }

    fn with(&mut self, condition: Condition, choice: Choice) -> Condition {
        let one = self.number(vec![choice]);
        self.union(condition, one)
    }

    /// Whether the two need different outputs of one `Switch`.
    fn exclude(&self, a: Condition, b: Condition) -> bool {
        self.get(a).iter().any(|choice| self.get(b).iter().any(|other| are_two_outputs(choice, other)))
    }

    /// Whether `a` has all choices of `b`.
    fn contains(&self, a: Condition, b: Condition) -> bool {
        self.get(b).iter().all(|choice| self.get(a).binary_search(choice).is_ok())
    }
}

struct Finder<'a> {
    graph: &'a Graph<'a>,
    frame_ids: HashMap<(FrameId, Vec<u8>), FrameId>,
    flow: ControlFlow,
}

impl Finder<'_> {
    fn visit(&mut self, node: NodeId) {
        self.flow.frames[node.index()] = self.frame_of(node);
        self.flow.output_frames[node.index()] = self.enter_or_exit(node);
        let part = self.graph.flow(node);
        self.flow.conditions[node.index()] = match part {
            Some(Flow::Merge) => self.merged(node),
            Some(Flow::Exit) => self.exited(node),
            _ => self.all_inputs(node),
        };
        if matches!(part, Some(Flow::Switch | Flow::SwitchMany)) {
            self.note_branches(node);
        }
    }

    /// The frame that a node's readers run in.
    fn enter_or_exit(&mut self, node: NodeId) -> FrameId {
        let frame = self.flow.frame(node);
        match self.graph.flow(node) {
            Some(Flow::Exit) => self.flow.parents[frame.0 as usize],
            Some(Flow::Enter) => {
                let name = self.graph.attrs(node).string("frame_name").unwrap_or_default().to_vec();
                let new = FrameId(self.flow.parents.len() as u32);
                let id = *self.frame_ids.entry((frame, name)).or_insert(new);
                if id == new {
                    self.flow.parents.push(frame);
                }
                id
            }
            _ => frame,
        }
    }

    /// All inputs of a node come from one frame; only what has no inputs at all says nothing.
    fn frame_of(&self, node: NodeId) -> FrameId {
        let graph = self.graph;
        let in_graph = |from: &NodeId| from.index() < graph.len() && !graph.is_back_edge(*from, node);
        let from = graph.predecessors(node).find(in_graph);
        from.map_or(FrameId::TOP, |from| self.flow.output_frame(from))
    }

    /// Notes under which condition each output of a `Switch` is alive.
    fn note_branches(&mut self, node: NodeId) {
        let &[_, predicate] = self.graph.data_inputs(node) else { return };
        let predicate = origin(self.graph, predicate);
        let condition = self.flow.condition(node);
        for tensor in self.graph.outputs(node) {
            let choice = Choice::Branch { predicate, output: self.graph.output_index(tensor) };
            let condition = self.flow.sets.with(condition, choice);
            self.flow.branches.insert(tensor, condition);
        }
    }

    fn tensor(&self, tensor: TensorId) -> Condition {
        self.flow.tensor_condition(self.graph, tensor)
    }

    fn all_inputs(&mut self, node: NodeId) -> Condition {
        let graph = self.graph;
        let mut condition = Condition::ALWAYS;
        for &input in graph.data_inputs(node) {
            let input = self.tensor(input);
            condition = self.flow.sets.union(condition, input);
        }
        for &from in graph.control_inputs(node) {
            let from = self.flow.condition(from);
            condition = self.flow.sets.union(condition, from);
        }
        condition
    }

    /// A `Merge` is alive when one of its data inputs is; dead control inputs do not matter to it.
    fn merged(&mut self, node: NodeId) -> Condition {
        let graph = self.graph;
        let inputs = graph.data_inputs(node);
        let forward = inputs.iter().filter(|&&input| !graph.is_back_edge(graph.producer(input), node));
        let conditions: Vec<Condition> = forward.map(|&input| self.tensor(input)).collect();
        let Some((&first, others)) = conditions.split_first() else { return Condition::ALWAYS };
        let sets = &mut self.flow.sets;
        // The head of a loop is alive when the loop is entered.
        if conditions.len() < inputs.len() || others.iter().all(|&other| other == first) {
            return first;
        }
        let in_all =
            |choice: &&Choice| others.iter().all(|&other| sets.get(other).binary_search(choice).is_ok());
        let common: Vec<Choice> = sets.get(first).iter().filter(in_all).copied().collect();
        let rest = |condition: Condition| -> Vec<Choice> {
            sets.get(condition)
                .iter()
                .filter(|choice| common.binary_search(choice).is_err())
                .copied()
                .collect()
        };
        let rests: Vec<Vec<Choice>> = conditions.iter().map(|&condition| rest(condition)).collect();
        let complete = rests.iter().any(Vec::is_empty) || are_two_sides(&rests);
        let common = sets.number(common);
        if complete { common } else { sets.with(common, Choice::Merged(node)) }
    }

    /// An `Exit` is alive when its loop was entered: the choices made within the loop are over.
    fn exited(&mut self, node: NodeId) -> Condition {
        let inner = self.flow.frame(node);
        let condition = self.all_inputs(node);
        let outside: Vec<Choice> = self
            .flow
            .sets
            .get(condition)
            .iter()
            .filter(|&&choice| !self.made_within(choice, inner))
            .copied()
            .collect();
        self.flow.sets.number(outside)
    }

    fn made_within(&self, choice: Choice, frame: FrameId) -> bool {
        let node = match choice {
            Choice::Branch { predicate, .. } => self.graph.producer(predicate),
            Choice::Merged(node) => node,
        };
        if node.index() >= self.graph.len() {
            return false;
        }
        let mut at = self.flow.frame(node);
        while at != frame && at != FrameId::TOP {
            at = self.flow.parents[at.0 as usize];
        }
        at == frame && frame != FrameId::TOP
    }
}

/// Whether these are the two outputs of one `Switch`, and nothing more.
fn are_two_sides(rests: &[Vec<Choice>]) -> bool {
    match rests {
        [a, b] => matches!((&a[..], &b[..]), ([a], [b]) if are_two_outputs(a, b)),
        _ => false,
    }
}

/// Whether these are different outputs of `Switch` ops on one predicate.
fn are_two_outputs(a: &Choice, b: &Choice) -> bool {
    match (a, b) {
        (Choice::Branch { predicate: p, output: a }, Choice::Branch { predicate: q, output: b }) => {
            p == q && a != b
        }
        _ => false,
    }
}
