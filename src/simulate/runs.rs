//! What a step runs before a plan changes anything, not yet connected: the same in each program.
//!
//! An op that makes something that a loop keeps makes it with the last one, and with what else there is by then: a tensor for each other one,
//! or for some of them together where they are many. A pool has room for each apart.

use std::ops::Range;

use rustc_hash::FxHashMap as HashMap;

use super::outline::Outline;
use super::parts::Parts;
use super::pool::{CHUNK_BYTES, in_chunks};
use super::program::{NONE, Op, Origin, Tensor};
use crate::cost::Workspace;
use crate::graph::{NodeId, TensorId};
use crate::order::Place;

/// The ops of a step and what they make, before anything connects them: the same in each program.
#[derive(Debug)]
pub(super) struct Runs {
    pub ops: Vec<Op>,
    pub tensors: Vec<Tensor>,
    /// For each tensor of the graph that the step makes, its number in the program.
    pub numbers: Vec<u32>,
    /// For each tensor that a loop keeps the numbers of the rest of it.
    pub rests: HashMap<TensorId, Range<u32>>,
    /// In which order the parts of the graph begin.
    pub parts: Parts,
}

/// How many tensors stand for the rest of what a loop keeps, at most.
const MOST_PIECES: u64 = 32;

/// The sizes of so many pieces of equal size, some of them together where they are many; all are whole chunks, as their sum is.
pub(super) fn pieces(bytes: u64, count: u64) -> impl Iterator<Item = u64> {
    let count = count.max(1);
    let tensors = count.min(MOST_PIECES);
    let each = bytes / count / CHUNK_BYTES * CHUNK_BYTES;
    let (in_each, more) = (count / tensors, count % tensors);
    let left = bytes - each * count;
    (0..tensors).map(move |number| {
        let pieces = in_each + u64::from(number < more);
        each * pieces + if number == 0 { left } else { 0 }
    })
}

impl Runs {
    /// All of a step.
    pub fn of(outline: &Outline) -> Runs {
        let graph = outline.analysis.graph;
        let (mut ops, mut tensors) =
            (Vec::with_capacity(outline.order.len()), Vec::with_capacity(outline.order.len() * 2));
        let mut numbers = vec![NONE; graph.tensor_count()];
        let mut rests = HashMap::default();
        for &node in &outline.order {
            for (tensor, number) in graph.outputs(node).zip(tensors.len() as u32..) {
                numbers[tensor.index()] = number;
            }
            add_run(outline, node, Origin::Op(node), &mut ops, &mut tensors);
            add_rests(outline, node, &mut ops, &mut tensors, &mut rests);
        }
        Runs { ops, tensors, numbers, rests, parts: Parts::of(outline) }
    }
}

/// Adds an entry that runs an op of the graph, with its outputs.
pub(super) fn add_run(
    outline: &Outline,
    node: NodeId,
    origin: Origin,
    ops: &mut Vec<Op>,
    tensors: &mut Vec<Tensor>,
) {
    let graph = outline.analysis.graph;
    let place = outline.placement.op(node);
    let number = outline.place_of[node.index()] as usize;
    let first_tensor = tensors.len() as u32;
    let is_idle = outline.case.is_idle(node);
    for tensor in graph.outputs(node) {
        if outline.case.is_absent(graph, tensor) {
            tensors.push(Tensor::absent(outline.placement.output(tensor)));
            continue;
        }
        let content_bytes = outline.analysis.sizes.bytes(tensor).unwrap_or(0);
        tensors.push(Tensor {
            bytes: once_bytes(outline, tensor, content_bytes),
            // A copy of it goes in each iteration.
            content_bytes: content_bytes.saturating_mul(outline.loops.times_given(graph, tensor)),
            place: outline.placement.output(tensor),
            buffer: outline.buffer(node, tensor),
            uses: 0,
        });
    }
    ops.push(Op {
        origin,
        from: place,
        to: place,
        receiver: place,
        is_copy: false,
        is_expensive: place == Place::Host && !graph.op(node).facts().is_cheap(),
        seconds: if is_idle { 0.0 } else { outline.seconds[number] },
        workspace: if is_idle { Workspace::NONE } else { outline.workspaces[number] },
        copies: 0,
        waits: 0,
        first_tensor,
        tensors: tensors.len() as u32 - first_tensor,
    });
}

/// What a tensor takes; of one that a loop keeps, the last one that was made.
fn once_bytes(outline: &Outline, tensor: TensorId, content_bytes: u64) -> u64 {
    let once = in_chunks(content_bytes);
    let last = outline.loops.bytes(tensor, once) - outline.loops.rest_bytes(tensor, once);
    last.saturating_mul(outline.times_side_by_side(tensor))
}

/// Has the last entry make also what is there beside the last of each tensor that a loop keeps.
fn add_rests(
    outline: &Outline,
    node: NodeId,
    ops: &mut [Op],
    tensors: &mut Vec<Tensor>,
    rests: &mut HashMap<TensorId, Range<u32>>,
) {
    let Some(entry) = ops.last_mut() else { return };
    for tensor in outline.analysis.graph.outputs(node) {
        let once = in_chunks(outline.analysis.sizes.bytes(tensor).unwrap_or(0));
        let bytes = outline.loops.rest_bytes(tensor, once).saturating_mul(outline.times_side_by_side(tensor));
        if bytes > 0 && !outline.case.is_absent(outline.analysis.graph, tensor) {
            let first = tensors.len() as u32;
            let place = outline.placement.output(tensor);
            let pieces = pieces(bytes, outline.loops.rest_count(tensor));
            tensors.extend(pieces.map(|bytes| Tensor::of_rest(bytes, place)));
            rests.insert(tensor, first..tensors.len() as u32);
            entry.tensors += tensors.len() as u32 - first;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_are_whole_chunks_of_all_that_there_is() {
        for (bytes, count) in [(0, 0), (1024, 1), (5 << 20, 5), (256 * 7, 3), (256 * 1000, 100), (256, 40)] {
            let found: Vec<u64> = pieces(bytes, count).collect();
            assert_eq!(found.iter().sum::<u64>(), bytes, "{bytes} in {count}");
            assert!(found.iter().all(|piece| piece % CHUNK_BYTES == 0), "{found:?}");
            assert_eq!(found.len() as u64, count.clamp(1, MOST_PIECES), "{found:?}");
        }
        assert_eq!(pieces(5 << 20, 5).max(), Some(1 << 20));
    }
}
