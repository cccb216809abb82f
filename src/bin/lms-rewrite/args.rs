//! The command line.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::Parser;
use tf_lms::cli::{
    BudgetArgs, GraphArgs, ManualArgs, ModelArgs, OutputArgs, ParallelArgs, StepArgs, TflmsArgs, Verbosity,
};

const EXAMPLES: &str = "\
Examples:
  Swap as much as TFLMSv2 does with 1/1/0/0, and write the result:
      lms-rewrite model.meta -o model_lms.meta

  Swap only what stays unused for long, and bring it back early:
      lms-rewrite model.meta -o model_lms.meta --swapout-threshold 300 --swapin-ahead 10 --swapin-groupby 50

  A graph whose batch and resolution are free (asks an installed TensorFlow for the sizes that follow):
      lms-rewrite model.pb -o model_lms.pb --batch-size 8 --shape images=8x1024x1024x3

  Let the tuner find out what to swap so that the graph fits in 4 GiB at the least cost in time:
      lms-rewrite model.meta -o model_lms.meta --gpu-mem 4GiB

  Have it train on any number of GPUs or machines, each with 4 GiB (see docs/data-parallel.md, and lms-train --workers):
      lms-rewrite model.meta -o model_dp.meta --data-parallel --gpu-mem 4GiB

  Look at what would be done, and keep the plan:
      lms-rewrite model.meta --dry-run --plan-out plan.json

  Prove that a rewritten graph computes what the original does, wherever both came from:
      lms-rewrite --verify-against model.meta model_lms.meta

  Undo:
      lms-rewrite --strip model_lms.meta -o model.meta

Exit status: 0 done, 1 failed, 2 wrong usage, 3 does not fit in --gpu-mem.";

/// Rewrites a TensorFlow training graph so that it trains in less GPU memory: activations leave for host memory and come
/// back when they are needed. The result computes the same; that is checked each time.
#[derive(Debug, Parser)]
#[command(name = "lms-rewrite", version, after_long_help = EXAMPLES, arg_required_else_help = true)]
pub struct Args {
    #[command(flatten)]
    pub model: ModelArgs,

    #[command(flatten)]
    pub output: OutputArgs,

    /// Analyse and plan, but write no graph
    #[arg(long)]
    pub dry_run: bool,

    /// Do not check that the rewritten graph computes the same
    #[arg(long)]
    pub no_verify: bool,

    /// Take all LMS ops out of INPUT
    #[arg(long, conflicts_with_all = ["verify_against", "plan", "plan_out"])]
    pub strip: bool,

    /// Check that INPUT computes the same as this graph, and do nothing else
    #[arg(long, value_name = "ORIGINAL", conflicts_with_all = ["output", "plan", "plan_out", "dry_run", "no_verify"])]
    pub verify_against: Option<OsString>,

    /// Carry out this plan instead of making one
    #[arg(long, value_name = "FILE", conflicts_with_all = ["gpu_mem", "swapout_threshold", "swapin_ahead", "swapin_groupby", "sync_mode"])]
    pub plan: Option<PathBuf>,

    /// Write the plan as JSON
    #[arg(long, value_name = "FILE")]
    pub plan_out: Option<PathBuf>,

    #[command(flatten)]
    pub verbosity: Verbosity,

    #[command(flatten)]
    pub budget: BudgetArgs,

    #[command(flatten)]
    pub parallel: ParallelArgs,

    #[command(flatten)]
    pub graph: GraphArgs,

    #[command(flatten)]
    pub step: StepArgs,

    #[command(flatten)]
    pub tflms: TflmsArgs,

    #[command(flatten)]
    pub manual: ManualArgs,
}

/// What is to be done.
pub enum Task {
    Verify { original: OsString },
    Strip,
    Rewrite,
}

impl Args {
    pub fn task(&self) -> Task {
        if let Some(original) = &self.verify_against {
            Task::Verify { original: original.clone() }
        } else if self.strip {
            Task::Strip
        } else {
            Task::Rewrite
        }
    }
}
