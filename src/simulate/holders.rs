//! What made the stacks, lists and TensorArrays in which loops keep something, and who takes it off again.
//!
//! A list of TensorFlow 2 (`TensorList…`) is a value: each op that adds an element makes another list of it. The op that made the
//! first one stands for all of them. A loop in a loop has a list of its own in each iteration of the other, which that keeps in a list of
//! lists: who takes one off there has the list that was put in.

use std::collections::{BTreeSet, HashMap};

use crate::dtype::DataType;
use crate::graph::{Graph, NodeId, TensorId};
use crate::ops::{Fact, Flow};
use crate::shape::Sizes;

use super::program::{Buffer, buffer, is_empty_optional};

/// How many loops in loops are followed, and how many lists in lists.
const DEEPEST: usize = 16;

/// Who keeps what.
#[derive(Debug, Default)]
pub(super) struct Holders {
    /// For each op that made a stack or a list the ops that take something off it.
    takers: HashMap<NodeId, Vec<NodeId>>,
    /// For each op that asks for the TensorArray of a gradient, the first that asks for the same.
    gradients: HashMap<NodeId, NodeId>,
    /// For each op that made a list of lists the first list that is put in.
    within: HashMap<NodeId, TensorId>,
    /// For each op that made a list that is put into another one the op that made that.
    around: HashMap<NodeId, NodeId>,
}

impl Holders {
    /// Those of a graph.
    pub fn of(graph: &Graph) -> Holders {
        let mut holders = Holders { gradients: gradients(graph), ..Holders::default() };
        let lists_in_lists: Vec<(TensorId, TensorId)> = graph
            .node_ids()
            .filter_map(|node| keeps(graph, node))
            .filter_map(|(handle, value)| Some((handle?, value)))
            .filter(|&(_, value)| is_holder(graph, value))
            .collect();
        // What is in a list of lists says what a list is that is taken off there, and that may be a list of lists again.
        for _ in 0..DEEPEST {
            let mut within = HashMap::new();
            let mut around = HashMap::new();
            for &(handle, value) in &lists_in_lists {
                let Some(holder) = holders.holder_of(graph, handle) else { continue };
                within.entry(holder).or_insert(value);
                if let Some(inner) = holders.holder_of(graph, value).filter(|&inner| inner != holder) {
                    around.entry(inner).or_insert(holder);
                }
            }
            let is_all = holders.within == within && holders.around == around;
            (holders.within, holders.around) = (within, around);
            if is_all {
                break;
            }
        }
        for node in graph.node_ids().filter(|&node| graph.op(node).facts().has(Fact::TakesOff)) {
            let handle = inputs_of(graph, node).first();
            if let Some(holder) = handle.and_then(|&handle| holders.holder_of(graph, handle)) {
                holders.takers.entry(holder).or_default().push(node);
            }
        }
        holders
    }

    /// The op that made a handle, or the first of a row of lists; of those that ask for the TensorArray of the same gradient, the first. Of a
    /// list that was taken off a list of lists, what made the list that was put in.
    pub fn holder_of(&self, graph: &Graph, mut handle: TensorId) -> Option<NodeId> {
        for _ in 0..DEEPEST {
            let made = first_of(graph, handle)?;
            let holder = graph.producer(made);
            let is_element = graph.op(holder).facts().has(Fact::GivesElement) && is_holder(graph, made);
            let outer = inputs_of(graph, holder).first().filter(|_| is_element);
            let put_in = outer.and_then(|&outer| {
                let outer = graph.producer(first_of(graph, outer)?);
                self.within.get(&self.gradients.get(&outer).copied().unwrap_or(outer))
            });
            match put_in {
                Some(&list) if list != handle => handle = list,
                _ => return Some(self.gradients.get(&holder).copied().unwrap_or(holder)),
            }
        }
        None
    }

    /// What made the list that a tensor is an element of as it was taken off.
    pub fn given_by(&self, graph: &Graph, element: TensorId) -> Option<NodeId> {
        let taker = graph.producer(element);
        let handle = *inputs_of(graph, taker).first()?;
        let gives = graph.op(taker).facts().has(Fact::GivesElement) && !is_list(graph, element);
        gives.then(|| self.holder_of(graph, handle))?
    }

