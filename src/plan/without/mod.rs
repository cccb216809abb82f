//! A plan that keeps a tensor in memory.

#[cfg(test)]
mod tests;

use std::collections::{HashMap, HashSet};

use super::{Draft, OpRecomputation, Substitute, TensorSwap};
use crate::graph::TensorId;

/// The plan with a tensor kept where it was made: it neither leaves nor is made again, and all that read a copy of it, or what was
/// made the second time, read the tensor itself.
///
/// Returns and second runs that were there for this tensor's second runs alone go with them.
pub fn without_tensor(draft: &Draft, tensor: TensorId) -> Draft {
    without_tensors(draft, |other| other == tensor)
}

/// The same for several tensors.
pub fn without_tensors(draft: &Draft, is_kept: impl Fn(TensorId) -> bool) -> Draft {
    let mut draft = draft.clone();
    draft.swaps.retain(|swap| !is_kept(swap.tensor));
    for again in &mut draft.recomputations {
        again.inputs.retain(|&(input, _)| !is_kept(input));
        again.outputs.retain(|&(output, _)| !is_kept(output));
    }
    let read = Read::of(&draft);
    let runs = Numbers::of(read.runs.iter().copied());
    let mut returns = HashMap::new();
    for swap in &mut draft.swaps {
        let is_read = (0u32..).zip(&swap.uses).map(|(number, swap_in)| {
            !swap_in.consumers.is_empty() || read.returns.contains(&(swap.tensor, number))
        });
        let numbers = Numbers::of(is_read);
        numbers.keep(&mut swap.uses);
        returns.insert(swap.tensor, numbers);
    }
    draft.swaps.retain(|swap: &TensorSwap| !swap.uses.is_empty());
    runs.keep(&mut draft.recomputations);
    for (input, from) in draft.recomputations.iter_mut().flat_map(|again| &mut again.inputs) {
        *from = match *from {
            Substitute::SwapIn(number) => {
                Substitute::SwapIn(returns.get(input).map_or(number, |numbers| numbers.renumbered(number)))
            }
            Substitute::Recomputation(number) => Substitute::Recomputation(runs.renumbered(number)),
        };
    }
    draft
}

/// What of a plan anybody reads.
struct Read {
    /// For each second run whether it has a reader.
    runs: Vec<bool>,
    /// Returns that second runs read which have readers themselves.
    returns: HashSet<(TensorId, u32)>,
}

impl Read {
    /// A second run reads only those before it, so one pass from the last to the first finds all.
    fn of(draft: &Draft) -> Read {
        let has_consumers =
            |again: &OpRecomputation| again.outputs.iter().any(|(_, nodes)| !nodes.is_empty());
        let mut runs: Vec<bool> = draft.recomputations.iter().map(has_consumers).collect();
        let mut returns = HashSet::new();
        for (number, again) in draft.recomputations.iter().enumerate().rev() {
            if !runs[number] {
                continue;
            }
            for &(tensor, from) in &again.inputs {
                match from {
                    Substitute::SwapIn(which) => {
                        returns.insert((tensor, which));
                    }
                    Substitute::Recomputation(which) => {
                        if let Some(is_read) = runs.get_mut(which as usize) {
                            *is_read = true;
                        }
                    }
                }
            }
        }
        Read { runs, returns }
    }
}

/// The numbers that things have once some are gone.
struct Numbers {
    /// None for what is gone.
    new: Vec<Option<u32>>,
}

impl Numbers {
    fn of(stay: impl Iterator<Item = bool>) -> Numbers {
        let mut next = 0;
        let number = |stays: bool| {
            let number = stays.then_some(next);
            next += u32::from(stays);
            number
        };
        Numbers { new: stay.map(number).collect() }
    }

    fn keep<T>(&self, things: &mut Vec<T>) {
        let mut new = self.new.iter();
        things.retain(|_| new.next().is_some_and(Option::is_some));
    }

    fn renumbered(&self, number: u32) -> u32 {
        self.new.get(number as usize).copied().flatten().unwrap_or(number)
    }
}
