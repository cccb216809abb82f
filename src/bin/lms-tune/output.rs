//! Where plans and reports go.

use std::ffi::OsStr;
use std::io::{self, Write};
use std::path::Path;

use tf_lms::format::{Destination, write_file};
use tf_lms::plan::Plan;

use crate::args::Args;

/// Writes a plan to a file or, as `-`, to standard output.
pub fn write_plan(output: &OsStr, plan: &Plan) -> anyhow::Result<()> {
    match Destination::from(output) {
        Destination::Stdout => io::stdout().lock().write_all(plan.to_json().as_bytes())?,
        _ => write_file(Path::new(output), plan.to_json().as_bytes())?,
    }
    Ok(())
}

/// Prints a report; on standard error if the plan goes to standard output.
pub fn print(args: &Args, text: &str) -> io::Result<()> {
    if args.verbosity.quiet && !args.verbosity.json {
        return Ok(());
    }
    match args.output.as_deref().map(Destination::from) {
        Some(Destination::Stdout) => io::stderr().lock().write_all(text.as_bytes()),
        _ => io::stdout().lock().write_all(text.as_bytes()),
    }
}
