//! The best parameters for the strategy of TFLMSv2.
//!
//! TFLMSv2's tuner bisects for the largest threshold that fits, then for the largest values of the rest. But what fits is not
//! monotone in the threshold (a tensor that returns too early can take more than one that stays), and the largest threshold
//! is not the fastest. So this search looks at a grid over all thresholds and synchronization modes, takes the fastest
//! step that fits, and improves one parameter at a time.

use super::rank::{self, Rank};
use super::{Abilities, Description, Found, Judge, Proposal, Setup, Strategy, StrategyError};
use crate::graph::{NodeId, TensorId};
use crate::plan::tflms::{self, NAME, Parameters, SyncMode, TflmsError, ThresholdPlanner};
use crate::plan::{Analysis, Draft, guard_ref_variables};
use crate::simulate::Outcome;

/// Each threshold of the grid is by so much larger than the one before, at least by one.
const GRID_STEP: f64 = 1.6;

/// Values that are tried for how many levels ahead a tensor returns.
const AHEAD: [u32; 8] = [1, 2, 4, 8, 16, 32, 64, 128];

/// Values that are tried for how near consumers must be to share a return.
const GROUP_BY: [u32; 6] = [0, 1, 4, 16, 64, 256];

/// How often the interval around the best threshold is halved.
const BISECTIONS: u32 = 4;

/// What there is to know of it.
pub static DESCRIPTION: Description = Description {
    about: "Searches for the best parameters of TFLMSv2's strategy",
    can: Abilities { plans_without_budget: true, takes_thresholds: true, ..Description::named(NAME).can },
    shown: &["swapout_threshold", "swapin_ahead", "swapin_groupby", "sync_mode"],
    filters: |parameters| serde_json::from_value(parameters.clone()).ok().map(|own: Parameters| own.filters),
    ..Description::named(NAME)
};

/// Makes it of what a user said.
pub(super) fn make(setup: Setup) -> Result<Box<dyn Strategy>, StrategyError> {
    Ok(Box::new(Tflms::new(setup.fixed)))
}

impl From<TflmsError> for StrategyError {
    fn from(error: TflmsError) -> StrategyError {
        StrategyError::new(&DESCRIPTION, error)
    }
}

/// Searches the parameters of [`crate::plan::tflms`].
#[derive(Debug)]
pub struct Tflms {
    /// What is not searched: filters, devices, the mode.
    pub fixed: Parameters,
    /// The initial values that go to their variables by way of the host; with TFLMSv2 none do.
    pub(super) initial_values: Vec<(TensorId, NodeId)>,
}

impl Strategy for Tflms {
    fn description(&self) -> &'static Description {
        &DESCRIPTION
    }

    fn plan_as_told(&self, analysis: &Analysis) -> Result<Option<Proposal>, StrategyError> {
        Ok(Some(proposal(analysis, &self.fixed)?))
    }

    fn most_swapping(&self, analysis: &Analysis) -> Result<Option<Proposal>, StrategyError> {
        let everything = Parameters {
            swapout_threshold: 1,
            sync_mode: SyncMode { swap_out: true, swap_in: true },
            ..self.fixed.clone()
        };
        Ok(Some(proposal(analysis, &everything)?))
    }

    fn find(&mut self, judge: &mut Judge) -> Result<Option<Found>, StrategyError> {
        Ok(self.find_within(judge, f64::INFINITY)?)
    }
}

impl Tflms {
    /// Searches what is not fixed.
    pub fn new(fixed: Parameters) -> Tflms {
        Tflms { fixed, initial_values: Vec::new() }
    }

    /// The best plan that it finds with which a step takes at most so long.
    pub(super) fn find_within(
        &self,
        judge: &mut Judge,
        most_seconds: f64,
    ) -> Result<Option<Found>, TflmsError> {
        let planner = ThresholdPlanner::new(judge.outline().analysis(), &self.fixed)?;
        let initial_values = &self.initial_values;
        let mut search = ThresholdSearch { judge, planner, most_seconds, initial_values, best: None };
        let levels = search.judge.outline().analysis().levels.count() as u32;
        let grid = thresholds(levels);
        for sync_mode in modes() {
            for &swapout_threshold in &grid {
                search.attempt(Parameters { swapout_threshold, sync_mode, ..self.fixed.clone() })?;
            }
        }
        let serializable = search.judge.outline().analysis().step.is_known();
        if search.best.is_none() && serializable {
            let everything = ":".parse().into_iter().collect::<Vec<_>>();
            for sync_mode in modes() {
                let serialization = everything.clone();
                search.attempt(Parameters {
                    swapout_threshold: 1,
                    sync_mode,
                    serialization,
                    ..self.fixed.clone()
                })?;
            }
        }
        search.improve(&grid)?;
        Ok(search.best.map(|(_, found)| found))
    }
}

