//! One point of a sweep, in a process of its own: trains it and says how it ended.

use std::io::{self, Write};

use serde::{Deserialize, Serialize};
use tf_lms::cli::Failure;

use super::rows::{Ending, Figures, Outcome};
use crate::args::Args;
use crate::job::Job;
use crate::report::Report;
use crate::run::{self, Wishes};
use crate::setup::Setup;
use tf_lms::cli::interrupt;

/// What to say of a plan for the memory that there is, with which the graph ran out of memory all the same.
const TOO_MUCH: &str =
    "the plan takes more than was predicted; a lower --memory-ratio has it made for less: ";
/// The same of a plan that swaps nothing.
const SWAPS_NOTHING: &str =
    "it was predicted to fit as it is, so nothing was swapped; a lower --memory-ratio has it made for less: ";

/// What the process of a point says to that of the sweep.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Answer {
    /// There is no device to run on.
    NoDevice(String),
    Ended(Ending),
}

/// Trains, and prints how it ended. Whatever else goes wrong is an error of this process.
pub fn point(args: &Args) -> anyhow::Result<()> {
    let answer = match Setup::new(args) {
        Ok(setup) => Answer::Ended(train(args, &setup)?),
        Err(error) if Failure::of(&error) == Failure::Usage => return Err(error),
        Err(error) => Answer::NoDevice(format!("{error:#}")),
    };
    writeln!(io::stdout().lock(), "{}", serde_json::to_string(&answer)?)?;
    Ok(())
}

fn train(args: &Args, setup: &Setup) -> anyhow::Result<Ending> {
    let job = match Job::prepare(args) {
        Ok(job) => job,
        Err(error) => return lacking_memory(error, Outcome::DoesNotFit, ""),
    };
    interrupt::listen("lms-train", "ending after this step");
    let wishes = Wishes { record: true, without_advice: true, ..Wishes::default() };
    let trained = match run::train(args, setup, &job, job.graph_def(), &wishes) {
        Ok(trained) => trained,
        Err(error) => {
            let advice = match job.rewritten.as_ref().map(|rewritten| rewritten.planned.swapouts) {
                None => "",
                Some(0) => SWAPS_NOTHING,
                Some(_) => TOO_MUCH,
            };
            return lacking_memory(error, Outcome::OutOfMemory, advice);
        }
    };
    let report = Report::new(args, &job, &trained);
    Ok(match Figures::of(&report) {
        Some(figures) if !trained.interrupted => Ending::trained(figures),
        _ => Ending::other(Outcome::Crashed, "interrupted"),
    })
}

impl Figures {
    /// What a report says of a step; none if no step was measured.
    fn of(report: &Report) -> Option<Figures> {
        let busy = report.busy.as_ref();
        Some(Figures {
            step_seconds: 1.0 / report.rates.as_ref()?.steps_per_second,
            out_bytes: report.traffic.as_ref().map(|traffic| traffic.bytes_out),
            in_bytes: report.traffic.as_ref().map(|traffic| traffic.bytes_in),
            copy_seconds: busy.map(|busy| busy.copies_out + busy.copies_in),
            link_seconds: busy.map(|busy| busy.copies_out.max(busy.copies_in)),
            compute_seconds: busy.map(|busy| busy.kernels),
            peak_bytes: report.memory.peak_bytes,
        })
    }
}

/// How a point ended for want of memory; any other error stays one.
fn lacking_memory(error: anyhow::Error, outcome: Outcome, advice: &str) -> anyhow::Result<Ending> {
    if Failure::of(&error) != Failure::DoesNotFit {
        return Err(error);
    }
    let text = format!("{error:#}");
    // TensorFlow repeats itself in the lines below.
    Ok(Ending::other(outcome, format!("{advice}{}", text.lines().next().unwrap_or_default())))
}
