//! An added edge makes no run rest on what it did not rest on before.
//!
//! A run does all that its fetches depend on, over control edges too. An added edge A → B brings A and what A needs
//! into each run that needs B: a variable that is not initialized yet into an initializer. An op is needy if it must not come into a run
//! that way: it is fed or reads a state. What has an effect comes into no fetch at all that did not have it (`effects`).
//!
//! If the train op is known, two things must hold (of several train ops, each of which has a step of its own, the first for each):
//!
//! * The step does nothing needy that is not of the step. Edges within it are free for it, and an edge into it brings
//!   what is outside of it.
//! * A run of a node outside of the step (an evaluation, an initializer, a gradient that nobody reads) does nothing needy
//!   that it did not do before. That is so for the edges within the step too: who needs one of its nodes does all that
//!   this node waits for now.
//!
//! A node of the step is no target itself: it is run with the step. If the train op is not known, all nodes are outside.
//!
//! Not each node outside needs a look. Where a run of one does new work, there is a path from it to that work. The last
//! node outside before the path's first added edge has that edge, or an original input from the step, and the
//! work is new for it too. So the targets are the nodes outside with added edges, and those with an original input from the step
//! which leads back to an added edge.
//!
//! What nobody looks at by itself ([`super::unseen`]) is no target either. A path may lead through such a node of a loop, to one behind the
//! loop that is a target: so edges to these bring what edges within the step do.
//!
//! A swap op or a recomputed op brings its triggers and those of the added ops that it reads. What it stands for was
//! needed by its reader before, and so was what that reads. Who reads a copy counts as one who runs its original too,
//! with what that waits for.
//!
//! Most edges are from an ancestor, and bring nothing. So the pass goes backwards from 64 targets at a time, with
//! one set of bits for "the target needed it already" and one for "it would be new", and ends as soon as
//! there is no target left above, nothing new below, and no edge of the step that a target may come by.

use std::ops::RangeInclusive;

use super::frames::Frames;
use super::graph::{Graph, Lists, NONE, NodeId};
use super::report::{Report, ViolationKind};
use super::step::Steps;
use super::triggers::Triggers;
use super::unseen;

/// Looks at what each added edge brings.
pub(super) fn check(
    graph: &Graph<'_>,
    frames: &Frames,
    order: &[NodeId],
    steps: &Steps,
    report: &mut Report,
) {
    let any = steps.any.as_deref();
    // A step does nothing that is of another step only.
    for step in &steps.each {
        let mut pass = Pass::new(graph, frames, order, Some(step));
        let into_step = |&node: &NodeId| !pass.brought.into_step.of(node).is_empty();
        let targets: Vec<NodeId> = from_the_end(graph, order).filter(into_step).collect();
        targets.chunks(64).for_each(|batch| pass.run(batch, Run::Step, report));
    }
    let mut pass = Pass::new(graph, frames, order, any);
    let targets: Vec<NodeId> =
        from_the_end(graph, order).filter(|&node| pass.is_outside_target(node)).collect();
    targets.chunks(64).for_each(|batch| pass.run(batch, Run::Outside, report));
}

/// The original nodes from the end of the order to its beginning, so that one batch is close together.
fn from_the_end<'g>(graph: &'g Graph<'_>, order: &'g [NodeId]) -> impl Iterator<Item = NodeId> + 'g {
    order.iter().copied().rev().filter(|&node| graph.is_original(node))
}

/// Whose run the targets of a batch stand for.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Run {
    /// The step's, which does all that is of the step anyway.
    Step,
    /// Each target's own, with nothing of the step but what the target needs.
    Outside,
}

/// Where the edges come from that may bring something to an original node.
struct Brought {
    /// All of them.
    all: Lists<NodeId>,
    /// To a node of the step those that may bring something from outside of it.
    into_step: Lists<NodeId>,
}

