//! Plans get better by changing what is decided of a few gaps, again and again.
//!
//! Each try changes a plan's decisions by chance, makes the plan anew, and simulates a step with it. If that is shorter, or hardly
//! longer, the search goes on from there; each round begins with the best plan so far. (Simulated annealing with little heat: Kirkpatrick,
//! Gelatt and Vecchi, 1983.)
//!
//! The same is found again each time, and what less effort finds is found with more of it too: chance follows from the number of the
//! round, and how a round goes does not depend on where the effort ends. Some tries are made at once, from the same plan, on as many
//! threads as there are; as many tries as ever, so that the number of threads changes nothing.

use std::collections::{HashSet, VecDeque};
use std::num::NonZero;
use std::{mem, thread};

use fastrand::Rng;

use super::attempts::{Reached, put_in_order};
use super::blame::blame;
use super::candidates::Candidates;
use super::planner::{MadeRoom, OpenGap, Planner, Point};
use super::starts::Parameters;
use crate::plan::Draft;
use crate::simulate::{OutOfMemory, Outcome};
use crate::tune::planned::decide::Decision;
use crate::tune::planned::settings::Settings;
use crate::tune::planned::timeline::Gap;
use crate::tune::{Judge, Progress};

/// Gaps of buffers of less than this part of the budget are not decided by chance.
const LEAST_PART: f64 = 1.0 / 1024.0;

/// The part by which a step may become longer at the beginning of a round; at its end it may not.
const HEAT: f64 = 2e-3;

/// By what part a step has to be shorter so that the plan is tried with all deviations.
const BETTER: f64 = 1e-3;

/// How often room is made for a plan that may be better, and for the first one.
const ROUNDS: u32 = 3;
const FIRST_ROUNDS: u32 = 8;

/// How many tries are made at once.
const AT_ONCE: usize = 4;

/// After so many tries in vain the search goes on from another plan.
const PATIENCE: usize = 100;

/// How many gaps are changed in a try at most.
const MOST_CHANGES: f64 = 4.0;

/// Of the changes of a gap that a copy ends, the part that lets the copy start earlier or later.
const LEAD_CHANGES: f64 = 0.3;

/// How often what is decided of a gap is decided of others of its kind too: what is right for one layer is often right for the next.
const ALIKE_PART: f64 = 0.3;

/// How often a gap is changed because of what it costs.
const BLAMED_PART: f64 = 0.5;

/// The least part of the budget that is planned with, and that returns may take.
const LEAST_FILL: f64 = 0.5;

/// For how much of a copy's time an op runs again of which nothing is decided.
const RECOMPUTE_BELOW: [f64; 5] = [0.0, 0.1, 0.3, 0.6, 1.0];

/// A plan that fits, with the first deviations.
struct Tried {
    point: Point,
    draft: Draft,
    outcome: Outcome,
}

/// How long to climb, in steps that are simulated or planned for: a plan takes about as long to make as a step to simulate.
#[derive(Debug, Clone, Copy)]
pub(in crate::tune::planned) struct Round {
    /// The round's number, from which chance follows.
    pub number: u64,
    /// How long the whole round is, which decides how warm it is when.
    pub whole_steps: f64,
    /// Where it ends, at the end of the whole or before.
    pub most_steps: f64,
}

/// The best plans that a round of tries comes to from a plan on, which is the first of them: each is better than those before it.
pub(in crate::tune::planned) fn climb(
    judge: &mut Judge,
    planner: &Planner,
    settings: &Settings,
    progress: &Progress,
    (from, round): (Reached, Round),
) -> Vec<Reached> {
    let mut climb = Climb::new(judge, planner, settings, from);
    if !climb.candidates.is_empty() {
        climb.run(judge, round, progress);
    }
    climb.earlier.push(climb.best);
    climb.earlier
}

/// A search from a plan on.
struct Climb<'a> {
    planner: &'a Planner<'a>,
    candidates: Candidates,
    /// Whether ops may run a second time.
    recompute: bool,
    threads: usize,
    now: Tried,
    /// Where the search goes on if it does not get on from there, and so in turn.
    begins: VecDeque<Tried>,
    best: Reached,
    /// The best plans before that one.
    earlier: Vec<Reached>,
    /// What gaps cost with the plan from which the search goes on, summed up.
    blamed: Vec<(Gap, f64)>,
    /// The gaps in which something leaves in that plan.
    absent: HashSet<Gap>,
    /// The plans that were tried, by their fingerprints.
    seen: HashSet<u64>,
}

