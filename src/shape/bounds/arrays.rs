//! What a TensorArray of version 1 gives out that nobody gave a shape.
//!
//! The inference knows no shape of what is read from a TensorArray, unless the program says one. But it is no larger than what was written: into
//! the TensorArray itself, or if it is that of a gradient, into the one of which it holds the gradients, since a gradient has the shape
//! of what it is one of.

use std::collections::HashMap;

use super::{Bounds, Most};
use crate::graph::{Graph, NodeId, TensorId};
use crate::ops::Flow;

/// So many ops at most are between what makes a TensorArray and who uses it.
const MOST_PASSED: usize = 1024;

/// For each op that makes a TensorArray those that write to it.
#[derive(Debug, Default)]
pub(super) struct Arrays {
    writers: Option<HashMap<NodeId, Vec<NodeId>>>,
}

impl Arrays {
    fn writers(&mut self, graph: &Graph, array: NodeId) -> &[NodeId] {
        let writers = self.writers.get_or_insert_with(|| {
            let mut writers: HashMap<NodeId, Vec<NodeId>> = HashMap::new();
            for node in graph.node_ids().filter(|&node| written_slot(graph, node).is_some()) {
                let handle = graph.data_inputs(node).first();
                if let Some(maker) = handle.and_then(|&handle| maker(graph, handle)) {
                    writers.entry(maker).or_default().push(node);
                }
            }
            writers
        });
        writers.get(&array).map_or(&[], Vec::as_slice)
    }
}

/// The input of an op that is written to a TensorArray, and whether that is parted into elements.
fn written_slot(graph: &Graph, node: NodeId) -> Option<(usize, bool)> {
    match graph.op(node).name() {
        "TensorArrayWriteV2" | "TensorArrayWriteV3" => Some((2, false)),
        "TensorArrayScatterV2" | "TensorArrayScatterV3" => Some((2, true)),
        _ => None,
    }
}

/// The elements that an op reads from a TensorArray all at once are at most so large: as many as there are places to read, or else in all.
pub(super) fn gathered(bounds: &mut Bounds, node: NodeId) -> Option<Most> {
    let graph = bounds.graph;
    let element = element(bounds, node)?;
    let count = match bounds.length(node, 1) {
        Some(count) => i64::try_from(count).ok()?,
        None => {
            let array = array_of(graph, *graph.data_inputs(node).first()?)?;
            let size = bounds.most_values(array, 0).filter(|_| !bounds.flag(array, "dynamic_size"))?;
            *size.first().filter(|_| size.len() == 1)?
        }
    };
    Some(std::iter::once(count).chain(element).collect())
}

/// An element of the TensorArray from which an op reads is at most so large.
pub(super) fn element(bounds: &mut Bounds, node: NodeId) -> Option<Most> {
    let graph = bounds.graph;
    let array = array_of(graph, *graph.data_inputs(node).first()?)?;
    let mut most: Option<Most> = None;
    for writer in bounds.arrays.writers(graph, array).to_vec() {
        let (slot, is_parted) = written_slot(graph, writer)?;
        let written = bounds.input(writer, slot)?;
        let written = if is_parted { written.get(1..)?.to_vec() } else { written };
        most = Some(match most {
            None => written,
            Some(most) if most.len() == written.len() => {
                most.into_iter().zip(written).map(|(one, other)| one.max(other)).collect()
            }
            Some(_) => return None,
        });
    }
    most
}

/// The op that made the TensorArray of a handle, or the one of which it holds the gradients.
fn array_of(graph: &Graph, mut handle: TensorId) -> Option<NodeId> {
    for _ in 0..MOST_PASSED {
        let maker = maker(graph, handle)?;
        match graph.op(maker).name() {
            "TensorArrayGradV2" | "TensorArrayGradV3" => handle = *graph.data_inputs(maker).first()?,
            _ => return Some(maker),
        }
    }
    None
}

/// The op that made a handle, or asked for the one of a gradient.
fn maker(graph: &Graph, mut handle: TensorId) -> Option<NodeId> {
    for _ in 0..MOST_PASSED {
        let node = graph.producer(handle);
        if node.index() >= graph.len() {
            return None;
        }
        let is_handed_on = graph.op(node).name() == "Identity"
            || matches!(
                graph.flow(node),
                Some(Flow::Switch | Flow::Enter | Flow::Exit | Flow::NextIteration | Flow::Merge)
            );
        match graph.op(node).name() {
            "TensorArrayV2" | "TensorArrayV3" | "TensorArrayGradV2" | "TensorArrayGradV3" => {
                return Some(node);
            }
            _ if is_handed_on => {
                let comes_first = |&&input: &&TensorId| !graph.is_back_edge(graph.producer(input), node);
                handle = *graph.data_inputs(node).iter().find(comes_first)?;
            }
            _ => return None,
        }
    }
    None
}
