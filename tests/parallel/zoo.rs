//! Optimizers, clips and loss scales: the weights of several workers are those of one process.

use std::path::Path;
use std::process::Command;

use tf_lms::parallel::ParallelOptions;

use crate::one_process::Training;
use lms_testing::program::{command, report};

/// The graphs of `zoo.py`, and how far a whole batch may lead elsewhere; none where it computes something else.
const MODELS: [(&str, Option<f64>); 12] = [
    ("momentum", Some(1e-6)),
    ("clip_value", Some(1e-6)),
    ("clip_norm", Some(1e-6)),
    ("clip_global", Some(2e-5)),
    ("clip_global_ref", Some(2e-5)),
    ("by_hand", Some(2e-5)),
    ("sparse_momentum", Some(1e-6)),
    ("sparse_clip", Some(2e-5)),
    ("sparse_ref", Some(1e-6)),
    // 16 bits round after each 3 digits.
    ("half", Some(2e-2)),
    ("fed_rate", Some(1e-6)),
    // A batch norm's mean is that of a worker's part.
    ("norm", None),
];

const STEPS: usize = 3;

pub fn make(folder: &Path) -> bool {
    run_python("zoo.py", folder)
}

/// Runs a program of this folder that writes graphs; false if there is no Python for it.
pub fn run_python(program: &str, folder: &Path) -> bool {
    let Some(python) = std::env::var_os("LMS_TEST_PYTHON") else {
        eprintln!("skipped: LMS_TEST_PYTHON is not set to a Python with TensorFlow");
        return false;
    };
    let output = Command::new(python)
        .arg(Path::new("tests/parallel").join(program))
        .arg(folder)
        .env("PYTHONDONTWRITEBYTECODE", "1")
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    true
}

/// What a graph of `zoo.py` is fed beside its numbers.
pub fn feeds_of(name: &str) -> Vec<&'static str> {
    let mut feeds = vec!["labels=randint:0:10"];
    if name.starts_with("sparse") {
        feeds.push("words=randint:0:20");
    }
    if name == "fed_rate" {
        feeds.push("rate=const:0.05");
    }
    feeds
}

#[test]
fn workers_train_to_the_weights_of_one_process() {
    let folder = tempfile::tempdir().unwrap();
    if lms_testing::tensorflow().is_none() || !make(folder.path()) {
        return;
    }
    for (name, tolerance) in MODELS {
        let path = folder.path().join(format!("{name}.meta"));
        let feeds = feeds_of(name);
        let training = Training::of(&path, &feeds, 2, Some(8), &ParallelOptions::default());
        let of_means = training.of_means(STEPS);
        let mut flags =
            vec![path.to_str().unwrap(), "--device", "cpu", "--threads", "1", "--batch-size", "8"];
        feeds.iter().for_each(|feed| flags.extend(["--feed", feed]));
        flags.extend(["--warmup", "0", "--steps", "3", "--workers", "2", "--worker-timeout", "30", "--json"]);
        let trained = report(&command(&flags).output().unwrap());
        if let Some(tolerance) = tolerance {
            let (apart, variable) = training.beside_whole_batch(&of_means);
            println!("{name}: {apart:.1e} ({variable})");
            assert!(apart <= tolerance, "{name}: {variable} is {apart} from what the whole batch leads to");
        }
        assert_eq!(
            trained["variables_digest"],
            of_means.digest(),
            "{name}: not the weights of the mean of gradients"
        );
        assert_eq!(trained["each"][0]["variables_digest"], trained["each"][1]["variables_digest"], "{name}");
    }
}
