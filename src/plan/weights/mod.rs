//! Weights: what is the same in each step, and need not be on a GPU for longer than it is read.
//!
//! A constant, or a variable that steps only read, keeps its memory from the first step to the last. On the host it can stay for
//! good, and is copied to the GPU in each step for those who read it. For that the ops that keep it go to the host: these compute
//! nothing, so that what they give is the same to the bit wherever they run.

#[cfg(test)]
mod tests;

use std::collections::{HashMap, HashSet};

use super::Analysis;
use crate::dtype::DataType;
use crate::graph::{Graph, NodeId, TensorId, Use};
use crate::ops::{Fact, OpInfo};
use crate::order::{Place, Placement};

/// A value that no step changes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Weight {
    /// The ops that go to the host together, in the order of the file: what keeps the value, what assigns it, what passes it on.
    pub ops: Vec<NodeId>,
    /// What ops on GPUs read.
    pub tensors: Vec<TensorId>,
    /// The size of the value in bytes.
    pub bytes: u64,
}

/// Whether all that an op does is to keep a value, to assign it, or to pass it on.
///
/// [`weights`] moves no others, as kernels of different devices may round differently.
pub fn computes_nothing(op: &OpInfo) -> bool {
    [Fact::KeepsValue, Fact::HandsValueOn, Fact::Assigns, Fact::AsksForValue]
        .iter()
        .any(|&fact| op.facts().has(fact))
}

/// All weights that a graph's GPUs keep and that can be on the host, in the order of the file. `is_constant` says of each node whether
/// it is the same in all steps, and so computed beforehand.
///
/// Of a variable, all that works on it goes along, as it must be where the variable is; one that others work on (an optimizer, say)
/// stays, and so does what something is computed from beforehand.
pub fn weights(analysis: &Analysis, placement: &Placement, is_constant: &[bool]) -> Vec<Weight> {
    let graph = analysis.graph;
    let colocated = Colocated::of(graph);
    let finder = Finder { analysis, placement, is_constant, colocated: &colocated };
    let is_kept = |&node: &NodeId| {
        graph.op(node).facts().has(Fact::KeepsValue)
            && placement.op(node) != Place::Host
            && graph.outputs(node).all(|tensor| {
                let is_handle = graph.output_type(tensor).dtype == DataType::RESOURCE;
                is_handle || placement.output(tensor) != Place::Host
            })
    };
    graph.node_ids().filter(is_kept).filter_map(|node| finder.weight(node)).collect()
}

struct Finder<'a> {
    analysis: &'a Analysis<'a>,
    placement: &'a Placement,
    is_constant: &'a [bool],
    colocated: &'a Colocated<'a>,
}

/// What a reader is to a weight that may go.
enum Reading {
    /// It goes along.
    GoesAlong,
    /// A GPU wants the value in each step.
    OnGpu,
    /// It can be where it is, wherever the value is.
    Elsewhere,
    /// It keeps the weight where it is.
    Forbids,
}

impl Finder<'_> {
    /// The weight that an op keeps; none if it cannot go.
    fn weight(&self, keeper: NodeId) -> Option<Weight> {
        let graph = self.analysis.graph;
        let mut ops = vec![keeper];
        let mut seen = HashSet::from([keeper]);
        let mut tensors: Vec<TensorId> = Vec::new();
        let mut next = 0;
        while let Some(&node) = ops.get(next) {
            next += 1;
            for tensor in graph.outputs(node) {
                for &reader in graph.uses(tensor) {
                    match self.reading(tensor, reader) {
                        // Two edges may lead to one op.
                        Reading::GoesAlong if seen.insert(reader.node) => ops.push(reader.node),
                        Reading::OnGpu if tensors.last() != Some(&tensor) => tensors.push(tensor),
                        Reading::Forbids => return None,
                        _ => {}
                    }
                }
            }
        }
        let is_changed =
            |&node: &NodeId| graph.op(node).facts().has(Fact::Assigns) && self.analysis.step.contains(node);
        let bytes = tensors.iter().filter_map(|&tensor| self.analysis.sizes.bytes(tensor)).max()?;
        if bytes == 0 || ops.iter().any(is_changed) || !self.colocated.allows(graph, &seen) {
            return None;
        }
        ops.retain(|&node| !graph.device(node).is_cpu());
        ops.sort_unstable();
        Some(Weight { ops, tensors, bytes })
    }

    fn reading(&self, tensor: TensorId, reader: Use) -> Reading {
        let graph = self.analysis.graph;
        let op = graph.op(reader.node);
        let output = graph.output_type(tensor);
        let is_on_host = self.placement.op(reader.node) == Place::Host;
        if output.is_ref || output.dtype == DataType::RESOURCE {
            return match reader.slot == 0 && computes_nothing(op) {
                true => Reading::GoesAlong,
                // What a reference leads to can be read anywhere on the host: so checkpoints are written.
                false if output.is_ref && is_on_host => Reading::Elsewhere,
                false => Reading::Forbids,
            };
        }
        if op.facts().has(Fact::HandsValueOn) && !is_on_host {
            return Reading::GoesAlong;
        }
        if !self.analysis.step.contains(reader.node) {
            return Reading::Elsewhere;
        }
        match self.placement.inputs(reader.node).get(reader.slot as usize) {
            _ if self.is_constant[reader.node.index()] => Reading::Forbids,
            Some(Place::Gpu(_)) => Reading::OnGpu,
            _ => Reading::Elsewhere,
        }
    }
}

/// Which ops must be in the same place as which others (`_class`, as `loc:@NAME`).
struct Colocated<'a> {
    by_name: HashMap<&'a str, NodeId>,
    /// The ops that name an op.
    naming: HashMap<NodeId, Vec<NodeId>>,
}

impl<'a> Colocated<'a> {
    fn of(graph: &'a Graph) -> Colocated<'a> {
        let by_name: HashMap<&str, NodeId> = graph.node_ids().map(|node| (graph.name(node), node)).collect();
        let mut naming: HashMap<NodeId, Vec<NodeId>> = HashMap::new();
        for node in graph.node_ids() {
            for name in graph.attrs(node).colocated_with() {
                if let Some(&named) = by_name.get(&*name) {
                    naming.entry(named).or_default().push(node);
                }
            }
        }
        Colocated { by_name, naming }
    }

    /// Whether these ops can go, and those that have to be with them stay: which are where they are by their own devices too.
    fn allows(&self, graph: &Graph, ops: &HashSet<NodeId>) -> bool {
        let goes_with = |node: NodeId| {
            let named = graph.attrs(node).colocated_with();
            named.iter().filter_map(|name| self.by_name.get(&**name)).all(|other| ops.contains(other))
        };
        ops.iter().all(|&node| {
            let mut naming = self.naming.get(&node).into_iter().flatten();
            goes_with(node)
                && naming.all(|&other| {
                    let stays_as_it_is = graph.device(other) == graph.device(node) && goes_with(other);
                    ops.contains(&other) || stays_as_it_is
                })
        })
    }
}
