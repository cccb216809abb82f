//! What loops keep, on the host: stacks of TensorFlow 1, and lists of TensorFlow 2.

use std::process::Command;

use serde_json::Value;

use lms_testing::program::{number, of, ready, report};

/// A model, how it is fed, and a memory for which there is no plan that leaves on the GPU what its loops keep.
struct Loops {
    model: &'static str,
    feeds: &'static [&'static str],
    /// What is fed tokens of which no two are the same, in this shape: how many rows of a table a step uses is planned for at most.
    tokens: Option<&'static [usize]>,
    memory: &'static str,
    /// How often its loops run.
    iterations: u64,
}

fn told(program: &str, flags: &[&str]) -> Value {
    let output = Command::new(lms_testing::tool(program)).args(flags).args(["--json"]).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}

/// Losses and all variables are the same to the bit, the bytes are those of the plan, and the peak is lower.
fn trains_with_loops_on_the_host(loops: &Loops) {
    if !ready() {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let plan = directory.path().join("plan.json").display().to_string();
    // It is trained in memory that is in no pieces, and planned for such.
    let memory = ["--device-profile", "soft", "--allocator", "async", "--memory-ratio", "1"];
    let planning = [&memory[..], &["--effort", "0.3", "-o", &plan]].concat();
    let tuned = told("lms-tune", &[&[loops.model, "--gpu-mem", loops.memory], &planning[..]].concat());
    assert_eq!(tuned["verdict"], "fits_with_swapping");
    assert!(number(&tuned, "/accumulators_on_host") > 3, "{tuned}");

    let device = ["--device", "soft:1GiB", "--exact-memory", "--threads", "1", "--steps", "4", "--json"];
    let mut feeds: Vec<String> = loops.feeds.iter().map(ToString::to_string).collect();
    if let Some(shape) = loops.tokens {
        let file = directory.path().join("tokens.npy");
        std::fs::write(&file, lms_testing::npy::ints(shape, 0..shape.iter().product::<usize>() as i32))
            .unwrap();
        feeds.extend(["--feed".to_string(), format!("tokens={}", file.display())]);
    }
    let feeds: Vec<&str> = feeds.iter().map(String::as_str).collect();
    let run = |flags: &[&str]| {
        let flags = [&[loops.model], &feeds[..], &device[..], flags].concat();
        report(&of("lms-train", &flags).output().unwrap())
    };
    let compared = run(&["--plan", &plan, "--compare"]);
    assert_eq!(compared["first_difference"], Value::Null);
    assert_eq!(compared["variables_differing"].as_array().map(Vec::len), Some(0));
    assert!(number(&compared, "/variables_compared") > 4);
    let (original, rewritten) = (run(&[]), run(&["--plan", &plan]));
    for way in ["bytes_out", "bytes_in"] {
        let traffic = format!("/traffic/{way}");
        let added = number(&rewritten, &traffic) - number(&original, &traffic);
        assert_eq!(added, number(&rewritten, &format!("/plan/{way}")), "{way}");
        assert!(added > loops.iterations * 256, "{added}");
    }
    let peak = |report: &Value| number(report, "/memory/peak_bytes");
    assert!(peak(&rewritten) * 20 < peak(&original) * 19, "{} of {}", peak(&rewritten), peak(&original));
}

#[test]
fn stacks_of_a_loop_are_kept_on_the_host() {
    trains_with_loops_on_the_host(&Loops {
        model: "testdata/dynamic_rnn_20_b4.meta",
        // The longest text of a batch says how often the loop runs.
        feeds: &["--feed", "labels=randint:0:2", "--feed", "lengths=const:20"],
        tokens: Some(&[4, 20]),
        memory: "400KiB",
        iterations: 20,
    });
}

#[test]
fn lists_of_a_loop_are_kept_on_the_host() {
    trains_with_loops_on_the_host(&Loops {
        model: "testdata/keras_lstm_tf2",
        feeds: &[],
        tokens: None,
        memory: "36KiB",
        iterations: 6,
    });
}
