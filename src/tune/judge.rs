//! Plans are judged by simulating them.

use std::convert::Infallible;
use std::ops::Range;

use super::deviations::{chances_of_the_chosen, deviations, further_deviations};
use super::least_memory::{first_guess, least_memory};
use super::overlap;
use crate::plan::Draft;
use crate::simulate::{
    CHUNK_BYTES, Machine, NoObserver, OutOfMemory, Outcome, Outline, Program, Scenario, simulate, simulate_in,
};

/// How many of the deviations each plan is tried with.
const FIRST_DEVIATIONS: usize = 4;

/// How many ops are simulated at most to see whether a plan that was chosen endures chances that no plan was tried with.
const CHOSEN_OPS: usize = 1_500_000;

/// No GPU has more.
const MOST_BYTES: u64 = 1 << 50;

/// What may be otherwise than predicted, and a plan still has to fit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Caution {
    /// All deviations.
    All,
    /// Those with one thread of the host.
    OneThread,
    /// Nothing.
    Nothing,
}

impl Caution {
    /// Whether a plan has to fit so.
    fn counts(self, deviation: &Scenario) -> bool {
        match self {
            Caution::All => true,
            Caution::OneThread => deviation.threads == 1,
            Caution::Nothing => false,
        }
    }
}

/// Says of a plan whether it fits, and how long a step takes with it.
#[derive(Debug, Clone)]
pub struct Judge<'a> {
    outline: &'a Outline<'a>,
    machine: &'a Machine,
    caution: Caution,
    /// The likeliest to show that a plan does not fit come first.
    deviations: Vec<Scenario>,
    /// The fingerprint of the last plan that endured being chosen.
    endured: Option<u64>,
    simulations: u32,
}

impl<'a> Judge<'a> {
    /// Judges plans for a graph on a machine, whose memory is the budget.
    pub fn new(outline: &'a Outline<'a>, machine: &'a Machine) -> Judge<'a> {
        let deviations = deviations(outline.placement().gpus().len());
        Judge { outline, machine, caution: Caution::All, deviations, endured: None, simulations: 0 }
    }

    /// The same judge of plans for the same graph outlined in another way.
    pub fn of<'b>(&self, outline: &'b Outline<'b>) -> Judge<'b>
    where
        'a: 'b,
    {
        Judge {
            outline,
            machine: self.machine,
            caution: self.caution,
            deviations: self.deviations.clone(),
            endured: None,
            simulations: 0,
        }
    }

    /// The same judge of plans for the same graph on another machine.
    pub fn on<'b>(&self, machine: &'b Machine) -> Judge<'b>
    where
        'a: 'b,
    {
        Judge { machine, endured: None, simulations: 0, ..self.clone() }
    }

    /// Counts simulations of another judge as its own.
    pub fn add_simulations(&mut self, other: u32) {
        self.simulations += other;
    }

    /// Learns what a clone of it learnt since it was made: which deviations are the likeliest to show that a plan does not fit. `was` is
    /// what it was like then. What the clone simulated counts as its own.
    pub(super) fn learn_from(&mut self, was: &Judge, clone: &Judge) {
        self.simulations += clone.simulations - was.simulations;
        if clone.deviations != was.deviations {
            self.deviations.clone_from(&clone.deviations);
        }
    }

    /// From now on, takes the profile's word for how fast copies are.
    pub fn trust_the_profile(&mut self) {
        self.caution = Caution::Nothing;
    }

    /// From now on, takes it that the host runs ops with one thread.
    pub(super) fn count_on_one_thread(&mut self) {
        self.caution = Caution::OneThread;
    }

    /// What is known of the graph.
    pub fn outline(&self) -> &'a Outline<'a> {
        self.outline
    }

