//! How many elements a list of tensors has, where the op that made it was told.
//!
//! A `TensorArray` of TensorFlow 2 is such a list. What stacks it does not say how many elements there are if the program took their number
//! from a tensor, `tf.shape(x)[1]`, though that is known where `x` is. One with `dynamic_size` grows as it is written to: it has as many
//! elements as the last place says, which a loop's counter bounds.

use super::{Bounds, Most, values};
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

/// What is seen on the way back from a list to its maker.
#[derive(Debug, Default)]
struct Way {
    /// An element that is put in.
    item: Option<TensorId>,
    /// The places at which elements are put in that may make the list longer.
    places: Vec<TensorId>,
    /// How many ops are on the way.
    passed: usize,
}

/// The stacked elements of a list are at most so large. What an element is the inference says, or else what is put in.
pub(super) fn stacked(bounds: &mut Bounds, node: NodeId) -> Option<Most> {
    let graph = bounds.graph;
    let known = bounds.shapes.get(graph.outputs(node).next()?).map(<[i64]>::to_vec);
    let list = *graph.data_inputs(node).first()?;
    let mut way = Way::default();
    let Begin::Made(maker) = begin(graph, list, None, &mut way)? else { return None };
    let mut count = match graph.op(maker).name() {
        "TensorListReserve" => number(bounds.most_values(maker, 1))?,
        "TensorListFromTensor" => *bounds.input(maker, 0)?.first()?,
        _ => return None,
    };
    for place in way.places {
        let last =
            number(values::of(bounds, place).map(|last| last.iter().map(|last| last.at_most).collect()))?;
        count = count.max(last.checked_add(1)?);
        bounds.is_exact.set(false);
    }
    let element = way.item.and_then(|item| bounds.most(item));
    let Some(known) = known else {
        return Some(std::iter::once(count).chain(element?).collect());
    };
    let element = element.filter(|item| item.len() + 1 == known.len());
    let rest = known.iter().enumerate().skip(1).map(|(at, &size)| match size {
        0.. => Some(size),
        _ => element.as_ref()?.get(at - 1).copied(),
    });
    std::iter::once(Some(count)).chain(rest).collect()
}

/// The only one of these.
fn number(numbers: Option<Most>) -> Option<i64> {
    let &[number] = &*numbers? else { return None };
    Some(number)
}

/// Where a list comes from that only has elements put in on its way, or is added to others as long as it.
fn begin(graph: &Graph, mut list: TensorId, stop: Option<NodeId>, way: &mut Way) -> Option<Begin> {
    loop {
        let node = graph.producer(list);
        way.passed += 1;
        if node.index() >= graph.len() || way.passed > MOST_PASSED {
            return None;
        }
        let inputs = graph.data_inputs(node);
        match (graph.op(node).name(), graph.flow(node)) {
            ("TensorListReserve" | "TensorListFromTensor", _) => return Some(Begin::Made(node)),
            ("TensorListSetItem", _) => {
                let &[before, place, item] = inputs else { return None };
                if graph.attrs(node).attr("resize_if_index_out_of_bounds") == Some(Attr::Bool(true)) {
                    way.places.push(place);
                }
                way.item = way.item.or(Some(item));
                list = before;
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
                if begin(graph, back, Some(node), way)? != Begin::Loop {
                    return None;
                }
                list = forward;
            }
            _ => return None,
        }
    }
}
