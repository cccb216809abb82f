//! The search among what plans are made with: tries, judges, keeps the best, and has these made better.

use super::improve::Candidate;
use super::planner::Planner;
use super::{NAME, Parameters, rank};
use crate::plan::{Draft, guard_ref_variables};
use crate::simulate::{Machine, OutOfMemory, Outcome};
use crate::tune::{Found, Judge};

/// How many plans are made better.
const CANDIDATES: usize = 3;

/// How often room is made where the allocator found none.
const ROUNDS: u32 = 8;

/// Looks for the best parameters.
pub(super) struct Search<'a, 'b, 'c> {
    judge: &'a mut Judge<'b>,
    /// How many ops a step has.
    step_ops: u64,
    /// How many ops were simulated, and how many may be.
    ops: u64,
    most_ops: u64,
    /// The best plans, the best first.
    best: Vec<(Parameters, Candidate<'c>)>,
}

impl<'a, 'b, 'c> Search<'a, 'b, 'c> {
    /// Nothing is found yet. A step has so many ops, and so many may be simulated.
    pub fn new(judge: &'a mut Judge<'b>, step_ops: u64, most_ops: u64) -> Search<'a, 'b, 'c> {
        Search { judge, step_ops, ops: 0, most_ops, best: Vec::new() }
    }

    /// What steps are judged on.
    pub fn machine(&self) -> &'b Machine {
        self.judge.machine()
    }

    /// Whether all effort is spent.
    pub fn is_over(&self) -> bool {
        self.ops >= self.most_ops
    }

    /// Plans and judges, makes room where the allocator finds none, and so on.
    pub fn attempt(&mut self, planner: &'c Planner, parameters: Parameters) {
        let mut reserves = Vec::new();
        for round in 0..ROUNDS {
            if self.is_over() {
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
    pub fn count<R>(&mut self, simulated: impl FnOnce(&mut Judge) -> R) -> R {
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

    /// The best plan, made better until so many ops are simulated.
    pub fn finish(mut self, most_ops: u64) -> Option<Found> {
        self.most_ops = most_ops;
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