    /// The machine.
    pub fn machine(&self) -> &'a Machine {
        self.machine
    }

    /// Simulates a step with a plan.
    ///
    /// When copies end, and what runs first of what could, decides what is in memory at the same time, and what lies where; no profile
    /// knows a link that well, and nobody TensorFlow's order. So for a careful judge a plan fits only if it fits with copies that are slower and
    /// faster than they should be, in other orders, and with iterations of loops side by side that nothing keeps from it, too.
    ///
    /// # Errors
    ///
    /// If it does not fit.
    pub fn judge(&mut self, draft: &Draft) -> Result<Outcome, OutOfMemory> {
        let judged = self.judge_if(draft, |_| true)?;
        Ok(judged.unwrap_or_default())
    }

    /// The same of a plan of which it is enough to know that it is not wanted: none if what comes of it is not.
    ///
    /// # Errors
    ///
    /// If it does not fit.
    pub fn judge_if(
        &mut self,
        draft: &Draft,
        is_wanted: impl FnOnce(&Outcome) -> bool,
    ) -> Result<Option<Outcome>, OutOfMemory> {
        self.judge_with(draft, is_wanted, 0..FIRST_DEVIATIONS)
    }

    /// The same with all deviations, as [`Judge::endures`] has them.
    ///
    /// # Errors
    ///
    /// If it does not fit.
    pub fn endures_if(
        &mut self,
        draft: &Draft,
        is_wanted: impl FnOnce(&Outcome) -> bool,
    ) -> Result<Option<Outcome>, OutOfMemory> {
        self.judge_with(draft, is_wanted, 0..self.deviations.len())
    }

    fn judge_with(
        &mut self,
        draft: &Draft,
        is_wanted: impl FnOnce(&Outcome) -> bool,
        deviations: Range<usize>,
    ) -> Result<Option<Outcome>, OutOfMemory> {
        let program = Program::new(self.outline, draft);
        self.simulations += 1;
        let outcome = simulate(&program, self.machine, &mut NoObserver)?;
        if !is_wanted(&outcome) {
            return Ok(None);
        }
        if self.caution != Caution::Nothing
            && let Some(side_by_side) = Program::side_by_side(self.outline, draft)
        {
            self.simulations += 1;
            simulate(&side_by_side, self.machine, &mut NoObserver)?;
        }
        // There is but one plan with nothing in it, so all of its deviations are tried at once.
        let deviations = if draft.is_empty() { 0..self.deviations.len() } else { deviations };
        self.try_deviations(&program, self.machine, draft, deviations)?;
        self.try_other_cases(draft)?;
        Ok(Some(outcome))
    }

    /// Tries a plan with the other sides of branches, as predicted.
    fn try_other_cases(&mut self, draft: &Draft) -> Result<(), OutOfMemory> {
        for other in self.outline.other_cases() {
            self.simulations += 1;
            simulate(&Program::new(other, draft), self.machine, &mut NoObserver)?;
        }
        Ok(())
    }

    /// Tries a plan with more deviations than those that each plan is judged with. One that was picked among many because
    /// it fits may do so by luck.
    ///
    /// # Errors
    ///
    /// If it does not fit with one of them.
    pub fn endures(&mut self, draft: &Draft) -> Result<(), OutOfMemory> {
        let program = Program::new(self.outline, draft);
        self.try_deviations(&program, self.machine, draft, FIRST_DEVIATIONS..self.deviations.len())
    }

    /// Tries a plan that was picked among thousands, for which it fits with all that these were tried with: with other chances, and with a
    /// host that never runs ahead of its GPUs, as with ops that take less time than launching them. Copies come earlier then, beside the
    /// ops, and everything comes to lie elsewhere. Without this, plans for a `DeepLabv3+` in 340 MiB ran out of memory in five of five tries.
    /// What one does not fit with is what others are tried with first from now on.
    ///
    /// # Errors
    ///
    /// If it does not fit with one of them.
    pub(super) fn endures_being_picked(&mut self, draft: &Draft) -> Result<(), OutOfMemory> {
        self.endures(draft)?;
        let program = Program::new(self.outline, draft);
        self.try_others(&program, further_deviations(self.outline.placement().gpus().len()))
    }

    /// Tries the plan that was chosen at the end with chances that no plan was tried with, as many as there is time for. One that it does not
    /// fit with is what others are tried with first from now on: so another search finds another plan.
    ///
    /// # Errors
    ///
    /// If it does not fit with one of them.
    pub(super) fn endures_being_chosen(&mut self, draft: &Draft) -> Result<(), OutOfMemory> {
        let fingerprint = draft.fingerprint();
        if self.endured == Some(fingerprint) {
            return Ok(());
        }
        let program = Program::new(self.outline, draft);
        let chances = CHOSEN_OPS / program.len().max(1);
        let all = chances_of_the_chosen(self.outline.placement().gpus().len());
        self.try_others(&program, all.take(chances))?;
        for other in self.outline.other_cases() {
            let gpus = self.outline.placement().gpus().len();
            self.try_others(&Program::new(other, draft), deviations(gpus).into_iter())?;
        }
        self.endured = Some(fingerprint);
        Ok(())
    }

    /// Whether there is room, in all of the memory, for what a step with a plan may take if iterations of loops overlap.
    pub(super) fn has_room_for_overlap(&mut self, draft: &Draft) -> bool {
        if !self.outline.has_loops() {
            return true;
        }
        if overlap::is_beyond_prediction(self.outline, draft) {
            return false;
        }
        self.simulations += overlap::SIMULATIONS;
        let most = overlap::most_in_overlap(self.outline, self.machine, draft, 0.0);
        most.iter().zip(&self.machine.whole_memory).all(|(most, whole)| most <= whole)
    }

    /// Tries a plan with what no plan was tried with. What it does not fit with is what all are tried with first from now on.
    fn try_others(
        &mut self,
        program: &Program,
        others: impl Iterator<Item = Scenario>,
    ) -> Result<(), OutOfMemory> {
        for other in others {
            if let Err(shortage) = self.try_one(program, &other) {
                self.deviations.insert(0, other);
                return Err(shortage);
            }
        }
        Ok(())
    }

    /// Tries a plan with one deviation, if it has to fit with that.
    fn try_one(&mut self, program: &Program, deviation: &Scenario) -> Result<(), OutOfMemory> {
        let has_rest = deviation.rest_part == 0.0 || !self.machine.counts_on_all();
        if !self.caution.counts(deviation) || !has_rest {
            return Ok(());
        }
        self.simulations += 1;
        simulate_in(program, self.machine, deviation, &mut NoObserver).map(drop)
    }

    /// How long a step with a plan takes if memory has no end.
    pub fn unbound_seconds(&mut self, draft: &Draft) -> f64 {
        let program = Program::new(self.outline, draft);
        self.simulations += 1;
        let machine = self.machine.with_memory(Vec::new());
        simulate(&program, &machine, &mut NoObserver).map_or(f64::INFINITY, |outcome| outcome.step_seconds)
    }

    fn try_deviations(
        &mut self,
        program: &Program,
        machine: &Machine,
        draft: &Draft,
        deviations: Range<usize>,
    ) -> Result<(), OutOfMemory> {
        for number in deviations {
            let deviation = &self.deviations[number];
            if !self.caution.counts(deviation) {
                continue;
            }
            let differs = match deviation.rest_part > 0.0 {
                true => !machine.counts_on_all(),
                // Nothing is copied where nothing is planned, but ops run in some order.
                false => deviation.is_by_chance() || !draft.is_empty(),
            };
            if !differs {
                continue;
            }
            self.simulations += 1;
            if let Err(shortage) = simulate_in(program, machine, deviation, &mut NoObserver) {
                // What one plan ran out of memory with, the next, which is much like it, is tried with first.
                self.deviations[..=number].rotate_right(1);
                return Err(shortage);
            }
        }
        Ok(())
    }

    /// The least memory in bytes from which on a step with a plan runs on one GPU (the others have as much), fragmentation included,
    /// if copies are as fast as the profile says; to within a thousandth, or a chunk. Where there is a budget, it is looked for from there
    /// down: above a budget that a plan was made for, there may be memories that do not suit it.
    pub fn least_memory(&mut self, draft: &Draft) -> u64 {
        let program = Program::new(self.outline, draft);
        self.simulations += 1;
        let unlimited = simulate(&program, &self.machine.with_memory(Vec::new()), &mut NoObserver);
        let gpus = unlimited.unwrap_or_default().gpus;
        let peak = gpus.iter().map(|gpu| gpu.peak_bytes).max().unwrap_or(0);
        let budget = self.machine.memory_bytes(0).unwrap_or(MOST_BYTES);
        self.least_memory_with(draft, first_guess(peak).min(budget), 0..0)
    }

    /// The same with slower, faster and uneven copies too, as [`Judge::judge`] has them. What a plan without waits needs differs from
    /// run to run between the two: `mnist_cnn_bN_sgd` with 1/1/0/0 trains or runs out of memory by chance in 91 to 106 MiB.
    /// `least_bytes` is what [`Judge::least_memory`] found.
    pub fn least_memory_whenever_copies_end(&mut self, draft: &Draft, least_bytes: u64) -> u64 {
        // Below what suffices there may be less that does again; that is not what is asked for.
        self.least_memory_with(draft, least_bytes, 0..FIRST_DEVIATIONS).max(least_bytes)
    }

    fn least_memory_with(&mut self, draft: &Draft, first_bytes: u64, deviations: Range<usize>) -> u64 {
        let program = Program::new(self.outline, draft);
        let others: Vec<Program> =
            self.outline.other_cases().iter().map(|other| Program::new(other, draft)).collect();
        let nearness = |bytes: u64| (bytes / 1000).max(CHUNK_BYTES);
        let is_enough = |bytes| {
            let machine = self.machine.with_memory(vec![bytes]);
            self.simulations += 1;
            let runs = simulate(&program, &machine, &mut NoObserver).is_ok();
            let fits = runs && self.try_deviations(&program, &machine, draft, deviations.clone()).is_ok();
            Ok(fits && others.iter().all(|other| simulate(other, &machine, &mut NoObserver).is_ok()))
        };
        let Ok::<_, Infallible>(least) = least_memory(first_bytes, MOST_BYTES, nearness, is_enough);
        least.map_or(MOST_BYTES, |least| least.enough_bytes)
    }

    /// How many plans were judged.
    pub fn simulations(&self) -> u32 {
        self.simulations
    }
}
