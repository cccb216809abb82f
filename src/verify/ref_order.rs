//! A reader of a ref variable that an added edge delays still runs on the same side of each update.
//!
//! A ref variable's output is its buffer, and `Identity` hands on the buffer and no copy. A reader that a swap delays
//! may then see the value of the next step, unless the graph orders it against each op that writes to the variable.
//! Optimizers mostly do, by their gates; here it is shown for each pair, or refused. (Resource variables are
//! copied when they are written to while someone reads.)
//!
//! A swap of a buffer copies it. Who read the buffer after an update must not read a copy from before it.
//!
//! A recomputed op reads the buffer a second time, and must do so on the side of each update on which its original is.

use super::buffers::Buffers;
use super::frames::{FrameId, Frames};
use super::graph::{Graph, NodeId};
use super::op_facts::{self, Flow};
use super::report::{Report, ViolationKind};
use super::step::{self, Steps};

/// Looks at each pair of a delayed reader and an update that one step runs. Two train ops are run one after the other, and what no step
/// runs reads no variable in it.
pub(super) fn check(
    graph: &Graph<'_>,
    frames: &Frames,
    order: &[NodeId],
    steps: &Steps,
    report: &mut Report,
) {
    if graph.ids().all(|node| !graph.op(node).is_ref_variable) {
        return;
    }
    let mut buffers = Buffers::find(graph);
    let mut updates = updates(graph, &mut buffers);
    match &steps.any {
        Some(in_step) => updates.retain(|update| in_step[update.node as usize]),
        None => {
            // A step that swaps runs the tensors' producers, and one that reads a copy runs the original; an update that
            // none of these leads to is none of its ops. What an original led to may now follow its copy.
            let copies = graph.copies.by_copy().iter().map(|&(copy, _)| copy);
            let producers = graph.ids().flat_map(|node| graph.stands_for(node)).chain(copies).collect();
            let of_step = step::after(graph, producers);
            updates.retain(|update| of_step[update.node as usize]);
        }
    }
    let readers = delayed_readers(graph, &mut buffers);
    let read: Vec<NodeId> = readers.iter().map(|reader| reader.buffer).collect();
    updates.retain(|update| read.binary_search(&update.buffer).is_ok());
    let mut reach = Reach::new(graph, frames, order);
    let copies = graph.ids().any(|node| graph.role(node).is_swap() && buffers.of(node).is_some());
    for batch in updates.chunks(64) {
        reach.run(batch);
        if copies {
            reach.find_stale(&buffers);
        }
        let (Some(first), Some(last)) = (batch.first(), batch.last()) else { continue };
        let start = readers.partition_point(|reader| reader.buffer < first.buffer);
        let end = readers.partition_point(|reader| reader.buffer <= last.buffer);
        for reader in &readers[start..end] {
            let variable = graph.name(reader.buffer);
            let met = met_by(steps, reader, batch);
            if let Some(update) = reach.unordered(reader, batch, met) {
                report.add(ViolationKind::RefOrder, || {
                    let expected = format!("the two ordered: both use the buffer of {variable}");
                    let found = "the first delayed, and no path from one to the other".to_string();
                    ([graph.name(reader.node), graph.name(update)], expected, found)
                });
            } else if let Some(update) = reach.reads_stale_copy(reader, batch) {
                report.add(ViolationKind::RefOrder, || {
                    let expected = format!("the first to read {variable} as the second left it");
                    let found = "a copy that may be from before the second".to_string();
                    ([graph.name(reader.node), graph.name(update)], expected, found)
                });
            } else if let Some((original, update)) = reach.leaves_original(reader, batch, met) {
                report.add(ViolationKind::RefOrder, || {
                    let names = [graph.name(reader.node), graph.name(original)];
                    let expected =
                        format!("both on one side of {}, which writes to {variable}", graph.name(update));
                    (names, expected, "no paths that keep them there".to_string())
                });
            }
        }
    }
}

/// Those of up to 64 updates that some step runs together with a reader, as bits.
fn met_by(steps: &Steps, reader: &Use, updates: &[Use]) -> u64 {
    let meets = |update: &Use| steps.share(reader.node, update.node);
    (0..).zip(updates).filter(|(_, update)| meets(update)).fold(0, |bits, (bit, _)| bits | 1 << bit)
}

