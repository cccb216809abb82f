//! Watches a simulated step.

use super::Recording;
use crate::chart::Engine;
use crate::order::Place;
use crate::simulate::{Machine, Observer, OutOfMemory, Program, simulate};

/// Writes down what memory and engines do in a step.
#[derive(Debug, Default)]
pub struct Recorder {
    /// What the host is at.
    op: Option<u32>,
    pub(super) changes: Vec<Change>,
    pub(super) takeovers: Vec<Takeover>,
    pub(super) spans: Vec<Span>,
}

/// From now on so much memory is in use somewhere.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Change {
    pub(super) seconds: f64,
    pub(super) place: Place,
    pub(super) bytes: u64,
    /// The entry that did it; none for what is persistent.
    pub(super) op: Option<u32>,
    pub(super) cause: Cause,
}

/// What a change of memory comes from. Tensors are numbers of the program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Cause {
    /// What is there when the step begins.
    Persistent,
    /// The buffer of a tensor was taken.
    Allocated(u32),
    /// The buffer of a tensor was given back.
    Freed(u32),
    /// What a variable was keeps memory of its own; the number is the variable's in the program.
    Kept(u32),
    /// It does not any more.
    Dropped(u32),
    /// Scratch memory was taken or given back.
    Scratch,
}

/// A tensor is written over the buffer of another. Both are numbers of the program.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Takeover {
    pub(super) seconds: f64,
    pub(super) tensor: u32,
    pub(super) buffer: u32,
    /// How many changes of memory there were before.
    pub(super) changes: usize,
}

/// An entry keeps an engine busy.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Span {
    pub(super) engine: Engine,
    pub(super) op: u32,
    pub(super) start_seconds: f64,
    pub(super) end_seconds: f64,
}

impl Recorder {
    /// Simulates a step and records it.
    ///
    /// # Errors
    ///
    /// If memory runs out.
    pub fn record<'a>(program: &'a Program, machine: &Machine) -> Result<Recording<'a>, OutOfMemory> {
        let mut recorder = Recorder::default();
        let outcome = simulate(program, machine, &mut recorder)?;
        Ok(Recording::new(program, outcome, recorder))
    }

    /// The simulator tells of a change of memory first, and then of the tensor that it is for.
    fn explain_last(&mut self, cause: Cause) {
        if let Some(change) = self.changes.last_mut() {
            change.cause = cause;
        }
    }
}

impl Observer for Recorder {
    fn turns_to(&mut self, op: u32) {
        self.op = Some(op);
    }

    fn launch(&mut self, op: u32, start_seconds: f64, end_seconds: f64) {
        self.spans.push(Span { engine: Engine::Host, op, start_seconds, end_seconds });
    }

    fn memory(&mut self, seconds: f64, place: Place, bytes: u64) {
        let cause = if self.op.is_none() { Cause::Persistent } else { Cause::Scratch };
        self.changes.push(Change { seconds, place, bytes, op: self.op, cause });
    }

    fn allocated(&mut self, tensor: u32, _place: Place, _bytes: u64) {
        self.explain_last(Cause::Allocated(tensor));
    }

    fn taken_over(&mut self, seconds: f64, tensor: u32, buffer: u32) {
        self.takeovers.push(Takeover { seconds, tensor, buffer, changes: self.changes.len() });
    }

    fn freed(&mut self, tensor: u32) {
        self.explain_last(Cause::Freed(tensor));
    }

    fn kept(&mut self, variable: u32) {
        self.explain_last(Cause::Kept(variable));
    }

    fn dropped(&mut self, variable: u32) {
        self.explain_last(Cause::Dropped(variable));
    }

    fn compute(&mut self, op: u32, place: Place, start_seconds: f64, end_seconds: f64) {
        if let Place::Gpu(gpu) = place {
            let engine = Engine::Compute { gpu: gpu.into() };
            self.spans.push(Span { engine, op, start_seconds, end_seconds });
        }
    }

    fn copy(&mut self, op: u32, place: Place, is_out: bool, start_seconds: f64, end_seconds: f64) {
        if let Place::Gpu(gpu) = place {
            let gpu = gpu.into();
            let engine = if is_out { Engine::CopyOut { gpu } } else { Engine::CopyIn { gpu } };
            self.spans.push(Span { engine, op, start_seconds, end_seconds });
        }
    }
}
