//! What `lms-train` prints of a training. Times, losses and the host's memory are of the machine, and stand as words.

use insta::{Settings, assert_snapshot};
use lms_testing::program::{MNIST, ready, run};

const FILTERS: [(&str, &str); 5] = [
    (r"-?[0-9.]+(e-?[0-9]+)? at the (start|end)", "[loss] at the $2"),
    (r"[0-9.]+ (ms|steps/s|examples/s|megapixels/s)", "[number] $1"),
    (r"p(10|90|99) [0-9.]+", "p$1 [number]"),
    // It is sampled.
    (r"(peak +)[0-9.]+ MiB", "$1[size]"),
    (r"(host memory +)[^\n]*", "$1[of the machine]"),
];

#[test]
fn a_training_is_told() {
    if !ready() {
        return;
    }
    let flags = ["--device", "soft", "--threads", "1", "--steps", "2", "--feed", MNIST.feeds[0]];
    let mut settings = Settings::clone_current();
    settings.set_snapshot_path("reports");
    settings.set_prepend_module_to_snapshot(false);
    settings.set_omit_expression(true);
    FILTERS.iter().for_each(|(pattern, instead)| settings.add_filter(pattern, *instead));
    for (name, more) in [("as_it_is", &[][..]), ("rewritten", &["--rewrite", "--swapout-threshold", "10"])] {
        let output = run("testdata/mnist_cnn.meta", &[&flags[..], more].concat());
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        settings.bind(|| assert_snapshot!(name, String::from_utf8(output.stdout).unwrap()));
    }
}
