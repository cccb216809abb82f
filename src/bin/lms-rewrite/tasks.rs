//! What the tool does.

use std::ffi::OsStr;
use std::fs;
use std::io::{self, Write};
use std::time::Instant;

use anyhow::Context;
use tf_lms::cli::{Failure, Subject, plan_for_budget};
use tf_lms::format::{Destination, Edits, Model, Source, write_file};
use tf_lms::graph::Device;
use tf_lms::plan::{Analysis, Plan, tflms};
use tf_lms::rewrite;
use tf_lms::shape::Sizes;
use tf_lms::verify::{self, CheckOptions};

use crate::args::Args;
use crate::report::{Facts, Report, Seconds};

/// Plans, rewrites, checks, writes, reports.
pub fn rewrite(args: &Args) -> anyhow::Result<()> {
    let destination = destination(args, !args.dry_run)?;
    let mut clock = Clock::start();
    let mut seconds = Seconds::default();

    let subject = Subject::read(&args.model, &args.graph)?;
    let graph = subject.graph()?;
    seconds.read = clock.lap();
    let shapes = subject.shapes(&graph, &args.graph)?;
    let sizes = Sizes::of(&graph, &shapes).with_context(|| subject.model.name().to_string())?;
    seconds.size = clock.lap();
    let step = subject.step(&graph, &args.graph)?;
    let analysis = Analysis::with_step(&graph, step, shapes, sizes);
    seconds.analyze = clock.lap();
    let (plan, found) = make_plan(args, &analysis).with_context(|| subject.model.name().to_string())?;
    seconds.plan = clock.lap();
    let rewritten =
        rewrite::rewrite(&subject.model, &graph, &plan).with_context(|| subject.model.name().to_string())?;
    let content = subject.model.edited(&rewritten.edits, subject.model.encoding())?.to_vec();
    seconds.rewrite = clock.lap();

    let functions = subject.model.functions()?.len();
    let mut report = Report::new(&Facts {
        analysis: &analysis,
        plan: &plan,
        name: subject.model.name(),
        kind: subject.model.kind(),
        encoding: subject.model.encoding(),
        trainable: &subject.trainable_variables(),
        functions,
    });
    report.control_edges = rewritten.control_edges;
    let output = Model::from_bytes(&destination.name(), content, &args.model.options())?;
    if !args.no_verify {
        let options = CheckOptions { train_ops: args.graph.train_ops.clone() };
        verify::check_with(&subject.model, &output, &subject.registry, &options).with_context(|| {
            format!("{}: the rewrite failed its check, nothing was written", subject.model.name())
        })?;
        report.verified = true;
    }
    seconds.verify = clock.lap();

    if let Some(path) = &args.plan_out {
        write_file(path, plan.to_json().as_bytes())?;
    }
    if !args.dry_run {
        report.notes.extend(write(args, &subject, &output, &destination)?);
        report.output = Some(destination.name());
    }
    seconds.write = clock.lap();
    seconds.total = clock.total();
    report.seconds = seconds;
    report.notes.extend(found);
    report.notes.extend(notes(args, &plan, &analysis, functions > 0));
    print(args, &report, destination == Destination::Stdout && !args.dry_run)
}

/// Takes all LMS ops out.
pub fn strip(args: &Args) -> anyhow::Result<()> {
    let destination = destination(args, !args.dry_run)?;
    let source = args.model.source();
    let model = source.read(&args.model.options())?;
    let edits = rewrite::strip(&model).with_context(|| model.name().to_string())?;
    let removed = edits.removed.len();
    let content = model.edited(&edits, args.output.encoding(model.encoding()))?;
    if !args.dry_run {
        destination.write(&content, &source)?;
    }
    let message = match args.dry_run {
        true => format!("{}: has {removed} LMS ops", model.name()),
        false => format!("{}: took out {removed} LMS ops, wrote {}", model.name(), destination.name()),
    };
    say(
        args,
        &message,
        destination == Destination::Stdout,
        &serde_json::json!({ "schema": 1, "removed": removed }),
    )
}

/// Checks one file against another.
pub fn verify(args: &Args, original: &OsStr) -> anyhow::Result<()> {
    let original_model = Source::from(original).read(&args.model.options())?;
    let subject = Subject::read(&args.model, &args.graph)?;
    let options = CheckOptions { train_ops: args.graph.train_ops.clone() };
    let verified = verify::check_with(&original_model, &subject.model, &subject.registry, &options)
        .with_context(|| {
            format!("{} does not compute what {} does", subject.model.name(), original_model.name())
        })?;
    let mut added = vec![format!("{} swap-ins of {} tensors", verified.swap_ins, verified.swapped_tensors)];
    if verified.recomputed_ops > 0 {
        added.push(format!("{} second runs of ops", verified.recomputed_ops));
    }
    if verified.initial_values > 0 {
        added.push(format!("{} initial values by way of the host", verified.initial_values));
    }
    if verified.host_ops > 0 {
        added.push(format!("{} ops moved to the host", verified.host_ops));
    }
    added.push(format!("{} control edges added", verified.added_control_edges));
    let message = format!(
        "{} computes what {} does: {}",
        subject.model.name(),
        original_model.name(),
        added.join(", ")
    );
    let json = serde_json::json!({
        "schema": 1,
        "verified": true,
        "swapins": verified.swap_ins,
        "swapped_tensors": verified.swapped_tensors,
        "recomputed_ops": verified.recomputed_ops,
        "initial_values": verified.initial_values,
        "host_ops": verified.host_ops,
        "control_edges": verified.added_control_edges,
    });
    say(args, &message, false, &json)
}

