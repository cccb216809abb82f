//! Says whether a TensorFlow training graph fits a GPU, what it would take, and what that costs.

mod args;
mod assemble;
mod by_levels;
mod conclusion;
mod explained;
mod given;
mod largest;
mod output;
mod report;
mod scaled;
mod tasks;
mod waiting;

use std::process::ExitCode;

use clap::{CommandFactory, Parser};

use args::Args;

fn main() -> ExitCode {
    let args = Args::parse();
    tf_lms::cli::run("lms-tune", || {
        if args.manual.print(Args::command())? {
            return Ok(());
        }
        match args.scale.gpus() {
            Some(gpus) => scaled::run(&args, gpus),
            None if args.max.is_empty() => tasks::tune(&args),
            None => largest::run(&args, &args.max),
        }
    })
}
