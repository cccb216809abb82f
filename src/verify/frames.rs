//! No added edge leads into a loop, out of it, or from one iteration to another.
//!
//! In v1 control flow a loop's body runs in a frame, once for each iteration. A tensor enters a frame through `Enter` and
//! leaves it through `Exit` only; TensorFlow refuses a node whose inputs come from different frames. What
//! `NextIteration` gives out belongs to the next iteration, and in the first there is none: who waits for it there
//! waits for ever.

use std::collections::HashMap;

use super::graph::{Graph, NodeId};
use super::op_facts::Flow;
use super::report::{Report, ViolationKind};
use crate::proto::tensorflow::AttrValue;
use crate::proto::tensorflow::attr_value::Value;

/// A frame by its place in [`Frames`].
pub(super) type FrameId = u32;

/// The frame of everything that is in no loop.
pub(super) const ROOT: FrameId = 0;

/// The frames of a graph, and where each node is.
#[derive(Debug)]
pub(super) struct Frames {
    parent: Vec<FrameId>,
    depth: Vec<u32>,
    /// Where a node's inputs must be.
    of_inputs: Vec<FrameId>,
    /// Where its outputs are.
    of_outputs: Vec<FrameId>,
}

impl Frames {
    /// Follows `Enter` and `Exit` of the original graph. A recomputed op is where its original is, and any other added
    /// op where the first thing that it reads is.
    pub fn new(graph: &Graph<'_>, order: &[NodeId]) -> Frames {
        let count = graph.len() as usize;
        let mut frames = Frames {
            parent: vec![ROOT],
            depth: vec![0],
            of_inputs: vec![ROOT; count],
            of_outputs: vec![ROOT; count],
        };
        let mut children: HashMap<(FrameId, Vec<u8>), FrameId> = HashMap::new();
        for &node in order {
            let first = if graph.is_original(node) {
                graph.original_sources(node).find(|&from| !graph.is_back_edge(from, node))
            } else {
                graph.origins(node).iter().map(|tensor| tensor.node).chain(graph.sources(node)).next()
            };
            let inside = match graph.copies.original_of(node) {
                Some(original) => frames.of_inputs[original as usize],
                None => first.map_or(ROOT, |from| frames.of_outputs[from as usize]),
            };
            let outside = match graph.flow(node) {
                Flow::Enter => *children.entry((inside, frame_name(graph, node))).or_insert_with(|| {
                    frames.parent.push(inside);
                    frames.depth.push(frames.depth[inside as usize] + 1);
                    frames.parent.len() as FrameId - 1
                }),
                Flow::Exit => frames.parent[inside as usize],
                _ => inside,
            };
            frames.of_inputs[node as usize] = inside;
            frames.of_outputs[node as usize] = outside;
        }
        frames
    }

    pub fn of_inputs(&self, node: NodeId) -> FrameId {
        self.of_inputs[node as usize]
    }

    pub fn of_outputs(&self, node: NodeId) -> FrameId {
        self.of_outputs[node as usize]
    }

    /// How many loops a frame is in.
    pub fn depth(&self, frame: FrameId) -> u32 {
        self.depth[frame as usize]
    }

    /// How many frames there are.
    pub fn len(&self) -> usize {
        self.parent.len()
    }

    /// Whether `inner` is `outer` or within it.
    pub fn is_within(&self, inner: FrameId, outer: FrameId) -> bool {
        let mut frame = inner;
        while self.depth(frame) > self.depth(outer) {
            frame = self.parent[frame as usize];
        }
        frame == outer
    }
}

fn frame_name(graph: &Graph<'_>, enter: NodeId) -> Vec<u8> {
    match graph.nodes.attr(enter as usize, "frame_name") {
        Some(AttrValue { value: Some(Value::S(name)) }) => name,
        _ => Vec::new(),
    }
}

/// Looks at each added edge.
pub(super) fn check(graph: &Graph<'_>, frames: &Frames, report: &mut Report) {
    for node in graph.ids() {
        for from in graph.added_sources(node) {
            if frames.of_outputs(from) != frames.of_inputs(node) {
                report.add(ViolationKind::Frame, || {
                    let loops = |frame| match frames.depth(frame) {
                        0 => "outside of all loops".to_string(),
                        depth => format!("in loop {frame} at depth {depth}"),
                    };
                    let expected = format!("an input from {}", loops(frames.of_inputs(node)));
                    ([graph.name(node), graph.name(from)], expected, loops(frames.of_outputs(from)))
                });
            } else if graph.flow(from) == Flow::NextIteration {
                report.add(ViolationKind::Iteration, || {
                    let expected = "an input from the same iteration".to_string();
                    (
                        [graph.name(node), graph.name(from)],
                        expected,
                        "one from the iteration before".to_string(),
                    )
                });
            }
        }
    }
}
