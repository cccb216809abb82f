//! What `lms-tune` predicts, held against real TensorFlow on the software GPU: the smaller half of the table of
//! `docs/accuracy.md`.
//!
//! Skipped, with the reason printed, where no TensorFlow is found and `LMS_REQUIRE_TENSORFLOW` is unset.

use std::process::Output;

use lms_testing::program::{self, Case, GOOGLENET, MNIST, MOBILENET, RESNET, UNET, number, ready};
use serde_json::Value;
use tf_lms::tune::accuracy;

/// `lms-train` fetches the loss, which a step by itself does not copy.
const LOSS_BYTES: u64 = 4;

/// All texts are as long as they may be.
const DYNAMIC_RNN: Case = Case {
    model: "dynamic_rnn_20_b4",
    feeds: &["tokens=randint:0:200", "lengths=const:20", "labels=randint:0:2"],
};

const CTC: Case = Case {
    model: "ctc_48_b4",
    feeds: &["frame_lengths=const:48", "labels=randint:0:10", "label_lengths=const:12"],
};

const SWAP_ALL: [&str; 4] = ["--swapout-threshold", "1", "--swapin-ahead", "1"];

/// What a tool prints about a case.
fn output(name: &str, case: &Case, flags: &[&str]) -> Vec<u8> {
    let output = run(name, case, flags);
    assert!(output.status.success(), "{}: {}", case.model, String::from_utf8_lossy(&output.stderr));
    output.stdout
}

/// Runs a tool with a case.
fn run(name: &str, case: &Case, flags: &[&str]) -> Output {
    let mut command = program::of(name, &[]);
    command.arg(format!("testdata/{}.meta", case.model)).args(flags).output().unwrap()
}

/// Holds what is predicted of a plan against what a step takes.
fn is_as_predicted(case: &Case, plan: &[&str]) {
    is_as_predicted_behind(case, "1", plan);
}

/// The same with a step that comes behind so many others.
fn is_as_predicted_behind(case: &Case, warmup: &str, plan: &[&str]) {
    let json = |name: &str, flags: &[&str]| -> Value {
        serde_json::from_slice(&output(name, case, &[flags, plan].concat())).unwrap()
    };
    let predicted = json("lms-tune", &["--json", "--device-profile", "soft", "--gpu-mem", "1TiB"]);
    let feeds: Vec<&str> = case.feeds.iter().flat_map(|&feed| ["--feed", feed]).collect();
    // When copies end differs from step to step, and what a step takes does.
    let count = if plan.is_empty() { "2" } else { "10" };
    let steps = ["--json", "--exact-memory", "--threads", "1", "--steps", count, "--warmup", warmup];
    let measure = || json("lms-train", &[&steps, &feeds[..]].concat());
    let (model, peak) = (case.model, number(&predicted, "/peak_after"));
    let took = |measured: &Value| number(measured, "/memory/peak_bytes");
    let error_of = |measured: &Value| peak as f64 / took(measured) as f64 - 1.0;
    let mut measured = measure();
    // On a busy machine a copy may end elsewhere in one process; then it is the median of three that counts.
    if error_of(&measured).abs() > accuracy::PEAK_ERROR {
        let mut runs = [measured, measure(), measure()];
        runs.sort_by_key(|run| took(run));
        [_, measured, _] = runs;
    }
    let (expected, error) = (took(&measured), error_of(&measured));
    assert!(error.abs() <= accuracy::PEAK_ERROR, "{model} {plan:?}: predicted {peak}, took {expected}");
    let moved = |path| number(&measured, path);
    let out = number(&predicted, "/copied_out_bytes");
    assert_eq!(out, moved("/traffic/bytes_out") - LOSS_BYTES, "{model} {plan:?}: bytes out");
    let into = number(&predicted, "/copied_in_bytes");
    assert_eq!(into, moved("/traffic/bytes_in"), "{model} {plan:?}: bytes in");
}

