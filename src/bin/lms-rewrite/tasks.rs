//! What the tool does.

use std::ffi::OsStr;
use std::fs;
use std::io::{self, Write};
use std::time::Instant;

use anyhow::Context;
use tf_lms::cli::{Failure, plan_for_budget};
use tf_lms::format::{self, Destination, Edits, Encoding, Source, Written, write_file};
use tf_lms::pipeline::image_order_note;
use tf_lms::tune::{NO_STRATEGY, describe};
use tf_lms::{Analysis, Checked, Model, Plan};

use crate::args::Args;
use crate::report::{Facts, Report, Seconds};

/// Plans, rewrites, checks, writes, reports.
pub fn rewrite(args: &Args) -> anyhow::Result<()> {
    let destination = destination(args, !args.dry_run)?;
    let mut clock = Clock::start();
    let mut seconds = Seconds::default();

    let original = args.model.read_step(&args.graph, &args.step)?;
    seconds.read = clock.lap();
    let options = args.graph.analysis();
    let given = given_plan(args)?;
    let (wanted, plan) = (args.parallel.data_parallel, given.as_ref());
    if plan.is_some_and(|plan| wanted && plan.data_parallel.is_none()) {
        return Err(Failure::Usage.error("the plan is for one worker: leave out --data-parallel, or --plan"));
    }
    let parallel = args.parallel.parallelize(wanted, &original, plan, &options, None)?;
    let (parallelized, parallel) = parallel.unzip();
    let model = parallelized.as_ref().unwrap_or(&original);
    let graph = model.graph()?;
    let shapes = model.shapes(&graph, &options)?;
    let sizes = model.sizes(&graph, &shapes)?;
    seconds.size = clock.lap();
    let analysis = model.analyse_sized(&graph, &options, (shapes, sizes))?;
    seconds.analyze = clock.lap();
    let (plan, found) = match given {
        Some(plan) => (plan, None),
        None => make_plan(args, &analysis).with_context(|| model.name().to_string())?,
    };
    let plan = match parallel {
        Some(parallel) => plan.with_data_parallel(parallel),
        None => plan,
    };
    seconds.plan = clock.lap();
    let rewritten = model.rewrite(&graph, &plan)?.of(&original);
    seconds.rewrite = clock.lap();

    let functions = model.file().functions()?.len();
    let mut report = Report::new(&Facts {
        analysis: &analysis,
        plan: &plan,
        name: model.name(),
        kind: model.file().kind(),
        encoding: model.file().encoding(),
        trainable: &model.trainable_variables(),
        functions,
        function: model.step_function().map(|flat| (flat.function.as_str(), flat.calls)),
    });
    report.control_edges = rewritten.control_edges();
    // What the report takes is no part of the check, and counts in the total alone.
    clock.lap();
    let output = match args.no_verify {
        true => Output::Unchecked(rewritten.unchecked()),
        false => Output::Checked(
            rewritten
                .check(&args.graph.train_ops)
                .context("the rewrite failed its check, nothing was written")?,
        ),
    };
    report.verified = !args.no_verify;
    seconds.verify = clock.lap();

    if let Some(path) = &args.plan_out {
        write_file(path, plan.to_json().as_bytes())?;
    }
    if !args.dry_run {
        report.notes.extend(write(args, model, &output, &destination)?);
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
    let model = args.model.read(&args.graph)?;
    let edits = model.strip()?;
    let removed = model.added_ops()?;
    let content = model.file().edited(&edits, args.output.encoding(model.file().encoding()))?;
    if !args.dry_run {
        destination.write(&content, &args.model.source())?;
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
    let original = args.model.read_from(&Source::from(original), &args.graph)?;
    let rewritten = args.model.read(&args.graph)?;
    let name = rewritten.name().to_string();
    let checked = original.prove(rewritten.into_file(), &args.graph.train_ops)?;
    let verified = checked.verified();
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
    if verified.reduces > 0 {
        let all = verified.reduced_tensors;
        added.push(format!("{all} tensors of all workers by {} collectives", verified.reduces));
    }
    added.push(format!("{} control edges added", verified.added_control_edges));
    let message = format!("{name} computes what {} does: {}", original.name(), added.join(", "));
    let json = serde_json::json!({
        "schema": 1,
        "verified": true,
        "swapins": verified.swap_ins,
        "swapped_tensors": verified.swapped_tensors,
        "recomputed_ops": verified.recomputed_ops,
        "initial_values": verified.initial_values,
        "host_ops": verified.host_ops,
        "reduces": verified.reduces,
        "reduced_tensors": verified.reduced_tensors,
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

/// The plan that is to be carried out, if one was given.
fn given_plan(args: &Args) -> anyhow::Result<Option<Plan>> {
    let Some(path) = &args.plan else { return Ok(None) };
    let json = fs::read(path).with_context(|| path.display().to_string())?;
    Ok(Some(Plan::from_json(&path.display().to_string(), &json)?))
}

/// The plan, and what the user should know of how it was found.
fn make_plan(args: &Args, analysis: &Analysis) -> anyhow::Result<(Plan, Option<String>)> {
    if args.budget.is_given() {
        let tuned = plan_for_budget(analysis, &args.budget.budget(None, &args.tflms)?)?;
        return Ok((tuned.plan, Some(tuned.note)));
    }
    if args.parallel.data_parallel && args.tflms.is_default() && args.budget.strategy.strategy.is_none() {
        // Who asks for several workers and names no memory has not asked for swaps.
        return Ok((Plan::new(analysis, NO_STRATEGY, &args.tflms.host()?.to_string()), None));
    }
    Ok((args.budget.plan_as_told(analysis, &args.tflms)?, None))
}

/// A rewritten model. Only a checked one can be written by the library; the other was asked for with `--no-verify`.
enum Output {
    Checked(Checked),
    Unchecked(format::Model),
}

impl Output {
    fn write(
        &self,
        destination: &Destination,
        source: &Source,
        encoding: Encoding,
    ) -> anyhow::Result<Written> {
        match self {
            Output::Checked(checked) => Ok(checked.write(destination, source, encoding)?),
            Output::Unchecked(file) => {
                Ok(destination.write(&file.edited(&Edits::default(), encoding)?, source)?)
            }
        }
    }
}

/// Writes the result; returns what the user should know of it.
fn write(
    args: &Args,
    model: &Model,
    output: &Output,
    destination: &Destination,
) -> anyhow::Result<Vec<String>> {
    let encoding = args.output.encoding(model.file().encoding());
    let written = output.write(destination, &args.model.source(), encoding)?;
    let dropped = "left out fingerprint.pb, which no longer matches the graph";
    Ok(written.dropped_fingerprint.then(|| dropped.to_string()).into_iter().collect())
}

fn notes(args: &Args, plan: &Plan, analysis: &Analysis, has_functions: bool) -> Vec<String> {
    let mut notes = Vec::new();
    let takes_thresholds = describe(&plan.strategy).is_some_and(|known| known.can.takes_thresholds);
    let is_default =
        args.plan.is_none() && !args.budget.is_given() && args.tflms.is_default() && takes_thresholds;
    if is_default && plan.data_parallel.is_none() {
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
    if let Some(&first) = analysis.calls.first() {
        let (name, op) = (analysis.graph.name(first), analysis.graph.op(first).name());
        let more = match analysis.calls.len() {
            1 => String::new(),
            calls => format!(" and {} more", calls - 1),
        };
        notes.push(format!(
            "what the functions need that {name} ({op}){more} run is not known: they stay as they are"
        ));
    }
    if plan.data_parallel.is_some() {
        let elsewhere = match analysis.function {
            None => "feed lms/parallel/workers and lms/parallel/rank elsewhere",
            Some(_) => "elsewhere set the variable lms/parallel/count to N (docs/data-parallel.md)",
        };
        notes.push(format!("train it with lms-train --workers N; {elsewhere}"));
    } else if plan.swaps.is_empty() && plan.recomputations.is_empty() && plan.orders.is_empty() {
        let functions = if has_functions && analysis.function.is_none() && !analysis.is_lowered {
            "; the bodies of its functions are not rewritten"
        } else {
            ""
        };
        notes.push(format!("nothing to swap among the graph's {} nodes{functions}", analysis.graph.len()));
    } else {
        notes.extend(image_order_note(analysis));
    }
    if analysis.is_lowered {
        notes.push(
            "the calls at the top level of the graph are made flat; --strip gives them back".to_string(),
        );
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
