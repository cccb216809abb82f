//! In front of which steps to reduce.
//!
//! First each gradient is followed back as far as ops are known. That may lead into the backward pass, or even the forward one: an op of
//! the backward pass multiplies too. What tells them apart is the other factor. Behind the backward pass it depends on data only
//! by way of the gradients themselves (a norm of them, whether they are finite); within it depends on activations. So: take all
//! ends of the ways for reduced; where a step's other inputs still depend on data, it belongs to the backward pass, and the way ends
//! behind it. That goes on, from the first such op of the graph to the last, until nothing changes.
//!
//! Then each way has some steps that are behind the backward pass, and the reduce goes in front of the first of these, seen from the
//! loss, that is not linear or whose other inputs depend on gradients. If there is none, it is what the update itself reads.

use std::collections::{BTreeMap, BTreeSet, HashSet};

use super::ParallelError;
use super::depends::{self, Marks, is_marked};
use super::ops::{Effect, can_gather, can_reduce, ends_backward, moves_values};
use super::spine::{Choices, Spine, StepBack, candidates};
use super::updates;
use crate::graph::{Condition, FrameId, NodeId, TensorId};
use crate::plan::Analysis;

/// Where to reduce, and who reads what is reduced.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Cut {
    pub tensor: TensorId,
    /// Of a sparse gradient: the indices of its rows.
    pub indices: Option<TensorId>,
    pub consumers: BTreeSet<NodeId>,
    pub index_consumers: BTreeSet<NodeId>,
}

/// The ways back, and how far each goes.
struct Ways<'a, 'g> {
    analysis: &'a Analysis<'g>,
    sources: Marks,
    marks: Marks,
    spines: Vec<Spine>,
    /// How many steps of each way are taken.
    lengths: Vec<usize>,
    /// What is written to variables and depends on data by way of others' gradients alone.
    followers: Vec<TensorId>,
}

/// Finds where to reduce, by tensor.
pub(super) fn find(analysis: &Analysis) -> Result<Vec<Cut>, ParallelError> {
    let sources = depends::sources(analysis);
    let marks = depends::spread(analysis, &sources, |_| false);
    let applied = updates::find(analysis, &marks)?;
    if applied.is_empty() {
        return Err(ParallelError::NothingTrained);
    }
    let mut choices = Choices::new();
    let mut ways = loop {
        let spines: Vec<Spine> =
            applied.iter().map(|&applied| Spine::walk(analysis, &marks, &choices, applied)).collect();
        let lengths = spines.iter().map(|spine| spine.steps.len()).collect();
        let (sources, marks, followers) = (sources.clone(), marks.clone(), Vec::new());
        let mut ways = Ways { analysis, sources, marks, spines, lengths, followers };
        ways.drop_followers();
        match ways.shorten(&choices) {
            None => break ways,
            // This op's other input may be the one along which the gradient came.
            Some(node) => *choices.entry(node).or_default() += 1,
        }
    };
    ways.check_ends()?;
    let lengths = ways.places();
    ways.lengths = lengths;
    ways.cuts()
}

impl Ways<'_, '_> {
    /// Leaves out what an assignment takes if it is the same on all workers once the others' gradients are: the scale of a loss, a
    /// weight that is computed from its average gradient.
    fn drop_followers(&mut self) {
        let mut at = 0;
        while at < self.spines.len() {
            let applied = self.spines[at].applied;
            let graph = self.analysis.graph;
            let end = graph.producer(self.spines[at].tensor(self.lengths[at]));
            let may_follow = updates::is_assignment(graph, applied.update)
                || applied.indices.is_none() && !is_end(graph.op(end).name());
            if !may_follow || self.spines.len() == 1 {
                at += 1;
                continue;
            }
            let (spine, length) = (self.spines.remove(at), self.lengths.remove(at));
            let (marks, ends) = (self.remaining(&self.lengths), self.ends(&self.lengths));
            if ends.contains(&applied.tensor) || !is_marked(self.analysis.graph, &marks, applied.tensor) {
                self.followers.push(applied.tensor);
            } else {
                self.spines.insert(at, spine);
                self.lengths.insert(at, length);
                at += 1;
            }
        }
    }

