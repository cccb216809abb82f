//! What the tools print, word for word.
//!
//! `INSTA_UPDATE=always cargo test --features full --test tools reports` takes what they print now for right; then read the difference.

use std::process::Command;

use insta::{Settings, assert_snapshot};
use tempfile::TempDir;

/// What differs from run to run, and what is written instead: times that a tool took, and where files are.
const FILTERS: [(&str, &str); 5] = [
    (r"\d+\.\d{3} \(read [^)]*\)", "[times]"),
    (r#""(read|size|analyze|plan|rewrite|verify|write|total)": [0-9.e-]+"#, r#""$1": "[time]""#),
    (r#""seconds": [0-9.e-]+"#, r#""seconds": "[time]""#),
    (r"simulated in [0-9.]+ s", "simulated in [time]"),
    (r"in [0-9.]+ s\b", "in [time]"),
];

/// The command, its exit status, and what it printed. `{}` stands for a folder that is there for this run alone.
fn told(command: &str) -> String {
    let folder = TempDir::new().unwrap();
    let folder = folder.path().to_str().unwrap();
    let mut words = command.split_whitespace();
    let tool = words.next().unwrap();
    let arguments: Vec<String> = words.map(|word| word.replace("{}", folder)).collect();
    let mut run = Command::new(lms_testing::tool(tool));
    // Without TensorFlow, which says different things in different versions.
    run.args(&arguments).env_remove("LMS_TENSORFLOW").env("NO_COLOR", "1").env("COLUMNS", "100");
    let output = run.output().unwrap();
    let [printed, said] = [output.stdout, output.stderr].map(|text| String::from_utf8(text).unwrap());
    let mut told = format!("$ {command}\n{printed}");
    if !said.is_empty() {
        told += &format!("--- on standard error\n{said}");
    }
    told += &format!("--- exit status {}\n", output.status.code().unwrap());
    told.replace(folder, "{}")
}

/// Holds what each of these commands prints against what is kept under its name.
fn are_as_kept(commands: &[(&str, &str)]) {
    let mut settings = Settings::clone_current();
    settings.set_snapshot_path("reports");
    settings.set_prepend_module_to_snapshot(false);
    settings.set_omit_expression(true);
    FILTERS.iter().for_each(|(pattern, instead)| settings.add_filter(pattern, *instead));
    settings.bind(|| commands.iter().for_each(|(name, command)| assert_snapshot!(*name, told(command))));
}

#[test]
fn of_a_rewrite() {
    are_as_kept(&[
        ("rewrite_help", "lms-rewrite --help"),
        ("rewrite", "lms-rewrite testdata/mnist_cnn.meta -o {}/out.meta"),
        ("rewrite_json", "lms-rewrite testdata/mnist_cnn.meta -o {}/out.meta --json"),
        (
            "rewrite_two_gpus",
            "lms-rewrite testdata/unet3d_32_b1_towers.meta -o {}/out.meta --swapout-threshold 20",
        ),
        ("rewrite_function", "lms-rewrite testdata/keras_lstm_tf2 -o {}/out"),
        ("rewrite_unknown_sizes", "lms-rewrite testdata/mnist_cnn_bN_sgd.meta -o {}/out.meta"),
        ("rewrite_budget", "lms-rewrite testdata/resnet50_2000_b1.meta -o {}/out.meta --gpu-mem 6GiB"),
        ("rewrite_workers", "lms-rewrite testdata/mnist_cnn.meta -o {}/out.meta --data-parallel"),
        ("rewrite_no_file", "lms-rewrite testdata/nobody.meta -o {}/out.meta"),
        ("rewrite_no_graph", "lms-rewrite Cargo.toml -o {}/out.meta"),
        ("rewrite_wrong_usage", "lms-rewrite testdata/mnist_cnn.meta --swapout-treshold 3"),
    ]);
}

#[cfg(feature = "tune")]
#[test]
fn of_a_prediction() {
    are_as_kept(&[
        ("tune_help", "lms-tune --help"),
        ("tune_fits", "lms-tune testdata/mnist_cnn.meta --gpu-mem 1GiB"),
        ("tune_swaps", "lms-tune testdata/resnet50_2000_b1.meta --gpu-mem 4GiB"),
        ("tune_swaps_json", "lms-tune testdata/resnet50_2000_b1.meta --gpu-mem 4GiB --json"),
        ("tune_does_not_fit", "lms-tune testdata/mnist_cnn.meta --gpu-mem 1MiB"),
        ("tune_two_gpus", "lms-tune testdata/unet3d_32_b1_towers.meta --gpu-mem 40MiB"),
        ("tune_in_turn", "lms-tune testdata/gan_16_b8.meta --gpu-mem 1GiB"),
        ("tune_loop", "lms-tune testdata/while_rnn.meta --gpu-mem 1GiB"),
        ("tune_iterations", "lms-tune testdata/while_rnn.meta --gpu-mem 1GiB --iterations 10"),
        ("tune_largest", "lms-tune testdata/mnist_cnn_bN_sgd.meta --gpu-mem 256MiB --max batch"),
        (
            "tune_explain",
            "lms-tune testdata/resnet50_2000_b1.meta --gpu-mem 4GiB --explain conv2_block2_out/Relu",
        ),
        (
            "tune_workers",
            "lms-tune testdata/resnet50_2000_b1.meta --gpu-mem 4GiB --nodes 4 --gpus-per-node 4 --network 25GB/s,5us --scale-to 90%",
        ),
        ("tune_levels", "lms-tune testdata/mnist_cnn.meta --gpu-mem 1GiB --model tflms"),
        ("tune_wrong_size", "lms-tune testdata/mnist_cnn.meta --gpu-mem 16"),
    ]);
}

#[cfg(feature = "train")]
#[test]
fn of_a_training() {
    are_as_kept(&[("train_help", "lms-train --help")]);
}
