//! What is reported of several workers.

use std::net::TcpListener;
use std::process::{Output, Stdio};

use serde_json::Value;

use lms_testing::program::{MNIST, command, report};

const SECONDS: f64 = 0.4;

fn flags() -> Vec<&'static str> {
    let model = "testdata/mnist_cnn.meta";
    vec![model, "--feed", MNIST.feeds[0], "--device", "cpu", "--threads", "1", "--steps", "3", "--json"]
}

fn number(value: &Value) -> f64 {
    value.as_f64().unwrap_or_else(|| panic!("{value} is no number"))
}

/// All are compared with what one worker did by itself before.
#[test]
fn the_rate_of_all_is_compared_with_one_workers() {
    if lms_testing::tensorflow().is_none() {
        return;
    }
    let all = report(
        &command(&[&flags()[..], &["--workers", "2", "--against-one", "3"]].concat()).output().unwrap(),
    );
    let one = number(&all["scaling"]["one"]["examples_per_second"]);
    let times = number(&all["examples_per_second"]) / one;
    assert!((number(&all["scaling"]["times"]) - times).abs() < 1e-9, "{all}");
    assert!((number(&all["scaling"]["efficiency"]) - times / 2.0).abs() < 1e-9, "{all}");
    assert!(number(&all["scaling"]["one"]["steps"]) >= 3.0);
    // Nobody asked, so nothing is said.
    let without = report(&command(&[&flags()[..], &["--workers", "2"]].concat()).output().unwrap());
    assert!(without.get("scaling").is_none(), "{without}");
}

/// Two workers, the second of which waits so many seconds before each step.
fn with_one_slow(flags: &[&str], seconds: f64) -> [Output; 2] {
    let free = || TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().to_string();
    let cluster = format!("{},{}", free(), free());
    let pause = seconds.to_string();
    let workers = ["0", "1"].map(|rank| {
        let mut flags = [flags, &["--cluster", &cluster, "--rank", rank]].concat();
        if rank == "1" {
            flags.extend(["--pause", &pause]);
        }
        command(&flags).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
    });
    workers.map(|worker| worker.wait_with_output().unwrap())
}

/// Of a slow worker the others wait, and it waits for nobody.
#[test]
fn who_waits_for_a_slow_worker_says_so() {
    if lms_testing::tensorflow().is_none() {
        return;
    }
    let [quick, slow] = with_one_slow(&flags(), SECONDS).map(|output| report(&output)["reducing"].clone());
    for reducing in [&quick, &slow] {
        let [waited, under_way, step] =
            ["waited_seconds", "under_way_seconds", "step_seconds"].map(|key| number(&reducing[key]));
        assert!(0.0 < waited && waited <= under_way && under_way <= step, "{reducing}");
    }
    assert!(number(&quick["waited_seconds"]) > SECONDS / 2.0, "{quick}");
    assert!(number(&slow["step_seconds"]) < number(&quick["step_seconds"]) - SECONDS / 4.0, "{slow} {quick}");
}

/// Each step may take `--worker-timeout` longer than the longest before; the first, for which graphs are prepared, has a time of its own.
#[test]
fn who_is_as_late_in_each_step_is_waited_for() {
    if lms_testing::tensorflow().is_none() {
        return;
    }
    let flags = [&flags()[..], &["--worker-timeout", "1"]].concat();
    for output in with_one_slow(&flags, 2.0) {
        assert_eq!(report(&output)["losses"].as_array().unwrap().len(), 4);
    }
}
