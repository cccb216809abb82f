//! Plans are judged by simulating them.

use crate::plan::Draft;
use crate::simulate::{CHUNK_BYTES, Machine, NoObserver, OutOfMemory, Outcome, Outline, Program, simulate};

/// How much slower than predicted copies may turn out, with each one by chance again slower or faster, and still a plan must fit.
const TIMINGS: [(f64, Option<u64>); 4] = [(4.0, Some(0)), (2.0, Some(1)), (1.0, Some(2)), (0.5, None)];

/// Of such timings, how many more a plan is tried with that is to stay.
const MORE_TIMINGS: u64 = 8;

/// How much slower copies turn out in these, in turn.
const MORE_SLOWNESS: [f64; 3] = [4.0, 1.0, 2.0];

/// No GPU has more.
const MOST_BYTES: u64 = 1 << 50;

/// Says of a plan whether it fits, and how long a step takes with it.
#[derive(Debug)]
pub struct Judge<'a> {
    outline: &'a Outline<'a>,
    machine: &'a Machine,
    is_careful: bool,
    simulations: u32,
}

impl<'a> Judge<'a> {
    /// Judges plans for a graph on a machine, whose memory is the budget.
    pub fn new(outline: &'a Outline<'a>, machine: &'a Machine) -> Judge<'a> {
        Judge { outline, machine, is_careful: true, simulations: 0 }
    }

    /// The same judge of plans for the same graph outlined in another way.
    pub fn of<'b>(&self, outline: &'b Outline<'b>) -> Judge<'b>
    where
        'a: 'b,
    {
        Judge { outline, machine: self.machine, is_careful: self.is_careful, simulations: 0 }
    }

    /// Counts simulations of another judge as its own.
    pub fn add_simulations(&mut self, other: u32) {
        self.simulations += other;
    }

    /// From now on, takes the profile's word for how fast copies are.
    pub fn trust_the_profile(&mut self) {
        self.is_careful = false;
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
    /// When copies end decides what is in memory at the same time, and what lies where; and no profile knows a link that well. So for
    /// a careful judge a plan fits only if it fits with copies that are slower and faster than they should be, too.
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
        let program = Program::new(self.outline, draft);
        self.simulations += 1;
        let outcome = simulate(&program, self.machine, &mut NoObserver)?;
        if !is_wanted(&outcome) {
            return Ok(None);
        }
        self.try_timings(&program, draft, TIMINGS)?;
        Ok(Some(outcome))
    }

    /// Tries a plan with more timings of its copies than those that each plan is judged with. One that was picked among many because
    /// it fits may do so by luck.
    ///
    /// # Errors
    ///
    /// If it does not fit with one of them.
    pub fn endures(&mut self, draft: &Draft) -> Result<(), OutOfMemory> {
        let known = TIMINGS.len() as u64;
        let chances = (known..known + MORE_TIMINGS).map(Some);
        let program = Program::new(self.outline, draft);
        self.try_timings(&program, draft, MORE_SLOWNESS.into_iter().cycle().zip(chances))
    }

    fn try_timings(
        &mut self,
        program: &Program,
        draft: &Draft,
        timings: impl IntoIterator<Item = (f64, Option<u64>)>,
    ) -> Result<(), OutOfMemory> {
        if !self.is_careful || draft.is_empty() {
            return Ok(());
        }
        for (slowness, chance) in timings {
            let machine = self.machine.with_slower_copies(slowness).with_uneven_copies(chance);
            self.simulations += 1;
            simulate(program, &machine, &mut NoObserver)?;
        }
        Ok(())
    }

    /// The least memory in bytes in which a step with a plan runs on one GPU (the others have as much), fragmentation included;
    /// to within a thousandth, or a chunk.
    ///
    /// What fits is not quite monotone in the memory; this is a least memory above which all that were tried fit.
    pub fn least_memory(&mut self, draft: &Draft) -> u64 {
        let program = Program::new(self.outline, draft);
        let mut fits = |bytes: u64| {
            self.simulations += 1;
            simulate(&program, &self.machine.with_memory(vec![bytes]), &mut NoObserver).is_ok()
        };
        let (mut low, mut high) = (0, CHUNK_BYTES << 20);
        while !fits(high) && high < MOST_BYTES {
            (low, high) = (high, high * 2);
        }
        while high - low > (high / 1000).max(CHUNK_BYTES) {
            let middle = low + (high - low) / 2;
            if fits(middle) { high = middle } else { low = middle }
        }
        high
    }

    /// How many plans were judged.
    pub fn simulations(&self) -> u32 {
        self.simulations
    }
}
