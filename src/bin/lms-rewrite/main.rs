//! Rewrites a TensorFlow training graph so that it needs less GPU memory.

mod args;
mod report;
mod tasks;

use std::process::ExitCode;

use clap::{CommandFactory, Parser};

use args::{Args, Task};

fn main() -> ExitCode {
    let args = Args::parse();
    tf_lms::cli::run("lms-rewrite", || match args.task() {
        _ if args.manual.print(Args::command())? => Ok(()),
        Task::Verify { original } => tasks::verify(&args, &original),
        Task::Strip => tasks::strip(&args),
        Task::Rewrite => tasks::rewrite(&args),
    })
}
