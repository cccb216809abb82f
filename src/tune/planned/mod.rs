//! Plans that meet a budget by construction.
//!
//! A fixed order of all ops says what is in memory at each of them (`course`, `schedule`, `late`). Where that is too much, buffers
//! leave (`evict`) and come back by a copy, as late as the link allows (`returns`), or by a second run of the op that made them
//! where that is cheaper (`recompute`, `recipe`). Edges between ops keep the runtime to the order (`orders`). What turns out not to
//! have to leave stays (`improve`), and what is decided of single buffers is changed by chance as long as there is effort left
//! (`decisions`, `climb`). Where the allocator finds no room though the bytes would do, a hole is made (`holes`); where
//! the allocator does not wait for copies, ops do (`awaited`). What several workers' gradients
//! come to is held back for plans that know no budget (`held_back`).
//!
//! Why places of the order and not times: an op takes its memory when the host launches it, and the host launches in order. What a
//! plan counts as there at a place is all that can be there when the op at this place is launched, however fast link and GPU are:
//! a copy in starts after its trigger has run, and so after it was launched; of copies out the allocator waits for the end. So a
//! plan within the limit at each place is within it at each time; only the allocator's fragmentation comes on top, and the
//! simulator has the last word on that.

mod awaited;
mod climb;
mod course;
mod decisions;
mod evict;
mod held_back;
mod holds;
mod holes;
mod improve;
mod late;
mod orders;
mod planner;
mod recipe;
mod recompute;
mod residence;
mod returns;
mod room;
mod schedule;
mod search;
mod starts;
mod updates;
mod weights;
mod write;

use std::num::NonZero;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::rank::{self, Rank};
use super::{
    Abilities, Description, Found, Judge, Progress, Proposal, Setup, Strategy, StrategyError, Tflms,
    UnknownStep,
};
use crate::graph::NodeId;
use crate::plan::tflms;
use crate::plan::{Analysis, Draft};
use crate::simulate::{Outcome, Outline, Program};
#[cfg(feature = "tune")]
pub(super) use course::{Course, NONE, Reader};
pub use held_back::hold_back_means;
#[cfg(feature = "tune")]
pub(super) use recompute::cheap_ops;
#[cfg(feature = "tune")]
pub(super) use schedule::Order;

use climb::{Round, climb};
use planner::{Planner, Point};
use recipe::Chains;
use search::{Reached, Search};

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

/// What a user may decide.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Settings {
    /// Whether ops may run a second time.
    pub recompute: bool,
    /// Whether weights may go to the host, to be copied to the GPU in each step.
    pub swap_weights: bool,
    /// For how long, on an ordinary core, plans are improved. It is counted in simulated ops, so that the same is found again.
    pub effort_seconds: f64,
    /// On how many threads plans are tried; on as many as the machine has cores if that is not said. It changes no plan.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub threads: Option<NonZero<usize>>,
}

impl Default for Settings {
    fn default() -> Settings {
        Settings { recompute: true, swap_weights: false, effort_seconds: 1.0, threads: None }
    }
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

/// What a plan is made with; found by trying.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
struct Parameters {
    /// Which order.
    schedule: Schedule,
    /// The part of the budget that is planned with; the rest is left to the allocator and to tensors that return early.
    fill: f64,
    /// The part up to which tensors may return early.
    early_fill: f64,
    /// An op runs again if that takes at most so much of the time that copying its output takes.
    recompute_below: f64,
    /// What runs again with it.
    chains: Chains,
}

/// An order of the step's ops.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
enum Schedule {
    /// The runtime's own.
    Natural,
    /// One with a low peak.
    Frugal,
}

/// How often room is made where the allocator found none.
const ROUNDS: u32 = 3;

/// How often more if no plan was found.
const MORE_ROUNDS: u32 = 24;

/// Simulated ops for a second of effort, for each kind of chains; an ordinary core makes and judges plans at about twice this rate.
const OPS_PER_SECOND: f64 = 4e6;

/// The part of the effort that goes into making plans; what is left of it goes into making the best ones better.
const MAKING_PART: f64 = 0.5;

/// Steps that differ by less than a part of so many are equal.
const STEP_PARTS: f64 = 5e2;

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
        if self.settings.swap_weights { weights::find(self, judge, found) } else { Ok(found) }
    }
}

impl Planned {
    /// The best plan that is no one's of thresholds.
    fn find_own(&self, judge: &mut Judge) -> Result<Option<Found>, StrategyError> {
        let outline = judge.outline();
        let weights = Draft { host_ops: outline.host_ops().to_vec(), ..Draft::default() };
        let program = Program::new(outline, &weights);
        let natural =
            Planner::new(judge, &self.fixed, &program, schedule::natural(&program, judge.machine()));
        let frugal = Planner::new(judge, &self.fixed, &program, schedule::frugal(&program));
        let planner_of = |schedule| match schedule {
            Schedule::Natural => &natural,
            Schedule::Frugal => &frugal,
        };
        let recompute = self.settings.recompute;
        let kinds: &[Chains] = if recompute { &[Chains::Short, Chains::Long] } else { &[Chains::Short] };
        let mut best: Option<Reached> = None;
        for &chains in kinds {
            let other = self.find_with(judge, planner_of, starts::grid(chains, recompute));
            best = self.better(best, other);
        }
        let second_steps = OPS_PER_SECOND * kinds.len() as f64 / natural.step_ops().max(1) as f64;
        let mut left_seconds = self.settings.effort_seconds - 1.0;
        let mut round_seconds = 1.0;
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
            left_seconds -= round_seconds + 1.0;
            round_seconds *= 2.0;
            if left_seconds < 0.0 || self.is_ending(best.as_ref()) {
                break;
            }
            for &chains in kinds {
                let other = self.find_with(judge, planner_of, starts::further(number, chains, recompute));
                let other = other.filter(|other| judge.endures_being_picked(&other.draft).is_ok());
                best = self.better(best, other);
            }
        }
        Ok(best.map(Reached::found))
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
        let most_ops = self.settings.effort_seconds.min(1.0) * OPS_PER_SECOND;
        let mut search = Search::new(judge, step_ops, (most_ops * MAKING_PART) as u64);
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

/// The plan of thresholds if it is clearly faster, else our own: that keeps to the memory whenever copies end, where the other may
/// keep to it only in the simulation.
fn safer(own: Found, by_thresholds: Found) -> Found {
    let is_faster = by_thresholds.outcome.step_seconds < own.outcome.step_seconds * (1.0 - CLEARLY);
    if is_faster { by_thresholds } else { own }
}

/// What makes a plan better.
fn rank(outcome: &Outcome) -> Rank {
    rank::rank(outcome, STEP_PARTS)
}
