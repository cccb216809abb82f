//! One point of a sweep, in a process of its own: trains it and says how it ended.

use std::io::{self, Write};

use serde::{Deserialize, Serialize};
use tf_lms::cli::Failure;

use super::rows::{Ending, Figures, Outcome};
use crate::args::Args;
use crate::interrupt;
use crate::job::Job;
use crate::report::Report;
use crate::run::{self, Wishes};
use crate::setup::Setup;

/// Why a graph ran out of memory that was rewritten for the memory that there is.
const SWAPS_NOTHING: &str =
    "the tuner expected it to fit as it is, so nothing was swapped; a lower --memory-ratio makes it swap";

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
    let lacking = |error: anyhow::Error, outcome: Outcome| match Failure::of(&error) {
        Failure::DoesNotFit => Ok(Ending::other(outcome, first_line(&format!("{error:#}")))),
        _ => Err(error),
    };
    let job = match Job::prepare(args) {
        Ok(job) => job,
        Err(error) => return lacking(error, Outcome::DoesNotFit),
    };
    interrupt::listen();
    let wishes = Wishes { record: true, without_advice: true, ..Wishes::default() };
    let trained = match run::train(args, setup, &job, job.graph_def(), &wishes) {
        Ok(trained) => trained,
        Err(error) => {
            let swaps_nothing =
                job.rewritten.as_ref().is_some_and(|rewritten| rewritten.planned.swapouts == 0);
            let error = if swaps_nothing { error.context(SWAPS_NOTHING) } else { error };
            return lacking(error, Outcome::OutOfMemory);
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
        let directions = busy.and_then(|busy| busy.copies_out.zip(busy.copies_in));
        Some(Figures {
            step_seconds: 1.0 / report.rates.as_ref()?.steps_per_second,
            out_bytes: report.traffic.as_ref().map(|traffic| traffic.bytes_out),
            in_bytes: report.traffic.as_ref().map(|traffic| traffic.bytes_in),
            copy_seconds: directions.map(|(out, back)| out + back),
            link_seconds: directions.map(|(out, back)| out.max(back)).or(busy.map(|busy| busy.copies)),
            compute_seconds: busy.map(|busy| busy.kernels),
            peak_bytes: report.memory.peak_bytes,
        })
    }
}

/// TensorFlow repeats itself in the lines below.
fn first_line(text: &str) -> &str {
    text.lines().next().unwrap_or(text)
}
