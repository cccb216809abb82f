//! The command line.

use std::ffi::OsString;
use std::path::PathBuf;
use std::str::FromStr;

use clap::{Parser, ValueEnum};
use tf_lms::cli::{BudgetArgs, GraphArgs, ManualArgs, ModelArgs, ScaleArgs, StepArgs, TflmsArgs, Verbosity};
use tf_lms::shape::Dimensions;

const EXAMPLES: &str = "\
Examples:
  Will it fit in 16 GiB, and if not, what would it take?
      lms-tune model.meta --gpu-mem 16GiB

  The same for an NVLink machine, keeping the plan for lms-rewrite or lms-train:
      lms-tune model.meta --gpu-mem 16GiB --device-profile v100-nvlink2 -o plan.json

  See memory over the step, before and after, and the life of one tensor:
      lms-tune model.meta --gpu-mem 16GiB --plot memory.html
      lms-tune model.meta --gpu-mem 16GiB --explain conv1_relu/Relu

  What a plan comes to that was made before:
      lms-tune model.meta --gpu-mem 16GiB --plan plan.json

  What is the least memory for which there is a plan?
      lms-tune model.meta --gpu-mem min

  How large may the images be, without and with swapping, in steps of 32 pixels? (Asks an installed TensorFlow for the
  sizes that follow.)
      lms-tune model.meta --gpu-mem 16GiB --max images:1,2/32

  How large may the batch be?
      lms-tune model.meta --gpu-mem 16GiB --max batch

  How fast would 16 nodes of 4 GPUs train it, of which two share a link to the host, and how many GPUs keep 90% busy?
      lms-tune model.meta --gpu-mem 16GiB --nodes 16 --gpus-per-node 4 --gpus-per-link 2 --network 25GB/s,5us \
          --scale-to 90% --plot scaling.svg

Predictions were held against TensorFlow's own allocator on the software GPU; docs/accuracy.md says how far off they were
and where they miss. A GPU's kernels are estimated from the device's profile; --op-times takes measured ones.

Exit status: 0 fits, as it is or with swapping; 1 failed; 2 wrong usage; 3 does not fit.";

/// Says whether a TensorFlow training graph fits in a GPU's memory, finds the plan with which it does at the least cost in time, and
/// predicts peak, traffic and step time.
#[derive(Debug, Parser)]
#[command(name = "lms-tune", version, after_long_help = EXAMPLES, arg_required_else_help = true)]
pub struct Args {
    #[command(flatten)]
    pub model: ModelArgs,

    /// Write the plan as JSON, for lms-rewrite --plan and lms-train --plan
    #[arg(short, long, value_name = "FILE")]
    pub output: Option<OsString>,

    /// Judge this plan instead of looking for one
    #[arg(long, value_name = "FILE", conflicts_with_all = ["output", "max"])]
    pub plan: Option<PathBuf>,

    /// Find the largest size that fits: `batch`, or dimensions of a placeholder, counted from 0, as images:1,2; with
    /// /N in multiples of N; given several times, all get the same size
    #[arg(long, value_name = "batch|NAME:DIM,…[/N]", conflicts_with = "output")]
    pub max: Vec<Free>,

    /// How memory is simulated
    #[arg(long = "model", value_enum, default_value_t = MemoryModel::Runtime, conflicts_with_all = ["max", "plan", "plot", "trace", "explain"])]
    pub model_of_memory: MemoryModel,

    /// Draw GPU and host memory over the step, before and after, or with --nodes rates against GPUs: FILE.svg, .png, or .html
    /// to point at ops
    #[arg(long, value_name = "FILE", conflicts_with = "max")]
    pub plot: Option<PathBuf>,

    /// Write what would run when, with memory, for Perfetto or chrome://tracing
    #[arg(long, value_name = "FILE", conflicts_with = "max")]
    pub trace: Option<PathBuf>,

    /// Tell the life of a tensor (NODE or NODE:OUTPUT) instead: who makes and reads it, when it leaves and returns, why, and
    /// what keeping it would change; or why the plan adds an edge (FROM->TO), and what leaving it out would change
    #[arg(long, value_name = "TENSOR|FROM->TO", conflicts_with_all = ["max", "output"])]
    pub explain: Option<String>,

    #[command(flatten)]
    pub verbosity: Verbosity,

    #[command(flatten)]
    pub budget: BudgetArgs,

    #[command(flatten)]
    pub graph: GraphArgs,

    #[command(flatten)]
    pub step: StepArgs,

    #[command(flatten)]
    pub scale: ScaleArgs,

    #[command(flatten)]
    pub tflms: TflmsArgs,

    #[command(flatten)]
    pub manual: ManualArgs,
}

/// A model of memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum MemoryModel {
    /// As TensorFlow's executor and allocator use it
    Runtime,
    /// By levels, with TFLMSv2's simplifications: to compare with its tuner, not to trust
    Tflms,
}

/// Which sizes are free, and in which steps.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Free {
    /// The sizes.
    pub dimensions: Dimensions,
    /// Only multiples of this are tried.
    pub multiple: u64,
}

impl FromStr for Free {
    type Err = String;

    fn from_str(text: &str) -> Result<Free, String> {
        let expected = || {
            "expected `batch`, or a placeholder and its dimensions as in images:1,2 or images:1,2/32"
                .to_string()
        };
        let (text, multiple) = match text.rsplit_once('/') {
            Some((text, multiple)) if multiple.bytes().all(|byte| byte.is_ascii_digit()) => {
                (text, multiple.parse().ok().filter(|&multiple| multiple > 0).ok_or_else(expected)?)
            }
            _ => (text, 1),
        };
        Ok(Free { dimensions: text.parse().map_err(|_| expected())?, multiple })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn multiples_follow_a_slash() {
        let parsed = |text: &str| text.parse::<Free>();
        let of = |dimensions: &str, multiple| Free { dimensions: dimensions.parse().unwrap(), multiple };
        assert_eq!(parsed("batch"), Ok(of("batch", 1)));
        assert_eq!(parsed("batch/64"), Ok(of("batch", 64)));
        assert_eq!(parsed("scope/images:1/32"), Ok(of("scope/images:1", 32)));
        assert_eq!(parsed("scope/images:1"), Ok(of("scope/images:1", 1)));
        for wrong in ["", "images", "batch/0", "images:1/", "images:1/x"] {
            assert!(parsed(wrong).is_err(), "{wrong}");
        }
    }
}
