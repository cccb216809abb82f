//! The test data: all workers end with the same variables, and with those of one process that applies the mean of their gradients.

use std::path::Path;

use tf_lms::parallel::ParallelOptions;

use crate::one_process::Training;
use lms_testing::program::{Case, MNIST, MNIST_REF, command, report};

const GPT: Case = Case { model: "gpt_32_b4", feeds: &["tokens=randint:0:200"] };
const VIT: Case = Case { model: "vit_32_b8_fp16", feeds: &["labels=randint:0:10"] };

fn train(case: &Case, workers: &str, flags: &[&str]) -> serde_json::Value {
    let model = format!("testdata/{}.meta", case.model);
    let mut all = vec![model.as_str(), "--threads", "1", "--warmup", "0", "--json", "--worker-timeout", "60"];
    case.feeds.iter().for_each(|feed| all.extend(["--feed", feed]));
    all.extend(["--workers", workers]);
    all.extend(flags);
    report(&command(&all).output().unwrap())
}

/// With Adam and dropout, momentum and references, rows of a table, and 16 bits with a step under a condition; on the CPU, where each bit
/// is known.
#[test]
fn two_workers_have_the_variables_of_one_process_that_applies_their_mean() {
    if lms_testing::tensorflow().is_none() {
        return;
    }
    for case in [MNIST, MNIST_REF, GPT, VIT] {
        let trained = train(&case, "2", &["--device", "cpu", "--steps", "2"]);
        let path = Path::new("testdata").join(format!("{}.meta", case.model));
        let training = Training::of(&path, case.feeds, 2, None, &ParallelOptions::default());
        assert_eq!(trained["variables_digest"], training.of_means(2).digest(), "{}", case.model);
    }
}

/// Three and four add up in another order, and an uneven number divides to other bits.
#[test]
fn so_have_three_and_four() {
    if lms_testing::tensorflow().is_none() {
        return;
    }
    for (case, workers) in [(MNIST, 3), (GPT, 4)] {
        let trained = train(&case, &workers.to_string(), &["--device", "cpu", "--steps", "2"]);
        let path = Path::new("testdata").join(format!("{}.meta", case.model));
        let training = Training::of(&path, case.feeds, workers, None, &ParallelOptions::default());
        assert_eq!(trained["variables_digest"], training.of_means(2).digest(), "{}", case.model);
        assert_eq!(trained["each"].as_array().unwrap().len(), workers);
    }
}

/// Buckets of any size reduce the same.
#[test]
fn buckets_change_no_bit() {
    if lms_testing::tensorflow().is_none() {
        return;
    }
    let digests: Vec<_> = ["1", "1MiB", "1GiB"]
        .iter()
        .map(|bucket| {
            train(&MNIST, "2", &["--device", "cpu", "--steps", "2", "--bucket", bucket])["variables_digest"]
                .clone()
        })
        .collect();
    assert!(digests[0].is_string());
    assert!(digests.iter().all(|digest| *digest == digests[0]), "{digests:?}");
}
