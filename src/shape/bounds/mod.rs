//! The most that a tensor can be whose size only the data of a step decides.
//!
//! How many different tokens a batch has, how many entries of a mask are true: no shape tells, and TensorFlow's inference leaves it open.
//! But it is no more than there are tokens, or entries. [`rules`] says so of each op that makes such a tensor and of those that read one;
//! [`values`] bounds the small integers that ops take as sizes, and [`entries`] those that say where something lies. What is fed and left
//! open has no bound.
//!
//! Other sizes TensorFlow leaves open though they are the same in each step, as behind a branch: [`conditions`] finds out which side is taken,
//! and a bound that follows from nothing but known sizes, by an op that makes nothing smaller, is the size.

mod arrays;
mod conditions;
mod counts;
mod entries;
mod images;
mod iterated;
mod linear;
mod lists;
mod matrices;
mod optionals;
pub(super) mod parts;
mod rules;
mod slices;
mod sparse;
mod values;

use std::cell::Cell;
use std::collections::{HashMap, HashSet};

use arrays::Arrays;
pub use conditions::decided_conditions;
pub(super) use counts::Elements;
use entries::Entries;
pub use iterated::{Counter, Growth, Iterated};
use values::Values;

use super::Shapes;
use crate::graph::{Graph, Liveness, NodeId, TensorId};
use crate::ops::{Attr, AttrLookup, Fact};

/// Dimensions none of which is exceeded.
type Most = Vec<i64>;

/// What the single integer of a tensor is at most.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LargestValue {
    /// It is no more than this.
    pub at_most: i64,
    /// Whether it is this.
    pub is_exact: bool,
    /// Whether it is not below zero.
    pub is_size: bool,
}

/// What the single integer of a tensor is at most, if constants and shapes tell.
pub fn largest_value(graph: &Graph, shapes: &Shapes, tensor: TensorId) -> Option<LargestValue> {
    let mut bounds = Bounds::new(graph, shapes);
    let &[values::Value { at_most, is_exact, is_size }] = &*values::of(&mut bounds, tensor)? else {
        return None;
    };
    Some(LargestValue { at_most, is_exact, is_size })
}

/// For each tensor that has no shape in full and that is bounded, how many elements it does not exceed.
///
/// None of the dimensions that are found is exceeded, but their product may be far more than can be: of what is only put in another order, or
/// in other dimensions, there is no more than before.
pub(super) fn upper_bounds(
    graph: &Graph,
    shapes: &Shapes,
    iterated: &Iterated,
) -> HashMap<TensorId, Elements> {
    let liveness = conditions::living(graph, &decided_conditions(graph, shapes));
    let mut bounds = Bounds { liveness, ..Bounds::new(graph, shapes) };
    bounds.find_all();
    if !iterated.is_empty() {
        // What a loop adds is known by now, and so how long it gets, from which more may follow.
        for growth in &iterated.growths {
            if let Some(most) = growth.most(&mut bounds) {
                bounds.found.insert(growth.tensor, most.into());
            }
        }
        (bounds.values, bounds.entries) = (Values::default(), Entries::default());
        iterated.counters.iter().for_each(|counter| bounds.values.count(counter));
        bounds.find_all();
    }
    counts::of_all(&bounds)
}

fn is_full(shape: Option<&[i64]>) -> bool {
    shape.is_some_and(|shape| shape.iter().all(|&size| size >= 0))
}

/// What has been found so far.
struct Bounds<'a> {
    graph: &'a Graph<'a>,
    shapes: &'a Shapes,
    found: HashMap<TensorId, Box<[i64]>>,
    values: Values,
    entries: Entries,
    arrays: Arrays,
    /// Of those that were found the tensors that are as large as their bounds.
    exact: HashSet<TensorId>,
    /// Whether what was asked for since this was set is known, and not only bounded.
    is_exact: Cell<bool>,
    /// What certainly does not run, where conditions are decided.
    liveness: Option<Liveness>,
}