/// An op that uses a buffer. The buffer is named by one of its variables.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Use {
    buffer: NodeId,
    node: NodeId,
}

/// The ops that may write to a variable's buffer.
fn updates(graph: &Graph<'_>, buffers: &mut Buffers) -> Vec<Use> {
    let mut updates = Vec::new();
    for node in graph.ids().filter(|&node| graph.op(node).may_write_refs()) {
        let reads_buffer = |tensor: &super::graph::Tensor| buffers.gives(tensor.node);
        if !graph.data(node).iter().any(reads_buffer) {
            continue;
        }
        let ports = graph.op(node).info.and_then(|info| op_facts::inputs(graph.nodes, info, node));
        for (slot, tensor) in graph.data(node).iter().enumerate() {
            // What is not known may write.
            let writes = ports.as_ref().is_none_or(|ports| ports.get(slot).is_none_or(|port| port.is_ref));
            if let (true, Some(buffer)) = (writes, buffers.of(tensor.node)) {
                updates.push(Use { buffer, node });
            }
        }
    }
    updates.sort_unstable();
    updates.dedup();
    updates
}

/// The ops that look into a variable's buffer and that an added edge may delay.
fn delayed_readers(graph: &Graph<'_>, buffers: &mut Buffers) -> Vec<Use> {
    let targets = graph.ids().filter(|&node| graph.added_sources(node).next().is_some()).collect();
    let delayed = step::after(graph, targets);
    let mut readers = Vec::new();
    for node in graph.ids().filter(|&node| delayed[node as usize]) {
        let facts = graph.op(node);
        for (slot, tensor) in graph.data(node).iter().enumerate() {
            // Passing a buffer on is no look into it, unless the op writes to it first, or may make something else of it.
            let passes = facts.only_passes && facts.passes.takes(slot) && !facts.may_write_refs();
            let looks = facts.reads_values && !passes;
            if let (true, Some(buffer)) = (looks, buffers.of(tensor.node)) {
                readers.push(Use { buffer, node });
            }
        }
    }
    readers.sort_unstable();
    readers.dedup();
    readers
}

/// Who runs before whom, for up to 64 updates at a time.
struct Reach<'g, 'a> {
    graph: &'g Graph<'a>,
    frames: &'g Frames,
    order: &'g [NodeId],
    /// Loops' own edges from `NextIteration` to `Merge` over which a value is carried on to the loop's end.
    carried: Vec<(NodeId, NodeId)>,
    /// Which of the updates a node is before.
    before: Vec<u64>,
    /// Which of them it is behind.
    behind: Vec<u64>,
    /// Which of them a copy that it reads or gives on may be from before of.
    stale: Vec<u64>,
}

impl<'g, 'a> Reach<'g, 'a> {
    fn new(graph: &'g Graph<'a>, frames: &'g Frames, order: &'g [NodeId]) -> Reach<'g, 'a> {
        let empty = vec![0; order.len()];
        let mut reach = Reach {
            graph,
            frames,
            order,
            carried: Vec::new(),
            before: empty.clone(),
            behind: empty.clone(),
            stale: empty,
        };
        reach.carried = reach.carried_edges();
        reach
    }

    /// The loops' own edges whose `Merge` leads to their `NextIteration` within an iteration. Each such value depends on
    /// the one before, so the loop's last depends on all of them.
    fn carried_edges(&mut self) -> Vec<(NodeId, NodeId)> {
        let graph = self.graph;
        let mut edges = Vec::new();
        for header in graph.ids().filter(|&node| graph.is_loop_header(node)) {
            let back = graph.sources(header).filter(|&from| graph.flow(from) == Flow::NextIteration);
            edges.extend(back.map(|from| (from, header)));
        }
        let mut carried = Vec::new();
        for batch in edges.chunks(64) {
            self.before.fill(0);
            for (bit, &(from, _)) in batch.iter().enumerate() {
                self.before[from as usize] |= 1 << bit;
            }
            self.sweep_before();
            for (bit, &(from, header)) in batch.iter().enumerate() {
                if self.before[header as usize] & 1 << bit != 0 {
                    carried.push((from, header));
                }
            }
        }
        carried
    }

