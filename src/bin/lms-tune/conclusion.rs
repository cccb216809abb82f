//! What was found out of a graph and a budget.

use tf_lms::plan::tflms::Parameters;
use tf_lms::plan::{Draft, Filters};
use tf_lms::simulate::{GpuOutcome, Machine, NoObserver, Outcome, Outline, Program, simulate};
use tf_lms::tune::{self, NO_STRATEGY, Strategy, Tuning, describe};

use crate::given::Given;
use crate::report::Verdict;

/// What was found out, and the plan that goes with it. Where nothing fits, that is the plan that was given, or the one that swaps
/// the most.
pub struct Conclusion {
    pub verdict: Verdict,
    pub strategy: String,
    pub draft: Draft,
    pub outcome: Outcome,
    pub parameters: serde_json::Value,
}

impl Conclusion {
    /// The filters that the plan was made with, as far as it tells; `fixed` holds those of a plan that was made just now.
    pub fn filters(&self, fixed: Option<&Parameters>) -> Filters {
        let own = || describe(&self.strategy).and_then(|known| (known.filters)(&self.parameters));
        fixed.map(|fixed| fixed.filters.clone()).or_else(own).unwrap_or_default()
    }
}

/// Concludes from what tuning found, or from what the plan that was given comes to. `strategy` is who looked for a plan.
pub fn conclude(
    outline: &Outline,
    machine: &Machine,
    tuning: &Tuning,
    given: Option<&Given>,
    strategy: &dyn Strategy,
) -> anyhow::Result<Conclusion> {
    let name = |found: &str| given.map_or(found, |given| &given.strategy).to_string();
    Ok(match &tuning.verdict {
        tune::Verdict::Fits => Conclusion {
            verdict: Verdict::Fits,
            strategy: name(NO_STRATEGY),
            draft: Draft::default(),
            outcome: tuning.before.clone(),
            parameters: serde_json::Value::Null,
        },
        tune::Verdict::FitsWithSwapping(found) => {
            // A pool hands out more than was asked for: where the step needs less than the budget without that, that is said.
            let counted = unlimited(outline, machine, &found.draft);
            Conclusion {
                verdict: Verdict::FitsWithSwapping,
                strategy: name(found.strategy.name),
                draft: found.draft.clone(),
                outcome: Outcome { gpus: merge_peaks(&found.outcome, &counted), ..found.outcome.clone() },
                parameters: found.parameters.clone(),
            }
        }
        tune::Verdict::DoesNotFit => {
            let (strategy, draft, parameters) = match given {
                Some(given) => (given.strategy.clone(), given.draft.clone(), given.parameters.clone()),
                None => match strategy.most_swapping(outline.analysis())? {
                    Some(most) => (most.strategy.name.to_string(), most.draft, most.parameters),
                    None => (NO_STRATEGY.to_string(), Draft::default(), serde_json::Value::Null),
                },
            };
            let outcome = unlimited(outline, machine, &draft);
            Conclusion { verdict: Verdict::DoesNotFit, strategy, draft, outcome, parameters }
        }
    })
}

/// A step with a plan where memory has no end.
fn unlimited(outline: &Outline, machine: &Machine, draft: &Draft) -> Outcome {
    let machine = machine.with_memory(Vec::new());
    simulate(&Program::new(outline, draft), &machine, &mut NoObserver).unwrap_or_default()
}

/// The outcome within the budget; where the step needs less than that anyway, the peak of what it needs.
fn merge_peaks(within: &Outcome, counted: &Outcome) -> Vec<GpuOutcome> {
    let pairs = within.gpus.iter().zip(&counted.gpus);
    pairs
        .map(|(within, counted)| match counted.peak_bytes <= within.peak_bytes {
            true => GpuOutcome {
                peak_bytes: counted.peak_bytes,
                peak_op: counted.peak_op,
                peak_seconds: counted.peak_seconds,
                ..within.clone()
            },
            false => within.clone(),
        })
        .collect()
}
