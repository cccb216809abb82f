//! Plans that meet a budget by construction.
//!
//! Four rooms, each of which knows those before it (`docs/planner-design.md` begins with the data structures that they share):
//!
//! - `timeline`: a fixed order of all ops says what is in memory at each of them.
//! - `waits`: which ops may wait for which, and the edges between ops that keep the runtime to the order.
//! - `decide`: where memory is too little, buffers leave, and come back by a copy, as late as the link allows, or by a second run of the op
//!   that made them where that is cheaper. Where the allocator finds no room though the bytes would do, a hole is made.
//! - `search`: what turns out not to have to leave stays, and what is decided of single buffers is changed by chance as long as there is effort
//!   left.
//!
//! Why places of the order and not times: an op takes its memory when the host launches it, and the host launches in order. What a
//! plan counts as there at a place is all that can be there when the op at this place is launched, however fast link and GPU are:
//! a copy in starts after its trigger has run, and so after it was launched; of copies out the allocator waits for the end. So a
//! plan within the limit at each place is within it at each time; only the allocator's fragmentation comes on top, and the
//! simulator has the last word on that.

mod decide;
mod search;
mod settings;
mod timeline;
mod waits;

use serde_json::Value;

use super::{
    Abilities, Description, Found, Judge, Progress, Proposal, Setup, Strategy, StrategyError, Tflms,
    UnknownStep,
};
use crate::graph::NodeId;
use crate::plan::tflms;
use crate::plan::{Analysis, Draft};
use crate::simulate::{Outline, Program};
#[cfg(feature = "tune")]
pub(super) use decide::cheap_ops;
pub use settings::Settings;
#[cfg(feature = "tune")]
pub(super) use timeline::{Course, LifeId, Order, Position, Reader};
pub use waits::hold_back_means;

use decide::Chains;
use search::{Attempts, Parameters, Planner, Point, Reached, Round, Schedule, climb, rank, weights};

/// The name of the strategy in plans and on the command line.
pub const NAME: &str = "planned";

/// What there is to know of it.
pub static DESCRIPTION: Description = Description {
    about: "Computes what leaves when, what returns when, and what is recomputed",
    can: Abilities {
        needs_step: true,
        swaps_weights: true,
        swaps_whole_tensors: true,
        ..Description::named(NAME).can
    },
    settings: Some(settings),
    ..Description::named(NAME)
};

/// Makes it of what a user said.
pub(super) fn make(setup: Setup) -> Result<Box<dyn Strategy>, StrategyError> {
    let Setup { settings, fixed, progress, .. } = setup;
    Ok(Box::new(Planned { settings, fixed, progress }))
}

fn settings(parameters: &Value) -> String {
    let schedule = parameters.get("schedule").and_then(Value::as_str).unwrap_or_default();
    let fill = parameters.get("fill").and_then(Value::as_f64).unwrap_or(1.0);
    format!(": {schedule} schedule, {:.0}% of the budget filled", fill * 100.0)
}

/// Computes plans for a budget.
#[derive(Debug, Default)]
pub struct Planned {
    /// What the user decided.
    pub settings: Settings,
    /// Which tensors may leave, on which GPUs; what is given of the rest is for the search among thresholds.
    pub fixed: tflms::Parameters,
    /// How far the search has come. Who ends it early gets another plan than those who do not.
    pub progress: Progress,
}

/// How often room is made where the allocator found none.
const ROUNDS: u32 = 3;

/// How often more if no plan was found.
const MORE_ROUNDS: u32 = 24;

/// Simulated ops for a second of effort, for each kind of chains; an ordinary core makes and judges plans at about twice this rate.
const OPS_PER_SECOND: f64 = 4e6;

/// How long parameters are tried at a time, and the first round of changing single gaps takes.
const STAGE_SECONDS: f64 = 0.5;

/// The part of the effort that goes into making plans; what is left of it goes into making the best ones better.
const MAKING_PART: f64 = 0.5;

/// How many times longer than with our own plan a step may be with thresholds that are still worth to be improved.
const WORTH_IMPROVING: f64 = 1.25;

/// A step that is shorter by less than this part of it is not clearly faster.
const CLEARLY: f64 = 5e-3;

impl Strategy for Planned {
    fn description(&self) -> &'static Description {
        &DESCRIPTION
    }

    fn host_ops(&self, outline: &Outline) -> Vec<NodeId> {
        if self.settings.swap_weights { weights::all(outline) } else { Vec::new() }
    }

    fn most_swapping(&self, analysis: &Analysis) -> Result<Option<Proposal>, StrategyError> {
        Tflms::new(self.fixed.clone()).most_swapping(analysis)
    }

    fn find(&mut self, judge: &mut Judge) -> Result<Option<Found>, StrategyError> {
        if !judge.outline().analysis().step.is_known() {
            return Err(StrategyError::usage(&DESCRIPTION, UnknownStep));
        }
        let own = self.find_own(judge)?;
        let most_seconds =
            own.as_ref().map_or(f64::INFINITY, |own| own.outcome.step_seconds * WORTH_IMPROVING);
        let initial_values = judge.outline().initial_values().to_vec();
        let tflms = Tflms { fixed: self.fixed.clone(), initial_values };
        let by_thresholds = tflms.find_within(judge, most_seconds)?;
        let by_thresholds = by_thresholds.filter(|found| judge.endures(&found.draft).is_ok());
        let found = match (own, by_thresholds) {
            (Some(own), Some(other)) => Some(safer(own, other)),
            (own, by_thresholds) => own.or(by_thresholds),
        };
        if self.settings.swap_weights {
            weights::find(judge, found, |judge| self.find_own(judge))
        } else {
            Ok(found)
        }
    }
}