    /// Finds what is before and behind each update.
    fn run(&mut self, updates: &[Use]) {
        self.before.fill(0);
        self.behind.fill(0);
        for (bit, update) in updates.iter().enumerate() {
            self.before[update.node as usize] |= 1 << bit;
            self.behind[update.node as usize] |= 1 << bit;
        }
        self.sweep_before();
        while self.carry(updates) {
            self.sweep_before();
        }
        // Over a loop's own edge nothing is taken to be behind an update: few graphs update a variable in a loop.
        for &node in self.order {
            let bits = self.behind[node as usize];
            if bits != 0 {
                for &to in self.graph.consumers(node).iter().filter(|&&to| !self.graph.is_back_edge(node, to))
                {
                    self.behind[to as usize] |= bits;
                }
            }
        }
    }

    /// Follows copies of buffers to all that reads them. A copy that is not behind an update may be from before it.
    fn find_stale(&mut self, buffers: &Buffers) {
        self.stale.fill(0);
        let graph = self.graph;
        let gives_on = |node: NodeId| buffers.gives(node);
        let mut again = true;
        while again {
            again = false;
            for &node in self.order {
                let mut stale = self.stale[node as usize];
                if graph.role(node).is_swap() && gives_on(node) {
                    stale |= !self.behind[node as usize];
                }
                for from in graph.data(node).iter().map(|tensor| tensor.node).filter(|&from| gives_on(from)) {
                    stale |= self.stale[from as usize];
                }
                let changed = stale != self.stale[node as usize];
                self.stale[node as usize] = stale;
                // A loop's own edge leads back to nodes that were passed already.
                again |= changed && graph.flow(node) == Flow::NextIteration;
            }
        }
    }

    /// An update that a reader is behind, and a copy that it reads perhaps not.
    fn reads_stale_copy(&self, reader: &Use, updates: &[Use]) -> Option<NodeId> {
        let stale = self.stale[reader.node as usize] & self.behind[reader.node as usize];
        self.first_of(reader, updates, stale)
    }

    fn sweep_before(&mut self) {
        for &node in self.order.iter().rev() {
            let bits = self.before[node as usize];
            if bits != 0 {
                for from in self.graph.sources(node).filter(|&from| !self.graph.is_back_edge(from, node)) {
                    self.before[from as usize] |= bits;
                }
            }
        }
    }

    /// Takes what a loop's next iteration is before to be behind this one too, for updates outside of the loop: they
    /// wait for its last iteration. Within the loop the update of this iteration may come first.
    fn carry(&mut self, updates: &[Use]) -> bool {
        let mut any = false;
        for &(from, header) in &self.carried {
            let frame = self.frames.of_inputs(header);
            let new = self.before[header as usize] & !self.before[from as usize];
            let outside = new & self.updates_outside(frame, updates);
            self.before[from as usize] |= outside;
            any |= outside != 0;
        }
        any
    }

    fn updates_outside(&self, frame: FrameId, updates: &[Use]) -> u64 {
        let outside = |update: &Use| !self.frames.is_within(self.frames.of_inputs(update.node), frame);
        (0..).zip(updates).filter(|(_, update)| outside(update)).fold(0, |bits, (bit, _)| bits | 1u64 << bit)
    }

    /// An update of the reader's buffer that the reader may run at the same time as.
    fn unordered(&self, reader: &Use, updates: &[Use], met: u64) -> Option<NodeId> {
        let ordered = self.before[reader.node as usize] | self.behind[reader.node as usize];
        self.first_of(reader, updates, !ordered & met)
    }

    /// The original of a recomputed reader, and an update that the two are not on one side of.
    fn leaves_original(&self, reader: &Use, updates: &[Use], met: u64) -> Option<(NodeId, NodeId)> {
        let original = self.graph.copies.original_of(reader.node)?;
        let both = |sides: &[u64]| sides[reader.node as usize] & sides[original as usize];
        let together = both(&self.before) | both(&self.behind);
        Some((original, self.first_of(reader, updates, !together & met)?))
    }

    /// The first of the updates of the reader's buffer that is among these, the reader itself aside.
    fn first_of(&self, reader: &Use, updates: &[Use], among: u64) -> Option<NodeId> {
        let found = (0..).zip(updates).find(|(bit, update)| {
            update.buffer == reader.buffer && update.node != reader.node && among & 1u64 << bit != 0
        });
        found.map(|(_, update)| update.node)
    }
}
