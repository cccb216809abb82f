//! Which ops a training step runs.

use super::graph::{Graph, NodeId};
use super::report::{Report, ViolationKind};
use crate::format::Model;
use crate::proto::tensorflow::collection_def::Kind;

/// The collection in which TensorFlow keeps the names of train ops.
const TRAIN_OPS: &str = "train_op";

/// The train ops that a model names in its collections and those that the caller names, as far as they are nodes.
pub(super) fn train_ops(
    original: &Model,
    named: &[String],
    graph: &Graph<'_>,
    report: &mut Report,
) -> Vec<NodeId> {
    let collected = match original.meta_graph() {
        Ok(meta_graph) => meta_graph.and_then(|mut meta| meta.collection_def.remove(TRAIN_OPS)?.kind),
        Err(error) => {
            report.add(ViolationKind::Damaged, || {
                ([], "a MetaGraphDef around the graph".to_string(), error.to_string())
            });
            None
        }
    };
    let mut names = named.to_vec();
    if let Some(Kind::NodeList(list)) = collected {
        names.extend(list.value);
    }
    let node = |name: &String| {
        let name = name.trim_start_matches('^');
        let name = name.split_once(':').map_or(name, |(name, _)| name);
        graph.names.get(name).copied().filter(|&node| graph.is_original(node))
    };
    names.iter().filter_map(node).collect()
}

/// Marks these nodes and all that they need in the original graph; none if there are none.
pub(super) fn needed_by(graph: &Graph<'_>, train_ops: Vec<NodeId>) -> Option<Vec<bool>> {
    if train_ops.is_empty() {
        return None;
    }
    Some(flood(graph, train_ops, |node| graph.original_sources(node)))
}

/// Marks these nodes and all that come after them in the rewritten graph.
pub(super) fn after(graph: &Graph<'_>, from: Vec<NodeId>) -> Vec<bool> {
    flood(graph, from, |node| graph.consumers(node).iter().copied())
}

fn flood<I: Iterator<Item = NodeId>>(
    graph: &Graph<'_>,
    mut open: Vec<NodeId>,
    next: impl Fn(NodeId) -> I,
) -> Vec<bool> {
    let mut marked = vec![false; graph.len() as usize];
    while let Some(node) = open.pop() {
        if !std::mem::replace(&mut marked[node as usize], true) {
            open.extend(next(node).filter(|&to| !marked[to as usize]));
        }
    }
    marked
}