/// As it is, and with all swapped that can be.
fn is_predicted(case: &Case) {
    is_predicted_behind(case, "1", &[]);
}

/// The same with a step that comes behind so many others, and further parameters of the plan.
fn is_predicted_behind(case: &Case, warmup: &str, parameters: &[&str]) {
    if !ready() {
        return;
    }
    is_as_predicted_behind(case, warmup, &[]);
    let directory = tempfile::tempdir().unwrap();
    let plan = directory.path().join("plan.json").display().to_string();
    let flags = [&SWAP_ALL[..], parameters, &["--dry-run", "--quiet", "--plan-out", &plan]].concat();
    output("lms-rewrite", case, &flags);
    is_as_predicted_behind(case, warmup, &["--plan", &plan]);
}

#[test]
fn mnist_takes_what_is_predicted() {
    is_predicted(&MNIST);
}

#[test]
fn googlenet_takes_what_is_predicted() {
    is_predicted(&GOOGLENET);
}

#[test]
fn unet3d_takes_what_is_predicted() {
    is_predicted(&UNET);
}

#[test]
fn resnet50_takes_what_is_predicted() {
    is_predicted(&RESNET);
}

/// A `Switch` that reads what comes back is on the host, and so only what the branch reads is copied. The loss scale is too large at first, so
/// that the branch with the update is taken only some steps later.
#[test]
fn what_branches_copy_is_predicted() {
    let case = Case { model: "vit_32_b8_fp16", feeds: &["labels=randint:0:10"] };
    is_predicted_behind(&case, "12", &["--sync-mode", "3"]);
}

/// What says whether a loop goes on runs once more than the rest of it, and its bytes are copied as often.
#[test]
fn what_loops_copy_is_predicted() {
    is_predicted_behind(&CTC, "1", &["--sync-mode", "3"]);
}

/// What an iteration keeps for the gradient is there until it was read, and not only until it was taken off its stack: a stack is emptied
/// iterations ahead. Loops have no bound like others; what is predicted may be a little too much, but not too little.
#[test]
fn what_loops_keep_is_there_until_it_is_read() {
    if !ready() {
        return;
    }
    for case in [CTC, DYNAMIC_RNN] {
        let flags = ["--json", "--device-profile", "soft", "--gpu-mem", "1GiB"];
        let predicted: Value = serde_json::from_slice(&output("lms-tune", &case, &flags)).unwrap();
        let measured = program::train(&case, &["--device", "soft:1GiB", "--exact-memory"]);
        let (predicted, measured) =
            (number(&predicted, "/peak_before"), number(&measured, "/memory/peak_bytes"));
        let error = predicted as f64 / measured as f64 - 1.0;
        assert!((-0.01..0.08).contains(&error), "{}: predicted {predicted}, took {measured}", case.model);
    }
}

/// The last layer of a language model reads the table of its embeddings, which lookups have in a mode in which each read is a copy.
/// Without that copy, the peak is predicted 1.6% too low.
#[test]
fn a_table_that_is_looked_up_is_copied_when_it_is_read() {
    if !ready() {
        return;
    }
    let case = Case { model: "gpt_32_b4", feeds: &["tokens=randint:0:200"] };
    let flags = ["--json", "--device-profile", "soft", "--gpu-mem", "1GiB"];
    let predicted: Value = serde_json::from_slice(&output("lms-tune", &case, &flags)).unwrap();
    let measured = program::train(&case, &["--device", "soft:1GiB", "--exact-memory"]);
    let (predicted, measured) = (number(&predicted, "/peak_before"), number(&measured, "/memory/peak_bytes"));
    let error = predicted as f64 / measured as f64 - 1.0;
    assert!(error.abs() < 0.01, "predicted {predicted}, took {measured}");
}

