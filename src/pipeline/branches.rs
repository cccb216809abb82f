//! What a report has to say of branches.

use crate::simulate::Outline;

/// Which sides of branches all figures are of, where that matters.
pub fn branches_note(outline: &Outline) -> Option<String> {
    let graph = outline.analysis().graph;
    let told = |&(tensor, value): &_| format!("{} is {value}", graph.tensor_name(tensor));
    let chosen: Vec<String> = outline.chosen().iter().map(told).collect();
    (!chosen.is_empty()).then(|| {
        format!(
            "figures are of a step in which {}, which takes the most; what fits does so with the other branches too",
            chosen.join(" and ")
        )
    })
}