    /// Takes steps off that belong to the backward pass. An op of which another input might be the gradient's, if one is met.
    fn shorten(&mut self, choices: &Choices) -> Option<NodeId> {
        let graph = self.analysis.graph;
        let mut place = vec![0u32; graph.len()];
        for (at, node) in (0..).zip(graph.topological()) {
            if node.index() < graph.len() {
                place[node.index()] = at;
            }
        }
        loop {
            let (marks, ends) = (self.remaining(&self.lengths), self.ends(&self.lengths));
            // The first such op of the graph: what comes behind it may depend on data because of it alone.
            let mut first: Option<(u32, usize, usize)> = None;
            for (way, spine) in self.spines.iter().enumerate() {
                for (at, step) in spine.steps[..self.lengths[way]].iter().enumerate() {
                    let found = (place[step.node.index()], way, at);
                    if first.is_none_or(|first| found < first) && self.others_marked((&marks, &ends), step) {
                        first = Some(found);
                    }
                }
            }
            let (_, way, at) = first?;
            let spine = &self.spines[way];
            let node = spine.steps[at].node;
            let sparse = spine.applied.indices.is_some();
            let inputs = candidates(self.analysis, &self.marks, spine.tensor(at), sparse).len();
            let chosen = choices.get(&node).copied().unwrap_or(0);
            if chosen + 1 < inputs {
                return Some(node);
            }
            for (spine, length) in self.spines.iter().zip(&mut self.lengths) {
                let taken = spine.steps[..*length].iter().position(|step| step.node == node);
                *length = taken.unwrap_or(*length);
            }
        }
    }

    /// What depends on data if these are reduced.
    fn remaining(&self, lengths: &[usize]) -> Marks {
        let ends = self.ends(lengths);
        depends::spread(self.analysis, &self.sources, |tensor| ends.contains(&tensor))
    }

    /// The tensors at the ends of the ways, and the indices of sparse ones.
    fn ends(&self, lengths: &[usize]) -> HashSet<TensorId> {
        let ends =
            self.spines.iter().zip(lengths).flat_map(|(spine, &length)| {
                [Some(spine.tensor(length)), spine.indices].into_iter().flatten()
            });
        ends.collect()
    }

    /// Whether a step has other inputs that depend on data although the ends are reduced.
    fn others_marked(&self, (marks, ends): (&Marks, &HashSet<TensorId>), step: &StepBack) -> bool {
        let graph = self.analysis.graph;
        let mut inputs = graph.data_inputs(step.node).iter().enumerate();
        inputs.any(|(slot, input)| {
            slot != step.slot && is_marked(graph, marks, *input) && !ends.contains(input)
        })
    }

    /// Whether each way ends where a backward pass does.
    fn check_ends(&self) -> Result<(), ParallelError> {
        let graph = self.analysis.graph;
        for (spine, &length) in self.spines.iter().zip(&self.lengths) {
            let tensor = spine.tensor(length);
            let node = graph.producer(tensor);
            let not_understood = |node: NodeId, why| ParallelError::NotUnderstood {
                update: graph.name(spine.applied.update).to_string(),
                node: graph.name(node).to_string(),
                op: graph.op(node).name().to_string(),
                why,
            };
            let op = graph.op(node).name();
            let is_merge = op == "Merge" && self.merge_is_of_settings(node);
            if !(is_end(op) || is_merge) {
                return Err(not_understood(
                    node,
                    "it is not known to be linear in the gradient, nor where one begins",
                ));
            }
            let adds_up =
                spine.steps.iter().position(|step| graph.op(step.node).name() == "UnsortedSegmentSum");
            if let Some(at) = adds_up.filter(|&at| at >= length) {
                return Err(not_understood(
                    spine.steps[at].node,
                    "rows of equal indices are added up where their number differs between workers",
                ));
            }
            let has_unique = spine.applied.indices != spine.indices;
            if has_unique && adds_up.is_none() {
                return Err(not_understood(node, "its rows do not lead back to those of its indices"));
            }
        }
        Ok(())
    }

