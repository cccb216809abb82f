//! What a report has to say of loops.

use crate::plan::Draft;
use crate::simulate::{Machine, Outline};
use crate::tune::Tuning;

/// How much more than predicted a step with loops may take: the most that was seen, of recurrent Keras models, was a tenth.
const OVERLAP_PART: f64 = 0.1;

/// How often loops run, and whether what is not predicted of them may be too much for the memory. `draft` is the plan, if there is one.
pub fn loop_notes(outline: &Outline, machine: &Machine, tuning: &Tuning, draft: &Draft) -> Vec<String> {
    let kept = outline.loops().iter().map(|of_loop| {
        let whence = if of_loop.is_found { "as its condition says" } else { "as was given" };
        format!("what the loop {} keeps counts {} times, {whence}", of_loop.name, of_loop.times)
    });
    let mut notes: Vec<String> = kept.collect();
    let gpus = tuning.outcome().map_or(&[][..], |outcome| &outcome.gpus);
    let is_near = gpus
        .iter()
        .zip(&machine.whole_memory)
        .any(|(gpu, &whole)| gpu.peak_bytes as f64 * (1.0 + OVERLAP_PART) > whole as f64);
    if !notes.is_empty() && is_near {
        notes.push(format!(
            "iterations of loops overlap, which is not predicted and may take {:.0}% more: where memory runs out, leave a margin with a \
             lower memory ratio",
            OVERLAP_PART * 100.0
        ));
    }
    if !outline.accumulators_among(&draft.host_ops).is_empty() {
        notes.push(
            "what loops keep goes to the host as soon as the host has time for it; on a host that has none it may take much more than \
             predicted"
                .to_string(),
        );
    }
    notes
}