impl<'a> Climb<'a> {
    fn new(judge: &mut Judge, planner: &'a Planner<'a>, settings: &Settings, from: Reached) -> Climb<'a> {
        let budget = judge.machine().memory.iter().copied().min().unwrap_or(0) as f64;
        let candidates = Candidates::new(planner.gaps((budget * LEAST_PART) as u64));
        let threads =
            settings.threads.or_else(|| thread::available_parallelism().ok()).map_or(1, NonZero::get);
        let mut begins = begins(judge, planner, &from);
        let now = begins.remove(0);
        let (blamed, absent) = looked_at(judge, planner, &now);
        Climb {
            planner,
            candidates,
            blamed,
            absent,
            begins: begins.into(),
            recompute: settings.recompute,
            threads,
            now,
            best: from,
            earlier: Vec::new(),
            seen: HashSet::new(),
        }
    }

    fn run(&mut self, judge: &mut Judge, round: Round, progress: &Progress) {
        let mut rng = Rng::with_seed(round.number);
        let before = judge.simulations();
        let (mut tries, mut in_vain) = (0, 0);
        while !progress.is_ending() {
            let steps = f64::from(judge.simulations() - before + tries);
            if steps >= round.most_steps {
                return;
            }
            tries += AT_ONCE as u32;
            let heat = HEAT * (1.0 - steps / round.whole_steps).max(0.0).powi(2);
            let most_seconds = self.now.outcome.step_seconds * (1.0 + heat * rng.f64());
            let points: Vec<Point> = (0..AT_ONCE).map(|_| self.neighbour(&mut rng)).collect();
            let tried = self.best_of(judge, points, most_seconds);
            if tried.is_some_and(|tried| self.accept(judge, tried)) {
                progress.found(self.best.outcome.step_seconds);
                in_vain = 0;
            } else {
                in_vain += AT_ONCE;
                if in_vain >= PATIENCE {
                    self.begin_elsewhere(judge);
                    in_vain = 0;
                }
            }
        }
    }

    /// The plan of the shortest step of these points, if there is one that is shorter than this.
    fn best_of(&mut self, judge: &mut Judge, points: Vec<Point>, most_seconds: f64) -> Option<Tried> {
        let was = judge.clone();
        let limits = Limits { most_seconds, rounds: ROUNDS, seen: &self.seen };
        let all = on_threads(self.threads, points, |point| {
            let mut clone = was.clone();
            let (tried, fingerprint) = attempt(&mut clone, self.planner, point, limits);
            (tried, fingerprint, clone)
        });
        let mut best: Option<Tried> = None;
        for (tried, fingerprint, clone) in all {
            self.seen.extend(fingerprint);
            judge.learn_from(&was, &clone);
            let is_better = |tried: &Tried| {
                best.as_ref().is_none_or(|best| tried.outcome.step_seconds < best.outcome.step_seconds)
            };
            if let Some(tried) = tried.filter(is_better) {
                best = Some(tried);
            }
        }
        best
    }

    /// Goes on from another plan, if there is one.
    fn begin_elsewhere(&mut self, judge: &mut Judge) {
        let Some(next) = self.begins.pop_front() else { return };
        (self.blamed, self.absent) = looked_at(judge, self.planner, &next);
        self.begins.push_back(std::mem::replace(&mut self.now, next));
    }

    /// Goes on from a plan; whether it does. One that is better than all before it has to come to one that may be picked: if it is frail, all
    /// around it is.
    fn accept(&mut self, judge: &mut Judge, mut tried: Tried) -> bool {
        let enough = self.best.outcome.step_seconds * (1.0 - BETTER);
        if tried.outcome.step_seconds < enough {
            let Some(enduring) = self.enduring(judge, tried, enough) else { return false };
            tried = enduring;
            let (point, draft, outcome) = (tried.point.clone(), tried.draft.clone(), tried.outcome.clone());
            let best = Reached { parameters: self.best.parameters, point, draft, outcome };
            self.earlier.push(mem::replace(&mut self.best, best));
        }
        (self.blamed, self.absent) = looked_at(judge, self.planner, &tried);
        self.now = tried;
        true
    }

    /// What a plan comes to when room is made until it may be picked; none if a step takes as long as this then.
    fn enduring(&self, judge: &mut Judge, mut tried: Tried, most_seconds: f64) -> Option<Tried> {
        let limits = Limits { most_seconds, rounds: ROUNDS, seen: &HashSet::new() };
        for _ in 0..ROUNDS {
            let Err(shortage) = judge.endures_being_picked(&tried.draft) else { return Some(tried) };
            let mut point = tried.point;
            let (draft, residence) = self.planner.plan(judge, &point)?;
            judge.add_simulations(1);
            self.planner.make_room(judge, (&draft, &residence), &shortage, &mut point.room)?;
            tried = attempt(judge, self.planner, point, limits).0?;
        }
        None
    }

    /// The same point with a few changes.
    fn neighbour(&self, rng: &mut Rng) -> Point {
        let mut next = self.now.point.clone();
        let changes = 1 + (rng.f64() * rng.f64() * MOST_CHANGES) as usize;
        for _ in 0..changes {
            self.change(&mut next, rng);
        }
        let parameters = &mut next.parameters;
        let moved = |part: f64, by: f64| (part + by).clamp(LEAST_FILL, 1.0);
        match rng.f64() {
            ..0.04 => parameters.fill = moved(parameters.fill, (rng.f64() - 0.5) * 0.1),
            ..0.08 => parameters.early_fill = moved(parameters.early_fill, (rng.f64() - 0.5) * 0.2),
            ..0.10 if self.recompute => {
                parameters.recompute_below = RECOMPUTE_BELOW[rng.usize(..RECOMPUTE_BELOW.len())]
            }
            ..0.12 => next.again_fill = moved(next.again_fill, (rng.f64() - 0.5) * 0.2),
            ..0.15 => next.room = MadeRoom::default(),
            ..0.17 => next.decisions.other_leads = rng.u8(..3),
            ..0.19 => next.decisions.in_turn = !next.decisions.in_turn,
            _ => {}
        }
        next
    }

    /// A gap by chance: one that costs much, or one of a large buffer.
    fn candidate(&self, rng: &mut Rng) -> Option<OpenGap> {
        if rng.f64() < BLAMED_PART {
            let at = rng.f64() * self.blamed.last().map_or(0.0, |&(_, sum)| sum);
            let number = self.blamed.partition_point(|&(_, sum)| sum < at);
            let found = self.candidates.of(self.blamed.get(number)?.0);
            if found.is_some() {
                return found;
            }
        }
        self.candidates.any(rng)
    }

    /// Decides something else of a gap, or of some that are alike.
    fn change(&self, point: &mut Point, rng: &mut Rng) {
        let Some(open) = self.candidate(rng) else { return };
        let OpenGap { gap, can_be_made_again, .. } = open;
        let decisions = &mut point.decisions;
        let was = decisions.of(gap);
        if was == Some(Decision::Copy) && rng.f64() < LEAD_CHANGES {
            let lead = decisions.lead(gap);
            decisions.set_lead(gap, if rng.bool() { lead + 1 } else { lead.saturating_sub(1) });
            return;
        }
        let mut choices = vec![Some(Decision::Copy)];
        // What stays unless something is decided, stays.
        if was.is_some() || self.absent.contains(&gap) {
            choices.extend([Some(Decision::Keep), None]);
        }
        if can_be_made_again && self.recompute {
            choices.extend([Some(Decision::Again); 2]);
        }
        choices.retain(|&choice| choice != was);
        if choices.is_empty() {
            return;
        }
        let choice = choices[rng.usize(..choices.len())];
        if rng.f64() < ALIKE_PART {
            self.candidates.alike(open, rng).for_each(|gap| decisions.set(gap, choice));
        } else {
            decisions.set(gap, choice);
        }
    }
}

