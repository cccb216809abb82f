//! Graphs of version 1 with branches, of which a step takes one side: `branches.py` makes them.

use super::made_graphs::{Made, are_predicted_and_planned};

/// Zeros for the side that is not taken count, and the side that is not taken does not. Of more than three choices both sides of some count.
#[test]
fn branches_are_predicted_and_plans_for_them_train() {
    are_predicted_and_planned(
        "tests/train/branches.py",
        &[
            Made { name: "fed_norms", tolerance: 0.01, percent: Some(70) },
            Made { name: "fed_dropouts", tolerance: 0.01, percent: Some(70) },
            Made { name: "left_out", tolerance: 0.12, percent: Some(70) },
            Made { name: "two_sides", tolerance: 0.01, percent: None },
        ],
    );
}
