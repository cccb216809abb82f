//! Flags for how a plan for a budget is found.

use clap::{Args, ValueEnum};

use crate::pipeline::StrategyChoice;
use crate::tune::planned::Settings;

/// How a plan for a budget is found.
#[derive(Debug, Clone, Args)]
pub struct StrategyArgs {
    /// How to look for a plan [default: planned, or tflms if it is not known what a step runs]
    #[arg(long, value_enum, value_name = "NAME")]
    pub strategy: Option<StrategyName>,

    /// Do not recompute: bring tensors back by copies only
    #[arg(long)]
    pub no_recompute: bool,

    /// Keep read-only weights in host memory where the GPU has no room for them, and stream them in each step; for inference
    #[arg(long)]
    pub swap_weights: bool,

    /// How long to improve plans, in seconds of an ordinary core. Counted in simulated ops, so results are reproducible
    #[arg(long, value_name = "SECONDS", default_value_t = Settings::default().effort_seconds, value_parser = parse_effort)]
    pub effort: f64,
}

/// A strategy that looks for plans.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum StrategyName {
    /// Computes what leaves when, what returns when, and what is recomputed
    Planned,
    /// Searches for the best parameters of TFLMSv2's strategy
    Tflms,
}

fn parse_effort(text: &str) -> Result<f64, String> {
    let seconds: Option<f64> =
        text.parse().ok().filter(|seconds: &f64| seconds.is_finite() && *seconds > 0.0);
    seconds.ok_or_else(|| "expected a number of seconds above 0".to_string())
}

impl StrategyArgs {
    /// Who looks for the plan.
    pub fn choice(&self) -> StrategyChoice {
        match self.strategy {
            None => StrategyChoice::Automatic,
            Some(StrategyName::Planned) => StrategyChoice::Planned,
            Some(StrategyName::Tflms) => StrategyChoice::Tflms,
        }
    }
}
