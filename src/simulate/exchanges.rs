//! Lists and TensorArrays that grow as others shrink.
//!
//! The loop of a gradient takes an element off each of the lists of the other loop, and puts one into its own. One grows as the others shrink,
//! so both are never there as a whole: where at least as much goes as comes, what comes counts once beside all that is still to go. What is
//! read behind the loop, as the gradient of what the other loop read from a TensorArray, is there as a whole when the loop is done.

use std::collections::{BTreeMap, HashMap};

use super::holders::op_of;
use crate::graph::{FrameId, NodeId, TensorId};
use crate::order::Place;
use crate::plan::Analysis;

/// What loops take off for good while they add to other lists, on each GPU.
#[derive(Debug, Default)]
pub(super) struct Exchanges {
    /// By the loop, how often it runs, and where: the bytes that it takes off.
    going: HashMap<(FrameId, u64, Place), u64>,
    /// What it adds to lists that it alone reads, or that are read behind it, and the bytes of it.
    coming: BTreeMap<TensorId, Coming>,
}

#[derive(Debug)]
struct Coming {
    key: (FrameId, u64, Place),
    bytes: u64,
    is_read_behind: bool,
}

/// What comes as at least as much goes.
#[derive(Debug, Clone, Copy)]
pub(super) struct Replacing {
    pub tensor: TensorId,
    /// The loop behind which it is there as a whole; none if the loop reads all of it itself.
    pub behind: Option<FrameId>,
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
        if takers.iter().any(|&taker| flow.frame(taker) != there) {
            return;
        }
        let is_read_behind = frame != FrameId::TOP && there == flow.around(frame);
        if there == frame || is_read_behind {
            self.coming.insert(tensor, Coming { key: (frame, times, place), bytes, is_read_behind });
        } else if there == FrameId::TOP {
            // What goes there goes at once.
        } else if takers.iter().all(|&taker| is_off_for_good(op_of(graph, taker))) {
            let going = self.going.entry((there, times, place)).or_default();
            *going = going.saturating_add(bytes);
        }
    }

    /// What comes as at least as much goes.
    pub fn replacing(self) -> Vec<Replacing> {
        let mut all: HashMap<(FrameId, u64, Place), u64> = HashMap::new();
        for Coming { key, bytes, .. } in self.coming.values() {
            let sum = all.entry(*key).or_default();
            *sum = sum.saturating_add(*bytes);
        }
        let replaces = |key: &(FrameId, u64, Place)| all[key] <= self.going.get(key).copied().unwrap_or(0);
        let replacing = |(&tensor, of): (&TensorId, &Coming)| {
            let behind = of.is_read_behind.then_some(of.key.0);
            replaces(&of.key).then_some(Replacing { tensor, behind })
        };
        self.coming.iter().filter_map(replacing).collect()
    }
}

/// Whether an op takes the last element off, which then nobody has but its readers.
pub(super) fn is_off_for_good(op: Option<&str>) -> bool {
    op.is_some_and(|op| op.starts_with("StackPop") || op == "TensorListPopBack")
}
