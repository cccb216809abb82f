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

/// How often a plan that was chosen is changed because it does not endure that.
const MENDINGS: u32 = 16;

/// How many of the best plans, one after the other, may not endure being chosen.
const MOST_TAKEN_BACK: usize = 64;

/// The number of the round in which a plan gets better again that was changed.
const ROUND_AFTER_MENDING: u32 = u32::MAX;

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
    /// The best plan that is found with all effort, and whether the parameters that serve most graphs led to none.
    ///
    /// What is found up to some effort is found with more of it too: who begins something goes on with it in the same way, and plans are
    /// changed only where a stage ends, which is the same place for all.
    pub fn best(&self, judge: &mut Judge) -> (Option<Reached>, bool) {
        let mut others = self.bests_of_grids(judge, self.ways());
        let is_hard = others.is_empty();
        // Each is better than those before it.
        let mut bests: Vec<Reached> = others.drain(..others.len().min(1)).collect();
        self.mend(judge, &mut bests);
        let mut left_seconds = self.settings.effort_seconds - STAGE_SECONDS;
        let mut round_seconds = STAGE_SECONDS;
        for number in 1u32.. {
            if left_seconds <= 0.0 || self.is_ending(&bests) {
                break;
            }
            let round = (round_seconds, left_seconds.min(round_seconds));
            self.climb_from(judge, &mut bests, number, round);
            for other in others.drain(..) {
                // What it takes to find it teaches the judge nothing: the search goes on as it would have without it.
                let mut beside = judge.clone();
                add_better(&mut bests, self.best_from(&mut beside, other, number, round));
                judge.add_simulations(beside.simulations() - judge.simulations());
            }
            self.show(&bests);
            if left_seconds >= round_seconds && self.mend(judge, &mut bests) {
                self.climb_from(judge, &mut bests, ROUND_AFTER_MENDING, (STAGE_SECONDS, STAGE_SECONDS));
            }
            left_seconds -= round_seconds + STAGE_SECONDS;
            if left_seconds < 0.0 || self.is_ending(&bests) {
                break;
            }
            let other = match number {
                1 if self.settings.recompute => self.best_by_cost(judge, number, round_seconds),
                _ => self.best_further(judge, number),
            };
            let other = other.filter(|other| judge.endures_being_picked(&other.draft).is_ok());
            add_better(&mut bests, other);
            self.mend(judge, &mut bests);
            round_seconds *= 2.0;
        }
        self.take_back(judge, &mut bests);
        (bests.pop(), is_hard)
    }

    /// Has the last of some plans, each of which is better than those before it, be one that endures being chosen: of them, or, if that is
    /// better, what the last comes to when it is changed until it does. If none does, they stay. Whether it was changed.
    fn mend(&self, judge: &mut Judge, bests: &mut Vec<Reached>) -> bool {
        let mended = bests.last().and_then(|best| self.mended(judge, best));
        let endures = self.take_back(judge, bests);
        let Some(mended) = mended else { return false };
        if !endures {
            bests.clear();
        }
        let before = bests.len();
        add_better(bests, Some(mended));
        bests.len() > before
    }

    /// Takes the last of some plans back, each of which is better than those before it, until one endures being chosen. If none does, they
    /// stay. Whether one does.
    ///
    /// What they did not endure, all further plans are tried with first.
    fn take_back(&self, judge: &mut Judge, bests: &mut Vec<Reached>) -> bool {
        let mut latest = bests.iter().rev().take(MOST_TAKEN_BACK);
        let enduring = latest.position(|best| judge.endures_being_chosen(&best.draft).is_ok());
        bests.truncate(bests.len() - enduring.unwrap_or(0));
        enduring.is_some()
    }

    /// What a plan that was chosen comes to when it is changed until it endures that; none if it does not come to that.
    ///
    /// What it does not fit with is what it is tried with first from then on, and room is made where that found none, as in the search.
    fn mended(&self, judge: &mut Judge, chosen: &Reached) -> Option<Reached> {
        let mut mended = chosen.clone();
        for _ in 0..MENDINGS {
            if judge.endures_being_chosen(&mended.draft).is_ok() {
                return Some(Reached { parameters: chosen.parameters, ..mended });
            }
            mended = self.made_anew(judge, &mended, chosen.parameters.fill)?;
        }
        None
    }

    /// A plan like one that was reached, with more room where that is needed; what nothing is decided of fills as much as it did, or this.
    fn made_anew(&self, judge: &mut Judge, like: &Reached, fill: f64) -> Option<Reached> {
        [like.point.parameters.fill, fill].into_iter().find_map(|fill| {
            let mut point = like.point.clone();
            point.parameters.fill = fill;
            let mut search = self.attempts(judge).end_with_the_first();
            search.may_take(2 * self.most_ops() as u64);
            search.attempt(self.planner(point.parameters.schedule), point, MORE_ROUNDS);
            search.finish()
        })
    }

    /// The best plan of each of these ways' grids, the best of all first.
    fn bests_of_grids(&self, judge: &mut Judge, ways: &[Way]) -> Vec<Reached> {
        let found = |&way: &Way| {
            let search = self.attempts(judge);
            let found = self.find_with(search, grid(way, self.settings.recompute))?;
            self.progress.found(found.outcome.step_seconds);
            Some(found)
        };
        let mut bests: Vec<Reached> = ways.iter().filter_map(found).collect();
        bests.sort_by_key(|reached| rank(&reached.outcome));
        bests
    }

    /// The best plan of a round that begins with another rule of what leaves first. From what that leads to, other plans are to be reached;
    /// which are better is seen at the round's end.
    fn best_by_cost(&self, judge: &mut Judge, number: u32, round_seconds: f64) -> Option<Reached> {
        let from = self.bests_of_grids(judge, &CHEAPEST).into_iter().next()?;
        self.best_from(judge, from, number, (round_seconds, round_seconds))
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

    /// The best plan that is reached from one in a round.
    fn best_from(
        &self,
        judge: &mut Judge,
        from: Reached,
        number: u32,
        seconds: (f64, f64),
    ) -> Option<Reached> {
        let mut bests = vec![from];
        self.climb_from(judge, &mut bests, number, seconds);
        bests.pop()
    }

    /// Adds to some plans the best ones that are reached from the last of them in the round of a number, of so many seconds in all, of which
    /// so many are gone through.
    fn climb_from(
        &self,
        judge: &mut Judge,
        bests: &mut Vec<Reached>,
        number: u32,
        (whole, most): (f64, f64),
    ) {
        let Some(from) = bests.pop() else { return };
        let second_ops = if self.settings.recompute { 2.0 * OPS_PER_SECOND } else { OPS_PER_SECOND };
        let second_steps = second_ops / self.step_ops().max(1) as f64;
        let planner = self.planner(from.point.parameters.schedule);
        let round = Round {
            number: number.into(),
            whole_steps: whole * second_steps,
            most_steps: most * second_steps,
        };
        bests.extend(climb(judge, planner, self.settings, self.progress, (from, round)));
    }

    /// The first plan that is found that may be picked among many, changed until it endures being chosen if it comes to that. What `like`
    /// says is tried first, and no other way than that: it led to one with a little more memory.
    pub fn any(&self, judge: &mut Judge, like: Option<Parameters>) -> Option<Reached> {
        let first = self.first(judge, like)?;
        Some(self.mended(judge, &first).unwrap_or(first))
    }

    /// The same, as it was found.
    fn first(&self, judge: &mut Judge, like: Option<Parameters>) -> Option<Reached> {
        if let Some(like) = like {
            let mut search = self.attempts(judge).end_with_the_first();
            search.attempt(self.planner(like.schedule), Point::new(like), MORE_ROUNDS);
            if let Some(reached) = search.finish() {
                return Some(reached);
            }
        }
        let mut ways = self.ways().iter().filter(|&&way| like.is_none_or(|like| like.way() == way));
        ways.find_map(|&way| {
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

    /// Says how long a step is with the last of some plans.
    fn show(&self, bests: &[Reached]) {
        bests.iter().rev().take(1).for_each(|best| self.progress.found(best.outcome.step_seconds));
    }

    /// Whether the search ends here, with a plan that was found.
    fn is_ending(&self, found: &[Reached]) -> bool {
        !found.is_empty() && self.progress.is_ending()
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

/// Adds a plan to some, each of which is better than those before it, if it is better than they are.
fn add_better(bests: &mut Vec<Reached>, other: Option<Reached>) {
    bests.extend(other.filter(|other| bests.last().is_none_or(|best| is_better(other, best))));
}

/// Whether a plan is better than another.
fn is_better(one: &Reached, other: &Reached) -> bool {
    rank(&one.outcome) < rank(&other.outcome)
}
