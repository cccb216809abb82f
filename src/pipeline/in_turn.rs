//! Several train ops that are run in turn: each is a step of its own, and one plan has to do for all.

use super::{Budget, Error, Simulated};
use crate::graph::NodeId;
use crate::plan::{Analysis, Draft, guard_ref_variables, joined};
use crate::tune::{Description, Judge, Strategy, Tuning, Verdict, tune, tune_for};

/// Where there is no plan for all steps, a part of so many is added to the memory, so many times at most: up to five times as much.
const MORE_PARTS: u64 = 40;
const MOST_TRIES: u32 = 64;

/// So often more is tried where a plan for all steps is tight.
const MOST_TIGHT_TRIES: u32 = 8;

/// Where plans that are made for the memory that there is do not go together, they are made for less: by a part of so many each time, so many
/// times at most.
const LESS_PARTS: u64 = 64;
const MOST_LESS: u64 = 4;

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
/// one comes first, and where none of them is certain, with plans that leave over a little.
pub(super) fn fit_in_turn(
    analysis: &Analysis,
    budget: &Budget,
    strategy: &mut dyn Strategy,
) -> Result<Vec<StepFit>, Error> {
    let runs: Vec<Analysis> = (0..analysis.step.run_count()).map(|run| analysis.of_run(run)).collect();
    let alone = fit_alone(analysis, &runs, budget, strategy)?;
    if !are_to_be_joined(&alone) {
        return Ok(alone);
    }
    let mut best = fit_joined(analysis, &runs, budget, &alone, strategy.description())?;
    let is_tight_alone = alone.iter().any(|fit| fit.tuning.is_tight);
    for less in 1..=MOST_LESS {
        if is_tight_alone || Certainty::of_all(&best) == Certainty::Certain {
            break;
        }
        let less_of = |&bytes: &u64| bytes - bytes / LESS_PARTS * less;
        let smaller =
            Budget { memory_bytes: budget.memory_bytes.iter().map(less_of).collect(), ..budget.clone() };
        let alone = fit_alone(analysis, &runs, &smaller, strategy)?;
        if !are_to_be_joined(&alone) {
            break;
        }
        let joined = fit_joined(analysis, &runs, budget, &alone, strategy.description())?;
        if Certainty::of_all(&joined) > Certainty::of_all(&best) {
            best = joined;
        }
    }
    Ok(best)
}

/// How sure it is that a step fits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Certainty {
    DoesNotFit,
    Tight,
    Certain,
}

impl Certainty {
    /// Of the step for which it is the least sure.
    fn of_all(fits: &[StepFit]) -> Certainty {
        let of_one = |fit: &StepFit| match (&fit.tuning.verdict, fit.tuning.is_tight) {
            (Verdict::DoesNotFit, _) => Certainty::DoesNotFit,
            (_, true) => Certainty::Tight,
            (_, false) => Certainty::Certain,
        };
        fits.iter().map(of_one).min().unwrap_or(Certainty::Certain)
    }
}

/// How each step goes with the budget and a plan of its own.
fn fit_alone(
    analysis: &Analysis,
    runs: &[Analysis],
    budget: &Budget,
    strategy: &mut dyn Strategy,
) -> Result<Vec<StepFit>, Error> {
    let fit = |(number, run): (usize, &Analysis)| {
        let simulated = Simulated::new(run, budget)?;
        let outline = simulated.outline()?;
        let tuning = tune(&outline, &simulated.machine(budget)?, strategy)?;
        Ok(StepFit { train_op: analysis.name_of_run(number), tuning })
    };
    runs.iter().enumerate().map(fit).collect()
}

/// Whether each step fits, and one of them with a plan. One that fits with no plan is told as it is; if all fit as they are, there is nothing
/// to join.
fn are_to_be_joined(alone: &[StepFit]) -> bool {
    let verdicts = || alone.iter().map(|fit| &fit.tuning.verdict);
    verdicts().all(|verdict| !matches!(verdict, Verdict::DoesNotFit))
        && verdicts().any(|verdict| !matches!(verdict, Verdict::Fits))
}

/// How each step goes with the budget and one plan that is joined of those that each has alone, the first that all fit with for certain, or
/// else one that they fit with at all.
fn fit_joined(
    analysis: &Analysis,
    runs: &[Analysis],
    budget: &Budget,
    alone: &[StepFit],
    asked: &'static Description,
) -> Result<Vec<StepFit>, Error> {
    let plans: Vec<Draft> = alone.iter().map(|fit| plan_of(&fit.tuning)).collect();
    let maker = alone.iter().find_map(|fit| match &fit.tuning.verdict {
        Verdict::FitsWithSwapping(found) => Some(found.strategy),
        Verdict::Fits | Verdict::DoesNotFit => None,
    });
    let mut best: Option<Vec<StepFit>> = None;
    for first in 0..plans.len() {
        let draft = join(analysis, runs, &plans, first);
        let fit = |(run, fit): (&Analysis, &StepFit)| {
            let simulated = Simulated::new(run, budget)?;
            let outline = simulated.outline()?;
            let machine = simulated.machine(budget)?;
            let mut judge = Judge::new(&outline, &machine);
            let tuning = tune_for(&mut judge, &draft, &fit.tuning, maker.unwrap_or(asked));
            Ok(StepFit { train_op: fit.train_op.clone(), tuning })
        };
        let fits = runs.iter().zip(alone).map(fit).collect::<Result<Vec<StepFit>, Error>>()?;
        let certainty = Certainty::of_all(&fits);
        if best.as_ref().is_none_or(|best| certainty > Certainty::of_all(best)) {
            best = Some(fits);
        }
        if certainty == Certainty::Certain {
            break;
        }
    }
    Ok(best.unwrap_or_default())
}

/// The least memory of a GPU in bytes for which there is one plan for all steps; none if none is found for any.
///
/// What fits is not monotone in the memory ([`crate::tune::least_memory()`]): what is enough for the step that needs most may be too much
/// for another one's plan, or for both together. A memory for which the plan is tight counts only if a little more does not do either.
pub(super) fn least_in_turn(analysis: &Analysis, budget: &Budget) -> Result<Option<u64>, Error> {
    let mut least = 0;
    for run in 0..analysis.step.run_count() {
        let run = analysis.of_run(run);
        let simulated = Simulated::new(&run, budget)?;
        let outline = simulated.outline()?;
        let Some(bytes) = simulated.least_memory(&outline, budget)? else { return Ok(None) };
        least = least.max(bytes);
    }
    let mut least_tight = None;
    let mut tight_tries = 0;
    for _ in 0..MOST_TRIES {
        let budget = Budget { memory_bytes: vec![least], ..budget.clone() };
        let fits = fit_in_turn(analysis, &budget, &mut *budget.strategy(analysis)?)?;
        match Certainty::of_all(&fits) {
            Certainty::Certain => return Ok(Some(least)),
            Certainty::Tight => least_tight = least_tight.or(Some(least)),
            Certainty::DoesNotFit => {}
        }
        tight_tries += u32::from(least_tight.is_some());
        if tight_tries > MOST_TIGHT_TRIES {
            break;
        }
        least = least.saturating_add((least / MORE_PARTS).max(1));
    }
    Ok(least_tight)
}

/// The plan that was found; one that changes nothing if none is needed.
fn plan_of(tuning: &Tuning) -> Draft {
    match &tuning.verdict {
        Verdict::FitsWithSwapping(found) => found.draft.clone(),
        Verdict::Fits | Verdict::DoesNotFit => Draft::default(),
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
