//! Graphs of version 1 with loops, whose gradients read what is kept on stacks: `while_loops.py` makes them.

use super::made_graphs::{Made, are_predicted_and_planned};

/// What a loop keeps counts as often as it is kept, what its gradient adds up counts from the second iteration on, and what a TensorArray gives
/// away is gone. Plans have the stacks on the host, and the gradient's loop waits for what it takes off them.
#[test]
fn loops_are_predicted_and_plans_for_them_train() {
    are_predicted_and_planned(
        "tests/train/while_loops.py",
        &[
            Made { name: "few_iterations", tolerance: 0.01, percent: None },
            Made { name: "attention", tolerance: 0.05, percent: Some(70) },
            Made { name: "recurrent", tolerance: 0.05, percent: Some(60) },
            Made { name: "branch_by_turns", tolerance: 0.10, percent: None },
        ],
    );
}
