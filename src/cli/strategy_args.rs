//! Flags for how a plan for a budget is found.

use clap::{Args, ValueEnum};

use super::Failure;
use crate::plan::Analysis;
use crate::plan::tflms::Parameters;
use crate::tune::planned::Settings;
use crate::tune::{Planned, Strategy, Tflms};

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
    /// The strategy. `fixed` is what it must not change.
    ///
    /// # Errors
    ///
    /// If one was asked for that cannot plan for this graph.
    pub fn strategy(&self, analysis: &Analysis, fixed: Parameters) -> anyhow::Result<Box<dyn Strategy>> {
        let is_known = analysis.step.is_known();
        match self.strategy {
            Some(StrategyName::Planned) if !is_known => Err(Failure::Usage.error(
                "--strategy planned: the file does not say which ops a step runs: give the op that trains with --train-op",
            )),
            Some(StrategyName::Tflms) if self.swap_weights => {
                Err(Failure::Usage.error("--swap-weights: only --strategy planned does that"))
            }
            None if self.swap_weights && !is_known => Err(Failure::Usage.error(
                "--swap-weights: the file does not say which ops a step runs: give what to compute with --train-op",
            )),
            Some(StrategyName::Tflms) => Ok(Box::new(Tflms::new(fixed))),
            None if !is_known => Ok(Box::new(Tflms::new(fixed))),
            _ => {
                let settings = Settings {
                    recompute: !self.no_recompute,
                    swap_weights: self.swap_weights,
                    effort_seconds: self.effort,
                };
                Ok(Box::new(Planned { settings, fixed }))
            }
        }
    }
}
