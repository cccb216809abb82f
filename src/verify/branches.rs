//! Whoever controls an op by an added edge is alive whenever that op is.
//!
//! A control edge from a dead op makes its target dead, and with it all that follows up to the next `Merge`: the step
//! runs and says nothing, and some gradients are not applied. So an added edge must come from an op under the same
//! condition as its target, or a weaker one. A swap op is under its tensor's condition and those of all its triggers;
//! what counts is the original op behind it.
//!
//! From the same conditions follows which `Merge` has a choice, and so may not be run again.

use super::conditions::{Conditions, Literal, SetId};
use super::frames::{self, Frames};
use super::graph::{Graph, NodeId};
use super::op_facts::Flow;
use super::report::{Report, ViolationKind};

/// Looks at each added edge into an original node. Gives the conditions of all nodes, if anything is conditional.
pub(super) fn check(
    graph: &Graph<'_>,
    frames: &Frames,
    order: &[NodeId],
    report: &mut Report,
) -> Option<Conditions> {
    // In most graphs nothing is conditional.
    if graph.ids().all(|node| !matches!(graph.flow(node), Flow::Switch | Flow::Enter | Flow::Merge)) {
        return None;
    }
    let conditions = Conditions::new(graph, order, frames);
    let mut branches = Branches { graph, frames, conditions, report };
    for node in graph.ids().filter(|&node| graph.is_original(node)) {
        branches.data_inputs(node);
        branches.control_inputs(node);
    }
    for &(copy, original) in graph.copies.by_copy() {
        branches.chooses_again(copy, original);
    }
    Some(branches.conditions)
}

struct Branches<'g, 'a> {
    graph: &'g Graph<'a>,
    frames: &'g Frames,
    conditions: Conditions,
    report: &'g mut Report,
}

impl Branches<'_, '_> {
    fn data_inputs(&mut self, node: NodeId) {
        let graph = self.graph;
        for (direct, origin) in graph.data(node).iter().zip(graph.origins(node)) {
            if direct == origin {
                continue;
            }
            // `Merge` tells by each input whether it is alive, so there the input's own condition counts.
            let wanted = match graph.flow(node) {
                Flow::Merge => self.conditions.of_tensor(graph, self.frames, *origin),
                _ => self.conditions.of(node),
            };
            self.require(direct.node, self.conditions.of(direct.node), node, wanted);
        }
    }

    fn control_inputs(&mut self, node: NodeId) {
        let graph = self.graph;
        for control in graph.control(node).iter().filter(|control| control.added) {
            let mut set = self.conditions.of(control.from);
            if graph.flow(node) == Flow::Merge {
                // `Merge` waits for its control inputs and does not mind if they are dead, but they must come.
                set = self.conditions.iterations(set);
            }
            self.require(control.from, set, node, self.conditions.of(node));
        }
    }

    /// A `Merge` takes what comes first. Run again, it takes the same for certain if there is nothing else. In loops such ops are
    /// where iterations meet.
    fn chooses_again(&mut self, copy: NodeId, original: NodeId) {
        let (graph, frames) = (self.graph, self.frames);
        let is_outside_loops = frames.of_inputs(original) == frames::ROOT;
        let is_repeatable = match graph.flow(original) {
            Flow::Switch => is_outside_loops,
            Flow::Merge => is_outside_loops && self.conditions.has_one_input(graph, frames, original),
            _ => true,
        };
        if !is_repeatable {
            self.report.add(ViolationKind::Unrepeatable, || {
                let expected = "outside of loops, a `Switch`, or a `Merge` with but one input that is alive";
                ([graph.name(copy), graph.name(original)], expected.to_string(), "another".to_string())
            });
        }
    }

    /// Reports the edge if `set`, the condition of its source, asks for more than `wanted` does.
    fn require(&mut self, from: NodeId, set: SetId, to: NodeId, wanted: SetId) {
        let (graph, conditions) = (self.graph, &self.conditions);
        if conditions.is_irregular(self.frames.of_inputs(to)) {
            self.report.add(ViolationKind::Branch, || {
                let expected = "no added edge in a loop that values may leave before it ends";
                ([graph.name(to), graph.name(from)], expected.to_string(), "one".to_string())
            });
        } else if let Some(missing) = conditions.first_missing(wanted, set) {
            self.report.add(ViolationKind::Branch, || {
                let nodes = [graph.name(culprit(graph, conditions, from, wanted)), graph.name(to)];
                (nodes, "the first alive whenever the second is".to_string(), describe(graph, missing))
            });
        }
    }
}

/// The op that brings a condition into a chain of added ops.
fn culprit(graph: &Graph<'_>, conditions: &Conditions, from: NodeId, wanted: SetId) -> NodeId {
    let mut node = from;
    // There is no cycle, so this ends.
    while !graph.is_original(node) {
        let worse = |&source: &NodeId| !conditions.implies(wanted, conditions.of(source));
        let Some(source) = graph.sources(node).find(worse) else { break };
        node = source;
    }
    node
}

fn describe(graph: &Graph<'_>, literal: &Literal) -> String {
    match literal {
        Literal::Output { predicate, output, .. } => {
            format!("it alive only where `{}` chooses output {output}", graph.tensor_name(*predicate))
        }
        Literal::FirstIteration => "it there in a loop's first iteration only".to_string(),
        Literal::Either(_) => "it alive only where one of several branches is".to_string(),
        Literal::Whole(_) => "it alive only under many conditions".to_string(),
        Literal::Alive(node) => format!("it alive only where `{}` is", graph.name(*node)),
    }
}