    /// Whether all that decides which input a `Merge` takes is the same on all workers.
    fn merge_is_of_settings(&self, merge: NodeId) -> bool {
        let graph = self.analysis.graph;
        let mut open: Vec<NodeId> = graph.predecessors(merge).collect();
        let mut seen = HashSet::new();
        while let Some(node) = open.pop() {
            if node.index() >= graph.len() || !seen.insert(node) {
                continue;
            }
            if graph.op(node).name() == "Switch" {
                let predicate = graph.data_inputs(node).get(1);
                if predicate.is_none_or(|&predicate| is_marked(graph, &self.marks, predicate)) {
                    return false;
                }
            }
            if self.analysis.flow.condition(node) != Condition::ALWAYS {
                open.extend(graph.predecessors(node));
            }
        }
        true
    }

    /// How many steps back each reduce goes.
    fn places(&self) -> Vec<usize> {
        let nothing = HashSet::new();
        let place = |(spine, &length): (&Spine, &usize)| {
            let matters = |step: &StepBack| {
                step.effect == Effect::NotLinear || self.others_marked((&self.marks, &nothing), step)
            };
            spine.steps[..length].iter().rposition(matters).map_or(0, |at| at + 1)
        };
        let mut places: Vec<usize> = self.spines.iter().zip(&self.lengths).map(place).collect();
        for (place, (spine, &length)) in places.iter_mut().zip(self.spines.iter().zip(&self.lengths)) {
            // Steps that are taken under a condition can be linear as well; the reduce goes in front of that.
            while *place < length && self.when(spine.tensor(*place)).is_some() {
                *place += 1;
            }
        }
        // A factor may depend on a gradient further back than where that one is reduced.
        let (marks, ends) = (self.remaining(&places), self.ends(&places));
        let mut taken = self.spines.iter().zip(&places).flat_map(|(spine, &length)| &spine.steps[..length]);
        let unclean = taken.any(|step| self.others_marked((&marks, &ends), step))
            || self
                .followers
                .iter()
                .any(|tensor| is_marked(self.analysis.graph, &marks, *tensor) && !ends.contains(tensor));
        if unclean { self.lengths.clone() } else { places }
    }

    /// The tensors to reduce and their readers behind the backward pass.
    fn cuts(&self) -> Result<Vec<Cut>, ParallelError> {
        let graph = self.analysis.graph;
        let mut cuts: BTreeMap<(TensorId, Option<TensorId>), Cut> = BTreeMap::new();
        for (spine, &length) in self.spines.iter().zip(&self.lengths) {
            let (tensor, indices) = (spine.tensor(length), spine.indices);
            let new = Cut { tensor, indices, consumers: BTreeSet::new(), index_consumers: BTreeSet::new() };
            self.check(&new)?;
            cuts.entry((tensor, indices)).or_insert(new);
        }
        let (readers, is_read) = self.behind();
        let mut cuts: Vec<Cut> = cuts.into_values().collect();
        let mut taken = HashSet::new();
        let readers_of = |tensor: TensorId| -> BTreeSet<NodeId> {
            readers.iter().filter(|&&(read, _)| read == tensor).map(|&(_, node)| node).collect()
        };
        for cut in &mut cuts {
            cut.consumers = readers_of(cut.tensor);
            cut.index_consumers = cut.indices.map(readers_of).unwrap_or_default();
            let twice =
                [Some(cut.tensor), cut.indices].into_iter().flatten().find(|&tensor| !taken.insert(tensor));
            if let Some(tensor) = twice {
                let (node, update) = (graph.producer(tensor), cut.consumers.iter().next());
                return Err(ParallelError::NotUnderstood {
                    update: update.map_or(String::new(), |&update| graph.name(update).to_string()),
                    node: graph.name(node).to_string(),
                    op: graph.op(node).name().to_string(),
                    why: "several gradients share their rows or their indices, or one is both dense and sparse",
                });
            }
        }
        // What is left must be the same on all workers.
        let marks = self.remaining(&self.lengths);
        let ends = self.ends(&self.lengths);
        let left = is_read.into_iter().find(|&(node, tensor)| {
            is_marked(graph, &marks, tensor) && !ends.contains(&tensor) && updates::may_write(graph, node)
        });
        match left {
            None => Ok(cuts),
            Some((update, tensor)) => {
                let node = graph.producer(tensor);
                Err(ParallelError::NotUnderstood {
                    update: graph.name(update).to_string(),
                    node: graph.name(node).to_string(),
                    op: graph.op(node).name().to_string(),
                    why: "it depends on data otherwise than by gradients",
                })
            }
        }
    }