impl Planned {
    /// The best plan that is no one's of thresholds.
    fn find_own(&self, judge: &mut Judge) -> Result<Option<Found>, StrategyError> {
        let outline = judge.outline();
        let weights = Draft { host_ops: outline.host_ops().to_vec(), ..Draft::default() };
        let program = Program::new(outline, &weights);
        let natural =
            Planner::new(judge, &self.fixed, &program, timeline::natural(&program, judge.machine()));
        let frugal = Planner::new(judge, &self.fixed, &program, timeline::frugal(&program));
        let planner_of = |schedule| match schedule {
            Schedule::Natural => &natural,
            Schedule::Frugal => &frugal,
        };
        let recompute = self.settings.recompute;
        let kinds: &[Chains] = if recompute { &Chains::ALL } else { &[Chains::Short] };
        let mut best: Option<Reached> = None;
        for &chains in kinds {
            let other = self.find_with(judge, planner_of, search::grid(chains, recompute));
            best = self.better(best, other);
        }
        let second_ops = if recompute { 2.0 * OPS_PER_SECOND } else { OPS_PER_SECOND };
        let second_steps = second_ops / natural.step_ops().max(1) as f64;
        let mut left_seconds = self.settings.effort_seconds - STAGE_SECONDS;
        let mut round_seconds = STAGE_SECONDS;
        // What is found up to some effort is found with more of it too: who begins something goes on with it in the same way.
        for number in 1u32.. {
            if left_seconds <= 0.0 || self.is_ending(best.as_ref()) {
                break;
            }
            if let Some(from) = best.take() {
                let planner = planner_of(from.point.parameters.schedule);
                let round = Round {
                    number: number.into(),
                    whole_steps: round_seconds * second_steps,
                    most_steps: left_seconds.min(round_seconds) * second_steps,
                };
                best = Some(climb(judge, planner, &self.settings, &self.progress, (from, round)));
            }
            left_seconds -= round_seconds + STAGE_SECONDS;
            round_seconds *= 2.0;
            if left_seconds < 0.0 || self.is_ending(best.as_ref()) {
                break;
            }
            for &chains in kinds {
                let other = self.find_with(judge, planner_of, search::further(number, chains, recompute));
                let other = other.filter(|other| judge.endures_being_picked(&other.draft).is_ok());
                best = self.better(best, other);
            }
        }
        Ok(best.map(found))
    }

    /// The better one of two plans, the first if they are equal.
    fn better(&self, one: Option<Reached>, other: Option<Reached>) -> Option<Reached> {
        let best = one.into_iter().chain(other).min_by_key(|reached| rank(&reached.outcome))?;
        self.progress.found(best.outcome.step_seconds);
        Some(best)
    }

    /// Whether the search ends here, with a plan that was found.
    fn is_ending(&self, found: Option<&Reached>) -> bool {
        found.is_some() && self.progress.is_ending()
    }

    /// The best plan that is made with these parameters, one after the other, in a second of effort, or all there is if that is less.
    fn find_with<'a>(
        &self,
        judge: &mut Judge,
        planner_of: impl Fn(Schedule) -> &'a Planner<'a>,
        all: impl Iterator<Item = Parameters>,
    ) -> Option<Reached> {
        let step_ops = planner_of(Schedule::Natural).step_ops();
        let most_ops = self.settings.effort_seconds.min(STAGE_SECONDS) * OPS_PER_SECOND;
        let mut search = Attempts::new(judge, step_ops, (most_ops * MAKING_PART) as u64);
        let mut unfinished = Vec::new();
        for parameters in all {
            if search.is_over() {
                break;
            }
            let planner = planner_of(parameters.schedule);
            let point = search.attempt(planner, Point::new(parameters), ROUNDS);
            unfinished.extend(point.map(|point| (planner, point)));
        }
        // What would make plans better is free if there is none.
        if search.is_empty() {
            search.may_take(most_ops as u64);
        }
        for (planner, mut point) in unfinished {
            if search.is_empty() {
                // Where memory is that scarce, nothing returns before it must.
                point.parameters.early_fill = point.parameters.fill;
                search.attempt(planner, point, MORE_ROUNDS);
            }
        }
        search.may_take(most_ops as u64);
        search.finish()
    }
}

/// What the strategy found.
fn found(reached: Reached) -> Found {
    let parameters = serde_json::to_value(reached.parameters).unwrap_or_default();
    Found { strategy: &DESCRIPTION, draft: reached.draft, outcome: reached.outcome, parameters }
}

/// The plan of thresholds if it is clearly faster, else our own: that keeps to the memory whenever copies end, where the other may
/// keep to it only in the simulation.
fn safer(own: Found, by_thresholds: Found) -> Found {
    let is_faster = by_thresholds.outcome.step_seconds < own.outcome.step_seconds * (1.0 - CLEARLY);
    if is_faster { by_thresholds } else { own }
}
