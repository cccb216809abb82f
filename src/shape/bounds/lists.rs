//! How many elements a list of tensors has, where the op that made it was told.
//!
//! A `TensorArray` of TensorFlow 2 is such a list. What stacks it does not say how many elements there are if the program took their number
//! from a tensor, `tf.shape(x)[1]`, though that is known where `x` is.

use super::{Bounds, Most};
use crate::graph::{Graph, NodeId, TensorId};
use crate::ops::{Attr, AttrLookup, Flow};

/// So many ops at most are between a list's maker and who stacks it.
const MOST_PASSED: usize = 1024;

/// What is found going back from a list.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Begin {
    /// The op that made it.
    Made(NodeId),
    /// The `Merge` of a loop that was gone back from.
    Loop,
}

/// The stacked elements of a list are at most so large. What an element is the inference says, or else what is put in.
pub(super) fn stacked(bounds: &mut Bounds, node: NodeId) -> Option<Most> {
    let graph = bounds.graph;
    let known = bounds.shapes.get(graph.outputs(node).next()?)?.to_vec();
    let list = *graph.data_inputs(node).first()?;
    let (mut item, mut passed) = (None, 0);
    let Begin::Made(maker) = begin(graph, list, None, &mut item, &mut passed)? else { return None };
    let count = match graph.op(maker).name() {
        "TensorListReserve" => *bounds.most_values(maker, 1).filter(|count| count.len() == 1)?.first()?,
        "TensorListFromTensor" => *bounds.input(maker, 0)?.first()?,
        _ => return None,
    };
    let element = item.and_then(|item| bounds.most(item)).filter(|item| item.len() + 1 == known.len());
    let rest = known.iter().enumerate().skip(1).map(|(at, &size)| match size {
        0.. => Some(size),
        _ => element.as_ref()?.get(at - 1).copied(),
    });
    std::iter::once(Some(count)).chain(rest).collect()
}

/// Where a list comes from that only has elements replaced on its way, or is added to others as long as it. `item` becomes one that is put in.
fn begin(
    graph: &Graph,
    mut list: TensorId,
    stop: Option<NodeId>,
    item: &mut Option<TensorId>,
    passed: &mut usize,
) -> Option<Begin> {
    loop {
        let node = graph.producer(list);
        *passed += 1;
        if node.index() >= graph.len() || *passed > MOST_PASSED {
            return None;
        }
        let inputs = graph.data_inputs(node);
        let grows = || graph.attrs(node).attr("resize_if_index_out_of_bounds") == Some(Attr::Bool(true));
        match (graph.op(node).name(), graph.flow(node)) {
            ("TensorListReserve" | "TensorListFromTensor", _) => return Some(Begin::Made(node)),
            ("TensorListSetItem", _) if !grows() => {
                *item = item.or(inputs.get(2).copied());
                list = *inputs.first()?;
            }
            ("Identity" | "ZerosLike" | "AddN", _)
            | (_, Some(Flow::Switch | Flow::Enter | Flow::Exit | Flow::NextIteration)) => {
                list = *inputs.first()?;
            }
            (_, Some(Flow::Merge)) if stop == Some(node) => return Some(Begin::Loop),
            (_, Some(Flow::Merge)) => {
                let is_back = |&input: &TensorId| graph.is_back_edge(graph.producer(input), node);
                let (back, forward): (Vec<TensorId>, Vec<TensorId>) =
                    inputs.iter().partition(|&input| is_back(input));
                let (&[back], &[forward]) = (&*back, &*forward) else { return None };
                // What the loop hands on must be the list that it got.
                if begin(graph, back, Some(node), item, passed)? != Begin::Loop {
                    return None;
                }
                list = forward;
            }
            _ => return None,
        }
    }
}
