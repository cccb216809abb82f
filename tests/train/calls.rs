//! Graphs of sessions that call functions, as control flow of version 2 leaves them: `calls.py` makes them.

use std::process::Command;

use lms_testing::program::{self, plugin, ready, report};

use super::made_graphs::{Made, are_predicted_and_planned};

/// What a graph calls is made flat: branches with what they save for their gradients, loops, functions, and a step that is one call.
#[test]
fn calls_are_made_flat_and_plans_for_them_train() {
    are_predicted_and_planned(
        "tests/train/calls.py",
        &[
            Made { name: "dropouts", tolerance: 0.01, percent: Some(80) },
            // What is multiplied in the outer branch is written over, which is not known of it: 256 KiB of 17 MiB. Constants, of which as
            // much was missing, made up for that.
            Made { name: "branch_in_branch", tolerance: 0.015, percent: Some(80) },
            Made { name: "which", tolerance: 0.08, percent: None },
            Made { name: "loop", tolerance: 0.01, percent: None },
            Made { name: "loop_in_branch", tolerance: 0.01, percent: None },
            Made { name: "recurrent", tolerance: 0.02, percent: None },
            Made { name: "functions", tolerance: 0.01, percent: Some(80) },
            Made { name: "whole_step", tolerance: 0.01, percent: Some(80) },
            Made { name: "loss_scaling", tolerance: 0.01, percent: None },
        ],
    );
}

/// Functions, conditions, switches and loops in one another that count on the way, at the top level of graphs of which now this is fetched,
/// now that: the same effects come with it, to the bit. By hand with more: `tests/train/random_calls.py make FOLDER --seed 7 --count 50`,
/// `lms-rewrite FOLDER/0.meta -o FOLDER/0_lms.meta` …, and `compare FOLDER`.
#[test]
fn random_graphs_that_call_functions_do_as_before_whatever_is_fetched() {
    const GRAPHS: usize = 16;
    let Some(python) = std::env::var_os("LMS_TEST_PYTHON") else {
        eprintln!("skipped: LMS_TEST_PYTHON is not set to a Python with TensorFlow");
        return;
    };
    let (true, Some(plugin)) = (ready(), plugin()) else { return };
    let script = |flags: &[&str]| {
        let mut command = Command::new(&python);
        command.arg("tests/train/random_calls.py").args(flags).env("PYTHONDONTWRITEBYTECODE", "1");
        let output = command.output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8_lossy(&output.stdout).lines().last().unwrap_or_default().to_string()
    };
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().to_str().unwrap();
    script(&["make", path, "--count", &GRAPHS.to_string()]);
    let mut swaps = 0;
    for index in 0..GRAPHS {
        let (model, output) = (format!("{path}/{index}.meta"), format!("{path}/{index}_lms.meta"));
        let rewritten =
            report(&program::of("lms-rewrite", &[&model, "-o", &output, "--json"]).output().unwrap());
        swaps += rewritten["swapins"].as_u64().unwrap();
        assert!(std::fs::read(&output).unwrap() != std::fs::read(&model).unwrap());
    }
    assert!(swaps > 0);
    assert_eq!(script(&["compare", path, "--softgpu", plugin.to_str().unwrap()]), "[]");
}