    /// The ops that take something off what an op made.
    pub fn takers(&self, holder: NodeId) -> &[NodeId] {
        self.takers.get(&holder).map_or(&[], Vec::as_slice)
    }

    /// The same, and those that take it off a list of lists.
    pub fn takers_with_around(&self, holder: NodeId) -> impl Iterator<Item = NodeId> {
        let around = std::iter::successors(Some(holder), |holder| self.around.get(holder).copied());
        around.take(DEEPEST).flat_map(|holder| self.takers(holder)).copied()
    }

    /// What made the list that keeps what an op made, or the list of lists that keeps that, and so on.
    pub fn outermost(&self, holder: NodeId) -> NodeId {
        let mut outermost = holder;
        for _ in 0..DEEPEST {
            match self.around.get(&outermost) {
                Some(&around) => outermost = around,
                None => break,
            }
        }
        outermost
    }
}

/// The stack, list or TensorArray to which an op adds a tensor, none if it makes one of it, and that tensor.
pub(super) fn keeps(graph: &Graph, node: NodeId) -> Option<(Option<TensorId>, TensorId)> {
    let inputs = inputs_of(graph, node);
    let facts = graph.op(node).facts();
    match facts.adds() {
        Some(value) => Some((Some(*inputs.first()?), *inputs.get(value)?)),
        None => facts.has(Fact::MakesList).then(|| Some((None, *inputs.first()?)))?,
    }
}

/// Whether a tensor is a list.
pub(super) fn is_list(graph: &Graph, tensor: TensorId) -> bool {
    graph.output_type(tensor).dtype == DataType::VARIANT
}

/// Whether a tensor is a list, or the handle of a stack.
fn is_holder(graph: &Graph, tensor: TensorId) -> bool {
    matches!(graph.output_type(tensor).dtype, DataType::VARIANT | DataType::RESOURCE)
}

/// What a handle was as it was made, or the first of a row of lists: an output of an op that makes such, or that takes such off another one.
fn first_of(graph: &Graph, handle: TensorId) -> Option<TensorId> {
    let mut tensor = root_by(graph, handle, |_, passed| passed)?;
    // Where a loop carries a list, what it began with.
    let mut seen = BTreeSet::new();
    while graph.producer(tensor).index() < graph.len() && seen.insert(tensor) {
        let node = graph.producer(tensor);
        let facts = graph.op(node).facts();
        let output = graph.output_index(tensor);
        // What is taken off a list stands behind the list that is left.
        let is_same = facts.has(Fact::SameList) && output == 0;
        if !is_same && facts.passes_on(output).is_none() && facts.passes_on(0).is_none()
            || facts.has(Fact::GivesElement) && !is_same
        {
            return Some(tensor);
        }
        tensor = entering(graph, node)?;
    }
    None
}

/// The tensor whose buffer another one is: of what a loop carries around, the one that the body makes.
pub(super) fn root(graph: &Graph, sizes: &Sizes, tensor: TensorId) -> Option<TensorId> {
    root_by(graph, tensor, |node, passed| passed.or_else(|| sizes.handed_on(graph, node)))
}

/// The same, where `passes` says which input an op hands on, given what it hands on whatever its sizes are.
fn root_by(
    graph: &Graph,
    mut tensor: TensorId,
    passes: impl Fn(NodeId, Option<u32>) -> Option<u32>,
) -> Option<TensorId> {
    let mut seen = BTreeSet::new();
    loop {
        let node = graph.producer(tensor);
        if node.index() >= graph.len() || !seen.insert(tensor) {
            return Some(tensor);
        }
        let inputs = inputs_of(graph, node);
        let back = inputs.iter().find(|&&input| graph.is_back_edge(graph.producer(input), node));
        let passed = passes(node, graph.op(node).facts().passes_on(graph.output_index(tensor)));
        match (back, passed) {
            (Some(&back), _) => tensor = back,
            (None, Some(_)) if graph.flow(node) == Some(Flow::Merge) => tensor = entering(graph, node)?,
            (None, Some(slot)) => tensor = *inputs.get(slot as usize)?,
            (None, None) => return Some(tensor),
        }
    }
}

