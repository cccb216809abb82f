//! An added edge makes no step run ops that it did not run before with effects or needs.
//!
//! A step runs all that its fetches depend on, over control edges too. An added edge A → B brings A and what A needs
//! into each run that needs B: an optimizer's update into an evaluation, a placeholder that nobody feeds. What a
//! training step runs anyway is no new work for it, so edges within it are free, as long as nothing outside of the step
//! needs B too: an initializer shares variables with the step.
//!
//! Most edges are from an ancestor, and bring nothing. So the pass goes backwards from 64 targets at a time, with
//! one set of bits for "the target needed it already" and one for "it would be new", and ends as soon as
//! there is no target left above and nothing new below.

use super::graph::{Graph, NodeId, Tensor};
use super::report::{Report, ViolationKind};

/// Looks at what each added edge brings. `step` marks what the train op needs, if it is known.
pub(super) fn check(graph: &Graph<'_>, order: &[NodeId], step: Option<&[bool]>, report: &mut Report) {
    let mut position = vec![0u32; order.len()];
    for (place, &node) in (0..).zip(order) {
        position[node as usize] = place;
    }
    let mut pass = Pass {
        graph,
        order,
        position,
        step,
        only_in_step: step.map(|step| only_in_step(graph, order, step)),
        has_loops: graph.ids().any(|node| graph.is_loop_header(node)),
        needed: vec![0; order.len()],
        new: vec![0; order.len()],
    };
    let mut targets: Vec<NodeId> = order
        .iter()
        .copied()
        .filter(|&node| graph.is_original(node) && !pass.brought_by(node).is_empty())
        .collect();
    // From the end of the order to its beginning, so that one batch is close together.
    targets.reverse();
    for batch in targets.chunks(64) {
        pass.run(batch, report);
    }
}

/// The nodes of the step that no node outside of it needs.
fn only_in_step(graph: &Graph<'_>, order: &[NodeId], step: &[bool]) -> Vec<bool> {
    let mut only = step.to_vec();
    // A loop's own edges lead back up the order: what they bring shows in the next pass.
    let mut again = true;
    while again {
        again = false;
        for &node in order.iter().rev().filter(|&&node| graph.is_original(node)) {
            if !only[node as usize] {
                for from in graph.original_sources(node) {
                    again |= graph.is_back_edge(from, node) && only[from as usize];
                    only[from as usize] = false;
                }
            }
        }
    }
    only
}

struct Pass<'g, 'a> {
    graph: &'g Graph<'a>,
    order: &'g [NodeId],
    position: Vec<u32>,
    step: Option<&'g [bool]>,
    only_in_step: Option<Vec<bool>>,
    has_loops: bool,
    /// Which of the batch's targets needed a node in the original graph.
    needed: Vec<u64>,
    /// Which need it in the rewritten graph only.
    new: Vec<u64>,
}

impl Pass<'_, '_> {
    fn in_step(&self, node: NodeId) -> bool {
        self.step.is_some_and(|step| step[node as usize])
    }

    /// Whether nothing outside of the step needs a node.
    fn only_in_step(&self, node: NodeId) -> bool {
        self.only_in_step.as_ref().is_some_and(|only| only[node as usize])
    }

    /// Where the edges come from that may bring something to an original node.
    ///
    /// A swap's tensor is what the node needed before, so of a swap only the triggers count.
    fn brought_by(&self, node: NodeId) -> Vec<NodeId> {
        let graph = self.graph;
        let mut found = Vec::new();
        for &Tensor { node: mut from, .. } in graph.data(node) {
            while graph.role(from).is_swap() {
                found.extend(graph.control(from).iter().map(|control| control.from));
                let Some(read) = graph.data(from).first() else { break };
                from = read.node;
            }
        }
        found.extend(graph.control(node).iter().filter(|control| control.added).map(|control| control.from));
        found.retain(|&from| !(self.in_step(from) && self.only_in_step(node)));
        found
    }

    fn run(&mut self, targets: &[NodeId], report: &mut Report) {
        let graph = self.graph;
        // Targets of the step alone may run whatever the step runs.
        let of_step = (0..)
            .zip(targets)
            .filter(|(_, node)| self.only_in_step(**node))
            .fold(0u64, |bits, (bit, _)| bits | 1 << bit);
        let mut top = 0;
        let mut bottom = self.order.len() as u32;
        for (bit, &target) in targets.iter().enumerate() {
            let bit = 1u64 << bit;
            self.needed[target as usize] |= bit;
            top = top.max(self.position[target as usize]);
            for from in self.brought_by(target) {
                self.new[from as usize] |= bit;
                bottom = bottom.min(self.position[from as usize]);
            }
        }
        if self.has_loops {
            top = self.order.len() as u32 - 1;
        }
        loop {
            let (low, again) = self.sweep(top, bottom, of_step);
            bottom = bottom.min(low);
            if !again {
                break;
            }
        }
        for place in bottom..=top {
            let node = self.order[place as usize];
            let new = std::mem::take(&mut self.new[node as usize]);
            self.needed[node as usize] = 0;
            for from in graph.original_sources(node) {
                self.needed[from as usize] = 0;
            }
            if new != 0 && graph.is_original(node) && graph.op(node).is_needy {
                let target = targets[new.trailing_zeros() as usize];
                report.add(ViolationKind::NewWork, || {
                    let expected = "the first to be run for no more than it was needed for".to_string();
                    let op = graph.nodes.op(node as usize);
                    let found = format!("an added edge that makes every step with the second run this {op}");
                    ([graph.name(node), graph.name(target)], expected, found)
                });
            }
        }
    }

    /// Hands the bits on to all inputs, from `top` down to `bottom` and further as long as something new is under way.
    /// Returns where it ended, and whether a loop's own edge brought something to a node that it had passed.
    fn sweep(&mut self, top: u32, bottom: u32, of_step: u64) -> (u32, bool) {
        let graph = self.graph;
        let mut again = false;
        let mut lowest_new = bottom;
        let mut place = top;
        loop {
            let node = self.order[place as usize];
            let needed = self.needed[node as usize];
            let mut new = self.new[node as usize] & !needed;
            if self.in_step(node) {
                new &= !of_step;
            }
            self.new[node as usize] = new;
            if needed != 0 && graph.is_original(node) {
                for from in graph.original_sources(node) {
                    let before = self.needed[from as usize];
                    self.needed[from as usize] |= needed;
                    again |= graph.is_back_edge(from, node) && before | needed != before;
                }
            }
            if new != 0 {
                for from in graph.sources(node) {
                    let before = self.new[from as usize] | self.needed[from as usize];
                    self.new[from as usize] |= new;
                    lowest_new = lowest_new.min(self.position[from as usize]);
                    again |= graph.is_back_edge(from, node) && before | new != before;
                }
            }
            // With loops a later sweep may come by here again, so all sweeps go all the way.
            let end = if self.has_loops { 0 } else { lowest_new };
            if place == 0 || place <= end {
                return (place, again);
            }
            place -= 1;
        }
    }
}
