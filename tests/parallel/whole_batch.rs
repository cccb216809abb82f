//! Several workers are one process with as many times the batch, but for rounding.

use std::path::Path;

use tf_lms::parallel::ParallelOptions;

use crate::one_process::Training;
use crate::zoo::{feeds_of, make, run_python};

/// How far variables may be from each other in 64 bits, as part of the largest. In 32 bits the same is 2e-7 at best.
const APART: f64 = 1e-12;

/// What BERT is fed.
const MASKED: [&str; 5] = [
    "tokens=randint:0:50",
    "segments=randint:0:2",
    "masked_positions=randint:0:16",
    "masked_tokens=randint:0:50",
    "labels=randint:0:2",
];

const STEPS: usize = 3;

/// How many examples each worker has.
const BATCH: i64 = 4;

fn training(path: &Path, feeds: &[&str], workers: usize) -> Training {
    Training::of(path, feeds, workers, Some(BATCH), &ParallelOptions::default())
}

/// How far both are from each other, and where most.
fn apart(training: &Training) -> (f64, String) {
    training.beside_whole_batch(&training.of_means(STEPS))
}

/// Models with what makes 32 bits differ most: Adam and a clip by the global norm of all gradients, optimizers by hand, 16 bits. What the
/// mean of each is that the workers reduce is what one process makes of all their data, so nothing is reduced too late or not at all.
#[test]
fn workers_are_one_process_with_the_whole_batch_in_64_bits() {
    let folder = tempfile::tempdir().unwrap();
    if lms_testing::tensorflow().is_none() || !make(folder.path()) {
        return;
    }
    for name in [
        "momentum",
        "clip_value",
        "clip_norm",
        "clip_global",
        "clip_global_ref",
        "by_hand",
        "sparse_momentum",
        "sparse_clip",
        "half",
    ] {
        check(folder.path(), name, &feeds_of(name), 2);
    }
}

/// So are models that others trained: dropout, attention, rows of embeddings, a loss scale and an update under a condition.
#[test]
fn so_are_models_with_an_open_batch() {
    let folder = tempfile::tempdir().unwrap();
    if lms_testing::tensorflow().is_none() || !run_python("open_batch.py", folder.path()) {
        return;
    }
    check(folder.path(), "cnn", &["labels=randint:0:10"], 3);
    check(folder.path(), "bert", &MASKED, 2);
    check(folder.path(), "gpt", &["tokens=randint:0:50"], 4);
    check(folder.path(), "vit", &["labels=randint:0:10"], 2);
}

fn check(folder: &Path, name: &str, feeds: &[&str], workers: usize) {
    let (apart, variable) =
        apart(&training(&folder.join(format!("{name}.meta")), feeds, workers).in_64_bits());
    println!("{name}: {apart:.1e} ({variable})");
    // Nothing would differ if nothing were trained, or if both were one and the same.
    assert!(apart > 0.0, "{name}");
    assert!(apart <= APART, "{name}: {variable} is {apart} from what the whole batch leads to");
}

/// A table of both: `cargo test --release --features full --test parallel -- --ignored --nocapture whole_batch`.
#[test]
#[ignore = "takes minutes"]
fn table() {
    let folder = tempfile::tempdir().unwrap();
    if lms_testing::tensorflow().is_none()
        || !run_python("open_batch.py", folder.path())
        || !make(folder.path())
    {
        return;
    }
    println!("| graph | workers | apart in its own bits | in 64 bits |");
    println!("|---|--:|--:|--:|");
    let labels = ["labels=randint:0:10"];
    let models: [(&str, &str, &[&str]); 9] = [
        ("CNN, Adam, dropout", "cnn", &labels),
        ("GoogLeNet, momentum", "googlenet", &labels),
        ("BERT, Adam", "bert", &MASKED),
        ("GPT-2, rows", "gpt", &["tokens=randint:0:50"]),
        ("vision transformer, 16 bits, loss scale, skips", "vit", &labels),
        ("momentum", "momentum", &labels),
        ("clip by global norm, Adam", "clip_global", &labels),
        ("rows, clip by global norm", "sparse_clip", &["labels=randint:0:10", "words=randint:0:20"]),
        ("16 bits, Adam", "half", &labels),
    ];
    let wanted = std::env::var("LMS_ROWS").unwrap_or_default();
    for (title, name, feeds) in models.into_iter().filter(|(title, ..)| title.contains(&wanted)) {
        for workers in [2, 3, 4] {
            let of = || training(&folder.path().join(format!("{name}.meta")), feeds, workers);
            let ((own, variable), wide) = (apart(&of()), apart(&of().in_64_bits()).0);
            println!("| {title} | {workers} | {own:.0e}, `{variable}` | {wide:.0e} |");
        }
    }
}