/// The plans from which a search begins that is to go on from this one, the shortest step first; at least one.
///
/// What was left out of a plan may not be left out again when it is made anew, and what the allocator had found room for may not find it
/// again. Then it may fit if less is filled with what nothing is decided of, or with what second runs need. The more is filled, the
/// shorter the step, and the fewer of its neighbours fit.
fn begins(judge: &mut Judge, planner: &Planner, from: &Reached) -> Vec<Tried> {
    let limits = Limits { most_seconds: f64::INFINITY, rounds: FIRST_ROUNDS, seen: &HashSet::new() };
    let Parameters { fill, early_fill, .. } = from.parameters;
    let own = (from.point.parameters.fill, from.point.again_fill);
    let fills = [own, (1.0, early_fill), (fill, early_fill)];
    let tried = |(fill, again_fill): (f64, f64)| {
        let mut point = Point { again_fill, ..from.point.clone() };
        point.parameters.fill = fill;
        attempt(judge, planner, point, limits).0
    };
    let mut begins: Vec<Tried> = fills.into_iter().filter_map(tried).collect();
    begins.sort_by(|one, other| one.outcome.step_seconds.total_cmp(&other.outcome.step_seconds));
    if begins.is_empty() {
        // It never fits, but its neighbours may.
        let Reached { point, draft, outcome, .. } = from;
        begins.push(Tried { point: point.clone(), draft: draft.clone(), outcome: outcome.clone() });
    }
    begins
}

