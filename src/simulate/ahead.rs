//! What may run iterations ahead of its loop.
//!
//! What reads nothing of a loop but counters and elements of lists can run as many iterations ahead as TensorFlow begins at once, and what
//! it makes is there until the loop has come so far: copies of a variable too, of which rows change in the step, and random numbers.
//! Two kinds of readers come later: those that wait for what the iteration before computed ([`Carried`]), and those of an element that
//! comes from the host. Whether an op gets so far ahead is a matter of time: of how soon the host begins iterations, and of how long a GPU is
//! at one. A plan can keep it from that: the next iteration waits until these readers have run.

use rustc_hash::FxHashSet as HashSet;

use super::accumulations::iterations_at_once;
use super::carried::Carried;
use super::holders::readers_of_buffer;
use super::loops::Loops;
use super::pool::in_chunks;
use super::program::Buffer;
use crate::graph::{FrameId, NodeId, TensorId};
use crate::ops::Fact;
use crate::order::{Place, Placement};
use crate::plan::Analysis;

/// What an op makes that may run ahead of its loop.
#[derive(Debug, Clone)]
pub struct Ahead {
    /// What it makes, on a GPU.
    pub made: TensorId,
    /// The readers that cannot run ahead: it is there until they have run.
    pub readers: Vec<NodeId>,
    /// What leads into the next iteration what it is made of; none if none is found near it.
    pub next: Option<NodeId>,
    /// The loop.
    pub(super) frame: FrameId,
    /// How often it may be there at a time.
    pub(super) times: u64,
    /// What that takes.
    pub all_bytes: u64,
}

impl Ahead {
    /// Whether a plan has the next iteration wait for all that it is there for in this one.
    pub(super) fn is_paced(&self, orders: &HashSet<(NodeId, NodeId)>) -> bool {
        self.next.is_some_and(|next| self.readers.iter().all(|&reader| orders.contains(&(reader, next))))
    }
}

/// All that may run ahead in a step.
pub(super) fn ahead(
    analysis: &Analysis,
    placement: &Placement,
    (loops, carried): (&Loops, &Carried),
    runs: impl Fn(NodeId) -> bool,
    buffer: impl Fn(NodeId, TensorId) -> Buffer,
) -> Vec<Ahead> {
    let Analysis { graph, flow, sizes, .. } = analysis;
    // What comes from the host waits for its copy.
    let is_brought = |&input: &TensorId| {
        graph.op(graph.producer(input)).facts().has(Fact::GivesElement)
            && placement.output(input) == Place::Host
    };
    let waits = |node: NodeId| carried.waits(node) || graph.data_inputs(node).iter().any(is_brought);
    let at_once = iterations_at_once(analysis);
    let mut found = Vec::new();
    for node in graph.node_ids().filter(|&node| runs(node) && flow.frame(node) != FrameId::TOP) {
        if placement.op(node) == Place::Host || graph.flow(node).is_some() || waits(node) {
            continue;
        }
        let frame = flow.frame(node);
        let Some(times) = loops.times_at_once(node, at_once.get(&frame)) else { continue };
        for made in graph.outputs(node) {
            let bytes = in_chunks(analysis.sizes.bytes(made).unwrap_or(0));
            let is_counted = placement.output(made) != Place::Host
                && buffer(node, made).may_be_own()
                && !loops.keeps(made)
                && bytes > 0;
            if !is_counted {
                continue;
            }
            let mut readers = readers_of_buffer(graph, sizes, made);
            readers.retain(|&reader| waits(reader));
            if !readers.is_empty() {
                let next = Carried::next_iteration(graph, flow, node);
                let all_bytes = bytes.saturating_mul(times);
                found.push(Ahead { made, readers, next, frame, times, all_bytes });
            }
        }
    }
    found
}
