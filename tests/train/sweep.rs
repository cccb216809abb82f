//! Sweeps over sizes.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Output, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use prost::Message;
use serde_json::Value;
use tempfile::TempDir;

use lms_testing::program::{command, ready, report, run};

const SWEEP: &str = "images:1,2=256..1536/256";
/// Images of 512² train in it as they are, of 768² with swapping, and at last none do.
const MEMORY: &str = "20MiB";
const FREE_BATCH: &str = "testdata/mnist_cnn_bN_sgd.meta";

/// A model whose sizes are free, and room for what a sweep writes.
struct Place(TempDir);

impl Place {
    fn new() -> Place {
        let place = Place(tempfile::tempdir().unwrap());
        fs::write(place.at("chain.pb"), lms_testing::chain::chain(12).encode_to_vec()).unwrap();
        place
    }

    fn at(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn path(&self, name: &str) -> String {
        self.at(name).display().to_string()
    }

    /// The flags of a sweep over the model's resolution.
    fn flags(&self, more: &[&str]) -> Vec<String> {
        let model = self.path("chain.pb");
        let all =
            [&[model.as_str(), "--batch-size", "1", "--sweep", SWEEP], &lms_testing::chain::FLAGS[..], more]
                .concat();
        all.into_iter().map(str::to_string).collect()
    }

    fn sweep(&self, more: &[&str]) -> Output {
        start(&self.flags(more)).wait_with_output().unwrap()
    }
}

fn start(flags: &[String]) -> Child {
    let flags: Vec<&str> = flags.iter().map(String::as_str).collect();
    command(&flags).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
}

/// What a measured sweep is run with: few steps, and one thread so that peaks repeat.
fn measured() -> Vec<String> {
    let device = format!("soft:{MEMORY}");
    ["--device", &device, "--threads", "1", "--steps", "2"].map(str::to_string).to_vec()
}

fn lines(path: &Path) -> Vec<String> {
    fs::read_to_string(path).unwrap_or_default().lines().map(str::to_string).collect()
}

fn rows(report: &Value) -> &[Value] {
    report["rows"].as_array().unwrap()
}

fn is(row: &Value, mode: &str, outcome: &str) -> bool {
    row["mode"] == mode && row["outcome"] == outcome
}

/// As it is up to where memory runs out, there again with LMS, and so on to the end.
fn follows_the_method(report: &Value) {
    let rows = rows(report);
    let first = rows.iter().position(|row| !is(row, "without_lms", "trained")).unwrap();
    assert!(first > 0, "{report:#}");
    assert!(is(&rows[first], "without_lms", "out_of_memory"), "{report:#}");
    assert!(is(&rows[first + 1], "with_lms", "trained"), "{report:#}");
    assert_eq!(rows[first]["size"], rows[first + 1]["size"]);
    let (last, between) = rows[first + 1..].split_last().unwrap();
    assert!(between.iter().all(|row| is(row, "with_lms", "trained")), "{report:#}");
    assert!(is(last, "with_lms", "does_not_fit") || is(last, "with_lms", "out_of_memory"), "{report:#}");
    assert_eq!(report["largest_without_lms"], rows[first - 1]["size"]);
    assert_eq!(report["largest_with_lms"], between.last().unwrap()["size"]);
}

/// Rates are pixels in a second, and swapping is what moves bytes.
fn figures_are_right(report: &Value) {
    assert_eq!(report["rate_unit"], "megapixels_per_second");
    let number =
        |row: &Value, column: &str| row[column].as_f64().unwrap_or_else(|| panic!("{column} in {row}"));
    for row in rows(report).iter().filter(|row| row["outcome"] == "trained") {
        let megapixels = number(row, "size").powi(2) / 1e6;
        let pixels = number(row, "rate") * number(row, "step_seconds");
        assert!((pixels / megapixels - 1.0).abs() < 1e-9, "{row}");
        assert_eq!(row["slowdown_percent"].is_number(), row["mode"] == "with_lms", "{row}");
        // The images go in at each step, with LMS or without. A whole tensor out is a swap.
        let tensor = number(row, "size").powi(2) * 4.0;
        assert!(number(row, "in_bytes_per_step") >= tensor, "{row}");
        assert_eq!(number(row, "out_bytes_per_step") >= tensor, row["mode"] == "with_lms", "{row}");
        for column in ["link_occupancy_percent", "compute_occupancy_percent"] {
            assert!((0.0..=101.0).contains(&number(row, column)), "{column} of {row}");
        }
        assert!(number(row, "link_bytes_per_second") > 0.0, "{row}");
        let memory = 20.0 * f64::from(1 << 20);
        assert!((tensor..=memory).contains(&number(row, "peak_bytes")), "{row}");
    }
}

#[test]
fn lms_trains_where_memory_runs_out_without() {
    if !ready() {
        return;
    }
    let place = Place::new();
    let (csv, svg, file) = (place.path("sweep.csv"), place.path("sweep.svg"), place.path("sweep.jsonl"));
    let measured = measured();
    let flags: Vec<&str> = measured.iter().map(String::as_str).collect();
    let flags = [&flags, &["--json", "--sweep-file", &file, "--csv", &csv, "--plot", &svg][..]].concat();
    let first = report(&place.sweep(&flags));
    follows_the_method(&first);
    figures_are_right(&first);
    assert!(rows(&first).iter().all(|row| row["source"] == "measured"));

    let written = [&csv, &svg].map(|path| fs::read_to_string(path).unwrap());
    let mut table = written[0].lines();
    assert_eq!(
        table.next().unwrap(),
        "size,mode,outcome,source,step_seconds,megapixels_per_second,slowdown_percent,out_bytes_per_step,\
         in_bytes_per_step,link_bytes_per_second,link_occupancy_percent,compute_occupancy_percent,peak_bytes,message"
    );
    assert_eq!(table.count(), rows(&first).len());
    for text in ["rate (megapixels/s)", "slowdown (%)", "link occupancy (%)", "resolution (pixels a side)"] {
        assert!(written[1].contains(text), "no {text:?}");
    }
    // From the same rows comes the same, to the byte; and no point is trained again.
    let again = report(&place.sweep(&flags));
    assert_eq!(again["rows"], first["rows"]);
    let count = rows(&first).len();
    assert_eq!(again["notes"][0], format!("{count} of {count} points are from the sweep file"));
    assert!([&csv, &svg].map(|path| fs::read_to_string(path).unwrap()) == written);
}

#[test]
fn grappler_takes_part_if_asked() {
    if !ready() {
        return;
    }
    let place = Place::new();
    let measured = measured();
    let flags: Vec<&str> = measured.iter().map(String::as_str).collect();
    let swept = report(&place.sweep(&[&flags, &["--json", "--grappler-memory", "swapping"][..]].concat()));
    let of = |mode: &str| rows(&swept).iter().filter(|row| row["mode"] == mode).collect::<Vec<_>>();
    let (without, grappler, lms) = (of("without_lms"), of("by_grappler"), of("with_lms"));
    // Both begin where memory runs out, and end where it does.
    let last = without.last().unwrap();
    for others in [&grappler, &lms] {
        assert_eq!(others[0]["size"], last["size"]);
        assert_ne!(others.last().unwrap()["outcome"], "trained");
    }
    let trained = grappler.iter().filter(|row| row["outcome"] == "trained");
    assert_eq!(swept["largest_by_grappler"].as_u64(), trained.filter_map(|row| row["size"].as_u64()).max());
    assert!(swept["largest_with_lms"].as_u64() > swept["largest_by_grappler"].as_u64());
}

#[test]
fn a_sweep_that_was_killed_goes_on() {
    if !ready() {
        return;
    }
    let place = Place::new();
    let measured = measured();
    let flags: Vec<&str> = measured.iter().map(String::as_str).collect();
    let kept = place.path("sweep.jsonl");
    let flags = [&flags, &["--sweep-file", &kept][..]].concat();
    let mut broken_off = start(&place.flags(&flags));
    let deadline = Instant::now() + Duration::from_secs(120);
    while lines(&place.at("sweep.jsonl")).len() < 3 {
        assert!(Instant::now() < deadline && broken_off.try_wait().unwrap().is_none(), "no two rows");
        sleep(Duration::from_millis(20));
    }
    broken_off.kill().unwrap();
    broken_off.wait().unwrap();
    let before = lines(&place.at("sweep.jsonl"));
    let whole = report(&place.sweep(&[&flags, &["--json"][..]].concat()));
    follows_the_method(&whole);
    let after = lines(&place.at("sweep.jsonl"));
    assert_eq!(after[..before.len()], before);
    assert_eq!(after.len(), 1 + rows(&whole).len());
    let note = format!("{} of {} points are from the sweep file", before.len() - 1, rows(&whole).len());
    assert_eq!(whole["notes"], serde_json::json!([note]));

    let other = place.sweep(&[&flags, &["--seed", "2"][..]].concat());
    let message = String::from_utf8_lossy(&other.stderr);
    assert_eq!(other.status.code(), Some(2), "{message}");
    assert!(message.contains("keeps the points of another command"), "{message}");
    assert_eq!(lines(&place.at("sweep.jsonl")), after);
}

#[test]
fn a_crash_is_a_row() {
    if !ready() {
        return;
    }
    // Labels for a batch of four: any other size is an error.
    let directory = tempfile::tempdir().unwrap();
    let labels = directory.path().join("labels.npy");
    fs::write(&labels, lms_testing::npy::ints(&[4], [0; 4])).unwrap();
    let feed = format!("labels={}", labels.display());
    let flags = ["--device", "soft:64MiB", "--steps", "1", "--sweep", "batch=3..5", "--feed", &feed];
    let output = run(FREE_BATCH, &[&flags[..], &["--json"]].concat());
    let swept = report(&output);
    let outcomes: Vec<&str> = rows(&swept).iter().map(|row| row["outcome"].as_str().unwrap()).collect();
    assert_eq!(outcomes, ["crashed", "trained", "crashed"]);
    let message = rows(&swept)[0]["message"].as_str().unwrap();
    assert!(message.contains("exit status: 1") && message.contains("[4]"), "{message}");
    assert_eq!(swept["rate_unit"], "examples_per_second");
    let text = String::from_utf8(run(FREE_BATCH, &flags).stdout).unwrap();
    assert!(text.contains("note: 5 without LMS: crashed: exit status: 1"), "{text}");
}

#[test]
fn a_prediction_runs_nothing_and_can_be_broken_off_anywhere() {
    if lms_testing::tensorflow().is_none() {
        return;
    }
    let place = Place::new();
    let [file, csv, html] = ["sweep.jsonl", "sweep.csv", "sweep.html"].map(|name| place.path(name));
    let flags = [
        "--predict",
        "--gpu-mem",
        MEMORY,
        "--softgpu",
        "/nowhere",
        "--json",
        "--sweep-file",
        &file,
        "--csv",
        &csv,
        "--plot",
        &html,
    ];
    let first = report(&place.sweep(&flags));
    follows_the_method(&first);
    figures_are_right(&first);
    assert!(rows(&first).iter().all(|row| row["source"] == "predicted"));
    assert_eq!(first["device_profile"], "soft");
    let written = || [&file, &csv, &html].map(|path| fs::read(path).unwrap());
    let whole = written();
    for part in [0, 1, 2] {
        fs::write(&file, &whole[0][..whole[0].len() * part / 3]).unwrap();
        let again = report(&place.sweep(&flags));
        assert_eq!(again["rows"], first["rows"]);
        assert!(written() == whole, "broken off after {part} thirds");
    }
}

#[test]
fn without_a_device_it_predicts_and_says_so() {
    if lms_testing::tensorflow().is_none() {
        return;
    }
    let place = Place::new();
    let predicted = report(&place.sweep(&["--predict", "--gpu-mem", MEMORY, "--json"]));
    let device = format!("soft:{MEMORY}");
    let fallen_back = report(&place.sweep(&["--device", &device, "--softgpu", "/nowhere", "--json"]));
    assert_eq!(fallen_back["rows"], predicted["rows"]);
    let note = fallen_back["notes"][0].as_str().unwrap();
    assert!(
        note.starts_with("no step was run, for want of a device: ") && note.contains("/nowhere"),
        "{note}"
    );
}

#[test]
fn wrong_sweeps_are_wrong_usage() {
    let cases: [(&[&str], &str); 12] = [
        (&["--sweep", "batch"], "expected sizes and a range, as in batch=1..16"),
        (&["--sweep", "batch=0..4"], "the range must begin at 1"),
        (&["--sweep", "batch=1..90000"], "more than 10000 sizes"),
        (&["--sweep", "images=1..4"], "\"images\": expected `batch`"),
        (&["--sweep", "pictures:1=28..56/28"], "no node \"pictures\""),
        (&["--sweep", "images:7=28..56/28"], "images has the dimensions 0 to 3"),
        (&["--sweep", "images:1=28..56/28"], "contradicts the graph"),
        (&["--sweep", "batch=1..4", "--rewrite"], "cannot be used with"),
        (&["--sweep", "batch=1..4", "--plan", "plan.json"], "cannot be used with"),
        (&["--sweep", "batch=1..4", "--device", "cpu"], "--sweep needs a GPU"),
        (&["--sweep", "batch=1..4", "--device", "soft"], "needs to know how much memory"),
        (&["--predict"], "required arguments were not provided"),
    ];
    for (flags, part) in cases {
        let flags = [&["--device", "soft:64MiB"][..], flags].concat();
        let flags = if flags[2..].contains(&"--device") { &flags[2..] } else { &flags[..] };
        let output = run(FREE_BATCH, flags);
        let message = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{flags:?}: {message}");
        assert!(message.contains(part), "{flags:?}: no {part:?} in {message}");
    }
}

#[test]
fn a_figure_that_cannot_be_written_is_known_before_the_first_point() {
    let directory = tempfile::tempdir().unwrap();
    let nowhere = directory.path().join("none/sweep.svg").display().to_string();
    let wrong = directory.path().join("sweep.jpeg").display().to_string();
    for path in [nowhere, wrong] {
        let flags = ["--device", "soft:64MiB", "--sweep", "batch=1..4", "--plot", &path];
        let output = run(FREE_BATCH, &flags);
        let message = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{message}");
        assert!(message.contains(&path) && message.lines().count() == 1, "{message}");
    }
}
