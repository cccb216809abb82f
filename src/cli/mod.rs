//! What the three tools share: flags, sizes as people write them, and how things end.

mod budget_args;
mod bytes;
mod dimensions;
mod exit;
mod graph_args;
mod model_args;
mod nvml;
mod strategy_args;
mod subject;
mod sweep_args;
mod sweep_spec;
mod tflms_args;
mod tuned;
mod tuning;

pub use budget_args::{BudgetArgs, GpuMemory};
pub use bytes::{Size, parse_size};
pub use dimensions::{Dimensions, ParseDimensionsError};
pub use exit::{Failure, run};
pub use graph_args::GraphArgs;
pub use model_args::{ManualArgs, ModelArgs, OutputArgs, OutputFormat, Verbosity};
pub use strategy_args::{StrategyArgs, StrategyName};
pub use subject::Subject;
pub use sweep_args::SweepArgs;
pub use sweep_spec::{ParseSweepError, SweepSpec};
pub use tflms_args::TflmsArgs;
pub use tuned::{TunedPlan, plan_for_budget, written};
pub use tuning::{Simulated, tune_sized};
