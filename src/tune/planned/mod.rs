//! Plans that meet a budget by construction.
//!
//! A fixed order of all ops says what is in memory at each of them ([`course`], [`schedule`]). Where that is too much, buffers
//! leave ([`evict`]) and come back by a copy, as late as the link allows ([`returns`]), or by a second run of the op that made them
//! where that is cheaper ([`recompute`]). Edges between ops keep the runtime to the order ([`orders`]). What turns out not to
//! have to leave stays ([`improve`]).
//!
//! Why places of the order and not times: an op takes its memory when the host launches it, and the host launches in order. What a
//! plan counts as there at a place is all that can be there when the op at this place is launched, however fast link and GPU are:
//! a copy in starts after its trigger has run, and so after it was launched; of copies out the allocator waits for the end. So a
//! plan within the limit at each place is within it at each time; only the allocator's fragmentation comes on top, and the
//! simulator has the last word on that.

mod course;
mod evict;
mod holds;
mod improve;
mod orders;
mod recompute;
mod residence;
mod returns;
mod room;
mod schedule;
mod updates;
mod write;

use serde::{Deserialize, Serialize};

use super::rank::{self, Rank};
use super::{Found, Judge, Strategy, Tflms};
use crate::plan::tflms::{self, TflmsError};
use crate::plan::{Draft, guard_ref_variables};
use crate::simulate::{Origin, OutOfMemory, Outcome, Program};
use course::Course;
use evict::Choice;
use holds::Holds;
use improve::Candidate;
use residence::Residence;
use schedule::Order;
use updates::Updates;

/// The name of the strategy in plans and on the command line.
pub const NAME: &str = "planned";

/// What a user may decide.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Settings {
    /// Whether ops may run a second time.
    pub recompute: bool,
    /// For how long, on an ordinary core, plans are improved. It is counted in simulated ops, so that the same is found again.
    pub effort_seconds: f64,
}

impl Default for Settings {
    fn default() -> Settings {
        Settings { recompute: true, effort_seconds: 1.0 }
    }
}

/// Computes plans for a budget.
#[derive(Debug, Default)]
pub struct Planned {
    /// What the user decided.
    pub settings: Settings,
    /// Which tensors may leave, on which GPUs; what is given of the rest is for the search among thresholds.
    pub fixed: tflms::Parameters,
}

/// What a plan is made with; found by trying.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
struct Parameters {
    /// Which order.
    schedule: Schedule,
    /// The part of the budget that is planned with; the rest is left to the allocator and to tensors that return early.
    fill: f64,
    /// An op runs again if that takes at most so much of the time that copying its output takes.
    recompute_below: f64,
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

/// The parts of the budget that are tried.
const FILLS: [f64; 7] = [1.0, 0.86, 0.72, 0.93, 0.62, 0.79, 0.96];

/// Simulated ops for a second of effort; an ordinary core makes and judges plans at about this rate.
const OPS_PER_SECOND: f64 = 3e6;

/// The part of the effort that goes into making plans; what is left of it goes into making the best ones better.
const MAKING_PART: f64 = 0.75;

/// How many plans are made better.
const CANDIDATES: usize = 3;

/// Steps that differ by less than a part of so many are equal.
const STEP_PARTS: f64 = 5e2;

/// How many times longer than with our own plan a step may be with thresholds that are still worth to be improved.
const WORTH_IMPROVING: f64 = 1.25;

/// A step that is shorter by less than this part of it is not clearly faster.
const CLEARLY: f64 = 5e-3;

/// How often room is made where the allocator found none.
const ROUNDS: u32 = 8;

/// The rates at which recomputing is taken for copying that are tried.
const RECOMPUTE_BELOW: [f64; 4] = [0.3, 0.0, 0.1, 1.0];

/// Buffers of less than this part of the budget stay.
const LEAST_PART: f64 = 1.0 / 8192.0;

/// Ops that touch no buffer of this part of the budget run when they like.
const ORDERED_PART: f64 = 1.0 / 512.0;

impl Strategy for Planned {
    fn name(&self) -> &'static str {
        NAME
    }

