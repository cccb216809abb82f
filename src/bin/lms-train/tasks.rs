//! Training, the plain task.

use std::fs::File;
use std::io::{self, Write};

use anyhow::Context;
use tf_lms::format::write_file;
use tf_lms::train::DeviceChoice;

use crate::args::Args;
use crate::inspect;
use crate::job::Job;
use crate::report::Report;
use crate::run::{self, Wishes};
use crate::setup::Setup;
use tf_lms::cli::interrupt;

/// Trains and reports.
pub fn train(args: &mut Args) -> anyhow::Result<()> {
    args.cluster.find()?;
    args.cluster.go_on(args.warmup + args.steps, &mut args.restore)?;
    let args = &*args;
    let setup = Setup::new(args)?;
    let job = Job::prepare(args)?;
    let has_others = args.cluster.found.is_some();
    if !has_others {
        // Of several workers one that ends before the others would stop them.
        interrupt::listen("lms-train", "ending after this step");
    }
    // Found out at the last step, it would cost the whole training.
    for path in [&args.trace, &args.profile].into_iter().flatten() {
        File::create(path).with_context(|| path.display().to_string())?;
    }
    let wanted = args.trace.is_some() || args.profile.is_some();
    let wishes = Wishes { record: wanted || args.device.is_gpu() || has_others, ..Wishes::default() };
    let trained = run::train(args, &setup, &job, job.graph_def(), &wishes)?;
    if let Some(metadata) = &trained.metadata {
        if let Some(path) = &args.profile {
            let profile = serde_json::to_vec_pretty(&inspect::Profile::of(&job.name, metadata))?;
            write_file(path, &profile)?;
        }
        if let (Some(path), Some(stats)) = (&args.trace, &metadata.step_stats)
            && !matches!(args.device, DeviceChoice::Soft { .. })
        {
            inspect::timeline(stats)?.write(path)?;
        }
    }
    let report = Report::new(args, &job, &trained);
    print(args, &report)
}

/// Prints a result, as JSON or for people.
pub fn print<R: serde::Serialize + std::fmt::Display>(args: &Args, report: &R) -> anyhow::Result<()> {
    if args.verbosity.json {
        writeln!(io::stdout().lock(), "{}", serde_json::to_string_pretty(report)?)?;
    } else if !args.verbosity.quiet {
        write!(io::stdout().lock(), "{report}")?;
    }
    Ok(())
}