/// The first input of an op that no iteration brings back. Of a `Merge` that is one which may hold something: what a branch has no use for is
/// an empty optional.
fn entering(graph: &Graph, node: NodeId) -> Option<TensorId> {
    let mut inputs = inputs_of(graph, node).iter().copied();
    let is_full = |input: TensorId| {
        !graph.is_back_edge(graph.producer(input), node)
            && (graph.flow(node) != Some(Flow::Merge) || !is_empty_optional(graph, input))
    };
    inputs.find(|&input| is_full(input))
}

/// Of which iteration of a loop a tensor is that is added to a list.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Iteration {
    /// Of the one that adds it.
    Same,
    /// Of the one before.
    Before,
    /// Of none: the loop began with it, and its first iteration adds it.
    None,
}

/// The tensors whose buffer another one may be, each with the iteration of which it is that: behind branches, those of all of them.
pub(super) fn roots(graph: &Graph, sizes: &Sizes, tensor: TensorId) -> Vec<(TensorId, Iteration)> {
    let mut open = vec![(tensor, Iteration::Same)];
    let mut seen = BTreeSet::new();
    let mut roots = Vec::new();
    while let Some((tensor, iteration)) = open.pop() {
        let node = graph.producer(tensor);
        if node.index() >= graph.len() {
            roots.push((tensor, iteration));
            continue;
        }
        if !seen.insert(tensor) {
            continue;
        }
        let inputs = inputs_of(graph, node);
        let back = inputs.iter().find(|&&input| graph.is_back_edge(graph.producer(input), node));
        let passed = graph.op(node).facts().passes_on(graph.output_index(tensor));
        let passed = passed.or_else(|| sizes.handed_on(graph, node));
        let passed = passed.and_then(|slot| inputs.get(slot as usize));
        match (back, passed) {
            (Some(&back), _) => {
                open.push((back, Iteration::Before));
                open.extend(entering(graph, node).map(|first| (first, Iteration::None)));
            }
            (None, _) if graph.flow(node) == Some(Flow::Merge) => {
                let full = inputs.iter().filter(|&&input| !is_empty_optional(graph, input));
                open.extend(full.map(|&input| (input, iteration)));
            }
            (None, Some(&passed)) => open.push((passed, iteration)),
            (None, None) => roots.push((tensor, iteration)),
        }
    }
    roots
}

/// The ops that read what an output's buffer holds, under any name that others give it.
pub(super) fn readers_of_buffer(graph: &Graph, sizes: &Sizes, tensor: TensorId) -> Vec<NodeId> {
    let mut open = vec![tensor];
    let mut seen = BTreeSet::new();
    let mut readers = Vec::new();
    while let Some(tensor) = open.pop() {
        for reader in graph.uses(tensor) {
            for output in graph.outputs(reader.node) {
                let is_same = match buffer(graph, sizes, reader.node, output) {
                    Buffer::Input(slot) => slot == reader.slot,
                    Buffer::AnyInput => true,
                    _ => false,
                };
                if is_same && seen.insert(output) {
                    open.push(output);
                }
            }
            readers.push(reader.node);
        }
    }
    readers.sort_unstable();
    readers.dedup();
    readers
}

/// For each op that asks for the TensorArray of a gradient, the first in the file that asks for the same: of the same TensorArray, under the same
/// name.
fn gradients(graph: &Graph) -> HashMap<NodeId, NodeId> {
    let mut first: HashMap<(TensorId, &[u8]), NodeId> = HashMap::new();
    let mut gradients = HashMap::new();
    for node in graph.node_ids().filter(|&node| graph.op(node).name().starts_with("TensorArrayGrad")) {
        let of = inputs_of(graph, node).first().and_then(|&handle| first_of(graph, handle));
        if let (Some(of), Some(source)) = (of, graph.attrs(node).string("source")) {
            gradients.insert(node, *first.entry((of, source)).or_insert(node));
        }
    }
    gradients
}

/// The name of a node's op; none of an argument of a function.
pub(super) fn op_of<'a>(graph: &Graph<'a>, node: NodeId) -> Option<&'a str> {
    (node.index() < graph.len()).then(|| graph.op(node).name())
}

/// What a node reads; nothing if it is an argument of a function.
pub(super) fn inputs_of<'g>(graph: &'g Graph, node: NodeId) -> &'g [TensorId] {
    if node.index() < graph.len() { graph.data_inputs(node) } else { &[] }
}
