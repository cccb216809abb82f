//! Lists that grow as others shrink.
//!
//! The loop of a gradient takes an element off each of the lists of the other loop, and puts one into its own. One grows as the others shrink,
//! so both are never there as a whole: where at least as much goes as comes, what comes counts once beside all that is still to go.

use std::collections::{BTreeMap, HashMap};

use super::loops::op_of;
use crate::graph::{FrameId, NodeId, TensorId};
use crate::order::Place;
use crate::plan::Analysis;

/// What loops take off for good while they add to other lists, on each GPU.
#[derive(Debug, Default)]
pub(super) struct Exchanges {
    /// By the loop, how often it runs, and where: the bytes that it takes off.
    going: HashMap<(FrameId, u64, Place), u64>,
    /// What it adds to lists that it alone reads, and the bytes of it.
    coming: BTreeMap<TensorId, ((FrameId, u64, Place), u64)>,
}

impl Exchanges {
    /// Notes what a loop keeps, of which there are so many bytes in the end.
    pub fn add(
        &mut self,
        analysis: &Analysis,
        (frame, times): (FrameId, u64),
        (tensor, place): (TensorId, Place),
        bytes: u64,
        takers: &[NodeId],
    ) {
        let Analysis { graph, flow, .. } = analysis;
        let Some(&first) = takers.first() else { return };
        let there = flow.frame(first);
        if there == FrameId::TOP || takers.iter().any(|&taker| flow.frame(taker) != there) {
            return;
        }
        if there == frame {
            self.coming.insert(tensor, ((there, times, place), bytes));
        } else if takers.iter().all(|&taker| is_off_for_good(op_of(graph, taker))) {
            let going = self.going.entry((there, times, place)).or_default();
            *going = going.saturating_add(bytes);
        }
    }

    /// What comes as at least as much goes.
    pub fn replacing(self) -> Vec<TensorId> {
        let mut all: HashMap<(FrameId, u64, Place), u64> = HashMap::new();
        for (key, bytes) in self.coming.values() {
            let sum = all.entry(*key).or_default();
            *sum = sum.saturating_add(*bytes);
        }
        let replaces = |key| all[key] <= self.going.get(key).copied().unwrap_or(0);
        self.coming.iter().filter(|(_, (key, _))| replaces(key)).map(|(&tensor, _)| tensor).collect()
    }
}

/// Whether an op takes the last element off, which then nobody has but its readers.
pub(super) fn is_off_for_good(op: Option<&str>) -> bool {
    op.is_some_and(|op| op.starts_with("StackPop") || op == "TensorListPopBack")
}
