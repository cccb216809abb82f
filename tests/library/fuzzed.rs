//! What the fuzz targets do, with files of testdata that are damaged at random: never a panic.
//!
//! By hand for longer: `FUZZED_SECONDS=1800 cargo test --release --all-features --test library fuzzed`.

#[path = "../../fuzz/src/lib.rs"]
mod targets;

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// For how long each target is tried; a fault is found by all that ran before, too.
fn time() -> Duration {
    let seconds = std::env::var("FUZZED_SECONDS").ok().and_then(|seconds| seconds.parse().ok());
    Duration::from_secs(seconds.unwrap_or(5))
}

/// The files of testdata that end in this, the smaller first.
fn files(end: &str) -> Vec<Vec<u8>> {
    fn all(folder: &Path, found: &mut Vec<PathBuf>) {
        for entry in fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()) {
            if entry.is_dir() { all(&entry, found) } else { found.push(entry) }
        }
    }
    let mut paths = Vec::new();
    all(Path::new("testdata"), &mut paths);
    paths.retain(|path| path.to_string_lossy().ends_with(end));
    paths.sort();
    let mut files: Vec<Vec<u8>> = paths.iter().map(|path| fs::read(path).unwrap()).collect();
    files.retain(|file| file.len() < 1 << 20);
    files.sort_by_key(Vec::len);
    assert!(!files.is_empty());
    files
}

/// Says which number makes a panic again.
struct Number(u64);

impl Drop for Number {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("with the number {}", self.0);
        }
    }
}

/// Gives a target random damage until its time is up.
fn try_out(seed: u64, mut once: impl FnMut(&mut fastrand::Rng)) {
    let start = Instant::now();
    let mut number = Number(seed << 32);
    while start.elapsed() < time() {
        once(&mut fastrand::Rng::with_seed(number.0));
        number.0 += 1;
    }
    eprintln!("{} tries", number.0 - (seed << 32));
}

/// Bytes changed, cut out, repeated, or put in from another file.
fn damage(rng: &mut fastrand::Rng, files: &[Vec<u8>]) -> Vec<u8> {
    let mut file = files[rng.usize(..files.len())].clone();
    for _ in 0..rng.usize(1..8) {
        let place = rng.usize(..file.len().max(1));
        let end = (place + 1 + rng.usize(..64)).min(file.len());
        match rng.u8(..6) {
            0 | 1 if place < file.len() => file[place] = rng.u8(..),
            2 if place < file.len() => file[place] ^= 1 << rng.u8(..8),
            3 => drop(file.drain(place.min(end)..end)),
            4 => {
                let again = file.get(place..end).unwrap_or_default().to_vec();
                file.splice(place.min(file.len())..place.min(file.len()), again);
            }
            _ => {
                let other = &files[rng.usize(..files.len())];
                let from = rng.usize(..other.len());
                let part = &other[from..(from + rng.usize(..256)).min(other.len())];
                file.splice(place.min(file.len())..place.min(file.len()), part.iter().copied());
            }
        }
    }
    if rng.u8(..16) == 0 {
        file.truncate(rng.usize(..file.len().max(1)));
    }
    file
}

#[test]
fn damaged_models() {
    let files = [files(".meta"), files(".pb")].concat();
    try_out(1, |rng| targets::model(&damage(rng, &files)));
}

#[test]
fn damaged_texts() {
    let files = files(".pbtxt");
    try_out(2, |rng| targets::text(&damage(rng, &files)));
}

#[test]
fn damaged_plans() {
    let plan = plan_of_the_graph();
    try_out(3, |rng| targets::plan(&damage(rng, std::slice::from_ref(&plan))));
}

#[test]
fn damaged_plans_for_damaged_models() {
    let (plan, graph) = (plan_of_the_graph(), targets::GRAPH.to_vec());
    try_out(4, |rng| {
        let graph = damage(rng, std::slice::from_ref(&graph));
        targets::pair(&damage(rng, std::slice::from_ref(&plan)), &graph);
    });
}

#[test]
fn damaged_rewrites() {
    try_out(5, |rng| {
        let count = 4 * rng.usize(1..8);
        let damage: Vec<u8> = std::iter::repeat_with(|| rng.u8(..)).take(count).collect();
        targets::checker(&damage);
    });
}

#[test]
fn damaged_flags() {
    let flags =
        ["images=8x28x28x1", "16GiB", "images:1,2", "1:5:2", "x=?x3", "99999999999999999999", "1e400GiB"];
    let flags: Vec<Vec<u8>> = flags.iter().map(|flag| flag.as_bytes().to_vec()).collect();
    try_out(6, |rng| targets::flags(&damage(rng, &flags)));
}

fn plan_of_the_graph() -> Vec<u8> {
    use tf_lms::plan::tflms::Parameters;
    let model = tf_lms::read("testdata/mnist_cnn.meta").unwrap();
    let graph = model.graph().unwrap();
    let analysis = model.analyse(&graph, &tf_lms::AnalysisOptions::default()).unwrap();
    serde_json::to_vec(&analysis.plan(&Parameters::default()).unwrap()).unwrap()
}