impl Brought {
    fn find(graph: &Graph<'_>, order: &[NodeId], step: Option<&[bool]>) -> Brought {
        let triggers = Triggers::find(graph, order, step);
        let in_step = |node: NodeId| step.is_some_and(|step| step[node as usize]);
        let lists = || Lists::with_capacity(order.len(), 0);
        let mut brought = Brought { all: lists(), into_step: lists() };
        let mut found = Vec::new();
        for node in graph.ids() {
            let is_original = graph.is_original(node);
            if is_original {
                found.extend(triggers.brought_by_data(graph, node, false));
                found.extend(by_control(graph, node));
            }
            brought.all.push(found.drain(..));
            if is_original && in_step(node) {
                found.extend(triggers.brought_by_data(graph, node, true));
                found.extend(by_control(graph, node).filter(|&from| !in_step(from)));
            }
            brought.into_step.push(found.drain(..));
        }
        brought
    }
}

/// What an original node waits for that it did not wait for before.
fn by_control(graph: &Graph<'_>, node: NodeId) -> impl Iterator<Item = NodeId> {
    let added = graph.control(node).iter().filter(|control| control.added).map(|control| control.from);
    added.flat_map(|from| graph.stands_for(from).chain([from]))
}

struct Pass<'g, 'a> {
    graph: &'g Graph<'a>,
    order: &'g [NodeId],
    position: Vec<u32>,
    step: Option<&'g [bool]>,
    /// Which nodes outside of the step are within loops.
    within_loops: Vec<bool>,
    brought: Brought,
    /// The first place in the order of a node with added edges, of the step or within a loop, that a node is or needs, or `NONE`.
    first_edge: Vec<u32>,
    has_loops: bool,
    /// Which of the batch's targets needed a node in the original graph.
    needed: Vec<u64>,
    /// Which need it in the rewritten graph only.
    new: Vec<u64>,
    /// Room for the sources of one node, and for whom each is new.
    sources: Vec<(NodeId, u64)>,
}

impl<'g, 'a> Pass<'g, 'a> {
    fn new(
        graph: &'g Graph<'a>,
        frames: &Frames,
        order: &'g [NodeId],
        step: Option<&'g [bool]>,
    ) -> Pass<'g, 'a> {
        let mut position = vec![0u32; order.len()];
        for (place, &node) in (0..).zip(order) {
            position[node as usize] = place;
        }
        let mut pass = Pass {
            graph,
            order,
            position,
            step,
            within_loops: unseen::within_loops(graph, frames, step),
            brought: Brought::find(graph, order, step),
            first_edge: Vec::new(),
            has_loops: graph.ids().any(|node| graph.is_loop_header(node)),
            needed: vec![0; order.len()],
            new: vec![0; order.len()],
            sources: Vec::new(),
        };
        pass.first_edge = pass.first_edges_of_step();
        pass
    }

    fn in_step(&self, node: NodeId) -> bool {
        self.step.is_some_and(|step| step[node as usize])
    }

    /// Whether a node is no target, and hands on what its edges bring to those that are.
    fn hands_on(&self, node: NodeId) -> bool {
        self.in_step(node) || self.within_loops[node as usize]
    }

    /// Finds `first_edge` for all original nodes.
    fn first_edges_of_step(&self) -> Vec<u32> {
        let graph = self.graph;
        let mut first = vec![NONE; self.order.len()];
        if self.step.is_none() {
            return first;
        }
        // A loop's own edges lead back up the order: what they bring shows in the next round.
        let mut again = true;
        while again {
            again = false;
            for (place, &node) in (0..).zip(self.order).filter(|(_, node)| graph.is_original(**node)) {
                let brings = self.hands_on(node) && !self.brought.all.of(node).is_empty();
                let own = if brings { place } else { NONE };
                let behind = graph.original_sources(node).map(|from| first[from as usize]);
                let lowest = behind.fold(own, u32::min);
                again |= self.has_loops && lowest < first[node as usize];
                first[node as usize] = lowest.min(first[node as usize]);
            }
        }
        first
    }

