//! The search among what plans are made with: tries, judges, keeps the best, and has these made better.

use std::collections::HashSet;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};

use super::improve::Candidate;
use super::planner::{MadeRoom, Planner};
use super::{NAME, Parameters, rank};
use crate::plan::{Draft, guard_ref_variables};
use crate::simulate::{Machine, OutOfMemory, Outcome};
use crate::tune::{Found, Judge};

/// How many plans are made better.
const CANDIDATES: usize = 3;

/// Looks for the best parameters.
pub(super) struct Search<'a, 'b, 'c> {
    judge: &'a mut Judge<'b>,
    /// How many ops a step has.
    step_ops: u64,
    /// How many ops were simulated, and how many may be.
    ops: u64,
    most_ops: u64,
    /// The plans that were judged, by their hashes.
    judged: HashSet<u64>,
    /// The best plans, the best first.
    best: Vec<(Parameters, Candidate<'c>)>,
}

impl<'a, 'b, 'c> Search<'a, 'b, 'c> {
    /// Nothing is found yet. A step has so many ops, and so many may be simulated.
    pub fn new(judge: &'a mut Judge<'b>, step_ops: u64, most_ops: u64) -> Search<'a, 'b, 'c> {
        Search { judge, step_ops, ops: 0, most_ops, judged: HashSet::new(), best: Vec::new() }
    }

    /// What steps are judged on.
    pub fn machine(&self) -> &'b Machine {
        self.judge.machine()
    }

    /// Whether all effort is spent.
    pub fn is_over(&self) -> bool {
        self.ops >= self.most_ops
    }

    /// Whether no plan was found yet.
    pub fn is_empty(&self) -> bool {
        self.best.is_empty()
    }

    /// Plans and judges, makes room where the allocator finds none, and so on, for so many rounds.
    ///
    /// Returns what was reached if that is no plan yet, but more rounds may lead to one.
    pub fn attempt(
        &mut self,
        planner: &'c Planner,
        parameters: Parameters,
        mut room: MadeRoom,
        rounds: u32,
    ) -> Option<MadeRoom> {
        for _ in 0..rounds {
            if self.is_over() {
                return None;
            }
            // A plan takes about as long to make as a step to simulate.
            self.ops += self.step_ops;
            let (mut draft, mut residence) = planner.plan(self.judge, parameters, &room)?;
            // Several parameters may come to the same plan.
            if !self.judged.insert(hash(&draft)) {
                return None;
            }
            match self.wanted(&mut draft) {
                Ok(None) => return None,
                Ok(Some((place, outcome))) => {
                    room.give_back(&mut residence);
                    self.best.insert(place, (parameters, Candidate { draft, outcome, residence }));
                    self.best.truncate(CANDIDATES);
                    return None;
                }
                Err(shortage) => planner.make_room(self.judge, (&draft, &residence), &shortage, &mut room)?,
            }
        }
        Some(room)
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
        self.count(|judge| judge.endures(draft))?;
        Ok(Some((place, outcome)))
    }

    /// Adds what keeps reads and updates of ref variables in order; what comes of that, if there are any.
    fn guard(&mut self, draft: &mut Draft) -> Result<Option<Outcome>, OutOfMemory> {
        let analysis = self.judge.outline().analysis();
        if analysis.ref_variables.all().is_empty() {
            return Ok(None);
        }
        guard_ref_variables(analysis, draft);
        self.judge(draft).map(Some)
    }

    /// Where a plan stands among the best.
    fn place_of(&self, outcome: &Outcome) -> Option<usize> {
        let ranks = self.best.iter().map(|(_, other)| rank(&other.outcome));
        let wanted = rank(outcome);
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
            if !self.is_better(candidate, &outcome) {
                (candidate.draft, candidate.outcome) = (draft, outcome);
            }
        }
        let (parameters, Candidate { draft, outcome, .. }) =
            best.into_iter().min_by_key(|(_, candidate)| rank(&candidate.outcome))?;
        let parameters = serde_json::to_value(parameters).unwrap_or_default();
        Some(Found { strategy: NAME, draft, outcome, parameters })
    }

    /// Whether a plan of which something was left out holds, and is better than it was.
    fn is_better(&mut self, candidate: &mut Candidate, before: &Outcome) -> bool {
        // What kept an update back may be among what was left out.
        match self.guard(&mut candidate.draft) {
            Ok(Some(outcome)) => candidate.outcome = outcome,
            Ok(None) => {}
            Err(_) => return false,
        }
        rank(&candidate.outcome) < rank(before) && self.count(|judge| judge.endures(&candidate.draft)).is_ok()
    }
}

fn hash(draft: &Draft) -> u64 {
    let mut hasher = DefaultHasher::new();
    draft.hash(&mut hasher);
    hasher.finish()
}
