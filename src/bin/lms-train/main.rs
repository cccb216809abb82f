//! Trains a TensorFlow graph through TensorFlow's C API, as it is or rewritten, and reports what it took.

mod again;
mod alone;
mod args;
mod blame;
mod checkpoint;
mod cluster_args;
mod compare;
mod find_limit;
mod gpus;
mod inspect;
mod job;
mod listen;
#[cfg(test)]
mod loop_cost;
mod measure_link;
mod report;
mod run;
mod setup;
mod steps;
mod supervise;
mod sweep;
mod tasks;
mod workers;

use std::process::ExitCode;

use clap::{CommandFactory, Parser};

use args::{Args, Task};

fn main() -> ExitCode {
    let mut args = Args::parse();
    tf_lms::cli::run("lms-train", || match args.task() {
        _ if args.manual.print(Args::command())? => Ok(()),
        Task::Train if args.cluster.workers.is_some() => supervise::supervise(&args),
        Task::Train => tasks::train(&mut args),
        Task::Compare => compare::compare(&args),
        Task::FindLimit => find_limit::find_limit(&args),
        Task::Sweep(spec) => sweep::sweep(&args, spec),
        Task::SweepPoint => sweep::point(&args),
        Task::MeasureLink => measure_link::measure_link(&args),
    })
}
