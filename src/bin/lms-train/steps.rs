//! The training loop.

use std::thread;
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressStyle};
use tf_lms::proto::tensorflow::run_options::TraceLevel;
use tf_lms::proto::tensorflow::{RunMetadata, RunOptions};
use tf_lms::runtime::{Feed, Session, SessionError, Step, Tensor};
use tf_lms::train::{HostMemory, Phase, SoftGpuError};

use crate::args::Args;
use crate::checkpoint;
use crate::run::{Context, Trained};
use tf_lms::cli::interrupt;

/// Runs all steps, and adds what they came to.
pub fn run(
    context: &Context,
    session: &Session,
    runs: &[Step],
    feeds: &[Feed],
    trained: &mut Trained,
) -> anyhow::Result<()> {
    let Context { args, setup, job, wishes } = *context;
    let feeds: Vec<&Feed> = feeds.iter().collect();
    let all = args.warmup + args.steps;
    let bar = progress(args, all);
    let mut longest = None;
    // For the others to ask.
    let enter = |phase: Phase, step: u64| {
        if let Some(workers) = &setup.workers {
            workers.enter(phase, step);
        }
    };
    for number in args.cluster.first_step..all {
        enter(Phase::Between, number + 1);
        if let Some(seconds) = args.cluster.pause {
            thread::sleep(Duration::from_secs_f64(seconds));
        }
        if number == args.warmup {
            trained.host_first = HostMemory::now();
        }
        if number + 1 == all {
            trained.host_last = HostMemory::now();
        }
        // The first step copies constants, and the recorded one takes longer than others.
        let recorded = wishes.record && number + 1 == all;
        let before =
            setup.soft.as_ref().map(|soft| trained.before_step(soft, args.is_exact())).transpose()?;
        enter(Phase::Step, number + 1);
        let start = Instant::now();
        let fetched = if recorded {
            let (fetched, metadata) =
                record(context, runs, &feeds).map_err(|error| explain_step(error, number, context))?;
            trained.metadata = Some(metadata);
            fetched
        } else {
            let limit = setup.workers.as_ref().and_then(|workers| workers.limit(longest));
            let run = |run: &Step| match limit {
                Some(limit) => run.run_within(&feeds, limit),
                None => run.run(&feeds),
            };
            let fetched = runs.iter().map(run).collect::<Result<Vec<_>, _>>();
            fetched.map_err(|error| context.explain(error, &format!("step {}", number + 1)))?.concat()
        };
        enter(Phase::Between, number + 2);
        let seconds = start.elapsed().as_secs_f64();
        // The first step takes longer than others, so it counts until there is another.
        let of_others = longest.filter(|_| number > args.cluster.first_step + 1);
        longest = Some(seconds.max(of_others.unwrap_or_default()));
        trained.recorded_seconds = recorded.then_some(seconds);
        trained.losses.extend(fetched.first().and_then(mean));
        if number >= args.warmup && (!recorded || args.steps == 1) {
            trained.seconds.push(seconds);
            if let (Some(soft), Some(before)) = (&setup.soft, before) {
                let now = soft.counters()?;
                trained
                    .counted
                    .push(now.iter().zip(&before).map(|(now, before)| now.since(before)).collect());
            }
        }
        bar.set_message(trained.losses.last().map(|loss| format!("loss {loss:.6}")).unwrap_or_default());
        bar.inc(1);
        trained.interrupted = interrupt::asked();
        let done = number + 1;
        let last = done == all || trained.interrupted;
        if let Some(prefix) = args.save.as_ref().filter(|_| args.cluster.is_first())
            && (last || args.save_every.is_some_and(|every| done.is_multiple_of(every)))
        {
            enter(Phase::Saves, number + 2);
            trained.saved = Some(checkpoint::save(session, &job.recipe, prefix, done)?.display().to_string());
        }
        if last {
            trained.host_last = trained.host_last.or_else(HostMemory::now);
            break;
        }
    }
    bar.finish_and_clear();
    Ok(())
}

enum RecordError {
    Session(SessionError),
    Other(anyhow::Error),
}

/// Runs a step and records it; several runs of one as if they were one.
fn record(
    context: &Context,
    runs: &[Step],
    feeds: &[&Feed],
) -> Result<(Vec<Tensor>, RunMetadata), RecordError> {
    let Context { args, setup, .. } = *context;
    let other = |error: SoftGpuError| RecordError::Other(error.into());
    let options = RunOptions {
        trace_level: TraceLevel::FullTrace.into(),
        output_partition_graphs: true,
        ..RunOptions::default()
    };
    let traced = setup.soft.as_ref().zip(args.trace.as_ref());
    if let Some((soft, _)) = traced {
        soft.trace(true).map_err(other)?;
    }
    let (mut fetched, mut metadata) = (Vec::new(), RunMetadata::default());
    for run in runs {
        let outcome = run.run_with(feeds, &options).map_err(RecordError::Session)?;
        fetched.extend(outcome.fetched);
        metadata.partition_graphs.extend(outcome.metadata.partition_graphs);
        let all = &mut metadata.step_stats.get_or_insert_default().dev_stats;
        all.extend(outcome.metadata.step_stats.unwrap_or_default().dev_stats);
    }
    if let Some((soft, path)) = traced {
        soft.trace(false).map_err(other)?;
        soft.write_trace(path).map_err(other)?;
    }
    Ok((fetched, metadata))
}

fn explain_step(error: RecordError, number: u64, context: &Context) -> anyhow::Error {
    match error {
        RecordError::Session(error) => context.explain(error, &format!("step {}", number + 1)),
        RecordError::Other(error) => error,
    }
}

/// The mean of a tensor's values.
fn mean(tensor: &Tensor) -> Option<f64> {
    let values = tensor.to_f64().filter(|values| !values.is_empty())?;
    Some(values.iter().sum::<f64>() / values.len() as f64)
}

/// A bar on a terminal, nothing elsewhere.
fn progress(args: &Args, steps: u64) -> ProgressBar {
    if args.verbosity.quiet || args.verbosity.json {
        return ProgressBar::hidden();
    }
    let style = ProgressStyle::with_template("{bar:30} {pos}/{len} steps, {per_sec}, {msg}");
    ProgressBar::new(steps).with_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()))
}
