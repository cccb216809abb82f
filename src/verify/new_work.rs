//! An added edge makes no step run ops that it did not run before with effects or needs.
//!
//! A step runs all that its fetches depend on, over control edges too. An added edge A → B brings A and what A needs
//! into each run that needs B: an optimizer's update into an evaluation, a placeholder that nobody feeds. What a
//! training step runs anyway is no new work for it, so edges within it are free, as long as nothing outside of the step
//! needs B too: an initializer shares variables with the step.
//!
//! A swap op or a recomputed op brings its triggers and those of the added ops that it reads. What it stands for was
//! needed by its reader before, and so was what that reads.
//!
//! Most edges are from an ancestor, and bring nothing. So the pass goes backwards from 64 targets at a time, with
//! one set of bits for "the target needed it already" and one for "it would be new", and ends as soon as
//! there is no target left above and nothing new below.

use super::graph::{Graph, NodeId};
use super::report::{Report, ViolationKind};
use super::triggers::Triggers;

/// Looks at what each added edge brings. `step` marks what the train op needs, if it is known.
pub(super) fn check(graph: &Graph<'_>, order: &[NodeId], step: Option<&[bool]>, report: &mut Report) {
    let mut position = vec![0u32; order.len()];
    for (place, &node) in (0..).zip(order) {
        position[node as usize] = place;
    }
    let mut pass = Pass {
        graph,
        triggers: Triggers::find(graph, order, step),
        order,
        position,
        step,
        only_in_step: step.map(|step| only_in_step(graph, order, step)),
        has_loops: graph.ids().any(|node| graph.is_loop_header(node)),
        needed: vec![0; order.len()],
        new: vec![0; order.len()],
        sources: Vec::new(),
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
    triggers: Triggers,
    order: &'g [NodeId],
    position: Vec<u32>,
    step: Option<&'g [bool]>,
    only_in_step: Option<Vec<bool>>,
    has_loops: bool,
    /// Which of the batch's targets needed a node in the original graph.
    needed: Vec<u64>,
    /// Which need it in the rewritten graph only.
    new: Vec<u64>,
    /// Room for the sources of one node.
    sources: Vec<NodeId>,
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
    fn brought_by(&self, node: NodeId) -> Vec<NodeId> {
        let graph = self.graph;
        let only_in_step = self.only_in_step(node);
        let mut found = self.triggers.brought_by_data(graph, node, only_in_step);
        for control in graph.control(node).iter().filter(|control| control.added) {
            found.push(control.from);
            found.extend(graph.stands_for(control.from));
        }
        found.retain(|&from| !(only_in_step && self.in_step(from)));
        found
    }

    /// Where what is new goes on to from a node: all that a step must run which runs the node.
    fn hand_on(&self, node: NodeId, mut to: impl FnMut(NodeId)) {
        let graph = self.graph;
        let stands_for_another = graph.stands_for(node).next().is_some();
        // Who reads such an op runs what it stands for too; that goes on from the reader.
        for tensor in graph.data(node) {
            if !stands_for_another || !graph.is_original(tensor.node) {
                to(tensor.node);
            }
        }
        if graph.is_original(node) {
            graph.origins(node).iter().for_each(|tensor| to(tensor.node));
        }
        for control in graph.control(node) {
            if control.added || !stands_for_another {
                to(control.from);
            }
            graph.stands_for(control.from).for_each(&mut to);
        }
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
                let mut sources = std::mem::take(&mut self.sources);
                self.hand_on(node, |from| sources.push(from));
                for from in sources.drain(..) {
                    let new = if self.in_step(from) { new & !of_step } else { new };
                    if new == 0 {
                        continue;
                    }
                    let before = self.new[from as usize] | self.needed[from as usize];
                    self.new[from as usize] |= new;
                    lowest_new = lowest_new.min(self.position[from as usize]);
                    again |= graph.is_back_edge(from, node) && before | new != before;
                }
                self.sources = sources;
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
