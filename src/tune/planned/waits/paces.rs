//! Edges that keep loops from running ahead of what they copy.
//!
//! An element that goes to an accumulator on the host, or comes from one, is copied in each iteration. TensorFlow begins iterations while
//! others are under way (as many as a loop's `parallel_iterations`, ten or more), and copies out wait for nobody: so elements pile up that
//! are still to leave, or that came before they are read. Two kinds of edges leave one of them under way while another is made or read:
//!
//! - What makes an element waits until the last one has been added: that is when the loop leads the list into this iteration.
//!   With stacks of TensorFlow 1 the loop does so by itself.
//! - The loop leads what an element is taken by into the next iteration only when an op has been launched that reads this one.

use std::collections::{BTreeSet, VecDeque};

use super::holds::Holds;
use crate::graph::{Graph, NodeId, TensorId};
use crate::ops::Flow;
use crate::order::Place;
use crate::plan::{Accumulator, NodeOrder, OrderReason};
use crate::tune::planned::timeline::Course;

/// How many ops are looked at in search of what leads into the next iteration.
const MOST_SEARCHED: usize = 256;

/// The edges for all accumulators that are on the host, as far as ops may wait so.
pub(in crate::tune::planned) fn paces(course: &Course, holds: &Holds) -> Vec<NodeOrder> {
    let outline = course.outline;
    let paces = Paces { course, holds, graph: outline.analysis().graph };
    let mut found: BTreeSet<(NodeId, NodeId)> = BTreeSet::new();
    for accumulator in outline.accumulators_among(outline.host_ops()) {
        found.extend(accumulator.added.iter().filter_map(|&tensor| paces.of_added(&accumulator, tensor)));
        found.extend(accumulator.taken.iter().filter_map(|&tensor| paces.of_taken(tensor)));
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

    /// The next iteration waits for the first op that reads an element.
    fn of_taken(&self, tensor: TensorId) -> Option<(NodeId, NodeId)> {
        let next = self.next_iteration(self.graph.producer(tensor))?;
        let placement = self.course.outline.placement();
        let on_gpu = self.graph.uses(tensor).iter().filter(|reader| {
            matches!(placement.inputs(reader.node).get(reader.slot as usize), Some(Place::Gpu(_)))
        });
        let places = on_gpu.filter_map(|reader| Some((self.course.place_of_node(reader.node)?, reader.node)));
        let mut readers: Vec<_> = places.collect();
        readers.sort_unstable();
        let reader =
            readers.into_iter().map(|(_, reader)| reader).find(|&reader| self.may_wait(next, reader))?;
        Some((reader, next))
    }

    /// The op that leads into the next iteration what an op of a loop waits for.
    fn next_iteration(&self, from: NodeId) -> Option<NodeId> {
        let flow = &self.course.outline.analysis().flow;
        let frame = flow.frame(from);
        let mut seen = BTreeSet::from([from]);
        let mut queue = VecDeque::from([from]);
        while let Some(node) = queue.pop_front().filter(|_| seen.len() < MOST_SEARCHED) {
            for before in self.graph.predecessors(node).filter(|before| before.index() < self.graph.len()) {
                if self.graph.flow(before) == Some(Flow::NextIteration)
                    && self.graph.is_back_edge(before, node)
                {
                    return Some(before);
                }
                if flow.frame(before) == frame && seen.insert(before) {
                    queue.push_back(before);
                }
            }
        }
        None
    }

    /// Whether an op of a loop may wait for another one of the same iteration.
    fn may_wait(&self, node: NodeId, other: NodeId) -> bool {
        let place = self.course.place_of_node(other);
        let flow = &self.course.outline.analysis().flow;
        flow.may_control(other, node)
            && place.is_some_and(|place| self.holds.may_wait(self.course, node, place))
    }
}
