//! What loops add to stacks, lists and TensorArrays, and what they take off.
//!
//! A loop's body is in a program once, as its first iteration. Two things are otherwise in the iterations behind it. A TensorArray of
//! which a loop takes the elements is there at the beginning and gone at the end: beside what a loop adds to others, it counts only where it is
//! the larger. And what a loop carries may begin as zeros that are there anyway, and has memory of its own from the second iteration on,
//! as the sum of a weight's gradients does: that counts, as far as it is more than what the first iteration takes off.

use std::collections::{BTreeMap, HashMap};

use crate::graph::{FrameId, NodeId, TensorId};
use crate::ops::Flow;
use crate::order::{Place, Placement};
use crate::plan::Analysis;

use super::holders::{inputs_of, is_list, root};
use super::pool::in_chunks;
use super::program::buffer;

/// By the loop what it adds or takes off, each tensor once though several stacks may keep it, and its bytes.
type Moved = HashMap<FrameId, HashMap<TensorId, u64>>;

/// What the loops of a step add and take off.
#[derive(Debug, Default)]
pub(super) struct Balance {
    /// In all, of the loop that is the outermost in which what is kept does not stay.
    added: Moved,
    taken: Moved,
    /// In one iteration.
    taken_at_once: Moved,
}

/// What is there of a loop from its second iteration on, and not in its first.
#[derive(Debug, Clone, Copy)]
pub(super) struct Later {
    pub frame: FrameId,
    /// What the first `Merge` gives out of which that is so.
    pub first: TensorId,
    pub more_bytes: u64,
}

/// The bytes that a loop adds or takes off.
fn bytes_of(moved: &Moved, frame: FrameId) -> u64 {
    moved.get(&frame).map_or(0, |tensors| tensors.values().copied().fold(0, u64::saturating_add))
}

impl Balance {
    /// Notes what a loop adds.
    pub fn adds(&mut self, tensor: TensorId, frame: FrameId, bytes: u64) {
        self.added.entry(frame).or_default().insert(tensor, bytes);
    }

    /// Notes what a loop takes off.
    pub fn takes(&mut self, tensor: TensorId, frame: FrameId, bytes: u64) {
        self.taken.entry(frame).or_default().insert(tensor, bytes);
    }

    /// Notes what each iteration of a loop takes off.
    pub fn takes_at_once(&mut self, tensor: TensorId, frame: FrameId, bytes: u64) {
        self.taken_at_once.entry(frame).or_default().insert(tensor, bytes);
    }

    /// Whether there is no less when a loop is done than when it began.
    pub fn grows(&self, frame: FrameId) -> bool {
        bytes_of(&self.added, frame) >= bytes_of(&self.taken, frame)
    }

    /// What loops carry beyond what they take off that begins as what is there anyway, and has memory of its own in later iterations.
    pub fn later(
        &self,
        analysis: &Analysis,
        placement: &Placement,
        runs: impl Fn(NodeId) -> bool,
        is_kept: impl Fn(TensorId) -> bool,
    ) -> Vec<Later> {
        let Analysis { graph, flow, sizes, .. } = analysis;
        let mut carried: BTreeMap<FrameId, Vec<(TensorId, u64)>> = BTreeMap::new();
        let merges = graph.node_ids().filter(|&node| graph.flow(node) == Some(Flow::Merge) && runs(node));
        for merge in merges.filter(|&node| flow.frame(node) != FrameId::TOP) {
            let is_back = |&&input: &&TensorId| graph.is_back_edge(graph.producer(input), merge);
            let inputs = inputs_of(graph, merge);
            let (Some(&back), &[first, second]) = (inputs.iter().find(is_back), inputs) else { continue };
            let entering = if back == first { second } else { first };
            let (Some(began), Some(made)) = (root(graph, sizes, entering), root(graph, sizes, back)) else {
                continue;
            };
            let Some(result) = graph.outputs(merge).next() else { continue };
            let (beginner, maker) = (graph.producer(began), graph.producer(made));
            let is_there_anyway = beginner.index() < graph.len()
                && placement.output(began) != Place::Host
                && (!runs(beginner) || !buffer(graph, sizes, beginner, began).may_be_own());
            let is_made_in_body = maker.index() < graph.len()
                && runs(maker)
                && flow.frame(maker) != FrameId::TOP
                && buffer(graph, sizes, maker, made).may_be_own();
            let bytes = in_chunks(analysis.sizes.bytes(made).unwrap_or(0));
            if is_there_anyway
                && is_made_in_body
                && placement.output(result) != Place::Host
                && !is_list(graph, result)
                && !is_kept(made)
            {
                carried.entry(flow.frame(merge)).or_default().push((result, bytes));
            }
        }
        let mut later = Vec::new();
        for (frame, carried) in carried {
            let bytes = carried.iter().fold(0u64, |sum, &(_, bytes)| sum.saturating_add(bytes));
            let more_bytes = bytes.saturating_sub(bytes_of(&self.taken_at_once, frame));
            if let Some(&(first, _)) = carried.first().filter(|_| more_bytes > 0) {
                later.push(Later { frame, first, more_bytes });
            }
        }
        later
    }
}
