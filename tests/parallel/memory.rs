//! Bytes and memory of workers that swap, on the software GPU.

use serde_json::Value;

use lms_testing::program::{Case, DEEPLAB, GOOGLENET, MNIST_REF, command, ready, report};

/// The last one is recorded, and its peak not counted.
const STEPS: &str = "12";

fn train(case: &Case, flags: &[&str]) -> Value {
    let model = format!("testdata/{}.meta", case.model);
    let mut all = vec![model.as_str(), "--threads", "1", "--warmup", "1", "--steps", STEPS, "--json"];
    case.feeds.iter().for_each(|feed| all.extend(["--feed", feed]));
    all.extend(flags);
    report(&command(&all).output().unwrap())
}

fn bytes(report: &Value, key: &str, way: &str) -> u64 {
    report[key][way].as_u64().unwrap_or_else(|| panic!("no {key} {way} in {report}"))
}

/// What nine of ten steps stay below. Which copies have ended when an op allocates is chance, and so is the order of branches that are ready
/// together, on one worker as well: some steps have less, and one may have more.
pub fn peak(report: &Value) -> f64 {
    let peak = report["memory"]["step_peak_bytes"]["p90"].as_f64();
    peak.unwrap_or_else(|| panic!("no peaks of steps in {report}"))
}

/// What crosses the link is what one worker swaps, and its gradients each way: exactly. The peak stays.
#[test]
fn gradients_are_all_that_workers_copy_beside_their_swaps() {
    if !ready() {
        return;
    }
    for case in [GOOGLENET, DEEPLAB, MNIST_REF] {
        let flags = ["--device", "soft:1GiB", "--exact-memory", "--swapout-threshold", "1"];
        let one = train(&case, &flags);
        let two = train(&case, &[&flags[..], &["--workers", "2"]].concat());
        let each = two["each"].as_array().unwrap();
        assert_eq!(each.len(), 2);
        for worker in each {
            let reduced = worker["reduced"]["bytes"].as_u64().unwrap();
            // The loss, one number, is among them; it goes to the host as it always did, and nobody reads its mean on the GPU.
            let loss = 4;
            assert!(reduced > 10_000_000);
            assert_eq!(worker["reduced"]["unknown_sizes"], 0);
            assert_eq!(
                bytes(worker, "plan", "bytes_out"),
                bytes(&one, "plan", "bytes_out"),
                "{}",
                case.model
            );
            assert_eq!(
                bytes(worker, "traffic", "bytes_out"),
                bytes(&one, "traffic", "bytes_out") + reduced - loss,
                "{}",
                case.model
            );
            assert_eq!(
                bytes(worker, "traffic", "bytes_in"),
                bytes(&one, "traffic", "bytes_in") + reduced - loss,
                "{}",
                case.model
            );
            assert_eq!(worker["swapins_kept"], worker["plan"]["swapins"]);
            let (peak, before) = (peak(worker), peak(&one));
            assert!(peak <= before * 1.03, "{}: peak {peak} with others, {before} alone", case.model);
        }
    }
}

/// Where the graph as it is runs out of memory, the rewritten one trains, on two workers with one limit each.
#[test]
fn workers_train_in_a_memory_in_which_the_original_does_not() {
    if !ready() {
        return;
    }
    let model = "testdata/googlenet_64_b2.meta";
    let base = [
        model,
        "--device",
        "soft:96MiB",
        "--steps",
        "2",
        "--feed",
        GOOGLENET.feeds[0],
        "--json",
        "--workers",
        "2",
    ];
    let as_it_is = command(&base).output().unwrap();
    assert_eq!(as_it_is.status.code(), Some(3), "{}", String::from_utf8_lossy(&as_it_is.stderr));
    let swapped = command(&[&base[..], &["--gpu-mem", "96MiB"]].concat()).output().unwrap();
    let swapped = report(&swapped);
    assert_eq!(swapped["losses"].as_array().unwrap().len(), 3);
    assert!(swapped["variables_digest"].is_string());
}
