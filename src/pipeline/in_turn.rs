//! Several train ops that are run in turn: each is a step of its own, and one plan has to do for all.

use super::{Budget, Error, Simulated};
use crate::graph::NodeId;
use crate::plan::{Analysis, Draft, guard_ref_variables, joined};
use crate::tune::{Judge, Strategy, Tuning, Verdict, tune, tune_for};

/// Where there is no plan for all steps, a part of so many is added to the memory, so many times at most: up to five times as much.
const MORE_PARTS: u64 = 40;
const MOST_TRIES: u32 = 64;

/// One of several steps, and how it goes with the budget and the plan for all of them.
#[derive(Debug, Clone)]
pub struct StepFit {
    /// The op that the step is run for.
    pub train_op: String,
    /// What was found out of it. A plan that was found is the one for all steps.
    pub tuning: Tuning,
}

/// Plans for each step, and joins the plans to one that is judged with each.
///
/// Where steps share ops, the plan of one of them decides what these read and wait for. It is tried with each order of the steps in which
/// one comes first.
pub(super) fn fit_in_turn(
    analysis: &Analysis,
    budget: &Budget,
    strategy: &mut dyn Strategy,
) -> Result<Vec<StepFit>, Error> {
    let runs: Vec<Analysis> = (0..analysis.step.run_count()).map(|run| analysis.of_run(run)).collect();
    let mut fits = Vec::new();
    for (number, run) in runs.iter().enumerate() {
        let simulated = Simulated::new(run, budget)?;
        let outline = simulated.outline()?;
        let tuning = tune(&outline, &simulated.machine(budget)?, strategy)?;
        fits.push(StepFit { train_op: analysis.name_of_run(number), tuning });
    }
    let plans: Vec<Option<Draft>> = fits.iter().map(|fit| plan_of(&fit.tuning)).collect();
    // One that fits with no plan is told as it is; if all fit as they are, there is nothing to join.
    if plans.iter().any(Option::is_none) || plans.iter().flatten().all(Draft::is_empty) {
        return Ok(fits);
    }
    let plans: Vec<Draft> = plans.into_iter().flatten().collect();
    let maker = fits.iter().find_map(|fit| match &fit.tuning.verdict {
        Verdict::FitsWithSwapping(found) => Some(found.strategy),
        Verdict::Fits | Verdict::DoesNotFit => None,
    });
    let maker = maker.unwrap_or(strategy.description());
    let mut last = Vec::new();
    for first in 0..plans.len() {
        let draft = join(analysis, &runs, &plans, first);
        last = Vec::new();
        for (run, fit) in runs.iter().zip(&fits) {
            let simulated = Simulated::new(run, budget)?;
            let outline = simulated.outline()?;
            let machine = simulated.machine(budget)?;
            let tuning = tune_for(&mut Judge::new(&outline, &machine), &draft, &fit.tuning, maker);
            last.push(StepFit { train_op: fit.train_op.clone(), tuning });
        }
        if last.iter().all(|fit| !matches!(fit.tuning.verdict, Verdict::DoesNotFit)) {
            break;
        }
    }
    Ok(last)
}

/// The least memory of a GPU in bytes for which there is one plan for all steps; none if none is found for any.
///
/// What fits is not monotone in the memory ([`crate::tune::least_memory()`]): what is enough for the step that needs most may be too much
/// for another one's plan, or for both together.
pub(super) fn least_in_turn(analysis: &Analysis, budget: &Budget) -> Result<Option<u64>, Error> {
    let mut least = 0;
    for run in 0..analysis.step.run_count() {
        let run = analysis.of_run(run);
        let simulated = Simulated::new(&run, budget)?;
        let outline = simulated.outline()?;
        let Some(bytes) = simulated.least_memory(&outline, budget)? else { return Ok(None) };
        least = least.max(bytes);
    }
    for _ in 0..MOST_TRIES {
        let budget = Budget { memory_bytes: vec![least], ..budget.clone() };
        let fits = fit_in_turn(analysis, &budget, &mut *budget.strategy(analysis)?)?;
        if fits.iter().all(|fit| !matches!(fit.tuning.verdict, Verdict::DoesNotFit)) {
            return Ok(Some(least));
        }
        least = least.saturating_add((least / MORE_PARTS).max(1));
    }
    Ok(None)
}

/// The plan that was found; one that changes nothing if none is needed, none if none was found.
fn plan_of(tuning: &Tuning) -> Option<Draft> {
    match &tuning.verdict {
        Verdict::Fits => Some(Draft::default()),
        Verdict::FitsWithSwapping(found) => Some(found.draft.clone()),
        Verdict::DoesNotFit => None,
    }
}

/// One plan of those for each step, of which one comes first.
fn join(analysis: &Analysis, runs: &[Analysis], plans: &[Draft], first: usize) -> Draft {
    let mut settled = vec![first];
    let mut draft = plans[first].clone();
    for next in (0..plans.len()).filter(|&next| next != first) {
        let is_settled = |node: NodeId| settled.iter().any(|&run: &usize| runs[run].step.contains(node));
        draft = joined(&draft, &plans[next], is_settled);
        settled.push(next);
    }
    guard_ref_variables(analysis, &mut draft);
    draft
}
