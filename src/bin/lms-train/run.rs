//! The training loop.

use std::path::Path;
use std::time::Instant;

use anyhow::Context;
use indicatif::{ProgressBar, ProgressStyle};
use tf_lms::cli::Failure;
use tf_lms::proto::tensorflow::run_options::TraceLevel;
use tf_lms::proto::tensorflow::{RunMetadata, RunOptions};
use tf_lms::runtime::{Feed, Session, SessionError, Step, Tensor};
use tf_lms::train::{Counters, OutOfMemory, SoftGpu};

use crate::args::Args;
use crate::job::Job;
use crate::setup::Setup;
use crate::{checkpoint, interrupt};

/// What training came to.
#[derive(Default)]
pub struct Trained {
    /// The loss of each step, those before measuring too.
    pub losses: Vec<f64>,
    /// The seconds of each measured step that was not recorded.
    pub seconds: Vec<f64>,
    /// What the software GPU counted in all of `seconds`, and in how many steps.
    pub counted: Vec<Counters>,
    /// What it counted from the beginning.
    pub total: Option<Counters>,
    /// What TensorFlow recorded of the last step.
    pub metadata: Option<RunMetadata>,
    /// The values of all variables before the first step and after the last one, where they were asked for.
    pub first: Vec<Tensor>,
    pub last: Vec<Tensor>,
    /// The checkpoint that was written last.
    pub saved: Option<String>,
    pub interrupted: bool,
}

/// What only some runs want.
#[derive(Default)]
pub struct Wishes<'a> {
    /// The values to begin with, one for each variable of the recipe.
    pub initial: Option<&'a [Tensor]>,
    /// Whether to fetch variables.
    pub variables: bool,
    /// Whether to record the last step.
    pub record: bool,
}

/// Trains a graph.
pub fn train(
    args: &Args,
    setup: &Setup,
    job: &Job,
    graph_def: &[u8],
    wishes: &Wishes,
) -> anyhow::Result<Trained> {
    let explain = |error: SessionError, what: &str| explain(args, job, error, what);
    let session =
        Session::new(setup.tensorflow, graph_def, &setup.config).with_context(|| job.name.clone())?;
    initialize(args, &session, job, wishes.initial)?;
    let mut trained = Trained::default();
    if wishes.variables {
        trained.first = variables(&session, job).map_err(|error| explain(error, "reading the variables"))?;
    }

    let names: Vec<&str> = job.feeds.0.iter().map(|fed| fed.name.as_str()).collect();
    let feeds: Result<Vec<Feed>, _> = job.feeds.0.iter().map(|fed| session.feed(&fed.tensor)).collect();
    let feeds = feeds?;
    let feeds: Vec<&Feed> = feeds.iter().collect();
    let fetches: Vec<&str> = job.recipe.loss.iter().map(String::as_str).collect();
    let targets: Vec<&str> = job.recipe.train_ops.iter().map(String::as_str).collect();
    let step = session.step(&names, &fetches, &targets).with_context(|| job.name.clone())?;

    let all = args.warmup + args.steps;
    let bar = progress(args, all);
    for number in 0..all {
        // The first step copies constants, and the recorded one takes longer than others.
        let recorded = wishes.record && number + 1 == all;
        let before = setup.soft.as_ref().map(SoftGpu::counters).transpose()?;
        let start = Instant::now();
        let fetched = if recorded {
            let (fetched, metadata) =
                record(args, setup, &step, &feeds).map_err(|error| explain_step(error, number, explain))?;
            trained.metadata = Some(metadata);
            fetched
        } else {
            step.run(&feeds).map_err(|error| explain(error, &format!("step {}", number + 1)))?
        };
        let seconds = start.elapsed().as_secs_f64();
        trained.losses.extend(fetched.first().and_then(mean));
        if number >= args.warmup && (!recorded || args.steps == 1) {
            trained.seconds.push(seconds);
            if let (Some(soft), Some(before)) = (&setup.soft, before) {
                trained.counted.push(soft.counters()?.since(&before));
            }
        }
        bar.set_message(trained.losses.last().map(|loss| format!("loss {loss:.6}")).unwrap_or_default());
        bar.inc(1);
        trained.interrupted = interrupt::asked();
        let done = number + 1;
        let last = done == all || trained.interrupted;
        if let Some(prefix) = &args.save
            && (last || args.save_every.is_some_and(|every| done.is_multiple_of(every)))
        {
            trained.saved =
                Some(checkpoint::save(&session, &job.recipe, prefix, done)?.display().to_string());
        }
        if last {
            break;
        }
    }
    bar.finish_and_clear();
    if wishes.variables {
        trained.last = variables(&session, job).map_err(|error| explain(error, "reading the variables"))?;
    }
    trained.total = setup.soft.as_ref().map(SoftGpu::counters).transpose()?;
    Ok(trained)
}

