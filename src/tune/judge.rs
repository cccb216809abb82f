//! Plans are judged by simulating them.

use crate::plan::Draft;
use crate::simulate::{Machine, NoObserver, OutOfMemory, Outcome, Outline, Program, simulate};

/// Says of a plan whether it fits, and how long a step takes with it.
#[derive(Debug)]
pub struct Judge<'a> {
    outline: &'a Outline<'a>,
    machine: &'a Machine,
    simulations: u32,
}

impl<'a> Judge<'a> {
    /// Judges plans for a graph on a machine, whose memory is the budget.
    pub fn new(outline: &'a Outline<'a>, machine: &'a Machine) -> Judge<'a> {
        Judge { outline, machine, simulations: 0 }
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
    /// # Errors
    ///
    /// If it does not fit.
    pub fn judge(&mut self, draft: &Draft) -> Result<Outcome, OutOfMemory> {
        self.simulations += 1;
        simulate(&Program::new(self.outline, draft), self.machine, &mut NoObserver)
    }

    /// How many plans were judged.
    pub fn simulations(&self) -> u32 {
        self.simulations
    }
}