/// `Unique`, by which the rows are found that a step looked up, has its tensors in a GPU's memory, as on a real GPU. How many rows there are,
/// the data decide.
#[test]
fn what_unique_makes_is_on_the_gpu() {
    if !ready() {
        return;
    }
    let case =
        Case { model: "static_lstm_12_b8", feeds: &["tokens=randint:0:200", "next_tokens=randint:0:200"] };
    let flags = ["--json", "--device-profile", "soft", "--gpu-mem", "1GiB"];
    let predicted: Value = serde_json::from_slice(&output("lms-tune", &case, &flags)).unwrap();
    let measured = program::train(&case, &["--device", "soft:1GiB", "--exact-memory"]);
    assert_eq!(number(&predicted, "/copied_in_bytes"), number(&measured, "/traffic/bytes_in"));
    let out = number(&measured, "/traffic/bytes_out") - LOSS_BYTES;
    assert!(out > 0 && out <= number(&predicted, "/copied_out_bytes"), "{out}");
}

/// Which of two inputs of a GAN's discriminator comes first, and so what is there when the other is worked on, is no one's to say.
#[test]
fn what_other_orders_come_to_is_told() {
    if !ready() {
        return;
    }
    let case = Case { model: "gan_16_b8", feeds: &[] };
    let step = ["--json", "--train-op", "train_d"];
    let tune = [&step[..], &["--device-profile", "soft", "--gpu-mem", "1GiB"]].concat();
    let predicted: Value = serde_json::from_slice(&output("lms-tune", &case, &tune)).unwrap();
    let train = [&step[1..], &["--device", "soft:1GiB", "--exact-memory"]].concat();
    let measured = program::train(&case, &train);
    let most = number(&predicted, "/peak_before_in_other_orders") as f64 * (1.0 + accuracy::PEAK_ERROR);
    let measured = number(&measured, "/memory/peak_bytes");
    assert!(measured as f64 <= most, "at most {most} predicted, took {measured}");
}

/// In MobileNet, what asks for the shape of an activation waits for the updates of batch norm, far behind it: so the activation comes back
/// for its shape alone, and TensorFlow, which computes shapes beforehand elsewhere, really copies it.
#[test]
fn what_comes_back_for_its_shape_is_counted() {
    if !ready() {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let plan = directory.path().join("plan.json").display().to_string();
    let flags = [&SWAP_ALL[..], &["--sync-mode", "3", "--dry-run", "--quiet", "--plan-out", &plan]].concat();
    output("lms-rewrite", &MOBILENET, &flags);
    is_as_predicted(&MOBILENET, &["--plan", &plan]);
}

/// Both moments of Adam begin with the same zeros, and one of them takes its memory in the midst of the first step: only with that
/// is the least memory what is predicted.
#[test]
fn a_model_with_moments_trains_in_the_least_memory() {
    if !ready() {
        return;
    }
    let tune = ["--json", "--device-profile", "soft", "--gpu-mem", "1TiB"];
    let report: Value = serde_json::from_slice(&output("lms-tune", &MNIST, &tune)).unwrap();
    let least = number(&report, "/least_memory_before");
    let trains = |percent: u64| {
        let device = format!("soft:{}", least / 100 * percent);
        let flags = ["--device", &device, "--threads", "1", "--steps", "3", "--feed", MNIST.feeds[0]];
        run("lms-train", &MNIST, &flags).status.success()
    };
    assert!(trains(101), "does not train in {least} bytes");
    assert!(!trains(97), "trains in less than {least} bytes");
}

/// The page and the program must not say different things.
#[test]
fn the_stated_errors_are_those_of_the_page() {
    let page = std::fs::read_to_string("docs/accuracy.md").unwrap();
    let bytes = accuracy::LIMIT_ERROR_BYTES >> 20;
    for line in [
        format!("- peak: within {:.0}%", accuracy::PEAK_ERROR * 100.0),
        format!("- least memory: within {:.0}% or {bytes} MiB", accuracy::LIMIT_ERROR * 100.0),
    ] {
        assert!(page.contains(&line), "docs/accuracy.md does not say {line:?}");
    }
}