    /// Whether all workers can reduce it in each step.
    fn check(&self, cut: &Cut) -> Result<(), ParallelError> {
        let graph = self.analysis.graph;
        let name = graph.tensor_name(cut.tensor).to_string();
        for tensor in [Some(cut.tensor), cut.indices].into_iter().flatten() {
            if let Some(why) = self.when(tensor) {
                return Err(ParallelError::Conditional {
                    tensor: graph.tensor_name(tensor).to_string(),
                    why,
                });
            }
        }
        let dtype = graph.output_type(cut.tensor).dtype;
        let index_type = cut.indices.map(|indices| graph.output_type(indices).dtype);
        let fits = match index_type {
            None => can_reduce(dtype),
            Some(indices) => can_reduce(dtype) && can_gather(dtype) && can_gather(indices),
        };
        if fits {
            Ok(())
        } else {
            Err(ParallelError::GradientType { tensor: name, dtype: dtype.to_string() })
        }
    }

    /// Why a tensor is not made exactly once in each step; none if it is.
    fn when(&self, tensor: TensorId) -> Option<&'static str> {
        let flow = &self.analysis.flow;
        let node = self.analysis.graph.producer(tensor);
        if flow.output_frame(node) != FrameId::TOP {
            return Some("is made within a loop");
        }
        let is_conditional = flow.tensor_condition(self.analysis.graph, tensor) != Condition::ALWAYS;
        is_conditional.then_some("is made under a condition")
    }

    /// Who reads reduced tensors on the way to an update, and all reads on that way.
    #[allow(clippy::type_complexity)]
    fn behind(&self) -> (BTreeSet<(TensorId, NodeId)>, Vec<(NodeId, TensorId)>) {
        let graph = self.analysis.graph;
        let is_update = |&node: &NodeId| self.analysis.step.contains(node) && updates::may_write(graph, node);
        let mut open: Vec<NodeId> = graph.node_ids().filter(is_update).collect();
        let ends = self.ends(&self.lengths);
        let (mut readers, mut reads) = (BTreeSet::new(), Vec::new());
        let mut seen = vec![false; graph.len()];
        while let Some(node) = open.pop() {
            if node.index() >= graph.len() || std::mem::replace(&mut seen[node.index()], true) {
                continue;
            }
            for &tensor in graph.data_inputs(node) {
                reads.push((node, tensor));
                if ends.contains(&tensor) {
                    readers.insert((tensor, node));
                } else {
                    open.push(graph.producer(tensor));
                }
            }
        }
        (readers, reads)
    }
}

/// Whether a way back may end in such an op.
fn is_end(op: &str) -> bool {
    ends_backward(op) || moves_values(op)
}
