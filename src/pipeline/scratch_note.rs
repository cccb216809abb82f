//! What a report has to say of scratch memory.

use crate::ops::ScratchRule;
use crate::simulate::Outline;
use crate::size::Size;

/// What the op of this name, which takes most of all, takes for the order of its channels alone; none if it takes nothing for that.
pub fn scratch_note(outline: &Outline, op: &str) -> Option<String> {
    let graph = outline.analysis().graph;
    let node = graph.node_ids().find(|&node| graph.name(node) == op)?;
    let is_batch_norm = matches!(graph.op(node).facts().scratch(), Some(ScratchRule::InOtherOrder { .. }));
    let bytes = outline.workspace(node).bytes();
    (is_batch_norm && bytes > 0).then(|| {
        format!(
            "{} of what {op} takes are copies with channels first; a graph that has them first (data_format) needs none of these",
            Size(bytes)
        )
    })
}