impl<'a> Bounds<'a> {
    /// Nothing is found yet.
    fn new(graph: &'a Graph<'a>, shapes: &'a Shapes) -> Bounds<'a> {
        let (values, entries) = (Values::default(), Entries::default());
        Bounds {
            graph,
            shapes,
            found: HashMap::new(),
            values,
            entries,
            arrays: Arrays::default(),
            exact: HashSet::new(),
            is_exact: Cell::new(true),
            liveness: None,
        }
    }

    /// Bounds all that is open, in an order in which inputs come first.
    fn find_all(&mut self) {
        let Bounds { graph, shapes, .. } = *self;
        for &node in graph.topological() {
            let is_open = |tensor: TensorId| {
                !is_full(shapes.get(tensor)) && graph.output_type(tensor).dtype.size_in_bytes().is_some()
            };
            for tensor in graph.outputs(node).filter(|&tensor| is_open(tensor)) {
                if let Some(most) = self.of_output(node, tensor) {
                    self.found.insert(tensor, most.into());
                }
            }
        }
    }

    /// Dimensions that an output does not exceed: by its op's rule, and where the shape is known, by that.
    fn of_output(&mut self, node: NodeId, tensor: TensorId) -> Option<Most> {
        self.is_exact.set(rules::are_exact(self.graph.op(node)));
        let ruled = rules::at_most(self, node, self.graph.output_index(tensor));
        let known = self.shapes.get(tensor).map(<[i64]>::to_vec);
        let most = match (ruled, known) {
            (Some(ruled), Some(known)) if ruled.len() == known.len() => {
                known.iter().zip(ruled).map(|(&known, ruled)| if known < 0 { ruled } else { known }).collect()
            }
            // The rule knows less than the inference.
            (_, Some(known)) => self.one_open(node, known)?,
            (Some(ruled), None) => ruled,
            (None, None) => self.ensured(tensor)?,
        };
        // What is beyond all sizes is no bound.
        let most = most.iter().all(|&size| (0..1 << 48).contains(&size)).then_some(most)?;
        if self.is_exact.get() {
            self.exact.insert(tensor);
        }
        Some(most)
    }

    /// The shape that a tensor has where the step does not fail: one that an `EnsureShape` says, as behind what Python computes on the host.
    fn ensured(&self, tensor: TensorId) -> Option<Most> {
        let ensures = |node: &NodeId| {
            self.graph.op(*node).name() == "EnsureShape" && self.graph.data_inputs(*node) == [tensor]
        };
        let says = |node: NodeId| self.shapes.get(self.graph.outputs(node).next()?);
        let shape = self.graph.successors(self.graph.producer(tensor)).filter(ensures).find_map(|node| {
            let shape = says(node);
            shape.filter(|_| is_full(shape))
        })?;
        self.is_exact.set(true);
        Some(shape.to_vec())
    }

    /// The shape of what hands its first input on in another one, where all of that but one dimension is known.
    fn one_open(&self, node: NodeId, mut known: Vec<i64>) -> Option<Most> {
        if !self.graph.op(node).facts().has(Fact::Reshapes) {
            return None;
        }
        let elements = product(&self.input(node, 0)?)?;
        let mut open = known.iter_mut().filter(|size| **size < 0);
        let (first, second) = (open.next(), open.next());
        let (first, None) = (first?, second) else { return None };
        *first = 1;
        let rest = product(&known)?;
        let position =
            self.shapes.get(self.graph.outputs(node).next()?)?.iter().position(|&size| size < 0)?;
        known[position] = if rest == 0 { elements } else { elements / rest };
        Some(known)
    }

    /// Dimensions that a tensor does not exceed.
    fn most(&self, tensor: TensorId) -> Option<Most> {
        let shape = self.shapes.get(tensor);
        let most = match is_full(shape) {
            true => shape.map(<[i64]>::to_vec),
            false => self.found.get(&tensor).map(|most| most.to_vec()),
        };
        // Rules bound what comes of nothing by what comes of one.
        let is_something = || most.as_ref().is_some_and(|most| !most.contains(&0));
        if !(is_full(shape) || self.exact.contains(&tensor)) || !is_something() {
            self.is_exact.set(false);
        }
        most
    }

    /// The same of an input.
    fn input(&self, node: NodeId, slot: usize) -> Option<Most> {
        self.most(*self.graph.data_inputs(node).get(slot)?)
    }

    /// The same of all inputs.
    fn inputs(&self, node: NodeId) -> Option<Vec<Most>> {
        self.graph.data_inputs(node).iter().map(|&tensor| self.most(tensor)).collect()
    }

    /// Whether certainly nobody makes a tensor.
    fn is_dead(&self, tensor: TensorId) -> bool {
        self.liveness.as_ref().is_some_and(|liveness| liveness.is_dead(self.graph, tensor))
    }

    /// The integers of an input, each of which is not exceeded.
    fn values(&mut self, node: NodeId, slot: usize) -> Option<Vec<values::Value>> {
        let tensor = *self.graph.data_inputs(node).get(slot)?;
        let values = values::of(self, tensor);
        if values.as_ref().is_none_or(|values| values.iter().any(|value| value.exact().is_none())) {
            self.is_exact.set(false);
        }
        values
    }

    /// These, each as what it is at most.
    fn most_values(&mut self, node: NodeId, slot: usize) -> Option<Most> {
        let values = self.values(node, slot)?;
        values.iter().map(|value| (value.at_most >= 0).then_some(value.at_most)).collect()
    }

    /// The integers of an input, if they are known.
    fn exact_values(&mut self, node: NodeId, slot: usize) -> Option<Vec<i64>> {
        self.values(node, slot)?.iter().map(|value| value.exact()).collect()
    }

    /// How many elements an input has that is a vector.
    fn length(&self, node: NodeId, slot: usize) -> Option<usize> {
        let &[length] = &*self.input(node, slot)? else { return None };
        usize::try_from(length).ok()
    }

    /// A truth value, false if the node does not say.
    fn flag(&self, node: NodeId, name: &str) -> bool {
        matches!(self.graph.attrs(node).attr(name), Some(Attr::Bool(true)))
    }

    /// An integer, zero if the node does not say: the default of all that are asked for.
    fn number(&self, node: NodeId, name: &str) -> i64 {
        match self.graph.attrs(node).attr(name) {
            Some(Attr::Int(number)) => number,
            _ => 0,
        }
    }
}

/// The number of elements.
fn product(sizes: &[i64]) -> Option<i64> {
    sizes.iter().try_fold(1i64, |product, &size| product.checked_mul(size))
}

/// The place that an axis names, which may count from the end.
fn axis_of(axis: i64, rank: usize) -> Option<usize> {
    let place = if axis < 0 { axis + rank as i64 } else { axis };
    (0..rank as i64).contains(&place).then_some(place as usize)
}

/// The largest of shapes of one rank, dimension by dimension.
fn largest(shapes: &[Most]) -> Option<Most> {
    let mut most = shapes.first()?.clone();
    for shape in shapes {
        if shape.len() != most.len() {
            return None;
        }
        most.iter_mut().zip(shape).for_each(|(most, &size)| *most = (*most).max(size));
    }
    Some(most)
}

/// What shapes come to that are broadcast to each other.
fn broadcast(shapes: &[Most]) -> Most {
    let rank = shapes.iter().map(Vec::len).max().unwrap_or(0);
    let mut most = vec![1; rank];
    for shape in shapes {
        let skipped = rank - shape.len();
        for (size, &other) in most[skipped..].iter_mut().zip(shape) {
            // A size of 0 makes the whole empty; the larger bound holds all the same.
            *size = (*size).max(other);
        }
    }
    most
}
