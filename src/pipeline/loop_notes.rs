//! What a report has to say of loops.

use crate::plan::Draft;
use crate::simulate::{Machine, NoObserver, Outline, Program, simulate};
use crate::size::Size;
use crate::tune::{Tuning, most_in_overlap};

/// How much more than predicted a step with loops may take beside what the overlap of iterations may come to: so much was seen.
const MARGIN_PART: f64 = 0.05;

/// How often loops run, and whether what is not predicted of them may be too much for the memory. `draft` is the plan, if there is one.
pub fn loop_notes(outline: &Outline, machine: &Machine, tuning: &Tuning, draft: &Draft) -> Vec<String> {
    let kept = outline.loops().iter().map(|of_loop| {
        let whence = if of_loop.is_found { "as its condition says" } else { "as was given" };
        format!("what the loop {} keeps counts {} times, {whence}", of_loop.name, of_loop.times)
    });
    let mut notes: Vec<String> = kept.collect();
    if !notes.is_empty() && tuning.outcome().is_some() {
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
    if !outline.accumulators_among(&draft.host_ops).is_empty() {
        notes.push(
            "what loops keep goes to the host as soon as the host has time for it; on a host that has none it may take more than predicted"
                .to_string(),
        );
    }
    notes
}

/// What a step takes if iterations are side by side of the loops in which nothing keeps them from it.
fn side_by_side(outline: &Outline, machine: &Machine, draft: &Draft) -> Option<String> {
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
