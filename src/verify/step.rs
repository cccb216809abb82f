//! Which ops the training steps run.

use super::graph::{Graph, NodeId};
use super::report::{Report, ViolationKind};
use crate::format::Model;
use crate::proto::tensorflow::collection_def::Kind;

/// The collection in which TensorFlow keeps the names of train ops.
const TRAIN_OPS: &str = "train_op";

/// What the train ops of a model run: each for a step of its own, as those of a file are run in turn.
#[derive(Debug, Default)]
pub(super) struct Steps {
    /// For each step the original nodes that it runs.
    pub each: Vec<Vec<bool>>,
    /// What each step is run for.
    pub targets: Vec<Vec<NodeId>>,
    /// For each step all that it runs of the rewritten graph, what was added too.
    rewritten: Vec<Vec<bool>>,
    /// Those that any step runs; none if no train op is known.
    pub any: Option<Vec<bool>>,
}

impl Steps {
    /// The steps of the train ops that a model names in its collections, and the one of those that the caller names, which are run
    /// together; as far as they are nodes. What lies in a branch or a loop, and another train op runs, is no step by itself: TensorFlow does
    /// not fetch it.
    pub fn find(
        original: &Model,
        named: &[String],
        graph: &Graph<'_>,
        is_unconditional: impl Fn(NodeId) -> bool,
        report: &mut Report,
    ) -> Steps {
        let collected = match original.meta_graph() {
            Ok(meta_graph) => meta_graph.and_then(|mut meta| meta.collection_def.remove(TRAIN_OPS)?.kind),
            Err(error) => {
                report.add(ViolationKind::Damaged, || {
                    ([], "a MetaGraphDef around the graph".to_string(), error.to_string())
                });
                None
            }
        };
        let node = |name: &String| {
            let name = name.trim_start_matches('^');
            let name = name.split_once(':').map_or(name, |(name, _)| name);
            graph.names.get(name).copied().filter(|&node| graph.is_original(node))
        };
        let mut train_ops: Vec<Vec<NodeId>> = vec![named.iter().filter_map(node).collect()];
        if let Some(Kind::NodeList(list)) = collected {
            let listed: Vec<NodeId> = list.value.iter().filter_map(node).collect();
            let outside = listed.iter().copied().filter(|&node| is_unconditional(node)).collect();
            let run_by_others = flood(graph, outside, |node| graph.original_sources(node));
            let alone =
                listed.into_iter().filter(|&node| is_unconditional(node) || !run_by_others[node as usize]);
            train_ops.extend(alone.map(|node| vec![node]));
        }
        train_ops.retain(|together| !together.is_empty());
        train_ops.sort_unstable();
        train_ops.dedup();
        let run = |together| flood(graph, together, |node| graph.original_sources(node));
        let each: Vec<Vec<bool>> = train_ops.iter().cloned().map(run).collect();
        let run = |together| flood(graph, together, |node| graph.sources(node));
        let rewritten = train_ops.iter().cloned().map(run).collect();
        let any = each.iter().cloned().reduce(|mut any, step| {
            any.iter_mut().zip(step).for_each(|(any, runs)| *any |= runs);
            any
        });
        Steps { each, targets: train_ops, rewritten, any }
    }

    /// Whether some step runs a node and an original one, or nobody knows.
    pub fn share(&self, node: NodeId, original: NodeId) -> bool {
        let runs = |(each, rewritten): (&Vec<bool>, &Vec<bool>)| {
            (each[node as usize] || rewritten[node as usize]) && each[original as usize]
        };
        self.any.is_none() || self.each.iter().zip(&self.rewritten).any(runs)
    }
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
