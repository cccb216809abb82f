//! A plan for a budget, in a tool's words.

use super::{Failure, Size};
use crate::pipeline::Budget;
use crate::plan::{Analysis, Plan};
use crate::simulate::Outcome;
use crate::tune::Tuning;

/// A plan for a budget, and what a user should know of it.
#[derive(Debug)]
pub struct TunedPlan {
    /// The plan; one that changes nothing if the graph fits.
    pub plan: Plan,
    /// What was found out, in a sentence.
    pub note: String,
}

/// Looks for the best plan that fits the budget.
///
/// # Errors
///
/// If nothing fits, which ends with its own exit status, or if sizes that matter are unknown.
pub fn plan_for_budget(analysis: &Analysis, budget: &Budget) -> anyhow::Result<TunedPlan> {
    let fit = analysis.fit(budget)?;
    let asked = budget.strategy(analysis)?.description();
    let note = |tuning: &Tuning| match tuning.fallback(asked) {
        Some(why) => format!("{}; {why}", note(analysis, tuning)),
        None if !analysis.step.is_known() => format!(
            "{}; planned by {}, as the file does not say what a step runs: give --train-op",
            note(analysis, tuning),
            asked.name
        ),
        None => note(analysis, tuning),
    };
    let note = match fit.steps.is_empty() {
        true => note(&fit.tuning),
        // Each of several steps by its train op.
        false => {
            let steps = fit.steps.iter().map(|step| format!("{}: {}", step.train_op, note(&step.tuning)));
            steps.collect::<Vec<_>>().join("; ")
        }
    };
    match fit.plan {
        Some(plan) => Ok(TunedPlan { plan, note }),
        None => Err(Failure::DoesNotFit.error(note)),
    }
}

fn note(analysis: &Analysis, tuning: &Tuning) -> String {
    let before = Size(tuning.before.peak_bytes());
    let caveat = tuning.caveat().map(|caveat| format!("; {caveat}")).unwrap_or_default();
    match (tuning.outcome().map(Outcome::peak_bytes), tuning.slowdown()) {
        _ if tuning.fits_as_it_is() => {
            let how = if analysis.is_lowered { "with its calls made flat" } else { "as it is" };
            format!("the graph fits {how}, with a predicted peak of {before}{caveat}")
        }
        (Some(peak), Some(slowdown)) => format!(
            "predicted peak {} instead of {before}, steps {:.0}% longer{caveat}",
            Size(peak),
            slowdown * 100.0
        ),
        _ => format!(
            "no plan was found with which the graph fits: its peak is {before}, and no plan at all gets below {}",
            Size(tuning.floor_bytes())
        ),
    }
}
