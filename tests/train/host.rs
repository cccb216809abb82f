//! What a long run takes of the host.

use lms_testing::program::{number, ready, report, run};

/// What a thousand steps may add: allocators keep some of what they are given back. A feed that stayed in each step would be
/// 25 MiB.
const SLACK: u64 = 12 << 20;

#[test]
fn a_thousand_steps_take_no_more_memory() {
    if !ready() {
        return;
    }
    let flags = ["--json", "--feed", "labels=randint:0:10", "--warmup", "50", "--steps", "1000", "--rewrite"];
    let report = report(&run("testdata/mnist_cnn_saved_model", &flags));
    let [first, last] =
        ["first", "last"].map(|which| number(&report, &format!("/memory/host/{which}_step_bytes")));
    assert!(last < first + SLACK, "{first} bytes before a thousand steps, {last} after");
    assert!(number(&report, "/memory/host/peak_bytes") >= last);
}