    fn find(&mut self, judge: &mut Judge) -> Result<Option<Found>, TflmsError> {
        let outline = judge.outline();
        if !outline.analysis().step.is_known() {
            return Err(TflmsError::UnknownStep);
        }
        let program = Program::new(outline, &Draft::default());
        let natural =
            Planner::new(judge, &self.fixed, &program, schedule::natural(&program, judge.machine()));
        let frugal = Planner::new(judge, &self.fixed, &program, schedule::frugal(&program));
        let most_ops = self.settings.effort_seconds * OPS_PER_SECOND;
        let step_ops = natural.course.order.len() as u64;
        let mut search =
            Search { judge, step_ops, ops: 0, most_ops: (most_ops * MAKING_PART) as u64, best: Vec::new() };
        for fill in FILLS {
            for (schedule, planner) in [(Schedule::Frugal, &frugal), (Schedule::Natural, &natural)] {
                for recompute_below in RECOMPUTE_BELOW {
                    if recompute_below == 0.0 || self.settings.recompute {
                        search.attempt(planner, Parameters { schedule, fill, recompute_below });
                    }
                }
            }
        }
        search.most_ops = most_ops as u64;
        let own = search.finish();
        let most_seconds =
            own.as_ref().map_or(f64::INFINITY, |own| own.outcome.step_seconds * WORTH_IMPROVING);
        let by_thresholds = Tflms { fixed: self.fixed.clone() }.find_within(judge, most_seconds)?;
        Ok(match (own, by_thresholds) {
            (Some(own), Some(other)) => Some(safer(own, other)),
            (own, by_thresholds) => own.or(by_thresholds),
        })
    }
}

/// Looks for the best parameters.
struct Search<'a, 'b, 'c> {
    judge: &'a mut Judge<'b>,
    /// How many ops a step has.
    step_ops: u64,
    /// How many ops were simulated, and how many may be.
    ops: u64,
    most_ops: u64,
    /// The best plans, the best first.
    best: Vec<(Parameters, Candidate<'c>)>,
}

impl<'c> Search<'_, '_, 'c> {
    /// Plans and judges, makes room where the allocator finds none, and so on.
    fn attempt(&mut self, planner: &'c Planner, parameters: Parameters) {
        let mut reserves = Vec::new();
        for round in 0..ROUNDS {
            if self.ops >= self.most_ops {
                return;
            }
            let Some((draft, residence)) = planner.plan(self.judge, parameters, &reserves) else { return };
            match self.judge(&draft) {
                Ok(outcome) => {
                    let mut candidate = Candidate { draft, outcome, residence };
                    for reserve in &reserves {
                        reserve.add_to(&mut candidate.residence, -1);
                    }
                    return self.keep(candidate, parameters);
                }
                Err(shortage) => {
                    let Some(reserve) =
                        planner.reserve(self.judge, (&draft, &residence.rooms), &shortage, round)
                    else {
                        return;
                    };
                    reserves.push(reserve);
                }
            }
        }
    }

    /// Simulates a step.
    fn judge(&mut self, draft: &Draft) -> Result<Outcome, OutOfMemory> {
        self.count(|judge| judge.judge(draft))
    }

    /// Counts what is simulated.
    fn count<R>(&mut self, simulated: impl FnOnce(&mut Judge) -> R) -> R {
        let before = self.judge.simulations();
        let result = simulated(self.judge);
        self.ops += u64::from(self.judge.simulations() - before) * self.step_ops;
        result
    }

    /// Keeps a plan that is among the best so far, and another one than these.
    fn keep(&mut self, mut candidate: Candidate<'c>, parameters: Parameters) {
        if self.place_of(&candidate).is_none() {
            return;
        }
        if !self.guard(&mut candidate) {
            return;
        }
        if let Some(place) = self.place_of(&candidate) {
            self.best.insert(place, (parameters, candidate));
            self.best.truncate(CANDIDATES);
        }
    }

    /// Adds what keeps reads and updates of ref variables in order; whether it still fits.
    fn guard(&mut self, candidate: &mut Candidate) -> bool {
        let analysis = self.judge.outline().analysis();
        if analysis.ref_variables.all().is_empty() {
            return true;
        }
        guard_ref_variables(analysis, &mut candidate.draft);
        let judged = self.judge(&candidate.draft);
        judged.map(|outcome| candidate.outcome = outcome).is_ok()
    }

    /// Where a plan stands among the best.
    fn place_of(&self, candidate: &Candidate) -> Option<usize> {
        let ranks = self.best.iter().map(|(_, other)| rank(&other.outcome));
        let wanted = rank(&candidate.outcome);
        let place = ranks.clone().take_while(|other| *other < wanted).count();
        let is_new = ranks.clone().nth(place) != Some(wanted);
        (is_new && place < CANDIDATES).then_some(place)
    }

    /// The best plan, made better.
    fn finish(mut self) -> Option<Found> {
        let mut best = std::mem::take(&mut self.best);
        for (_, candidate) in &mut best {
            let (draft, outcome) = (candidate.draft.clone(), candidate.outcome.clone());
            self.improve(candidate);
            // What kept an update back may be among what was left out.
            if !self.guard(candidate) || rank(&outcome) < rank(&candidate.outcome) {
                (candidate.draft, candidate.outcome) = (draft, outcome);
            }
        }
        let (parameters, Candidate { draft, outcome, .. }) =
            best.into_iter().min_by_key(|(_, candidate)| rank(&candidate.outcome))?;
        let parameters = serde_json::to_value(parameters).unwrap_or_default();
        Some(Found { strategy: NAME, draft, outcome, parameters })
    }
}

