//! The command line.

use std::fs;
use std::path::PathBuf;

use anyhow::Context;
use clap::Parser;
use tf_lms::cli::{
    BudgetArgs, GraphArgs, ManualArgs, ModelArgs, ParallelArgs, StepArgs, SweepArgs, SweepSpec, TflmsArgs,
    Verbosity,
};
use tf_lms::simulate::Allocator;
use tf_lms::train::{Asked, DeviceChoice, FeedSpec, GrapplerMemory};
use tf_lms::{Error, Model, Plan};

use crate::cluster_args::ClusterArgs;

const EXAMPLES: &str = "\
Examples:
  Train ten steps on a software GPU of 96 MiB, with made-up data:
      lms-train model.meta --device soft:96MiB --feed labels=randint:0:10

  The same, swapping as much as TFLMSv2 does with 1/1/0/0:
      lms-train model.meta --device soft:96MiB --feed labels=randint:0:10 --rewrite

  See that the rewritten graph computes the same:
      lms-train model.meta --device soft --compare

  Let the tuner find out what to swap so that the graph trains in 416 MiB:
      lms-train model.meta --device soft:416MiB --gpu-mem 416MiB

  How little memory will do, before and after:
      lms-train model.meta --find-limit
      lms-train model.meta --find-limit --rewrite

  Rate, slowdown and traffic at larger and larger images, as it is until memory runs out, from there with swapping; the same
  command goes on where it was broken off:
      lms-train model.meta --device soft:416MiB --sweep images:1,2=64..640/64 --sweep-file sweep.jsonl --plot sweep.svg

  What that would be on a GPU that is not there:
      lms-train model.meta --sweep images:1,2=500..9500/500 --predict --gpu-mem 16GiB --device-profile v100-nvlink2

  How fast a GPU and the host copy to each other:
      lms-train --measure-link --device gpu

  Train a SavedModel of TensorFlow 2 by its signature, from the values that it was saved with; arguments are fed by name:
      lms-train saved_model --signature train --feed y=randint:0:10 --compare

  Train on four GPUs of this machine, and begin again from the last checkpoint if a worker fails:
      lms-train model.meta --device gpu --workers 4 --steps 1000 --save run/model --save-every 100 --restarts 3

  The same on two machines, once on each (or let Slurm, mpirun or TF_CONFIG say who is who):
      lms-train model.meta --device gpu --cluster 10.0.0.1:29400,10.0.0.2:29400 --rank 0
      lms-train model.meta --device gpu --cluster 10.0.0.1:29400,10.0.0.2:29400 --rank 1

  Train on a GPU with a batch of 8, and keep a checkpoint every 100 steps:
      lms-train model.meta --device gpu --batch-size 8 --steps 1000 --save run/model --save-every 100

The software GPU models memory, copies and kernels' devices. It does not model cuDNN's workspace, a host that runs ahead of
the device, or a GPU's speed: see its documentation before you take its figures for a GPU's.

Exit status: 0 done, 1 failed, 2 wrong usage, 3 out of memory, 4 another worker failed, hangs or never came.";

/// Trains a TensorFlow graph (GraphDef, MetaGraphDef, SavedModel) on a CPU, a GPU or a software GPU, as it is or rewritten to need
/// less memory, and reports rate, memory, copies and loss.
#[derive(Debug, Parser)]
#[command(name = "lms-train", version, after_long_help = EXAMPLES, arg_required_else_help = true)]
#[command(mut_arg("input", |input| input.required_unless_present("measure_link")))]
pub struct Args {
    #[command(flatten)]
    pub model: ModelArgs,

    /// Where to train: cpu, gpu[:N[,MEMORY]], as gpu:0,8GiB, or soft[:MEMORY[,RATE]], as soft:512MiB,16GB/s
    #[arg(long, default_value = "soft")]
    pub device: DeviceChoice,

    /// The software GPU's library [default: beside this program]
    #[arg(long, value_name = "PATH")]
    pub softgpu: Option<PathBuf>,

    /// Have each tensor counted on the software GPU, not TensorFlow's pool: exact peaks, and no fragmentation
    #[arg(long)]
    pub exact_memory: bool,

    /// Fail if an op cannot run on the device that the graph names
    #[arg(long)]
    pub strict_placement: bool,

    /// Threads of TensorFlow; one makes peaks repeat [default: as many as there are cores]
    #[arg(long, value_name = "N")]
    pub threads: Option<u16>,

    /// Steps to measure
    #[arg(long, value_name = "N", default_value_t = 10, value_parser = clap::value_parser!(u64).range(1..))]
    pub steps: u64,

    /// Steps to train before those that are measured
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub warmup: u64,

    /// Ops that initialize the variables [default: the collection `init_op`, or the initializers in `variables`]
    #[arg(long = "init-op", value_name = "NAME")]
    pub init_ops: Vec<String>,

    /// The tensor that is the loss [default: the first of the collection `losses`]
    #[arg(long, value_name = "TENSOR")]
    pub loss: Option<String>,

