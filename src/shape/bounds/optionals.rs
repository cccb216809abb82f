//! What an optional may hold: a branch saves what its gradient needs in optionals, which hold nothing where the other branch was taken.

use crate::graph::{Graph, TensorId};
use crate::ops::Flow;

/// So many ops at most are between an optional's maker and who looks into it.
const MOST_PASSED: usize = 1024;

/// The tensors of which one is in an optional if anything is: its component of this number. None if that cannot be told.
pub(super) fn held(graph: &Graph, optional: TensorId, component: usize) -> Option<Vec<TensorId>> {
    let (mut open, mut held, mut passed) = (vec![optional], Vec::new(), 0);
    while let Some(tensor) = open.pop() {
        let node = graph.producer(tensor);
        passed += 1;
        if node.index() >= graph.len() || passed > MOST_PASSED {
            return None;
        }
        let inputs = graph.data_inputs(node);
        match (graph.op(node).name(), graph.flow(node)) {
            ("OptionalNone", _) => {}
            ("OptionalFromValue", _) => held.push(*inputs.get(component)?),
            ("Identity", _) | (_, Some(Flow::Switch)) => open.push(*inputs.first()?),
            (_, Some(Flow::Merge))
                if !inputs.iter().any(|&input| graph.is_back_edge(graph.producer(input), node)) =>
            {
                open.extend(inputs);
            }
            _ => return None,
        }
    }
    Some(held)
}
