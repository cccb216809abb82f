//! The search in stages: parameters that serve most graphs first, then changes of the best plan and further parameters in turn.

use super::attempts::{Attempts, Reached};
use super::climb::{Round, climb};
use super::planner::{Planner, Point};
use super::rank;
use super::starts::{CHEAPEST, FURTHEST, Parameters, Schedule, Way, further, grid};
use crate::tune::planned::settings::Settings;
use crate::tune::{Judge, Progress};

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

/// What plans are looked for with.
pub(in crate::tune::planned) struct Stages<'a> {
    /// Plans for the runtime's own order.
    pub natural: Planner<'a>,
    /// Plans for an order with a low peak.
    pub frugal: Planner<'a>,
    pub settings: &'a Settings,
    pub progress: &'a Progress,
}

impl Stages<'_> {
    /// The best plan that is found with all effort.
    pub fn best(&self, judge: &mut Judge) -> Option<Reached> {
        let recompute = self.settings.recompute;
        let mut best = self.best_of_grids(judge, self.ways());
        let mut left_seconds = self.settings.effort_seconds - STAGE_SECONDS;
        let mut round_seconds = STAGE_SECONDS;
        // What is found up to some effort is found with more of it too: who begins something goes on with it in the same way.
        for number in 1u32.. {
            if left_seconds <= 0.0 || self.is_ending(best.as_ref()) {
                break;
            }
            let seconds = (round_seconds, left_seconds.min(round_seconds));
            best = best.map(|from| self.climb(judge, from, number, seconds));
            left_seconds -= round_seconds + STAGE_SECONDS;
            if left_seconds < 0.0 || self.is_ending(best.as_ref()) {
                break;
            }
            let other = match number {
                // From what another rule leads to, other plans are to be reached; which are better is seen at their end.
                1 if recompute => self
                    .best_of_grids(judge, &CHEAPEST)
                    .map(|from| self.climb(judge, from, number, (round_seconds, round_seconds))),
                _ => self.best_further(judge, number),
            };
            let other = other.filter(|other| judge.endures_being_picked(&other.draft).is_ok());
            best = self.better(best, other);
            round_seconds *= 2.0;
        }
        best
    }

    /// The best plan of the grids of these ways.
    fn best_of_grids(&self, judge: &mut Judge, ways: &[Way]) -> Option<Reached> {
        let found = |&way: &Way| {
            let search = self.attempts(judge);
            self.find_with(search, grid(way, self.settings.recompute))
        };
        ways.iter().map(found).fold(None, |best, found| self.better(best, found))
    }

    /// The best plan that further parameters lead to.
    fn best_further(&self, judge: &mut Judge, number: u32) -> Option<Reached> {
        let ways = self.ways().iter().chain(if self.settings.recompute { &CHEAPEST[..] } else { &[] });
        let found = |&way: &Way| {
            let search = self.attempts(judge);
            self.find_with(search, further(number, way, self.settings.recompute))
        };
        ways.map(found).fold(None, |best, found| self.better(best, found))
    }

    /// The best plan that is reached from one in the round of a number, of so many seconds in all, of which so many are gone through.
    fn climb(&self, judge: &mut Judge, from: Reached, number: u32, (whole, most): (f64, f64)) -> Reached {
        let second_ops = if self.settings.recompute { 2.0 * OPS_PER_SECOND } else { OPS_PER_SECOND };
        let second_steps = second_ops / self.step_ops().max(1) as f64;
        let planner = self.planner(from.point.parameters.schedule);
        let round = Round {
            number: number.into(),
            whole_steps: whole * second_steps,
            most_steps: most * second_steps,
        };
        climb(judge, planner, self.settings, self.progress, (from, round))
    }

    /// The first plan that is found that may be picked among many. What `like` says is tried first: it led to one with a little more
    /// memory.
    pub fn any(&self, judge: &mut Judge, like: Option<Parameters>) -> Option<Reached> {
        if let Some(like) = like {
            let mut search = self.attempts(judge).end_with_the_first();
            search.attempt(self.planner(like.schedule), Point::new(like), MORE_ROUNDS);
            if let Some(reached) = search.finish() {
                return Some(reached);
            }
        }
        let mut ways = self.ways().to_vec();
        ways.sort_by_key(|&way| like.is_none_or(|like| like.way() != way));
        ways.into_iter().find_map(|way| {
            let search = self.attempts(judge).end_with_the_first();
            self.find_with(search, grid(way, self.settings.recompute))
        })
    }

    /// The ways that are tried. Without second runs they are all the same.
    fn ways(&self) -> &'static [Way] {
        if self.settings.recompute { &FURTHEST } else { &FURTHEST[..1] }
    }

    fn planner(&self, schedule: Schedule) -> &Planner<'_> {
        match schedule {
            Schedule::Natural => &self.natural,
            Schedule::Frugal => &self.frugal,
        }
    }

    /// How many ops a step has.
    fn step_ops(&self) -> u64 {
        self.natural.step_ops()
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

    /// How many ops a stage may simulate.
    fn most_ops(&self) -> f64 {
        self.settings.effort_seconds.min(STAGE_SECONDS) * OPS_PER_SECOND
    }

    /// Attempts that may take as long as a stage has for making plans.
    fn attempts<'b, 'c>(&self, judge: &'b mut Judge<'c>) -> Attempts<'b, 'c, '_> {
        Attempts::new(judge, self.step_ops(), (self.most_ops() * MAKING_PART) as u64)
    }

    /// The best plan that is made with these parameters, one after the other, in a second of effort, or all there is if that is less.
    fn find_with<'c>(
        &'c self,
        mut search: Attempts<'_, '_, 'c>,
        all: impl Iterator<Item = Parameters>,
    ) -> Option<Reached> {
        let mut unfinished = Vec::new();
        for parameters in all {
            if search.is_over() {
                break;
            }
            let planner = self.planner(parameters.schedule);
            let point = search.attempt(planner, Point::new(parameters), ROUNDS);
            unfinished.extend(point.map(|point| (planner, point)));
        }
        // What would make plans better is free if there is none.
        if search.is_empty() {
            search.may_take(self.most_ops() as u64);
        }
        for (planner, mut point) in unfinished {
            if search.is_empty() {
                // Where memory is that scarce, nothing returns before it must.
                point.parameters.early_fill = point.parameters.fill;
                search.attempt(planner, point, MORE_ROUNDS);
            }
        }
        search.may_take(self.most_ops() as u64);
        search.finish()
    }
}
