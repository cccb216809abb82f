//! What the training loop costs beside the session's calls.
//!
//! Bare calls and the loop take turns on one session, so that both meet the same machine:
//!
//!     cargo test --release --features train --bin lms-train loop_cost -- --ignored --nocapture

use std::time::Instant;

use clap::Parser;
use tf_lms::runtime::{Feed, RuntimeError, Session};
use tf_lms::train::Percentiles;

use crate::args::Args;
use crate::job::Job;
use crate::run::{self, Context, Trained, Wishes};
use crate::setup::Setup;
use crate::steps;

/// A step of some milliseconds, on the device that has the most to be counted in each.
const FLAGS: [&str; 10] = [
    "lms-train",
    "testdata/mnist_cnn_saved_model",
    "--feed",
    "labels=randint:0:10",
    "--threads",
    "1",
    "--warmup",
    "0",
    "--steps",
    "10",
];
const ROUNDS: usize = 200;
/// The time of a step that the cost is held against.
const STEP_SECONDS: f64 = 0.010;

#[test]
#[ignore = "a measurement, for a quiet machine"]
fn a_step_costs_little_beside_its_call() -> anyhow::Result<()> {
    let args = Args::try_parse_from(FLAGS)?;
    let setup = match Setup::new(&args) {
        Err(error) if matches!(error.downcast_ref(), Some(RuntimeError::Absent { .. })) => {
            println!("skipped: {error}");
            return Ok(());
        }
        setup => setup?,
    };
    let job = Job::prepare(&args)?;
    let context = Context { args: &args, setup: &setup, job: &job, wishes: &Wishes::default() };
    let session = Session::new(setup.tensorflow, job.graph_def(), &setup.config)?;
    run::initialize(&context, &session)?;
    let (runs, feeds) = (context.runs(&session)?, context.feeds(&session)?);
    let given: Vec<&Feed> = feeds.iter().collect();

    let bare = || -> anyhow::Result<()> {
        for _ in 0..args.steps {
            runs.iter().try_for_each(|run| run.run(&given).map(|_| ()))?;
        }
        Ok(())
    };
    let whole = || steps::run(&context, &session, &runs, &feeds, &mut Trained::default());
    // Constants are copied in the first step.
    bare()?;
    whole()?;
    let per_step = |seconds: f64| seconds / args.steps as f64;
    let (mut calls, mut costs) = (Vec::new(), Vec::new());
    for round in 0..ROUNDS {
        // Each goes first as often as the other.
        let (alone, looped) = if round % 2 == 0 {
            let alone = seconds(bare)?;
            (alone, seconds(whole)?)
        } else {
            let looped = seconds(whole)?;
            (seconds(bare)?, looped)
        };
        calls.push(per_step(alone));
        costs.push(per_step(looped - alone));
    }
    if let (Some(call), Some(cost)) = (Percentiles::of(&calls), Percentiles::of(&costs)) {
        let micros = |seconds: f64| seconds * 1e6;
        println!(
            "a bare step takes {:.0} µs, the loop adds {:.0} µs (p10 {:.0}, p90 {:.0}): {:.2}% of a step of 10 ms",
            micros(call.median),
            micros(cost.median),
            micros(cost.p10),
            micros(cost.p90),
            100.0 * cost.median / STEP_SECONDS
        );
    }
    Ok(())
}

fn seconds(work: impl Fn() -> anyhow::Result<()>) -> anyhow::Result<f64> {
    let start = Instant::now();
    work()?;
    Ok(start.elapsed().as_secs_f64())
}
