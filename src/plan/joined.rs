//! One plan of several: for steps that are run in turn.

use std::collections::HashMap;

use super::{Draft, Substitute, without_tensors};
use crate::graph::{NodeId, TensorId};

/// Two plans for one graph, made for different steps, as one plan.
///
/// For what both steps run the first plan decides: `is_settled` says of an op whether the first step runs it. Of the second plan stays
/// what makes no such op read or wait for anything else. So no cycle can come of both: what a step runs is all that comes before it, and
/// an edge of the second plan never leads back into that.
pub fn joined(first: &Draft, second: &Draft, is_settled: impl Fn(NodeId) -> bool) -> Draft {
    let second = of_the_rest(second, is_settled);
    let mut joined = first.clone();
    let runs = joined.recomputations.len() as u32;
    // Where the returns of a tensor that both plans bring back begin to be the second's.
    let mut returns: HashMap<TensorId, u32> = HashMap::new();
    let mut place_of: HashMap<TensorId, usize> =
        joined.swaps.iter().enumerate().map(|(place, swap)| (swap.tensor, place)).collect();
    for swap in second.swaps {
        let place = *place_of.entry(swap.tensor).or_insert(joined.swaps.len());
        match joined.swaps.get_mut(place) {
            None => joined.swaps.push(swap),
            Some(known) => {
                returns.insert(swap.tensor, known.uses.len() as u32);
                known.uses.extend(swap.uses);
                known.waiting.extend(swap.waiting);
                known.waiting.sort_unstable();
                known.waiting.dedup();
            }
        }
    }
    for mut again in second.recomputations {
        for (tensor, from) in &mut again.inputs {
            *from = match *from {
                Substitute::SwapIn(number) => {
                    Substitute::SwapIn(number + returns.get(tensor).copied().unwrap_or(0))
                }
                Substitute::Recomputation(number) => Substitute::Recomputation(number + runs),
            };
        }
        joined.recomputations.push(again);
    }
    let is_new = |order: &_| !first.orders.contains(order);
    joined.orders.extend(second.orders.into_iter().filter(is_new));
    let is_new = |value: &_| !first.initial_values.contains(value);
    joined.initial_values.extend(second.initial_values.into_iter().filter(is_new));
    joined.host_ops.extend(second.host_ops);
    joined.host_ops.sort_unstable();
    joined.host_ops.dedup();
    joined
}

/// The plan without what makes an op wait, or read something else, of which another plan decides.
fn of_the_rest(draft: &Draft, is_settled: impl Fn(NodeId) -> bool) -> Draft {
    let mut draft = draft.clone();
    let is_free = |node: &NodeId| !is_settled(*node);
    for swap in &mut draft.swaps {
        swap.waiting.retain(is_free);
        swap.uses.iter_mut().for_each(|swap_in| swap_in.consumers.retain(is_free));
    }
    let outputs = draft.recomputations.iter_mut().flat_map(|again| &mut again.outputs);
    outputs.for_each(|(_, consumers)| consumers.retain(is_free));
    draft.orders.retain(|order| is_free(&order.after));
    // What nobody reads any more goes with its readers.
    without_tensors(&draft, |_| false)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::{NodeOrder, OpRecomputation, OrderReason, TensorSwap, TensorUse};

    fn swap(tensor: u32, consumers: &[u32]) -> TensorSwap {
        let uses = consumers
            .iter()
            .map(|&consumer| TensorUse { consumers: vec![NodeId(consumer)], triggers: Vec::new() });
        TensorSwap { tensor: TensorId(tensor), waiting: Vec::new(), uses: uses.collect() }
    }

    fn again(op: u32, reads: Substitute, consumer: u32) -> OpRecomputation {
        OpRecomputation {
            op: NodeId(op),
            triggers: Vec::new(),
            inputs: vec![(TensorId(1), reads)],
            outputs: vec![(TensorId(2), vec![NodeId(consumer)])],
        }
    }

    fn order(before: u32, after: u32) -> NodeOrder {
        NodeOrder { before: NodeId(before), after: NodeId(after), reason: OrderReason::Budget }
    }

    /// Ops below 10 are the first step's, or both steps'.
    #[test]
    fn the_first_plan_decides_of_what_both_steps_run() {
        let first = Draft {
            swaps: vec![swap(1, &[5])],
            orders: vec![order(1, 2)],
            recomputations: vec![again(3, Substitute::SwapIn(0), 6)],
            ..Draft::default()
        };
        let second = Draft {
            swaps: vec![swap(1, &[5, 15]), swap(7, &[4])],
            orders: vec![order(2, 1), order(1, 12)],
            recomputations: vec![
                again(3, Substitute::SwapIn(1), 16),
                again(4, Substitute::Recomputation(0), 17),
                again(4, Substitute::SwapIn(0), 8),
            ],
            ..Draft::default()
        };
        let joined = joined(&first, &second, |node| node.0 < 10);
        // The second's return for 5 is gone, and what nobody reads with it.
        assert_eq!(joined.swaps.len(), 1);
        let consumers: Vec<_> = joined.swaps[0].uses.iter().flat_map(|swap_in| &swap_in.consumers).collect();
        assert_eq!(consumers, [&NodeId(5), &NodeId(15)]);
        assert_eq!(joined.orders, [order(1, 2), order(1, 12)]);
        let reads: Vec<Substitute> = joined.recomputations.iter().map(|again| again.inputs[0].1).collect();
        assert_eq!(reads, [Substitute::SwapIn(0), Substitute::SwapIn(1), Substitute::Recomputation(1)]);
    }
}
