//! Which ops come after updates of variables.

use super::Analysis;

/// For each node whether it changes a variable or comes after an op that does.
///
/// Nothing may be made to wait for such an op: who was free to read the variable before the update would now always read it
/// after.
pub fn after_updates(analysis: &Analysis) -> Vec<bool> {
    const RESOURCE_UPDATES: [&str; 4] = ["Assign", "ResourceApply", "ResourceSparseApply", "ResourceScatter"];
    let graph = analysis.graph;
    let mut after = vec![false; graph.len()];
    for &node in analysis.ref_variables.all().iter().flat_map(|variable| &variable.updates) {
        after[node.index()] = true;
    }
    for &node in graph.topological() {
        let op = graph.op(node).name();
        after[node.index()] |= RESOURCE_UPDATES.iter().any(|family| op.starts_with(family))
            || graph.predecessors(node).any(|from| from.index() < after.len() && after[from.index()]);
    }
    after
}