/// Plans for one order of the ops.
struct Planner<'a> {
    course: Course<'a>,
    holds: Holds,
    updates: Updates,
}

impl<'a> Planner<'a> {
    fn new(judge: &Judge<'a>, fixed: &tflms::Parameters, program: &'a Program, order: Order) -> Planner<'a> {
        let mut course = Course::new(judge.outline(), program, order, judge.machine().host_op_seconds);
        let least = judge.machine().memory.iter().copied().min().unwrap_or(0) as f64;
        course.filter(fixed);
        course.cheap_ops = recompute::cheap_ops(&course);
        let holds = Holds::new(&course, (least * ORDERED_PART) as u64);
        let updates = Updates::new(&course);
        Planner { course, holds, updates }
    }

    /// A plan; none if the memory is too little.
    fn plan(
        &self,
        judge: &Judge,
        parameters: Parameters,
        reserves: &[Reserve],
    ) -> Option<(Draft, Residence<'_>)> {
        let machine = judge.machine();
        let budget = |gpu: usize| machine.memory_bytes(gpu).unwrap_or(i64::MAX as u64);
        let budgets: Vec<u64> = (0..self.course.rooms.len()).map(budget).collect();
        let limits: Vec<i64> = budgets.iter().map(|&bytes| (bytes as f64 * parameters.fill) as i64).collect();
        let least = budgets.iter().copied().min().unwrap_or(0) as f64;
        let is_cheap = recompute::cheap_lives(&self.course, machine, parameters.recompute_below);
        let choice =
            Choice { limits: &limits, least_bytes: (least * LEAST_PART) as u64, is_cheap: &is_cheap };
        let mut residence = Residence::new(&self.course, &self.holds, &self.updates);
        for reserve in reserves {
            reserve.add_to(&mut residence, 1);
        }
        evict::evict(&mut residence, &choice).ok()?;
        let all: Vec<i64> =
            budgets.iter().map(|&bytes| (bytes as f64 * (0.5 + 0.5 * parameters.fill)) as i64).collect();
        if parameters.recompute_below > 0.0 {
            recompute::recompute(&mut residence, machine, &all, parameters.recompute_below);
        }
        returns::place_triggers(&mut residence, machine, &all);
        let mut draft = write::draft(&residence);
        draft.orders.extend(orders::orders(&self.course, &self.holds));
        Some((draft, residence))
    }
}

impl Planner<'_> {
    /// What to leave free so that the allocator finds room where it found none. The more often it was tried, the longer before.
    fn reserve(
        &self,
        judge: &Judge,
        (draft, rooms): (&Draft, &[room::Room]),
        shortage: &OutOfMemory,
        round: u32,
    ) -> Option<Reserve> {
        let course = &self.course;
        let program = Program::new(course.outline, draft);
        let mut op = shortage.op?;
        while let Origin::Signal(before) = program.origin(op) {
            op = before;
        }
        let node = match program.origin(op) {
            Origin::Op(node) => node,
            Origin::Recomputation(_, again) => *draft.recomputations[again as usize].triggers.first()?,
            Origin::SwapIn(tensor, which) | Origin::Swap(tensor, which) => {
                let swap = draft.swaps.iter().find(|swap| swap.tensor == tensor)?;
                *swap.uses[which as usize].triggers.first()?
            }
            Origin::Copy(tensor) | Origin::SwapOut(tensor) => {
                course.outline.analysis().graph.producer(tensor)
            }
            Origin::Signal(_) => return None,
        };
        let place = course.place_of[course.outline.entry(node)? as usize];
        let width = (course.order.len() as u32 / 128).max(4) << round.min(3);
        let budget = judge.machine().memory_bytes(shortage.gpu)? as i64;
        let idle = (budget - rooms[shortage.gpu].at(place)).max(0);
        Some(Reserve {
            gpu: shortage.gpu,
            first: place.saturating_sub(width),
            end: place.saturating_add(width / 2),
            bytes: idle + shortage.wanted_bytes as i64 / 2,
        })
    }
}

/// Memory that is left free at some places.
#[derive(Debug)]
struct Reserve {
    gpu: usize,
    first: u32,
    end: u32,
    bytes: i64,
}

/// The plan of thresholds if it is clearly faster, else our own: that keeps to the memory whenever copies end, where the other may
/// keep to it only in the simulation.
fn safer(own: Found, by_thresholds: Found) -> Found {
    let is_faster = by_thresholds.outcome.step_seconds < own.outcome.step_seconds * (1.0 - CLEARLY);
    if is_faster { by_thresholds } else { own }
}

impl Reserve {
    /// Takes the memory so many times.
    fn add_to(&self, residence: &mut Residence, times: i64) {
        residence.rooms[self.gpu].add(self.first, self.end, self.bytes * times);
    }
}

/// What makes a plan better.
fn rank(outcome: &Outcome) -> Rank {
    rank::rank(outcome, STEP_PARTS)
}