/// What the gaps of a plan cost, summed up from the first on, and in which something leaves.
fn looked_at(judge: &mut Judge, planner: &Planner, tried: &Tried) -> (Vec<(Gap, f64)>, HashSet<Gap>) {
    let Some((draft, residence)) = planner.plan(judge, &tried.point) else { return Default::default() };
    judge.add_simulations(1);
    let mut sum = 0.0;
    let mut blamed = blame(&residence, &draft, judge.machine());
    for (_, cost) in &mut blamed {
        sum += *cost;
        *cost = sum;
    }
    (blamed, residence.all().map(|(gap, _)| gap).collect())
}

/// What becomes of each of these, in their order, on so many threads.
fn on_threads<T: Send, R: Send>(threads: usize, all: Vec<T>, work: impl Fn(T) -> R + Sync) -> Vec<R> {
    let per_thread = all.len().div_ceil(threads.max(1)).max(1);
    let mut open = all.into_iter();
    let mut parts: Vec<Vec<T>> = Vec::new();
    while !open.as_slice().is_empty() {
        parts.push(open.by_ref().take(per_thread).collect());
    }
    let work = &work;
    let work_all = move |part: Vec<T>| -> Vec<R> { part.into_iter().map(work).collect() };
    thread::scope(|scope| {
        let mut parts = parts.into_iter();
        // The first part is this thread's own.
        let own = parts.next().unwrap_or_default();
        let others: Vec<_> = parts.map(|part| scope.spawn(move || work_all(part))).collect();
        let mut done = work_all(own);
        for other in others {
            match other.join() {
                Ok(part) => done.extend(part),
                Err(panic) => std::panic::resume_unwind(panic),
            }
        }
        done
    })
}

/// What a try may do.
#[derive(Clone, Copy)]
struct Limits<'a> {
    /// A step with the plan has to be shorter than this.
    most_seconds: f64,
    /// How often room is made.
    rounds: u32,
    /// The plans that were tried before, by their fingerprints.
    seen: &'a HashSet<u64>,
}

/// A plan of a point, if it is new and a step with it is short enough; and the fingerprint of the first one that was made, if any was.
fn attempt(
    judge: &mut Judge,
    planner: &Planner,
    mut point: Point,
    limits: Limits,
) -> (Option<Tried>, Option<u64>) {
    let mut first = None;
    for _ in 0..limits.rounds {
        let Some((mut draft, residence)) = planner.plan(judge, &point) else { break };
        let fingerprint = draft.fingerprint();
        let is_first = first.is_none();
        if is_first && limits.seen.contains(&fingerprint) {
            break;
        }
        first = first.or(Some(fingerprint));
        let shortage = match judged(judge, &mut draft, limits.most_seconds) {
            Ok(None) => break,
            Ok(Some(outcome)) => return (Some(Tried { point, draft, outcome }), first),
            Err(shortage) => shortage,
        };
        // More room makes no step shorter.
        if is_first && limits.most_seconds.is_finite() && judge.unbound_seconds(&draft) >= limits.most_seconds
        {
            break;
        }
        if planner.make_room(judge, (&draft, &residence), &shortage, &mut point.room).is_none() {
            break;
        }
    }
    (None, first)
}

/// What comes of a plan, if a step with it is shorter than this. Reads and updates of ref variables are in order in it then.
fn judged(judge: &mut Judge, draft: &mut Draft, most_seconds: f64) -> Result<Option<Outcome>, OutOfMemory> {
    let is_short = |outcome: &Outcome| outcome.step_seconds < most_seconds;
    let judged = judge.judge_if(draft, is_short)?;
    match judged.is_some() && put_in_order(judge, draft) {
        true => judge.judge_if(draft, is_short),
        false => Ok(judged),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_is_done_in_its_order_on_any_number_of_threads() {
        for threads in [0, 1, 2, 3, 7, 20] {
            for count in [0u32, 1, 4, 5] {
                let done = on_threads(threads, (0..count).collect(), |number| number * 10);
                assert_eq!(done, (0..count).map(|number| number * 10).collect::<Vec<_>>(), "{threads}");
            }
        }
    }
}
