//! What the three tools share: flags, and how things end. It stands above the library: nothing else knows it.

mod budget_args;
mod exit;
mod graph_args;
#[cfg(feature = "tune")]
pub mod interrupt;
mod model_args;
mod nvml;
mod own_args;
mod page;
mod parallel_args;
mod scale_args;
mod step_args;
mod strategy_args;
mod sweep_args;
mod sweep_spec;
mod tflms_args;
mod tuned;

pub use budget_args::{BudgetArgs, GpuMemory};
pub use exit::{Failure, run};
pub use graph_args::GraphArgs;
pub use model_args::{ManualArgs, ModelArgs, OutputArgs, OutputFormat, Verbosity};
pub use own_args::OwnArgs;
pub use page::{Page, count, milliseconds};
pub use parallel_args::ParallelArgs;
pub use scale_args::ScaleArgs;
pub use step_args::StepArgs;
pub use strategy_args::StrategyArgs;
pub use sweep_args::SweepArgs;
pub use sweep_spec::{ParseSweepError, SweepSpec};
pub use tflms_args::TflmsArgs;
pub use tuned::{TunedPlan, plan_for_budget};

pub use crate::size::{Size, parse_size};
