//! How a graph and a budget go together.

use super::StepFit;
use crate::graph::Device;
use crate::plan::{Analysis, Draft, Plan};
use crate::simulate::Outcome;
use crate::tune::{Tuning, Verdict};

/// How a graph and a budget go together, and the plan with which they do.
#[derive(Debug)]
pub struct Fit {
    /// All that was found out; of several steps that are run in turn of the one that needs the most memory, or does not fit.
    pub tuning: Tuning,
    /// Where there are several such steps: each of them.
    pub steps: Vec<StepFit>,
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
                Some(found.draft.clone().into_plan(analysis, found.strategy.name, parameters, host))
            }
            Verdict::DoesNotFit => None,
        };
        Fit { tuning, plan, steps: Vec::new() }
    }

    pub(super) fn of_steps(
        analysis: &Analysis,
        steps: Vec<StepFit>,
        strategy: &str,
        host: &Device,
    ) -> Option<Fit> {
        let needs = |step: &&StepFit| {
            (matches!(step.tuning.verdict, Verdict::DoesNotFit), step.tuning.before.peak_bytes())
        };
        let largest = steps.iter().max_by_key(needs).map(|step| step.tuning.clone());
        let fit = largest.map(|tuning| Fit::new(analysis, tuning, strategy, host));
        fit.map(|fit| Fit { steps, ..fit })
    }

    /// Whether the graph fits as it is.
    pub fn fits_as_it_is(&self) -> bool {
        self.tuning.fits_as_it_is()
    }

    /// The most memory that a GPU has in use at a time in a step of the graph as it is, were there no end of memory.
    pub fn peak_bytes_before(&self) -> u64 {
        self.tuning.before.peak_bytes()
    }

    /// The same with the plan, in the budget; none if nothing fits.
    pub fn peak_bytes(&self) -> Option<u64> {
        self.tuning.outcome().map(Outcome::peak_bytes)
    }

    /// As [`Tuning::slowdown`].
    pub fn slowdown(&self) -> Option<f64> {
        self.tuning.slowdown()
    }

    /// What no plan gets below on any GPU, in bytes.
    pub fn floor_bytes(&self) -> u64 {
        self.tuning.floor_bytes()
    }

    /// A step with the plan.
    pub fn outcome(&self) -> Option<&Outcome> {
        self.tuning.outcome()
    }
}
