//! What was recorded of a step.

use super::Recorder;
use super::recorder::{Cause, Change, Span, Takeover};
use crate::chart::Engine;
use crate::order::Place;
use crate::simulate::{Outcome, Program};

/// A simulated step: what came of it, each change of each memory, and each span of work.
#[derive(Debug)]
pub struct Recording<'a> {
    program: &'a Program,
    outcome: Outcome,
    /// In the order of time.
    changes: Vec<Change>,
    /// In the order of time.
    takeovers: Vec<Takeover>,
    spans: Vec<Span>,
    /// For each entry where its span on the engine that does its work is, the host's if no other has one.
    span_of: Vec<Option<u32>>,
}

impl<'a> Recording<'a> {
    pub(super) fn new(program: &'a Program, outcome: Outcome, recorder: Recorder) -> Recording<'a> {
        let Recorder { changes, takeovers, spans, .. } = recorder;
        let mut span_of = vec![None; program.len()];
        for (number, span) in spans.iter().enumerate() {
            if span.engine != Engine::Host || span_of[span.op as usize].is_none() {
                span_of[span.op as usize] = Some(number as u32);
            }
        }
        let mut recording = Recording { program, outcome, changes, takeovers, spans, span_of };
        recording.put_on_the_gpus_clock();
        recording
    }

    /// Moves each change of memory to when its op runs.
    ///
    /// The host allocates when it launches an op, and it runs ahead: by its clock all memory of a step would be taken in the
    /// first moments. What a reader wants to see is the memory of the op that runs.
    fn put_on_the_gpus_clock(&mut self) {
        let mut clock = 0.0f64;
        for number in 0..self.changes.len() {
            let change = self.changes[number];
            let span = change.op.and_then(|op| self.span(op));
            let runs = span.filter(|span| matches!(span.engine, Engine::Compute { .. }));
            clock = clock.max(change.seconds).max(runs.map_or(0.0, |span| span.start_seconds));
            self.changes[number].seconds = clock;
        }
    }

    /// What ran.
    pub fn program(&self) -> &'a Program {
        self.program
    }

    /// What came of it.
    pub fn outcome(&self) -> &Outcome {
        &self.outcome
    }

    pub(super) fn spans(&self) -> &[Span] {
        &self.spans
    }

    /// The span in which an entry is worked on.
    pub(super) fn span(&self, op: u32) -> Option<&Span> {
        self.span_of[op as usize].map(|number| &self.spans[number as usize])
    }

    /// The changes of one memory, with their numbers among those of all memories.
    pub(super) fn changes(&self, place: Place) -> impl Iterator<Item = (usize, &Change)> {
        self.changes.iter().enumerate().filter(move |(_, change)| change.place == place)
    }

    /// What was written over what.
    pub(super) fn takeovers(&self) -> &[Takeover] {
        &self.takeovers
    }

    /// The first change after which the most of a memory is in use, with its number.
    pub(super) fn peak(&self, place: Place) -> Option<(usize, &Change)> {
        // Of equal ones this keeps the first, as the simulator does.
        self.changes(place).reduce(|most, change| if change.1.bytes > most.1.bytes { change } else { most })
    }

    /// When something happens to memory.
    pub(super) fn seconds_of(&self, cause: Cause) -> Option<f64> {
        self.changes.iter().find(|change| change.cause == cause).map(|change| change.seconds)
    }
}
