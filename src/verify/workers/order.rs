//! All workers come to the same collectives in the same order.
//!
//! Collectives of one group wait for one another on all workers. TensorFlow starts an op as soon as its inputs are there, so two of which
//! neither waits for the other may start in another order elsewhere, and then both workers wait for ever. One file serves all workers; what
//! is needed beyond that is that in each run there is only one order, and that none of them can be left out: no condition, no loop.

use super::super::conditions::{ALWAYS, Conditions};
use super::super::frames::{Frames, ROOT};
use super::super::graph::{Graph, NodeId};
use super::super::report::{Report, ViolationKind};
use super::super::step::Steps;
use super::form::Formed;
use super::needed;

/// Looks at each collective, and at the order of those that run together.
pub(super) fn check(
    graph: &Graph<'_>,
    frames: &Frames,
    conditions: &Conditions,
    order: &[NodeId],
    formed: &Formed,
    steps: &Steps,
    report: &mut Report,
) {
    for node in graph.ids().filter(|&node| !graph.is_original(node)) {
        let in_loop = frames.of_inputs(node) != ROOT || frames.of_outputs(node) != ROOT;
        if in_loop || conditions.of(node) != ALWAYS {
            report.add(ViolationKind::ConditionalReduce, || {
                let found = if in_loop { "in a loop" } else { "under a condition" };
                ([graph.name(node)], "run once in each step, by all workers".to_string(), found.to_string())
            });
        }
    }
    // What runs in each step, and in the broadcast.
    let mut runs: Vec<Vec<bool>> =
        steps.targets.iter().map(|targets| needed(graph, targets.clone())).collect();
    let others = formed
        .collectives
        .iter()
        .filter(|one| !one.is_of_step && !graph.name(one.node).ends_with("/barrier"));
    runs.push(needed(graph, others.map(|one| one.node).collect()));
    let mut together = vec![false; graph.len() as usize];
    formed.collectives.iter().for_each(|one| together[one.node as usize] = true);
    for run in runs {
        let mut depth = vec![0u32; graph.len() as usize];
        let mut last: Vec<NodeId> = Vec::new();
        for &node in order.iter().filter(|&&node| run[node as usize]) {
            let before = graph.sources(node).filter(|&from| !graph.is_back_edge(from, node));
            let before = before.map(|from| depth[from as usize]).max().unwrap_or(0);
            let is_collective = together[node as usize];
            depth[node as usize] = before + u32::from(is_collective);
            if !is_collective {
                continue;
            }
            // As deep as another one: neither waits for the other.
            match last.get(before as usize) {
                Some(&other) => report.add(ViolationKind::UnorderedReduces, || {
                    let expected = "one of the two to wait for the other".to_string();
                    ([graph.name(other), graph.name(node)], expected, "no path between them".to_string())
                }),
                None => last.push(node),
            }
        }
    }
    all_or_none(graph, formed, steps, report);
}

/// A collective that no step runs would wait for workers that do not come, unless somebody runs it everywhere; there is no use for one.
fn all_or_none(graph: &Graph<'_>, formed: &Formed, steps: &Steps, report: &mut Report) {
    let runs: Vec<Vec<bool>> = steps.targets.iter().map(|targets| needed(graph, targets.clone())).collect();
    for one in formed.collectives.iter().filter(|one| one.is_of_step) {
        if !runs.iter().any(|run| run[one.node as usize]) {
            report.add(ViolationKind::UnorderedReduces, || {
                (
                    [graph.name(one.node)],
                    "a reduce that a step runs".to_string(),
                    "one that none runs".to_string(),
                )
            });
        }
    }
}
