//! What a step may take if iterations of loops overlap.
//!
//! How far they do is a matter of time that is not predicted: of how soon the host begins iterations, and of how long a GPU is at one. So what
//! they may come to is only bounded.
//!
//! Loops of version 1, which keep things on stacks, overlap most. With its stacks on the host an attention over 60 places took 6% more than
//! predicted where TensorFlow had two threads, and an LSTM less than predicted; but the pool in which elements of all sizes come and go had no
//! room in one piece left for the LSTM.

use crate::graph::TensorId;
use crate::ops::Fact;
use crate::plan::Draft;
use crate::simulate::{Machine, NoObserver, Outline, Program, simulate};

/// How much more than predicted a step may take whose loops keep things on stacks, as a part.
const STACKS_PART: f64 = 0.1;

/// How many steps [`most_in_overlap`] simulates.
pub(super) const SIMULATIONS: u32 = 2;

/// The most that a step with a plan may take of each GPU, in bytes. `part` is how much more than predicted a step may take beside the overlap.
pub fn most_in_overlap(outline: &Outline, machine: &Machine, draft: &Draft, part: f64) -> Vec<u64> {
    let unlimited = machine.with_memory(Vec::new());
    let peaks = |outline: &Outline| {
        let outcome =
            simulate(&Program::new(outline, draft), &unlimited, &mut NoObserver).unwrap_or_default();
        outcome.gpus.into_iter().map(|gpu| gpu.peak_bytes)
    };
    let part = if has_stacks(outline) { part.max(STACKS_PART) } else { part };
    let ahead = outline.with_host_ops(&draft.host_ops).with_iterations_ahead(draft);
    let predicted = peaks(outline).map(|peak| (peak as f64 * (1.0 + part)) as u64);
    predicted.zip(peaks(&ahead)).map(|(predicted, ahead)| predicted.max(ahead)).collect()
}

/// Whether a plan has stacks on the host: where in the pool what lies that comes back, nobody knows.
pub(super) fn is_beyond_prediction(outline: &Outline, draft: &Draft) -> bool {
    let graph = outline.analysis().graph;
    let is_stack = |taken: &TensorId| graph.op(graph.producer(*taken)).facts().has(Fact::RunsAhead);
    let on_host = outline.accumulators_among(&draft.host_ops);
    on_host.iter().any(|accumulator| accumulator.taken.iter().any(is_stack))
}

fn has_stacks(outline: &Outline) -> bool {
    let analysis = outline.analysis();
    let pops = |&node: &_| analysis.graph.op(node).facts().has(Fact::RunsAhead);
    analysis.graph.node_ids().filter(pops).any(|node| analysis.step.contains(node))
}
