//! Graphs of version 1 as others write the updates in them: `updates.py` makes them.

use super::made_graphs::{Made, are_predicted_and_planned};

/// What averages weights comes last, though it waits for the optimizer only by way of constants that wait for a great many ops; and what asks for
/// the shape of what is on the host is there too, and brings no copy.
#[test]
fn updates_come_when_they_may_and_plans_for_them_train() {
    are_predicted_and_planned(
        "tests/train/updates.py",
        &[
            Made { name: "moving_averages", tolerance: 0.01, percent: None },
            Made { name: "words_on_the_host", tolerance: 0.02, percent: Some(90) },
        ],
    );
}
