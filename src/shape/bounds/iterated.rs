//! What follows from how often loops run.
//!
//! A loop's counter is at most what its last iteration makes of it, and so is a place that follows from it.
//!
//! A loop may carry a tensor around and make it longer in each iteration. So gradients of a table are collected that each iteration looks
//! rows up in: TensorFlow 1 appends the rows of each iteration to those before (`_AddBackpropIndexedSlicesAccumulator`), and no shape says
//! how many there are in the end. If it is known how often the loop runs, that follows.

use super::{Bounds, Most, largest, values};
use crate::graph::{NodeId, TensorId};

/// What is known of the loops of which it is known how often they run.
#[derive(Debug, Clone, Default)]
pub struct Iterated {
    /// What they make longer.
    pub growths: Vec<Growth>,
    /// What they count.
    pub counters: Vec<Counter>,
}

impl Iterated {
    /// Whether nothing is known.
    pub fn is_empty(&self) -> bool {
        self.growths.is_empty() && self.counters.is_empty()
    }
}

/// A single integer that goes up in each iteration of a loop.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Counter {
    /// As the loop's `Merge` gives it out, or its `Switch` to the body.
    pub tensor: TensorId,
    /// It is no more than this.
    pub at_most: i64,
    /// Whether it is not below zero.
    pub is_size: bool,
}

/// A tensor that a loop carries around and makes longer.
#[derive(Debug, Clone)]
pub struct Growth {
    /// What the loop carries: the output of its `Merge`.
    pub tensor: TensorId,
    /// What it begins with.
    pub first: TensorId,
    /// The `ConcatV2` that makes it longer.
    pub concat: NodeId,
    /// What that adds.
    pub parts: Vec<TensorId>,
    /// How often the loop runs, at most.
    pub times: u64,
}

impl Growth {
    /// Dimensions that the tensor does not exceed, also when the loop is over.
    pub(super) fn most(&self, bounds: &mut Bounds) -> Option<Most> {
        let first = bounds.most(self.first)?;
        let parts: Option<Vec<Most>> = self.parts.iter().map(|&part| bounds.most(part)).collect();
        let parts = parts?;
        let axis_slot = bounds.graph.data_inputs(self.concat).len().checked_sub(1)?;
        let axis = values::axis(bounds, self.concat, axis_slot, first.len())?;
        let begins_with = first[axis];
        let mut all = parts.clone();
        all.push(first);
        let mut most = largest(&all)?;
        let added = parts.iter().try_fold(0i64, |sum, part| sum.checked_add(part[axis]))?;
        let times = i64::try_from(self.times).ok()?;
        most[axis] = begins_with.checked_add(added.checked_mul(times)?)?;
        Some(most)
    }
}
