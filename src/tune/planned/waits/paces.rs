//! Edges that keep loops from running ahead: of what they copy, and of themselves.
//!
//! An element that goes to an accumulator on the host, or comes from one, is copied in each iteration. TensorFlow begins iterations while
//! others are under way (as many as a loop's `parallel_iterations`, ten or more), and copies out wait for nobody: so elements pile up that
//! are still to leave, or that came before they are read. Two kinds of edges leave one of them under way while another is made or read:
//!
//! - What makes an element waits until the last one has been added: that is when the loop leads the list into this iteration.
//!   With stacks of TensorFlow 1 the loop does so by itself.
//! - The loop leads what an element is taken by into the next iteration only when an op has been launched for which this one was taken: the
//!   first that cannot run iterations ahead itself ([`Carried`]), as an op that asks for the element's shape can.
//! - Where elements come from the host, ops that read none of them still run ahead ([`Ahead`]), and what they make waits for those that do. So
//!   the loop leads what it is made of into the next iteration only when its readers have been launched.
//!
//! Where iterations do not wait for one another at all ([`FreeLoop`]), the next one waits for all that this one ends with.
//!
//! [`FreeLoop`]: crate::simulate::FreeLoop

use std::collections::{BTreeSet, VecDeque};

use super::holds::Holds;
use crate::graph::{Graph, NodeId, TensorId};
use crate::ops::Flow;
use crate::order::Place;
use crate::plan::{Accumulator, Analysis, NodeOrder, OrderReason};
use crate::simulate::{Ahead, Carried};
use crate::tune::planned::timeline::{Course, Position};

/// How many ops are looked at in search of one that cannot run ahead.
const MOST_SEARCHED: usize = 256;

/// The edges for all accumulators that are on the host, and for loops whose iterations would be side by side, as far as ops may wait so.
pub(in crate::tune::planned) fn paces(course: &Course, holds: &Holds) -> Vec<NodeOrder> {
    let outline = course.outline;
    let paces = Paces { course, holds, graph: outline.analysis().graph };
    let mut found: BTreeSet<(NodeId, NodeId)> = BTreeSet::new();
    for accumulator in outline.accumulators_among(outline.host_ops()) {
        found.extend(accumulator.added.iter().filter_map(|&tensor| paces.of_added(&accumulator, tensor)));
        found.extend(accumulator.taken.iter().filter_map(|&tensor| paces.of_taken(tensor)));
    }
    if !found.is_empty() {
        found.extend(paces.of_what_runs_ahead());
    }
    for of_loop in outline.free_loops() {
        // For a part of them alone nothing is known to be better.
        if of_loop.ends.iter().all(|&end| paces.may_wait(of_loop.next, end)) {
            found.extend(of_loop.ends.iter().map(|&end| (end, of_loop.next)));
        }
    }
    let order = |(before, after)| NodeOrder { before, after, reason: OrderReason::Budget };
    found.into_iter().map(order).collect()
}

struct Paces<'a> {
    course: &'a Course<'a>,
    holds: &'a Holds,
    graph: &'a Graph<'a>,
}

impl Paces<'_> {
    /// What makes an element waits for the `Switch` that leads the list into its iteration.
    fn of_added(&self, accumulator: &Accumulator, tensor: TensorId) -> Option<(NodeId, NodeId)> {
        let maker = self.graph.producer(self.course.outline.made_in_loop(tensor)?);
        let leads = |node: &NodeId| self.graph.flow(*node) == Some(Flow::Switch);
        let mut switches = accumulator.ops.iter().copied().filter(leads);
        let switch = switches.find(|&switch| self.may_wait(maker, switch))?;
        Some((switch, maker))
    }

    /// The next iteration waits for the first op that cannot run ahead of those that read an element, or what was made of it.
    fn of_taken(&self, tensor: TensorId) -> Option<(NodeId, NodeId)> {
        let outline = self.course.outline;
        let Analysis { graph, flow, .. } = outline.analysis();
        let taker = graph.producer(tensor);
        let next = Carried::next_iteration(graph, flow, taker)?;
        let reads = |tensor: TensorId| {
            let readers = graph.uses(tensor).iter().filter(move |reader| {
                let place = outline.placement().inputs(reader.node).get(reader.slot as usize);
                matches!(place, Some(Place::Gpu(_))) && flow.frame(reader.node) == flow.frame(taker)
            });
            readers.map(|reader| reader.node)
        };
        let mut queue: VecDeque<NodeId> = reads(tensor).collect();
        let mut seen: BTreeSet<NodeId> = queue.iter().copied().collect();
        let mut first: Option<(Position, NodeId)> = None;
        while let Some(node) = queue.pop_front() {
            let place = self.course.place_of_node(node);
            if let Some(place) = place.filter(|_| outline.carried().waits(node) && self.may_wait(next, node))
            {
                first = first.into_iter().chain([(place, node)]).min();
            } else if seen.len() < MOST_SEARCHED {
                let readers = graph.outputs(node).flat_map(reads);
                queue.extend(readers.filter(|&reader| seen.insert(reader)));
            }
        }
        first.map(|(_, node)| (node, next))
    }

    /// The next iteration waits for the readers of what else would be made many times over, where that comes to something.
    fn of_what_runs_ahead(&self) -> Vec<(NodeId, NodeId)> {
        let mut found = Vec::new();
        let ahead = self.course.outline.ahead();
        for Ahead { readers, next, .. } in ahead.iter().filter(|one| one.all_bytes > self.course.small_bytes)
        {
            let next = next.filter(|&next| readers.iter().all(|&reader| self.may_wait(next, reader)));
            found.extend(next.into_iter().flat_map(|next| readers.iter().map(move |&reader| (reader, next))));
        }
        found
    }

    /// Whether an op of a loop may wait for another one of the same iteration.
    fn may_wait(&self, node: NodeId, other: NodeId) -> bool {
        let place = self.course.place_of_node(other);
        let flow = &self.course.outline.analysis().flow;
        flow.may_control(other, node)
            && place.is_some_and(|place| self.holds.may_wait(self.course, node, place))
    }
}
