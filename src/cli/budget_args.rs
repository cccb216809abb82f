//! Flags for how much memory there is, and how fast the machine is.

use std::path::PathBuf;
use std::str::FromStr;

use anyhow::Context;
use clap::Args;
use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};

use super::{Failure, StrategyArgs, TflmsArgs, nvml, parse_size};
use crate::cost::DeviceProfile;
use crate::pipeline::{self, Budget, DEFAULT_PROFILE, Error};
use crate::plan::{Analysis, Plan};
use crate::simulate::Allocator;
use crate::tune::Setup;

/// Who gives fewer bytes than this without a unit, forgot the unit.
const LEAST_WITHOUT_UNIT: u64 = 1 << 10;

/// How much memory there is, and how fast the machine is.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Budget")]
pub struct BudgetArgs {
    /// Memory of the GPU, such as 16GiB (lms-tune: min for the least that suffices); one size for each GPU, the last one
    /// for all further ones [default: that of the machine's GPUs]
    #[arg(
        long,
        value_name = "SIZE,…",
        value_delimiter = ',',
        conflicts_with_all = ["swapout_threshold", "swapin_ahead", "swapin_groupby", "sync_mode"]
    )]
    pub gpu_mem: Vec<GpuMemory>,

    /// The part of it that a plan may use, such as 0.9 [default: leaves room for the measured error of predictions]
    #[arg(long, value_name = "RATIO", value_parser = parse_ratio)]
    pub memory_ratio: Option<f64>,

    /// Who hands it out: TensorFlow's own allocator, which needs memory in one piece, or CUDA's (TF_GPU_ALLOCATOR=cuda_malloc_async),
    /// which does not; the software GPU has the latter with --exact-memory
    #[arg(long, value_name = "NAME", value_parser = allocators(), default_value = Allocator::BestFit.name())]
    pub allocator: Allocator,

    /// The kind of GPU: v100-pcie3, v100-nvlink2, a100, h100, h200, gh200, soft, or a JSON file
    #[arg(long, value_name = "NAME|FILE")]
    pub device_profile: Option<String>,

    /// Measured op times and scratch memory, from `lms-train --profile`
    #[arg(long, value_name = "FILE")]
    pub op_times: Option<PathBuf>,

    /// How to find a plan for it.
    #[command(flatten)]
    pub strategy: StrategyArgs,
}

/// The names of allocators, each with what it does.
fn allocators() -> impl TypedValueParser<Value = Allocator> {
    let value = |allocator: Allocator| PossibleValue::new(allocator.name()).help(allocator.about());
    PossibleValuesParser::new(Allocator::ALL.map(value)).try_map(|name| name.parse::<Allocator>())
}

/// The memory of a GPU.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GpuMemory {
    /// So many bytes.
    Bytes(u64),
    /// The least for which there is a plan.
    Least,
}

impl FromStr for GpuMemory {
    type Err = String;

    fn from_str(text: &str) -> Result<GpuMemory, String> {
        if text == "min" {
            return Ok(GpuMemory::Least);
        }
        match parse_size(text)? {
            bytes
                if (1..LEAST_WITHOUT_UNIT).contains(&bytes)
                    && text.bytes().all(|letter| letter.is_ascii_digit()) =>
            {
                Err(format!("{text} is {bytes} bytes; give a unit, as in {text}GiB"))
            }
            bytes => Ok(GpuMemory::Bytes(bytes)),
        }
    }
}

fn parse_ratio(text: &str) -> Result<f64, String> {
    let ratio = text.parse().ok().filter(|ratio| *ratio > 0.0 && *ratio <= 1.0);
    ratio.ok_or_else(|| "expected a number above 0, at most 1".to_string())
}

impl BudgetArgs {
    /// Whether a budget was given.
    pub fn is_given(&self) -> bool {
        !self.gpu_mem.is_empty()
    }

    /// Makes the plan that the parameters come to where no budget was given.
    ///
    /// # Errors
    ///
    /// If the strategy plans for budgets only, does not know what was given, or cannot plan for the graph.
    pub fn plan_as_told(&self, analysis: &Analysis, tflms: &TflmsArgs) -> anyhow::Result<Plan> {
        let entry = self.strategy.without_budget(tflms)?;
        let strategy = (entry.make)(Setup {
            settings: self.strategy.settings(),
            fixed: tflms.parameters(),
            own: self.strategy.own.given().clone(),
            ..Setup::default()
        });
        let strategy = strategy.map_err(Error::from)?;
        let plan = analysis.plan_as_told(&*strategy, &tflms.host()?)?;
        plan.with_context(|| format!("--strategy {} plans for budgets only", entry.description.name))
    }

    /// Whether the least memory is asked for.
    pub fn wants_least(&self) -> bool {
        self.gpu_mem.contains(&GpuMemory::Least)
    }

    /// The memory of each GPU in bytes: given, or what NVIDIA's library says.
    ///
    /// # Errors
    ///
    /// If none was given and no GPU is there, or one was given that no GPU can have, or the least is asked for.
    pub fn memory(&self) -> anyhow::Result<Vec<u64>> {
        if self.gpu_mem.contains(&GpuMemory::Bytes(0)) {
            return Err(Failure::Usage
                .error("--gpu-mem: a GPU without memory runs nothing; give a size such as 16GiB"));
        }
        if self.is_given() {
            let bytes = self.gpu_mem.iter().map(|memory| match memory {
                GpuMemory::Bytes(bytes) => Ok(*bytes),
                GpuMemory::Least => {
                    Err(Failure::Usage.error("--gpu-mem min: ask lms-tune for the least memory first"))
                }
            });
            return bytes.collect();
        }
        nvml::gpu_memory().map_err(|why| {
            Failure::Usage.error(format!(
                "how much memory the GPU has is not known ({why}): give --gpu-mem, as in --gpu-mem 16GiB"
            ))
        })
    }

    /// The device's profile; `default` if none was given.
    ///
    /// # Errors
    ///
    /// If there is none of this name, or the file holds none.
    pub fn profile(&self, default: Option<&str>) -> anyhow::Result<DeviceProfile> {
        let name = self.device_profile.as_deref().or(default).unwrap_or(DEFAULT_PROFILE);
        pipeline::profile(name).context("--device-profile")
    }

    /// The budget, on a machine of the profile `default` if none was given. `tflms` is what no strategy changes.
    ///
    /// # Errors
    ///
    /// As [`BudgetArgs::memory`] and [`BudgetArgs::profile`], or if the measured times cannot be read.
    pub fn budget(&self, default: Option<&str>, tflms: &TflmsArgs) -> anyhow::Result<Budget> {
        self.budget_of(self.memory()?, self.profile(default)?, tflms)
    }

    /// The same for GPUs of so many bytes each, of a profile.
    ///
    /// # Errors
    ///
    /// If the measured times cannot be read, the host device is none, or the strategy does not know a parameter that was given.
    pub fn budget_of(
        &self,
        memory_bytes: Vec<u64>,
        profile: DeviceProfile,
        tflms: &TflmsArgs,
    ) -> anyhow::Result<Budget> {
        self.strategy.own.check(self.strategy.chosen())?;
        Ok(Budget {
            memory_ratio: self.memory_ratio,
            allocator: self.allocator,
            op_times: self.op_times.as_deref().map(pipeline::measured_ops).transpose()?,
            strategy: self.strategy.choice(),
            settings: self.strategy.settings(),
            parameters: tflms.parameters(),
            own_parameters: self.strategy.own.given().clone(),
            host_device: tflms.host()?,
            ..Budget::on(profile, memory_bytes)
        })
    }
}
