//! A number that tells graphs apart.

use xxhash_rust::xxh3::Xxh3;

use crate::graph::Graph;

/// A digest of the names, ops and data edges of a graph: what a plan depends on. Shapes are not in it, so a plan
/// for one batch size can be tried at another.
pub fn graph_digest(graph: &Graph) -> String {
    let mut hash = Xxh3::new();
    let mut put = |text: &str| {
        hash.update(&(text.len() as u64).to_le_bytes());
        hash.update(text.as_bytes());
    };
    for node in graph.node_ids() {
        put(graph.name(node));
        put(graph.op(node).name());
    }
    for node in graph.node_ids() {
        let inputs = graph.data_inputs(node);
        hash.update(&(inputs.len() as u64).to_le_bytes());
        for tensor in inputs {
            hash.update(&tensor.0.to_le_bytes());
        }
    }
    format!("xxh3:{:016x}", hash.digest())
}
