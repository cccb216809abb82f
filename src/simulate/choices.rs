//! What the branches within a loop keep.
//!
//! Of the two sides of a branch only one runs in an iteration, and nobody knows which in how many of them: what is kept is what they keep where
//! they keep the most together. That is where all iterations take one side, or where each takes another than the one before, since one side
//! may keep what the other made in the iteration before.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use crate::graph::TensorId;
use crate::order::Place;

/// A branch: what it goes by, and which of its sides.
pub(super) type Branch = (TensorId, u32);

/// In how many iterations something is kept, if not in all.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Share {
    None,
    Half,
}

/// What is kept within branches, each with its bytes.
#[derive(Debug, Default)]
pub(super) struct Choices {
    choices: BTreeMap<(TensorId, Place), Choice>,
}

#[derive(Debug, Default)]
struct Choice {
    /// How many branches there are around what is nearest to the outside.
    depth: usize,
    sides: [Vec<(TensorId, u64)>; 2],
    /// What one side makes, and the other keeps in the next iteration.
    by_turns: Vec<(TensorId, u64)>,
}

impl Choices {
    /// Notes a tensor that is kept somewhere, the bytes of it beside the last one, and the branches in which it is made and kept.
    pub fn add(&mut self, tensor: TensorId, place: Place, bytes: u64, branches: &BTreeSet<Branch>) {
        for &(predicate, output) in branches.iter().filter(|_| bytes > 0) {
            let new = || Choice { depth: usize::MAX, ..Choice::default() };
            let choice = self.choices.entry((predicate, place)).or_insert_with(new);
            choice.depth = choice.depth.min(branches.len());
            let is_of_both = output < 2 && branches.contains(&(predicate, 1 - output));
            if is_of_both && output == 0 {
                choice.by_turns.push((tensor, bytes));
            } else if !is_of_both && let Some(side) = choice.sides.get_mut(output as usize) {
                side.push((tensor, bytes));
            }
        }
    }

    /// What is not kept in all iterations. What is within a branch is decided before it.
    pub fn decide(&self) -> HashMap<TensorId, Share> {
        let mut order: Vec<&Choice> = self.choices.values().collect();
        order.sort_by_key(|choice| std::cmp::Reverse(choice.depth));
        let mut shares = HashMap::new();
        order.into_iter().for_each(|choice| choice.decide(&mut shares));
        shares
    }
}

impl Choice {
    fn decide(&self, shares: &mut HashMap<TensorId, Share>) {
        let bytes = |kept: &Vec<(TensorId, u64)>| {
            let bytes = kept.iter().map(|(tensor, bytes)| match shares.get(tensor) {
                None => *bytes,
                Some(Share::Half) => bytes / 2,
                Some(Share::None) => 0,
            });
            bytes.fold(0u64, u64::saturating_add)
        };
        let [first, second] = self.sides.each_ref().map(bytes);
        let by_turns = first.saturating_add(second).saturating_add(bytes(&self.by_turns)) / 2;
        let less = if by_turns > first.max(second) {
            [Some(Share::Half); 3]
        } else if second < first {
            [None, Some(Share::None), Some(Share::None)]
        } else {
            [Some(Share::None), None, Some(Share::None)]
        };
        let [first, second] = &self.sides;
        for (kept, share) in [first, second, &self.by_turns].into_iter().zip(less) {
            let Some(share) = share else { continue };
            for &(tensor, _) in kept {
                let known = shares.entry(tensor).or_insert(share);
                if share == Share::None {
                    *known = share;
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PREDICATE: TensorId = TensorId(9);

    /// What is kept of tensors, each with the sides that make and keep it.
    fn shares<const N: usize>(kept: [(u64, &[u32]); N]) -> [Option<Share>; N] {
        let mut choices = Choices::default();
        for (number, (bytes, sides)) in (0..).zip(kept) {
            let branches = sides.iter().map(|&side| (PREDICATE, side)).collect();
            choices.add(TensorId(number), Place::Gpu(0), bytes, &branches);
        }
        let shares = choices.decide();
        std::array::from_fn(|number| shares.get(&TensorId(number as u32)).copied())
    }

    #[test]
    fn the_side_that_keeps_more_is_kept_in_all_iterations() {
        assert_eq!(shares([(3, &[0]), (2, &[1])]), [None, Some(Share::None)]);
        assert_eq!(shares([(2, &[0]), (3, &[1])]), [Some(Share::None), None]);
    }

    #[test]
    fn what_the_other_side_keeps_counts_where_they_take_turns() {
        assert_eq!(shares([(4, &[0]), (4, &[1]), (4, &[0, 1])]), [Some(Share::Half); 3]);
        assert_eq!(
            shares([(9, &[0]), (4, &[1]), (4, &[0, 1])]),
            [None, Some(Share::None), Some(Share::None)]
        );
    }

    #[test]
    fn what_is_in_no_branch_is_kept() {
        assert_eq!(shares([(4, &[])]), [None]);
    }
}