/// The plan that parameters come to.
fn proposal(analysis: &Analysis, parameters: &Parameters) -> Result<Proposal, TflmsError> {
    let draft = tflms::draft(analysis, parameters)?;
    let parameters = serde_json::to_value(parameters).unwrap_or_default();
    Ok(Proposal { strategy: &DESCRIPTION, draft, parameters })
}

fn modes() -> impl Iterator<Item = SyncMode> {
    (0u8..4).filter_map(|mode| SyncMode::try_from(mode).ok())
}

/// From 1 up to the number of levels, each by a factor larger than the one before.
fn thresholds(levels: u32) -> Vec<u32> {
    let mut grid = vec![1];
    let mut next = 1;
    while next < levels {
        next = (next + 1).max((f64::from(next) * GRID_STEP) as u32);
        grid.push(next.min(levels));
    }
    grid
}

struct ThresholdSearch<'a, 'b> {
    judge: &'a mut Judge<'b>,
    planner: ThresholdPlanner<'b>,
    /// Slower steps are of no use.
    most_seconds: f64,
    /// As in [`Tflms`].
    initial_values: &'a [(TensorId, NodeId)],
    best: Option<(Parameters, Found)>,
}

impl ThresholdSearch<'_, '_> {
    /// Judges parameters; keeps them if they fit and are better than all before. Whether they are.
    fn attempt(&mut self, parameters: Parameters) -> Result<bool, TflmsError> {
        let analysis = self.judge.outline().analysis();
        self.planner.set(&parameters)?;
        let mut draft = self.planner.draft()?;
        draft.initial_values = self.initial_values.to_vec();
        let mut judged = self.judged(&draft);
        if judged.is_some() && !analysis.ref_variables.all().is_empty() {
            guard_ref_variables(analysis, &mut draft);
            judged = self.judged(&draft);
        }
        let is_better = judged.is_some();
        if let Some(outcome) = judged {
            let json = serde_json::to_value(&parameters).unwrap_or_default();
            let found = Found { strategy: &DESCRIPTION, draft, outcome, parameters: json };
            self.best = Some((parameters, found));
        }
        Ok(is_better)
    }

    /// What comes of a plan if that fits and is better than all before.
    fn judged(&mut self, draft: &Draft) -> Option<Outcome> {
        let is_better = |outcome: &Outcome| {
            let best = self.best.as_ref().map(|(_, best)| rank(&best.outcome));
            outcome.step_seconds <= self.most_seconds && best.is_none_or(|best| rank(outcome) < best)
        };
        self.judge.judge_if(draft, is_better).ok().flatten()
    }

    /// Tries other values of one parameter at a time.
    fn improve(&mut self, grid: &[u32]) -> Result<(), TflmsError> {
        let Some((start, _)) = &self.best else { return Ok(()) };
        let place = grid.partition_point(|&threshold| threshold < start.swapout_threshold);
        let (mut low, mut high) =
            (start.swapout_threshold, grid.get(place + 1).copied().unwrap_or(start.swapout_threshold));
        for _ in 0..BISECTIONS {
            let middle = low + (high - low) / 2;
            let Some((best, _)) = self.best.as_ref().filter(|_| middle > low) else { break };
            let better = self.attempt(Parameters { swapout_threshold: middle, ..best.clone() })?;
            if better { low = middle } else { high = middle }
        }
        for swapin_ahead in AHEAD {
            self.vary(|best| Parameters { swapin_ahead, ..best })?;
        }
        for swapin_groupby in GROUP_BY {
            self.vary(|best| Parameters { swapin_groupby, ..best })?;
        }
        Ok(())
    }

    fn vary(&mut self, change: impl Fn(Parameters) -> Parameters) -> Result<(), TflmsError> {
        let Some((best, _)) = &self.best else { return Ok(()) };
        let changed = change(best.clone());
        if changed != *best {
            self.attempt(changed)?;
        }
        Ok(())
    }
}

/// Steps that differ by less than a part of so many are equal.
const STEP_PARTS: f64 = 1e4;

/// What makes a plan better.
fn rank(outcome: &Outcome) -> Rank {
    rank::rank(outcome, STEP_PARTS)
}
