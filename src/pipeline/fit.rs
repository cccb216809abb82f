//! How a graph and a budget go together.

use crate::graph::Device;
use crate::plan::{Analysis, Draft, Plan};
use crate::simulate::Outcome;
use crate::tune::{Tuning, Verdict};

/// How a graph and a budget go together, and the plan with which they do.
#[derive(Debug)]
pub struct Fit {
    /// All that was found out.
    pub tuning: Tuning,
    /// The plan; one that changes nothing if the graph fits as it is, none if it fits with no plan that the strategy knows.
    pub plan: Option<Plan>,
}

impl Fit {
    pub(super) fn new(analysis: &Analysis, tuning: Tuning, strategy: &str, host: &Device) -> Fit {
        let plan = match &tuning.verdict {
            Verdict::Fits => {
                let nothing = Draft::default();
                Some(nothing.into_plan(analysis, strategy, serde_json::Value::Null, host))
            }
            Verdict::FitsWithSwapping(found) => {
                let parameters = found.parameters.clone();
                Some(found.draft.clone().into_plan(analysis, found.strategy, parameters, host))
            }
            Verdict::DoesNotFit => None,
        };
        Fit { tuning, plan }
    }

    /// Whether the graph fits as it is.
    pub fn fits_as_it_is(&self) -> bool {
        matches!(self.tuning.verdict, Verdict::Fits)
    }

    /// The most memory that a GPU has in use at a time in a step of the graph as it is, were there no end of memory.
    pub fn peak_bytes_before(&self) -> u64 {
        self.tuning.before.peak_bytes()
    }

    /// The same with the plan, in the budget; none if nothing fits.
    pub fn peak_bytes(&self) -> Option<u64> {
        self.outcome().map(Outcome::peak_bytes)
    }

    /// By what part a step takes longer with the plan than it would if there were no end of memory: 0.05 is 5%. None if nothing fits.
    pub fn slowdown(&self) -> Option<f64> {
        self.outcome().map(|outcome| outcome.step_seconds / self.tuning.before.step_seconds - 1.0)
    }

    /// What no plan gets below on any GPU, in bytes.
    pub fn floor_bytes(&self) -> u64 {
        self.tuning.floors.iter().map(|floor| floor.memory_bytes).max().unwrap_or(0)
    }

    /// A step with the plan.
    pub fn outcome(&self) -> Option<&Outcome> {
        match &self.tuning.verdict {
            Verdict::Fits => Some(&self.tuning.before),
            Verdict::FitsWithSwapping(found) => Some(&found.outcome),
            Verdict::DoesNotFit => None,
        }
    }
}
