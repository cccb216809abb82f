//! Flags for how a plan for a budget is found.

use clap::{Args, ValueEnum};

use crate::pipeline::StrategyChoice;
use crate::tune::planned::Settings;

/// How a plan for a budget is found.
#[derive(Debug, Clone, Args)]
pub struct StrategyArgs {
    /// How to find what fits the budget [default: planned, or tflms if it is not known what a step runs]
    #[arg(long, value_enum, value_name = "NAME")]
    pub strategy: Option<StrategyName>,

    /// Bring back by copies alone: run no op a second time
    #[arg(long)]
    pub no_recompute: bool,

    /// Let weights that steps only read be on the host, as far as the GPU has no room for them, and copy them to it in each step; for
    /// what trains no more
    #[arg(long)]
    pub swap_weights: bool,

    /// For how long to improve plans; counted in simulated ops, of which an ordinary core does so many, so that the same is
    /// found each time
    #[arg(long, value_name = "SECONDS", default_value_t = Settings::default().effort_seconds, value_parser = parse_effort)]
    pub effort: f64,
}

/// A strategy that looks for plans.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum StrategyName {
    /// Computes what leaves when, what returns when, and what is computed again
    Planned,
    /// Looks for the best parameters of TFLMSv2's
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
