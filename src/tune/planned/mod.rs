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
#[cfg(test)]
mod testing;
mod timeline;
mod waits;

use serde_json::Value;

use super::{
    Abilities, Description, Found, Judge, Progress, Proposal, Setup, Strategy, StrategyError, Tflms,
    UnknownStep,
};
use crate::graph::NodeId;
use crate::plan::tflms;
use crate::plan::{Analysis, NodeOrder};
use crate::simulate::{Outline, Program};
#[cfg(feature = "tune")]
pub(super) use decide::cheap_ops;
pub use settings::Settings;
#[cfg(feature = "tune")]
pub(super) use timeline::{Course, LifeId, Order, Position, Reader};
pub use waits::hold_back_means;

use search::to_host::{self, What};
use search::{Planner, Reached, Stages};

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

/// How many times longer than with our own plan a step may be with thresholds that are still worth to be improved.
const WORTH_IMPROVING: f64 = 1.25;

/// The parts of the memory that are planned for, one after the other, where no plan is found for all of it. What fits is not monotone in the
/// memory: with less of it, other buffers leave, and what stays lies elsewhere.
const LESS_MEMORY: [f64; 2] = [0.95, 0.9];

/// A step that is shorter by less than this part of it is not clearly faster.
const CLEARLY: f64 = 5e-3;

impl Strategy for Planned {
    fn description(&self) -> &'static Description {
        &DESCRIPTION
    }

    fn host_ops(&self, outline: &Outline) -> Vec<NodeId> {
        self.what_may_go().ops(outline)
    }

    fn most_swapping(&self, analysis: &Analysis) -> Result<Option<Proposal>, StrategyError> {
        Tflms::new(self.fixed.clone()).most_swapping(analysis)
    }

    fn find(&mut self, judge: &mut Judge) -> Result<Option<Found>, StrategyError> {
        if !judge.outline().analysis().step.is_known() {
            return Err(StrategyError::usage(&DESCRIPTION, UnknownStep));
        }
        let own = self.find_own(judge);
        let most_seconds =
            own.as_ref().map_or(f64::INFINITY, |own| own.outcome.step_seconds * WORTH_IMPROVING);
        let by_thresholds = self.find_by_thresholds(judge, most_seconds)?;
        let found = match (own, by_thresholds) {
            (Some(own), Some(other)) => Some(safer(own, other)),
            (own, by_thresholds) => own.or(by_thresholds),
        };
        to_host::find(judge, self.what_may_go(), found, |judge| Ok(self.find_own(judge)))
    }

    fn find_any(&mut self, judge: &mut Judge, like: Option<&Found>) -> Result<Option<Found>, StrategyError> {
        if !judge.outline().analysis().step.is_known() || self.settings.swap_weights {
            return self.find(judge);
        }
        let of_own = like.filter(|like| std::ptr::eq(like.strategy, &DESCRIPTION));
        let like = of_own.and_then(|like| serde_json::from_value(like.parameters.clone()).ok());
        let any =
            |judge: &mut Judge| self.with_own(judge, |stages, judge| stages.any(judge, like)).map(found);
        if let Some(found) = any(judge) {
            return Ok(Some(found));
        }
        if let Some(found) = self.find_by_thresholds(judge, f64::INFINITY)? {
            return Ok(Some(found));
        }
        Ok(to_host::find_any(judge, self.what_may_go(), any))
    }
}

impl Planned {
    /// What may be on the host for the whole step.
    fn what_may_go(&self) -> What {
        if self.settings.swap_weights { What::WeightsToo } else { What::Accumulators }
    }

    /// The best plan of thresholds with which a step takes at most so long.
    fn find_by_thresholds(
        &self,
        judge: &mut Judge,
        most_seconds: f64,
    ) -> Result<Option<Found>, StrategyError> {
        let initial_values = judge.outline().initial_values().to_vec();
        let tflms = Tflms { fixed: self.fixed.clone(), initial_values };
        let found = tflms.find_within(judge, most_seconds)?;
        Ok(found.filter(|found| judge.endures(&found.draft).is_ok()))
    }

    /// What keeps loops from running ahead of what they copy in plans of this outline.
    fn paces(&self, judge: &Judge) -> Vec<NodeOrder> {
        let outline = judge.outline();
        if outline.host_ops().is_empty() && outline.free_loops().is_empty() {
            return Vec::new();
        }
        let program = Program::paced(outline, outline.host_ops(), Vec::new());
        let order = timeline::natural(&program, judge.machine());
        Planner::new(judge, &self.fixed, &program, order).paces().to_vec()
    }

    /// Looks for plans that are no one's of thresholds with these orders of the step's ops.
    fn with_own<R>(&self, judge: &mut Judge, search: impl FnOnce(&Stages, &mut Judge) -> R) -> R {
        let outline = judge.outline();
        let program = Program::paced(outline, outline.host_ops(), self.paces(judge));
        let orders = [timeline::natural(&program, judge.machine()), timeline::frugal(&program)];
        let [natural, frugal] = orders.map(|order| Planner::new(judge, &self.fixed, &program, order));
        let stages = Stages { natural, frugal, settings: &self.settings, progress: &self.progress };
        search(&stages, judge)
    }

    /// The best plan that is no one's of thresholds. Where that is hard to find, it may be one for a little less memory.
    fn find_own(&self, judge: &mut Judge) -> Option<Found> {
        let best = |judge: &mut Judge| self.with_own(judge, |stages, judge| stages.best(judge));
        let (reached, is_hard) = best(judge);
        // More effort may find one for all of the memory all the same; one for less may be better.
        let for_less = LESS_MEMORY.into_iter().filter(|_| is_hard).find_map(|part| {
            let machine = judge.machine().with_part_of_memory(part);
            let mut of_less = judge.on(&machine);
            let other = best(&mut of_less).0.map(found);
            judge.add_simulations(of_less.simulations());
            let other = other?;
            judge.endures_being_chosen(&other.draft).ok()?;
            let outcome = judge.judge(&other.draft).ok()?;
            Some(Found { outcome, ..other })
        });
        reached.map(found).into_iter().chain(for_less).min_by_key(|found| search::rank(&found.outcome))
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