/// Where the result goes. Without a place for it there must be no result.
fn destination(args: &Args, needed: bool) -> anyhow::Result<Destination> {
    match args.output.destination() {
        Some(Destination::Stdout) if args.verbosity.json && needed => {
            Err(Failure::Usage.error("--json and -o - both want standard output"))
        }
        Some(destination) => Ok(destination),
        None if !needed => Ok(Destination::Stdout),
        None => {
            Err(Failure::Usage
                .error("give -o OUTPUT (or - for standard output), or --dry-run to write nothing"))
        }
    }
}

/// The plan, and what the user should know of how it was found.
fn make_plan(args: &Args, analysis: &Analysis) -> anyhow::Result<(Plan, Option<String>)> {
    if let Some(path) = &args.plan {
        let json = fs::read(path).with_context(|| path.display().to_string())?;
        return Ok((Plan::from_json(&path.display().to_string(), &json)?, None));
    }
    let host = Device::parse(args.tflms.host_device()).context("--host-device")?;
    args.budget.check_strategy()?;
    if args.budget.is_given() {
        let tuned = plan_for_budget(analysis, &args.budget, None, args.tflms.parameters(), &host)?;
        return Ok((tuned.plan, Some(tuned.note)));
    }
    Ok((tflms::plan(analysis, &args.tflms.parameters(), &host)?, None))
}

/// Writes the result; returns what the user should know of it.
fn write(
    args: &Args,
    subject: &Subject,
    output: &Model,
    destination: &Destination,
) -> anyhow::Result<Vec<String>> {
    let encoding = args.output.encoding(subject.model.encoding());
    let content = output.edited(&Edits::default(), encoding)?;
    let written = destination.write(&content, &subject.source)?;
    let dropped = "left out fingerprint.pb, which no longer matches the graph";
    Ok(written.dropped_fingerprint.then(|| dropped.to_string()).into_iter().collect())
}

fn notes(args: &Args, plan: &Plan, analysis: &Analysis, has_functions: bool) -> Vec<String> {
    let mut notes = Vec::new();
    if args.plan.is_none() && !args.budget.is_given() && args.tflms.is_default() {
        notes.push("no parameters given: swapping as much as TFLMSv2 does with 1/1/0/0".to_string());
    }
    if args.plan.is_none() && args.tflms.swapin_groupby.unwrap_or(0) > 0 && !analysis.step.is_known() {
        notes.push(
            "no consumers share a swap-in: give --train-op, so that it is known which run together"
                .to_string(),
        );
    }
    let untriggered = plan
        .swaps
        .iter()
        .flat_map(|swap| &swap.swap_ins)
        .filter(|swap_in| swap_in.triggers.is_empty())
        .count();
    if untriggered > 0 {
        notes
            .push(format!("{untriggered} swap-ins have no trigger and start as soon as their tensor is out"));
    }
    if plan.swaps.is_empty() {
        let functions = if has_functions { "; the bodies of its functions are not rewritten" } else { "" };
        notes.push(format!("nothing to swap among the graph's {} nodes{functions}", analysis.graph.len()));
    }
    notes
}

fn print(args: &Args, report: &Report, stdout_is_taken: bool) -> anyhow::Result<()> {
    let text = if args.verbosity.json { report.to_json()? } else { report.to_string() };
    put(args, &text, stdout_is_taken)
}

fn say(args: &Args, message: &str, stdout_is_taken: bool, json: &serde_json::Value) -> anyhow::Result<()> {
    let text = if args.verbosity.json { json.to_string() } else { message.to_string() };
    put(args, &(text + "\n"), stdout_is_taken)
}

/// Prints on standard output, or on standard error where the graph goes to the former.
fn put(args: &Args, text: &str, stdout_is_taken: bool) -> anyhow::Result<()> {
    if stdout_is_taken {
        if !args.verbosity.quiet {
            io::stderr().lock().write_all(text.as_bytes())?;
        }
    } else if args.verbosity.json || !args.verbosity.quiet {
        io::stdout().lock().write_all(text.as_bytes())?;
    }
    Ok(())
}

/// Measures phases that follow one another.
struct Clock {
    start: Instant,
    lap: Instant,
}

impl Clock {
    fn start() -> Clock {
        let now = Instant::now();
        Clock { start: now, lap: now }
    }

    /// Seconds since the last lap.
    fn lap(&mut self) -> f64 {
        let now = Instant::now();
        now.duration_since(std::mem::replace(&mut self.lap, now)).as_secs_f64()
    }

    /// Seconds since the start.
    fn total(&self) -> f64 {
        self.lap.duration_since(self.start).as_secs_f64()
    }
}
