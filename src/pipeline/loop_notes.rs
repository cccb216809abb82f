//! What a report has to say of loops.

use crate::graph::NodeId;
use crate::ops::{Attr, AttrLookup};
use crate::order::Place;
use crate::plan::Draft;
use crate::simulate::{Machine, NoObserver, Outline, Program, simulate};
use crate::size::Size;
use crate::tune::{Tuning, most_in_overlap};

/// How much more than predicted a step with loops may take beside what the overlap of iterations may come to: so much was seen.
const MARGIN_PART: f64 = 0.05;

/// From what part of the memory on TensorFlow copies stacks of loops to the host that ask for it.
const SWAPPING_FROM: f64 = 0.7;

/// How often loops run, and whether what is not predicted of them may be too much for the memory. `draft` is the plan, if there is one.
pub fn loop_notes(outline: &Outline, machine: &Machine, tuning: &Tuning, draft: &Draft) -> Vec<String> {
    let kept = outline.loops().iter().map(|of_loop| {
        let whence = if of_loop.is_found { "as its condition says" } else { "as was given" };
        format!("what the loop {} keeps counts {} times, {whence}", of_loop.name, of_loop.times)
    });
    let mut notes: Vec<String> = kept.collect();
    if outline.has_loops() && tuning.outcome().is_some() {
        let most = most_in_overlap(outline, machine, draft, MARGIN_PART);
        let too_much = most.into_iter().zip(&machine.whole_memory).filter(|(most, whole)| most > whole);
        if let Some(most) = too_much.map(|(most, _)| most).max() {
            notes.push(format!(
                "iterations of loops overlap, with which a step may take up to {}: where memory runs out, leave a margin with a lower memory \
                 ratio",
                Size(most)
            ));
        }
    }
    notes.extend(side_by_side(outline, machine, draft));
    notes.extend(swapping_stacks(outline, machine, tuning));
    if !outline.accumulators_among(&draft.host_ops).is_empty() {
        notes.push(
            "what loops keep goes to the host as soon as the host has time for it; on a host that has none it may take more than predicted"
                .to_string(),
        );
    }
    notes
}

/// That stacks of loops which ask for it (`swap_memory` of `while_loop` and `dynamic_rnn`) go to the host by themselves where much of the
/// memory is taken, which nobody predicts (`StackPushOp` in `stack.cc`).
fn swapping_stacks(outline: &Outline, machine: &Machine, tuning: &Tuning) -> Option<String> {
    let graph = outline.analysis().graph;
    let swaps = |&node: &NodeId| {
        graph.op(node).name() == "StackPushV2"
            && graph.attrs(node).attr("swap_memory") == Some(Attr::Bool(true))
            && outline.entry(node).is_some()
            && outline.placement().op(node) != Place::Host
    };
    let count = graph.node_ids().filter(swaps).count();
    let least = machine.whole_memory.iter().min().copied()?;
    let is_reached = tuning.before.peak_bytes() as f64 > least as f64 * SWAPPING_FROM;
    (count > 0 && is_reached).then(|| {
        format!(
            "{count} stacks of loops have swap_memory: once {:.0}% of the memory is taken, TensorFlow copies what is on them to the host by \
             itself; that is not predicted, so a step may need less memory than is said here, and copy more",
            SWAPPING_FROM * 100.0
        )
    })
}

/// What a step takes if iterations are side by side of the loops in which nothing keeps them from it.
fn side_by_side(outline: &Outline, machine: &Machine, draft: &Draft) -> Option<String> {
    // What it takes to look at a graph anew is only worth while where there are loops.
    let outline = &outline.has_loops().then(|| outline.with_host_ops(&draft.host_ops))?;
    let program = Program::side_by_side(outline, draft)?;
    let unlimited = machine.with_memory(Vec::new());
    let most = simulate(&program, &unlimited, &mut NoObserver).unwrap_or_default().peak_bytes();
    let one_by_one = simulate(&Program::new(outline, draft), &unlimited, &mut NoObserver).unwrap_or_default();
    let is_beyond = most as f64 > one_by_one.peak_bytes() as f64 * (1.0 + MARGIN_PART);
    is_beyond.then(|| {
        format!(
            "iterations of a loop do not wait for one another: TensorFlow has several under way at once, with which the step may take up to {}",
            Size(most)
        )
    })
}
