//! A plan for a budget, as all tools make one.

use super::{BudgetArgs, Failure, Simulated, Size};
use crate::graph::Device;
use crate::plan::tflms::Parameters;
use crate::plan::{Analysis, Draft, Plan};
use crate::tune::Verdict;

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
pub fn plan_for_budget(
    analysis: &Analysis,
    budget: &BudgetArgs,
    default_profile: Option<&str>,
    fixed: Parameters,
    host: &Device,
) -> anyhow::Result<TunedPlan> {
    let simulated = Simulated::new(analysis, budget, budget.profile(default_profile)?)?;
    let (tuning, strategy) = simulated.tune(&simulated.outline()?, budget, fixed)?;
    let peak = |outcome: &crate::simulate::Outcome| {
        Size(outcome.gpus.iter().map(|gpu| gpu.peak_bytes).max().unwrap_or(0))
    };
    let tight = match tuning.is_tight {
        true => "; it is tight, and fits only in the order and with copies as fast as predicted",
        false => "",
    };
    let (plan, note) = match tuning.verdict {
        Verdict::Fits => (
            written(analysis, strategy, Draft::default(), serde_json::Value::Null, host),
            format!("the graph fits as it is, with a predicted peak of {}{tight}", peak(&tuning.before)),
        ),
        Verdict::FitsWithSwapping(found) => {
            let slowdown = found.outcome.step_seconds / tuning.before.step_seconds - 1.0;
            let note = format!(
                "predicted peak {} instead of {}, steps {:.0}% longer{tight}",
                peak(&found.outcome),
                peak(&tuning.before),
                slowdown * 100.0
            );
            (written(analysis, found.strategy, found.draft, found.parameters, host), note)
        }
        Verdict::DoesNotFit => {
            let floor = tuning.floors.iter().map(|floor| floor.memory_bytes).max().unwrap_or(0);
            return Err(Failure::DoesNotFit.error(format!(
                "no plan was found with which the graph fits: its peak is {}, and no plan at all gets below {}",
                peak(&tuning.before),
                Size(floor)
            )));
        }
    };
    Ok(TunedPlan { plan, note })
}

/// The written form of a plan that a strategy found.
pub fn written(
    analysis: &Analysis,
    strategy: &str,
    draft: Draft,
    parameters: serde_json::Value,
    host: &Device,
) -> Plan {
    let mut plan = Plan::new(analysis, strategy, &host.to_string());
    plan.parameters = parameters;
    draft.write_to(&mut plan, analysis);
    plan
}
