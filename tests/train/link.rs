//! The rates of a link.

use lms_testing::program::{command, ready, report};

/// Slow enough that a busy machine keeps up.
const RATE: f64 = 50e6;

#[test]
fn the_rate_of_the_software_gpu_is_what_it_was_set_to() {
    if !ready() {
        return;
    }
    let found =
        report(&command(&["--measure-link", "--json", "--device", "soft:256MiB,50MB/s"]).output().unwrap());
    for direction in ["out", "in"] {
        let rate = found[direction]["bytes_per_second"].as_f64().unwrap();
        assert!((0.7..1.1).contains(&(rate / RATE)), "{direction}: {rate} in {found}");
        assert!(found[direction]["latency_seconds"].as_f64().unwrap() < 0.1, "{found}");
    }
}

#[test]
fn a_cpu_has_no_link() {
    if lms_testing::tensorflow().is_none() {
        return;
    }
    let output = command(&["--measure-link", "--device", "cpu"]).output().unwrap();
    assert_eq!(output.status.code(), Some(2), "{}", String::from_utf8_lossy(&output.stderr));
}
