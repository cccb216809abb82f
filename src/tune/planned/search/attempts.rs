//! The search among what plans are made with: tries, judges, keeps the best, and has these made better.

use std::collections::HashSet;

use super::improve::Fitting;
use super::planner::{Planner, Point};
use super::rank;
use super::starts::Parameters;
use crate::plan::{Draft, guard_ref_variables};
use crate::simulate::{Machine, OutOfMemory, Outcome};
use crate::tune::Judge;
use crate::tune::planned::decide::{Decisions, Residence};

/// How many plans are made better.
const CANDIDATES: usize = 3;

/// A plan that fits.
#[derive(Clone)]
pub(in crate::tune::planned) struct Reached {
    /// What it was found with first.
    pub parameters: Parameters,
    /// What makes about the same plan again, with all that leaves in it decided.
    pub point: Point,
    pub draft: Draft,
    pub outcome: Outcome,
}

/// Looks for the best parameters.
pub(in crate::tune::planned) struct Attempts<'a, 'b, 'c> {
    judge: &'a mut Judge<'b>,
    /// How many ops a step has.
    step_ops: u64,
    /// How many ops were simulated, and how many may be.
    ops: u64,
    most_ops: u64,
    /// The plans that were judged, by their fingerprints.
    judged: HashSet<u64>,
    /// The best plans, the best first.
    best: Vec<(Point, Fitting<'c>)>,
    /// Whether any plan will do that may be picked among many.
    any_will_do: bool,
}