    /// Values of a placeholder: random, zeros, const:VALUE, randint:LO:HI or FILE.npy; may be given several times
    /// [default: random; true for truth values]
    #[arg(long = "feed", value_name = "NAME=VALUES")]
    pub feeds: Vec<FeedSpec>,

    /// What random values depend on
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub seed: u64,

    /// Start from this checkpoint
    #[arg(long, value_name = "CHECKPOINT")]
    pub restore: Option<PathBuf>,

    /// Write a checkpoint CHECKPOINT-STEP at the end
    #[arg(long, value_name = "CHECKPOINT")]
    pub save: Option<PathBuf>,

    /// And one each so many steps
    #[arg(long, value_name = "N", requires = "save", value_parser = clap::value_parser!(u64).range(1..))]
    pub save_every: Option<u64>,

    /// Rewrite the graph in memory, and check it, before it runs; so do --plan, --gpu-mem and TFLMS parameters
    #[arg(long)]
    pub rewrite: bool,

    /// Rewrite by this plan
    #[arg(long, value_name = "FILE", conflicts_with_all = ["gpu_mem", "swapout_threshold", "swapin_ahead", "swapin_groupby", "sync_mode"])]
    pub plan: Option<PathBuf>,

    /// Have TensorFlow's own memory optimizer rewrite the graph instead; in a sweep, besides: where memory runs out as it is
    #[arg(long, value_name = "HOW", conflicts_with_all = ["rewrite", "plan", "compare", "predict", "save", "restore"])]
    pub grappler_memory: Option<GrapplerMemory>,

    /// Run the original and the rewritten graph from the same values and say where they differ
    #[arg(long, conflicts_with_all = ["find_limit", "save", "restore", "trace", "profile"])]
    pub compare: bool,

    /// Find the least memory in which the graph trains, each limit in a process of its own
    #[arg(long, conflicts_with_all = ["save", "restore", "trace", "profile"])]
    pub find_limit: bool,

    /// Measure the rates at which the device and the host copy to each other; takes no INPUT
    #[arg(long, conflicts_with_all = ["input", "compare", "find_limit", "save", "restore", "trace", "profile"])]
    pub measure_link: bool,

    /// Write what ran when in the last step, for Perfetto or chrome://tracing
    #[arg(long, value_name = "FILE")]
    pub trace: Option<PathBuf>,

    /// Write times and sizes of the last step's ops as JSON
    #[arg(long, value_name = "FILE")]
    pub profile: Option<PathBuf>,

    #[command(flatten)]
    pub verbosity: Verbosity,

    #[command(flatten)]
    pub sweep: SweepArgs,

    #[command(flatten)]
    pub cluster: ClusterArgs,

    #[command(flatten)]
    pub parallel: ParallelArgs,

    #[command(flatten)]
    pub budget: BudgetArgs,

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
pub enum Task<'a> {
    Train,
    Compare,
    FindLimit,
    MeasureLink,
    Sweep(&'a SweepSpec),
    SweepPoint,
}

impl Args {
    pub fn task(&self) -> Task<'_> {
        if self.sweep.sweep_point {
            Task::SweepPoint
        } else if let Some(spec) = &self.sweep.sweep {
            Task::Sweep(spec)
        } else if self.compare {
            Task::Compare
        } else if self.find_limit {
            Task::FindLimit
        } else if self.measure_link {
            Task::MeasureLink
        } else {
            Task::Train
        }
    }

    /// The plan that was given, if one was.
    pub fn given_plan(&self) -> anyhow::Result<Option<Plan>> {
        let Some(path) = &self.plan else { return Ok(None) };
        let json = fs::read(path).with_context(|| path.display().to_string())?;
        Ok(Some(Plan::from_json(&path.display().to_string(), &json)?))
    }

    /// Reads the model. Its graph is that of the function that is its step, if it has one and no op was named instead.
    pub fn read_model(&self) -> Result<Model, Error> {
        match self.graph.train_ops.is_empty() {
            true => self.model.read_step(&self.graph, &self.step),
            false => self.model.read(&self.graph),
        }
    }

    /// Whether CUDA's allocator is asked for.
    pub fn is_async(&self) -> bool {
        self.budget.allocator == Allocator::Async
    }

    /// Whether the software GPU hands out memory tensor by tensor, as CUDA's allocator does.
    pub fn is_exact(&self) -> bool {
        let is_soft = matches!(self.device, DeviceChoice::Soft { .. });
        is_soft && (self.exact_memory || self.is_async())
    }

    /// Whether the graph is to be rewritten.
    pub fn rewrites(&self) -> bool {
        self.rewrite
            || self.compare
            || self.plan.is_some()
            || self.budget.is_given()
            || self.budget.strategy.strategy.is_some()
            || !self.tflms.is_default()
    }

    pub fn asked(&self) -> Asked {
        Asked {
            init_ops: self.init_ops.clone(),
            train_ops: self.graph.train_ops.clone(),
            loss: self.loss.clone(),
            restore: self.restore.is_some(),
        }
    }
}