fn initialize(args: &Args, session: &Session, job: &Job, initial: Option<&[Tensor]>) -> anyhow::Result<()> {
    let explain = |error: SessionError| explain(args, job, error, "initialization");
    let recipe = &job.recipe;
    let ops: Vec<&str> = recipe.init_ops.iter().map(String::as_str).collect();
    let restored: Option<&Path> =
        args.restore.as_deref().or(if ops.is_empty() { job.own_checkpoint.as_deref() } else { None });
    match (initial, restored) {
        (Some(values), _) => {
            let names = recipe.variables.iter().map(|variable| variable.initial_value.as_str());
            let feeds: Vec<(&str, &Tensor)> = names.zip(values).collect();
            let ops: Vec<&str> =
                recipe.variables.iter().map(|variable| variable.initializer.as_str()).collect();
            session.run(&feeds, &[], &ops).map_err(explain)?;
        }
        (None, Some(prefix)) => {
            if !ops.is_empty() {
                session.run(&[], &[], &ops).map_err(explain)?;
            }
            checkpoint::restore(session, recipe, prefix)?;
        }
        (None, None) if ops.is_empty() => {}
        (None, None) => {
            session.run(&[], &[], &ops).map_err(explain)?;
        }
    }
    let tables: Vec<&str> = recipe.table_init_ops.iter().map(String::as_str).collect();
    if !tables.is_empty() {
        session.run(&[], &[], &tables).map_err(explain)?;
    }
    Ok(())
}

fn variables(session: &Session, job: &Job) -> Result<Vec<Tensor>, SessionError> {
    let names: Vec<&str> = job.recipe.variables.iter().map(|variable| variable.snapshot.as_str()).collect();
    if names.is_empty() { Ok(Vec::new()) } else { session.run(&[], &names, &[]) }
}

enum RecordError {
    Session(SessionError),
    Other(anyhow::Error),
}

/// Runs a step and records it.
fn record(
    args: &Args,
    setup: &Setup,
    step: &Step,
    feeds: &[&Feed],
) -> Result<(Vec<Tensor>, RunMetadata), RecordError> {
    let other = |error: tf_lms::train::SoftGpuError| RecordError::Other(error.into());
    let options = RunOptions {
        trace_level: TraceLevel::FullTrace.into(),
        output_partition_graphs: true,
        ..RunOptions::default()
    };
    let traced = setup.soft.as_ref().zip(args.trace.as_ref());
    if let Some((soft, _)) = traced {
        soft.trace(true).map_err(other)?;
    }
    let outcome = step.run_with(feeds, &options).map_err(RecordError::Session)?;
    if let Some((soft, path)) = traced {
        soft.trace(false).map_err(other)?;
        soft.write_trace(path).map_err(other)?;
    }
    Ok((outcome.fetched, outcome.metadata))
}

fn explain_step(
    error: RecordError,
    number: u64,
    explain: impl Fn(SessionError, &str) -> anyhow::Error,
) -> anyhow::Error {
    match error {
        RecordError::Session(error) => explain(error, &format!("step {}", number + 1)),
        RecordError::Other(error) => error,
    }
}

/// The mean of a tensor's values.
fn mean(tensor: &Tensor) -> Option<f64> {
    let values = tensor.to_f64().filter(|values| !values.is_empty())?;
    Some(values.iter().sum::<f64>() / values.len() as f64)
}

/// An error of TensorFlow's. When memory ran out: also which tensor, and what to try.
fn explain(args: &Args, job: &Job, error: SessionError, what: &str) -> anyhow::Error {
    if !error.is_out_of_memory() {
        return anyhow::Error::new(error).context(format!("{}: {what}", job.name));
    }
    let found = OutOfMemory::of(&error.to_string());
    let mut text = format!("{}: {what}: out of memory on {}: {error}", job.name, args.device);
    if let Some(tensor) = found.tensor {
        let node = found.node.map(|node| format!(", an output of {node}")).unwrap_or_default();
        text += &format!("\n  tensor: {tensor}{node}");
    }
    text += match args.rewrites() {
        false => "\n  try: --rewrite (swap activations to the host), or a smaller --batch-size",
        true => {
            "\n  try: --swapout-threshold 1 --sync-mode 3 (wait for swaps), a smaller --batch-size, or --find-limit to see \
             how much memory it takes"
        }
    };
    Failure::DoesNotFit.error(text)
}

/// A bar on a terminal, nothing elsewhere.
fn progress(args: &Args, steps: u64) -> ProgressBar {
    if args.verbosity.quiet || args.verbosity.json {
        return ProgressBar::hidden();
    }
    let style = ProgressStyle::with_template("{bar:30} {pos}/{len} steps, {per_sec}, {msg}");
    ProgressBar::new(steps).with_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()))
}