impl<'a, 'b, 'c> Attempts<'a, 'b, 'c> {
    /// Nothing is found yet. A step has so many ops, and so many may be simulated.
    pub fn new(judge: &'a mut Judge<'b>, step_ops: u64, most_ops: u64) -> Attempts<'a, 'b, 'c> {
        Attempts {
            judge,
            step_ops,
            ops: 0,
            most_ops,
            judged: HashSet::new(),
            best: Vec::new(),
            any_will_do: false,
        }
    }

    /// Ends with the first plan that may be picked among many.
    pub fn end_with_the_first(mut self) -> Self {
        self.any_will_do = true;
        self
    }

    /// What steps are judged on.
    pub fn machine(&self) -> &'b Machine {
        self.judge.machine()
    }

    /// Whether all effort is spent, or enough is found.
    pub fn is_over(&self) -> bool {
        self.ops >= self.most_ops || (self.any_will_do && !self.is_empty())
    }

    /// Lets more effort be spent, up to so many ops.
    pub fn may_take(&mut self, most_ops: u64) {
        self.most_ops = most_ops;
    }

    /// Whether no plan was found yet.
    pub fn is_empty(&self) -> bool {
        self.best.is_empty()
    }

    /// Plans and judges, makes room where the allocator finds none, and so on, for so many rounds.
    ///
    /// Returns what was reached if that is no plan yet, but more rounds may lead to one.
    pub fn attempt(&mut self, planner: &'c Planner, mut point: Point, rounds: u32) -> Option<Point> {
        // The last plan that ran out of memory.
        let mut last: Option<(Draft, Residence, OutOfMemory)> = None;
        for _ in 0..rounds {
            if self.is_over() {
                return None;
            }
            // A plan takes about as long to make as a step to simulate.
            self.ops += self.step_ops;
            match planner.plan(self.judge, &point) {
                // Several parameters may come to the same plan.
                Some((draft, _)) if !self.judged.insert(draft.fingerprint()) => {}
                Some((mut draft, mut residence)) => match self.wanted(&mut draft) {
                    Ok(None) => return None,
                    Ok(Some((place, outcome))) => {
                        point.room.give_back(&mut residence);
                        self.best.insert(place, (point, Fitting { draft, outcome, residence }));
                        self.best.truncate(CANDIDATES);
                        return None;
                    }
                    Err(_) if last.is_none() && self.is_too_slow(&draft) => return None,
                    Err(shortage) => last = Some((draft, residence, shortage)),
                },
                None => point.room.take_back(),
            }
            // Where nothing new came of it, other means may help.
            let (draft, residence, shortage) = last.as_ref()?;
            planner.make_room(self.judge, (draft, residence), shortage, &mut point.room)?;
        }
        Some(point)
    }

    /// Whether a step with a plan takes longer than with the best one, even if memory had no end: more room makes none shorter.
    fn is_too_slow(&mut self, draft: &Draft) -> bool {
        let Some(most_seconds) = self.best.first().map(|(_, best)| best.outcome.step_seconds) else {
            return false;
        };
        self.count(|judge| judge.unbound_seconds(draft)) >= most_seconds
    }

    /// Simulates a step.
    fn judge(&mut self, draft: &Draft) -> Result<Outcome, OutOfMemory> {
        self.count(|judge| judge.judge(draft))
    }

    /// Counts what is simulated.
    pub fn count<R>(&mut self, simulated: impl FnOnce(&mut Judge) -> R) -> R {
        let before = self.judge.simulations();
        let result = simulated(self.judge);
        self.ops += u64::from(self.judge.simulations() - before) * self.step_ops;
        result
    }

    /// What comes of a plan that is among the best so far, and another one than these, and its place among them. Reads and updates
    /// of ref variables are in order in it then.
    fn wanted(&mut self, draft: &mut Draft) -> Result<Option<(usize, Outcome)>, OutOfMemory> {
        let outcome = self.judge(draft)?;
        if self.place_of(&outcome).is_none() {
            return Ok(None);
        }
        let outcome = self.guard(draft)?.unwrap_or(outcome);
        let Some(place) = self.place_of(&outcome) else { return Ok(None) };
        let any_will_do = self.any_will_do;
        self.count(
            |judge| if any_will_do { judge.endures_being_picked(draft) } else { judge.endures(draft) },
        )?;
        Ok(Some((place, outcome)))
    }

    /// Adds what keeps reads and updates of ref variables in order; what comes of that, if there are any.
    fn guard(&mut self, draft: &mut Draft) -> Result<Option<Outcome>, OutOfMemory> {
        match put_in_order(self.judge, draft) {
            true => self.judge(draft).map(Some),
            false => Ok(None),
        }
    }

    /// Where a plan stands among the best.
    fn place_of(&self, outcome: &Outcome) -> Option<usize> {
        let ranks = self.best.iter().map(|(_, other)| rank(&other.outcome));
        let wanted = rank(outcome);
        let place = ranks.clone().take_while(|other| *other < wanted).count();
        let is_new = ranks.clone().nth(place) != Some(wanted);
        (is_new && place < CANDIDATES).then_some(place)
    }

    /// The best plan, made better until all effort is spent: what could not stay may be able to once others have changed.
    pub fn finish(mut self) -> Option<Reached> {
        let mut best = std::mem::take(&mut self.best);
        let mut open: Vec<&mut Fitting> = best.iter_mut().map(|(_, candidate)| candidate).collect();
        while !open.is_empty() && !self.any_will_do && !self.is_over() {
            open.retain_mut(|candidate| self.improve(candidate));
        }
        let (mut point, Fitting { draft, outcome, residence }) =
            best.into_iter().min_by_key(|(_, candidate)| rank(&candidate.outcome))?;
        let parameters = point.parameters;
        point.decisions = Decisions::of_plan(&residence);
        // What leaves is decided; nothing else has to as long as there is room.
        point.parameters.fill = 1.0;
        Some(Reached { parameters, point, draft, outcome })
    }

    /// Leaves something out of a plan. Whether it is better now.
    fn improve(&mut self, Fitting { draft, outcome, residence }: &mut Fitting) -> bool {
        let better = residence.attempt(|residence| {
            let (mut less, mut of_less) = (draft.clone(), outcome.clone());
            let is_better = self.leave_out(residence, (&mut less, &mut of_less))
                && self.is_better((&mut less, &mut of_less), outcome);
            is_better.then_some((less, of_less))
        });
        let is_better = better.is_some();
        if let Some(better) = better {
            (*draft, *outcome) = better;
        }
        is_better
    }

    /// Whether a plan of which something was left out holds, and is better than it was.
    fn is_better(&mut self, (draft, outcome): (&mut Draft, &mut Outcome), before: &Outcome) -> bool {
        // What kept an update back may be among what was left out.
        match self.guard(draft) {
            Ok(Some(guarded)) => *outcome = guarded,
            Ok(None) => {}
            Err(_) => return false,
        }
        rank(outcome) < rank(before) && self.count(|judge| judge.endures(draft)).is_ok()
    }
}

/// Adds to a plan what keeps reads and updates of ref variables in order, which takes long to find; whether there are any.
pub(in crate::tune::planned) fn put_in_order(judge: &Judge, draft: &mut Draft) -> bool {
    let analysis = judge.outline().analysis();
    let has_any = !analysis.ref_variables.all().is_empty();
    if has_any {
        guard_ref_variables(analysis, draft);
    }
    has_any
}
