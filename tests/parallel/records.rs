//! Graphs that read files by themselves: each worker reads its part, and who goes on begins where a checkpoint was written.

use std::path::Path;
use std::process::Output;

use lms_testing::program::{command, report};
use tempfile::TempDir;

use crate::zoo::run_python;

/// A folder with the graphs of `records.py`, and what they read.
fn graphs() -> Option<TempDir> {
    let folder = tempfile::tempdir().unwrap();
    let is_made = lms_testing::tensorflow().is_some() && run_python("records.py", folder.path());
    is_made.then_some(folder)
}

/// A graph of `records.py` with flags.
fn train(folder: &Path, name: &str, flags: &[&str]) -> Output {
    let model = folder.join(format!("{name}.meta")).display().to_string();
    let base = [&model, "--device", "cpu", "--threads", "1", "--warmup", "0", "--json"];
    command(&[&base[..], flags].concat()).output().unwrap()
}

fn losses(output: &Output) -> Vec<f64> {
    report(output)["losses"].as_array().unwrap().iter().map(|loss| loss.as_f64().unwrap()).collect()
}

#[test]
fn workers_share_what_a_graph_reads() {
    let Some(folder) = graphs() else { return };
    for name in ["initialized", "one_shot"] {
        let two = |flags: &[&str]| {
            losses(&train(folder.path(), name, &[&["--workers", "2", "--steps", "3"], flags].concat()))
        };
        // Files 0 and 1, then 2 and 3, then 0 and 1 again: the weight is 0, -0.5, -3.
        let shared = [0.0, -0.5 * 2.5, -3.0 * 0.5];
        assert_eq!(two(&[]), shared, "{name}");
        assert_eq!(two(&["--share-data", "data"]), shared, "{name}");
        // All read file 0, then 1, then 2: the weight is 0, 0, -1.
        assert_eq!(two(&["--share-data", "off"]), [0.0, 0.0, -2.0], "{name}");
    }
}

#[test]
fn who_goes_on_skips_what_was_read() {
    let Some(folder) = graphs() else { return };
    for name in ["initialized", "one_shot"] {
        for workers in [&[][..], &["--workers", "2"]] {
            let unbroken = losses(&train(folder.path(), name, &[workers, &["--steps", "4"]].concat()));
            let saved = folder.path().join(format!("{name}{}", workers.len()));
            std::fs::create_dir(&saved).unwrap();
            let prefix = saved.join("m").display().to_string();
            let begun = train(folder.path(), name, &[workers, &["--steps", "2", "--save", &prefix]].concat());
            let from = saved.display().to_string();
            let rest = train(folder.path(), name, &[workers, &["--steps", "4", "--resume", &from]].concat());
            assert_eq!([losses(&begun), losses(&rest)].concat(), unbroken, "{name} {workers:?}");
        }
    }
}

#[test]
fn data_that_cannot_be_shared_are_refused() {
    let Some(folder) = graphs() else { return };
    let output = train(folder.path(), "hidden", &["--workers", "2", "--steps", "1"]);
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success() && said.contains("give --share-data off"), "{said}");
}
