//! Flags for how a plan for a budget is found.

use clap::Args;
use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};

use super::{Failure, OwnArgs, TflmsArgs};
use crate::pipeline::StrategyChoice;
use crate::tune::planned::Settings;
use crate::tune::{Description, Entry, STRATEGIES, automatic, entry};

/// How a plan for a budget is found.
#[derive(Debug, Clone, Args)]
pub struct StrategyArgs {
    /// How to look for a plan [default: planned, or tflms if it is not known what a step runs]
    #[arg(long, value_name = "NAME", value_parser = strategies())]
    pub strategy: Option<&'static Entry>,

    /// Do not recompute: bring tensors back by copies only
    #[arg(long)]
    pub no_recompute: bool,

    /// Keep read-only weights in host memory where the GPU has no room for them, and stream them in each step; for inference
    #[arg(long)]
    pub swap_weights: bool,

    /// How long to improve plans, in seconds of an ordinary core. Counted in simulated ops, so results are reproducible
    #[arg(long, value_name = "SECONDS", default_value_t = Settings::default().effort_seconds, value_parser = parse_effort)]
    pub effort: f64,

    /// What only some strategies know.
    #[command(flatten)]
    pub own: OwnArgs,
}

/// The names of all strategies, each with what it does.
fn strategies() -> impl TypedValueParser<Value = &'static Entry> {
    let value = |entry: &Entry| PossibleValue::new(entry.description.name).help(entry.description.about);
    let names = PossibleValuesParser::new(STRATEGIES.iter().map(value));
    names.try_map(|name| entry(&name).ok_or("no such strategy"))
}

fn parse_effort(text: &str) -> Result<f64, String> {
    let seconds: Option<f64> =
        text.parse().ok().filter(|seconds: &f64| seconds.is_finite() && *seconds > 0.0);
    seconds.ok_or_else(|| "expected a number of seconds above 0".to_string())
}

impl StrategyArgs {
    /// Who looks for the plan.
    pub fn choice(&self) -> StrategyChoice {
        self.strategy.map_or(StrategyChoice::Automatic, StrategyChoice::This)
    }

    /// What there is to know of the strategy that was named; none if none was.
    pub fn chosen(&self) -> Option<&'static Description> {
        self.strategy.map(|entry| entry.description)
    }

    /// What `planned` may do, and for how long plans are improved.
    pub(super) fn settings(&self) -> Settings {
        Settings {
            recompute: !self.no_recompute,
            swap_weights: self.swap_weights,
            effort_seconds: self.effort,
            threads: None,
        }
    }

    /// Who makes a plan where no budget is given.
    ///
    /// # Errors
    ///
    /// If the strategy that was named cannot, or does not know what was given beside it.
    pub(super) fn without_budget(&self, tflms: &TflmsArgs) -> anyhow::Result<&'static Entry> {
        let entry = self.strategy.unwrap_or_else(|| automatic(|known| known.can.plans_without_budget));
        let known = entry.description;
        if !known.can.plans_without_budget {
            return Err(Failure::Usage.error(format!(
                "--strategy {} plans for a budget: give it with --gpu-mem, as in --gpu-mem 16GiB",
                known.name
            )));
        }
        if !known.can.takes_thresholds && !tflms.is_default() {
            return Err(Failure::Usage.error(format!(
                "--strategy {} knows none of TFLMSv2's thresholds and modes: leave them out",
                known.name
            )));
        }
        self.own.check(self.chosen())?;
        Ok(entry)
    }
}
