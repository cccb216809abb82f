//! What is left of a plan is a plan.

use super::without_tensor;
use crate::graph::{NodeId, TensorId};
use crate::plan::{Draft, OpRecomputation, Substitute, TensorSwap, TensorUse};

fn swap(tensor: u32, consumers: &[&[u32]]) -> TensorSwap {
    let uses = consumers.iter().map(|consumers| TensorUse { consumers: nodes(consumers), triggers: vec![] });
    TensorSwap { tensor: TensorId(tensor), waiting: vec![], uses: uses.collect() }
}

fn nodes(numbers: &[u32]) -> Vec<NodeId> {
    numbers.iter().copied().map(NodeId).collect()
}

fn run(op: u32, inputs: &[(u32, Substitute)], outputs: &[(u32, &[u32])]) -> OpRecomputation {
    OpRecomputation {
        op: NodeId(op),
        triggers: vec![],
        inputs: inputs.iter().map(|&(tensor, from)| (TensorId(tensor), from)).collect(),
        outputs: outputs.iter().map(|&(tensor, consumers)| (TensorId(tensor), nodes(consumers))).collect(),
    }
}

/// Tensor n is that of op n. 3 returns for a consumer, for the second run of 4, and for another consumer; 5 is made again of 4, 7 of
/// 6 and 3, 6 of a tensor that returns for that alone.
fn draft() -> Draft {
    use Substitute::{Recomputation, SwapIn};
    Draft {
        swaps: vec![swap(3, &[&[20], &[], &[21]]), swap(9, &[&[]]), swap(8, &[&[22], &[23]])],
        recomputations: vec![
            run(4, &[(3, SwapIn(1))], &[(4, &[])]),
            run(5, &[(4, Recomputation(0))], &[(5, &[24])]),
            run(6, &[(9, SwapIn(0))], &[]),
            run(7, &[(6, Recomputation(2)), (3, SwapIn(2))], &[(7, &[25, 26])]),
        ],
        orders: vec![],
        initial_values: vec![],
        host_ops: vec![],
    }
}

/// A tensor that leaves, with how many ops read each return of it.
type ShortSwap = (u32, Vec<usize>);
/// An op that runs again, with what it reads.
type ShortRun = (u32, Vec<(u32, Substitute)>);

/// A draft in short.
fn short(draft: &Draft) -> (Vec<ShortSwap>, Vec<ShortRun>) {
    let swaps = draft
        .swaps
        .iter()
        .map(|swap| (swap.tensor.0, swap.uses.iter().map(|swap_in| swap_in.consumers.len()).collect()));
    let runs = draft
        .recomputations
        .iter()
        .map(|again| (again.op.0, again.inputs.iter().map(|&(tensor, from)| (tensor.0, from)).collect()));
    (swaps.collect(), runs.collect())
}

#[test]
fn a_tensor_that_is_kept_takes_what_only_served_it_along() {
    use Substitute::{Recomputation, SwapIn};
    let without = |tensor: u32| short(&without_tensor(&draft(), TensorId(tensor)));
    let all = short(&draft());
    assert_eq!(without(20), all);

    // A swap: all read the tensor itself, second runs too.
    let runs = vec![
        (4, vec![]),
        (5, vec![(4, Recomputation(0))]),
        (6, vec![(9, SwapIn(0))]),
        (7, vec![(6, Recomputation(2))]),
    ];
    assert_eq!(without(3), (all.0[1..].to_vec(), runs));

    // A second run at the end of a chain: the chain goes, with the return that began it.
    let swaps = vec![(3, vec![1, 1]), (9, vec![0]), (8, vec![1, 1])];
    let runs = vec![(6, vec![(9, SwapIn(0))]), (7, vec![(6, Recomputation(0)), (3, SwapIn(1))])];
    assert_eq!(without(5), (swaps, runs));

    // One in the middle of a chain: the next reads what was made the first time.
    let swaps = vec![(3, vec![1, 0, 1]), (8, vec![1, 1])];
    let runs = vec![(4, vec![(3, SwapIn(1))]), (5, vec![(4, Recomputation(0))]), (7, vec![(3, SwapIn(2))])];
    assert_eq!(without(6), (swaps, runs));
}

/// An op with two outputs still runs again for the other one.
#[test]
fn a_second_run_stays_for_its_other_output() {
    let both = run(4, &[], &[(4, &[20]), (104, &[21])]);
    let draft = Draft { recomputations: vec![both], ..Draft::default() };
    let less = without_tensor(&draft, TensorId(4));
    assert_eq!(less.recomputations[0].outputs, vec![(TensorId(104), nodes(&[21]))]);
    assert!(without_tensor(&less, TensorId(104)).is_empty());
}