    /// Whether a node outside of the step may do new work that no other node outside, which it needs, does.
    fn is_outside_target(&self, node: NodeId) -> bool {
        let leads_to_edge = |from: NodeId| self.hands_on(from) && self.first_edge[from as usize] != NONE;
        !self.hands_on(node)
            && (self.step.is_none() || !unseen::is_idle(self.graph, node))
            && (!self.brought.all.of(node).is_empty() || self.graph.original_sources(node).any(leads_to_edge))
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

    fn run(&mut self, targets: &[NodeId], run: Run, report: &mut Report) {
        let mut top = 0;
        let mut bottom = self.order.len() as u32;
        for (bit, &target) in targets.iter().enumerate() {
            let bit = 1u64 << bit;
            top = top.max(self.position[target as usize]);
            let brought = match run {
                Run::Step => &self.brought.into_step,
                Run::Outside => &self.brought.all,
            };
            for &from in brought.of(target) {
                self.new[from as usize] |= bit;
                bottom = bottom.min(self.position[from as usize]);
            }
            // All that a node of the step needed is of the step, and passed by anyway.
            if run == Run::Outside {
                self.needed[target as usize] |= bit;
                bottom = bottom.min(self.first_edge[target as usize]);
            }
        }
        if self.has_loops {
            top = self.order.len() as u32 - 1;
        }
        loop {
            let (low, again) = self.sweep(top, bottom, run);
            bottom = bottom.min(low);
            if !again {
                break;
            }
        }
        self.collect(bottom..=top, targets, report);
    }

    /// Reports what is new and needy, and clears the bits for the next batch.
    fn collect(&mut self, places: RangeInclusive<u32>, targets: &[NodeId], report: &mut Report) {
        let graph = self.graph;
        for place in places {
            let node = self.order[place as usize];
            let new = std::mem::take(&mut self.new[node as usize]);
            self.needed[node as usize] = 0;
            for from in graph.original_sources(node) {
                self.needed[from as usize] = 0;
            }
            if new != 0 && graph.is_original(node) && graph.op(node).rests_on_state {
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
    fn sweep(&mut self, top: u32, bottom: u32, run: Run) -> (u32, bool) {
        let graph = self.graph;
        let mut again = false;
        let mut lowest_new = bottom;
        let mut place = top;
        loop {
            let node = self.order[place as usize];
            let needed = self.needed[node as usize];
            let new = self.new[node as usize] & !needed;
            self.new[node as usize] = new;
            if needed != 0 && graph.is_original(node) {
                for from in graph.original_sources(node) {
                    let before = self.needed[from as usize];
                    self.needed[from as usize] |= needed;
                    again |= graph.is_back_edge(from, node) && before | needed != before;
                }
            }
            let mut sources = std::mem::take(&mut self.sources);
            // Who comes by a node of the step or of a loop must do what its added edges bring. A node outside with added edges is
            // a target, and if that does nothing new, nobody does by way of it.
            if needed != 0 && self.hands_on(node) {
                sources.extend(self.brought.all.of(node).iter().map(|&from| (from, needed)));
            }
            if new != 0 {
                self.hand_on(node, |from| sources.push((from, new)));
            }
            for (from, bits) in sources.drain(..) {
                let bits = bits & !(self.needed[from as usize] | self.new[from as usize]);
                if bits == 0 || run == Run::Step && self.in_step(from) {
                    continue;
                }
                self.new[from as usize] |= bits;
                lowest_new = lowest_new.min(self.position[from as usize]);
                again |= graph.is_back_edge(from, node);
            }
            self.sources = sources;
            // With loops a later sweep may come by here again, so all sweeps go all the way.
            let end = if self.has_loops { 0 } else { lowest_new };
            if place == 0 || place <= end {
                return (place, again);
            }
            place -= 1;
        }
    }
}
