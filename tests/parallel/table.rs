//! A table of what holds for many graphs and numbers of workers; too long for each day:
//! `cargo test --release --features full --test parallel -- --ignored --nocapture table`; `LMS_ROWS=transformer` has one row of it.

use std::path::Path;

use serde_json::Value;
use tf_lms::parallel::ParallelOptions;

use crate::memory::peak;
use crate::one_process::Training;
use lms_testing::program::{BERT, DEEPLAB, GOOGLENET, MNIST, MNIST_REF, command, ready, report};

struct Row {
    name: &'static str,
    path: String,
    feeds: Vec<&'static str>,
    batch: Option<i64>,
}

fn rows(zoo: &Path) -> Vec<Row> {
    let data = |name, model: &str, feeds: &[&'static str]| Row {
        name,
        path: format!("testdata/{model}.meta"),
        feeds: feeds.to_vec(),
        batch: None,
    };
    let made = |name, model: &str, feeds: &[&'static str]| Row {
        name,
        path: zoo.join(format!("{model}.meta")).display().to_string(),
        feeds: feeds.to_vec(),
        batch: Some(8),
    };
    vec![
        data("CNN, Adam", MNIST.model, MNIST.feeds),
        data("CNN, momentum, references", MNIST_REF.model, MNIST_REF.feeds),
        data("GoogLeNet, momentum", GOOGLENET.model, GOOGLENET.feeds),
        data("DeepLabv3+", DEEPLAB.model, DEEPLAB.feeds),
        data("BERT", BERT.model, BERT.feeds),
        data("GPT-2, rows", "gpt_32_b4", &["tokens=randint:0:200"]),
        data("vision transformer, 16 bits, loss scale, skips", "vit_32_b8_fp16", &["labels=randint:0:10"]),
        made("clip by global norm, Adam", "clip_global", &["labels=randint:0:10"]),
        made("rows, clip by global norm", "sparse_clip", &["labels=randint:0:10", "words=randint:0:20"]),
    ]
}

fn train(row: &Row, flags: &[&str]) -> Value {
    let mut all = vec![row.path.as_str(), "--threads", "1", "--worker-timeout", "60", "--json"];
    row.feeds.iter().for_each(|feed| all.extend(["--feed", feed]));
    let batch = row.batch.map(|batch| batch.to_string());
    batch.iter().for_each(|batch| all.extend(["--batch-size", batch]));
    all.extend(flags);
    report(&command(&all).output().unwrap())
}

/// On the CPU: the weights, to the bit. On the software GPU with everything swapped: bytes and the peak, compared with one worker's.
#[test]
#[ignore = "takes minutes"]
fn table() {
    let zoo = tempfile::tempdir().unwrap();
    if !ready() || !crate::zoo::make(zoo.path()) {
        return;
    }
    println!(
        "| graph | workers | weights are those of the mean | gradients of a worker | copied out beside swaps | copied in beside swaps | peak of nine of ten steps, of one worker's |"
    );
    println!("|---|--:|---|--:|--:|--:|--:|");
    let mut wrong = Vec::new();
    // Some rows alone, by a part of their names.
    let wanted = std::env::var("LMS_ROWS").unwrap_or_default();
    for row in rows(zoo.path()).into_iter().filter(|row| row.name.contains(&wanted)) {
        let soft = [
            "--device",
            "soft:2GiB",
            "--exact-memory",
            "--swapout-threshold",
            "1",
            "--warmup",
            "1",
            "--steps",
            "12",
        ];
        let one = train(&row, &soft);
        for workers in [2, 3, 4] {
            let count = workers.to_string();
            let on_cpu =
                train(&row, &["--device", "cpu", "--warmup", "0", "--steps", "2", "--workers", &count]);
            let training = Training::of(
                Path::new(&row.path),
                &row.feeds,
                workers,
                row.batch,
                &ParallelOptions::default(),
            );
            let is_same = on_cpu["variables_digest"] == training.of_means(2).digest();
            let swapped = train(&row, &[&soft[..], &["--workers", &count]].concat());
            let each = swapped["each"].as_array().unwrap();
            let bytes = |report: &Value, of: &str, key: &str| report[of][key].as_i64().unwrap_or(-1);
            // What is copied is what the plan swaps and what is copied without any plan; of workers, also what they reduce.
            let beside =
                |report: &Value, way: &str| bytes(report, "traffic", way) - bytes(report, "plan", way);
            let more = |way: &str| {
                let mut all: Vec<i64> =
                    each.iter().map(|worker| beside(worker, way) - beside(&one, way)).collect();
                all.dedup();
                all.iter().map(i64::to_string).collect::<Vec<_>>().join(", ")
            };
            let peak = each.iter().map(peak).fold(0.0, f64::max) / peak(&one);
            const LOSS: i64 = 4;
            println!(
                "| {} | {workers} | {} | {} | {} | {} | {:.1}% |",
                row.name,
                if is_same { "to the bit" } else { "no" },
                bytes(&each[0], "reduced", "bytes") - LOSS,
                more("bytes_out"),
                more("bytes_in"),
                peak * 100.0
            );
            if !is_same {
                wrong.push(format!("{} on {workers}", row.name));
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}
