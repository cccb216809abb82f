//! A sweep over a size, as the articles on TFLMS measured it: at each size as it is until memory runs out, from there with
//! swapping, until that does not fit either. TensorFlow's own memory optimizer may take part.
//!
//! `sizes` says what each size means for the graph, `work` how much a step takes in then, `ground` on which device it runs.
//! `method` has the order of the points, `answers` says how each ends: by `measure`, in processes that run `point`, or by
//! `predict`. `rows` is what is kept of that, by `file` on disk; `columns` is what follows from the rows, which `outputs`
//! writes: as a table (`report`), as CSV, as a `figure`.

mod answers;
mod columns;
mod figure;
mod file;
mod ground;
mod measure;
mod method;
mod outputs;
mod point;
mod predict;
mod report;
mod rows;
mod sizes;
mod work;

use tf_lms::cli::{Failure, SweepSpec};
use tf_lms::graph::Graph;
use tf_lms::plan::graph_digest;

pub use point::point;

use crate::again::{self, Flags};
use crate::args::Args;
use crate::tasks::print;
use answers::Answers;
use file::{SweepFile, Whose};
use ground::Ground;
use outputs::Outputs;
use predict::Predictor;
use report::SweepReport;
use rows::{Mode, Outcome, Row};
use sizes::Sizes;

/// Where output goes and how much there is of it changes no point.
const OUTPUT: Flags = Flags {
    switches: &["--json", "--quiet", "-q", "--verbose", "-v"],
    valued: &["--sweep-file", "--csv", "--plot"],
};

/// Sweeps and reports.
pub fn sweep(args: &Args, spec: &SweepSpec) -> anyhow::Result<()> {
    if args.model.input.as_deref() == Some("-".as_ref()) {
        return Err(Failure::Usage.error("--sweep reads the model many times: give a file"));
    }
    let ground = Ground::of(args)?;
    let profile = ground.profile(args)?;
    let model = args.read_model()?;
    let graph = model.graph()?;
    let sizes = Sizes::of(args, spec, &graph)?;
    let (mut file, kept) = open_file(args, &graph, &ground)?;
    let outputs = Outputs { args, spec, ground: &ground, profile: &profile, sizes: &sizes };
    // What cannot be written is to be known before hours of sweeping.
    outputs.write(&outputs.report(&kept, Vec::new()))?;

    let resumed = kept.len();
    let predictor = Predictor::new(args, (&ground, &profile), (&model, &graph));
    let mut answers = Answers::new(&sizes, &ground, predictor, args, &kept);
    let others: &[Mode] = match args.grappler_memory {
        Some(_) => &[Mode::ByGrappler, Mode::WithLms],
        None => &[Mode::WithLms],
    };
    let rows = method::run(spec.sizes(), others, kept, |size, mode| {
        let row = answers.row(size, mode)?;
        if !args.verbosity.quiet {
            eprintln!("{size:>8}  {mode:<11}  {}", row.ending.outcome);
        }
        file.as_mut().map_or(Ok(()), |file| file.add(&row))?;
        Ok(row)
    })?;
    let mut notes = Vec::new();
    if let Some(why) = answers.no_device {
        notes.push(format!("no step was run, for want of a device: {why}"));
    }
    if resumed > 0 {
        notes.push(format!("{resumed} of {} points are from the sweep file", rows.len()));
    }
    let report = outputs.report(&rows, notes);
    outputs.write(&report)?;
    print(args, &report)?;
    conclude(&rows, &report)
}

/// The file that keeps rows, if one is to, and those that it has.
fn open_file(args: &Args, graph: &Graph, ground: &Ground) -> anyhow::Result<(Option<SweepFile>, Vec<Row>)> {
    let Some(path) = &args.sweep.sweep_file else { return Ok((None, Vec::new())) };
    let line = again::line_without(&OUTPUT);
    let line = line.iter().map(|word| word.to_string_lossy().into_owned()).collect();
    let whose = Whose::new(line, graph_digest(graph), ground.gpu_mem.clone());
    let (file, rows) = SweepFile::open(path, &whose)?;
    Ok((Some(file), rows))
}

/// A sweep in which nothing trained is a failure.
fn conclude(rows: &[Row], report: &SweepReport) -> anyhow::Result<()> {
    let has = |outcome: Outcome| rows.iter().any(|row| row.ending.outcome == outcome);
    let failure = if rows.iter().any(|row| row.ending.lacks_memory()) {
        Failure::DoesNotFit.error(format!("{}: not even the smallest size fits", report.about.model))
    } else {
        Failure::Failed.error(format!("{}: no point of the sweep trained", report.about.model))
    };
    if has(Outcome::Trained) { Ok(()) } else { Err(failure) }
}
