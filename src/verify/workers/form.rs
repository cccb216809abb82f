//! What was added for several workers has the known form: which rule is for which op, by its name.
//!
//! What each is, is said where it is shown: the number of workers and their ranks (`ranks`), collectives and their keys
//! (`collectives`), means and rows of all workers (`reduces`), tensors laid end to end to be reduced together (`buckets`), and the
//! broadcast (`broadcast`). What an original op reads is `inputs`, and how a single op is compared `expected`.

use std::collections::{HashMap, HashSet};

use super::super::graph::{Graph, NONE, NodeId, Tensor};
use super::super::names::number;
use super::super::report::{Report, ViolationKind};
use super::{Place, inputs};
use crate::dtype::DataType;
use crate::format::Nodes;

/// Where the names of all that serves several workers begin.
pub(super) const PREFIX: &str = "lms/parallel/";

/// An op that all workers run together.
#[derive(Debug, Clone, Copy)]
pub(super) struct Together {
    pub node: NodeId,
    /// Whether steps run it, and not the broadcast.
    pub is_of_step: bool,
}

/// What was found.
#[derive(Debug, Default)]
pub(super) struct Formed {
    pub collectives: Vec<Together>,
    /// What a reduced tensor is of, by what is read in its place.
    pub reduced: HashMap<Tensor, Tensor>,
    /// Whether rows are gathered, by the tensor that they are of.
    pub gathered: HashSet<Tensor>,
}

pub(super) struct Former<'g, 'a> {
    pub graph: &'g Graph<'a>,
    pub report: &'g mut Report,
    pub formed: Formed,
    /// Which collective has a key, by its group and the key.
    pub keys: HashMap<(i64, i64), NodeId>,
    place: Place,
}

/// Looks at all that was added, and at all inputs of original nodes.
pub(super) fn check(
    graph: &Graph<'_>,
    original: Nodes<'_>,
    pairs: &[NodeId],
    place: Place,
    report: &mut Report,
) -> Formed {
    let mut former = Former { graph, report, place, formed: Formed::default(), keys: HashMap::new() };
    for node in graph.ids() {
        match pairs[node as usize] == NONE {
            true => former.added(node),
            false => former.shares_nothing(node),
        }
    }
    let Former { formed, report, .. } = former;
    inputs::check(graph, original, pairs, &formed, report);
    formed
}

impl Former<'_, '_> {
    fn added(&mut self, node: NodeId) {
        let name = self.graph.name(node);
        let Some(rest) = name.strip_prefix(PREFIX) else {
            return self.wrong(node, ViolationKind::UnknownAddedOp, "a name under lms/parallel/");
        };
        let of_step = rest.split_once('/').is_some_and(|(scope, _)| number(scope).is_some());
        let has_place = match self.place {
            Place::Graph => !matches!(rest, "count" | "set_count"),
            Place::Function => of_step || matches!(rest, "workers" | "count" | "hosts" | "gpus"),
            Place::AroundFunction => !of_step,
        };
        if !has_place {
            return self.wrong(node, ViolationKind::UnknownAddedOp, "an op that belongs into this graph");
        }
        match rest {
            "workers" if self.place == Place::Function => self.reads_count(node),
            "workers" | "rank" => self.placeholder(node),
            "count" => self.count(node),
            "set_count" => self.set_count(node),
            "hosts" | "gpus" | "zero" => {
                self.constant(node);
            }
            "is_first" => self.is_first(node),
            "one" => self.cast(node, DataType::BOOL, DataType::INT32, "lms/parallel/is_first"),
            "one_long" => self.cast(node, DataType::BOOL, DataType::INT64, "lms/parallel/is_first"),
            "loss" => self.loss(node),
            "broadcast" => self.all_assigned(node),
            "barrier" => self.barrier(node),
            _ if rest.ends_with("/key") => {
                self.constant(node);
            }
            _ => match rest.strip_prefix("broadcast/").and_then(|rest| rest.split_once('/')) {
                Some((number_, what)) if number(number_).is_some() => self.of_broadcast(node, number_, what),
                Some(_) => self.wrong(node, ViolationKind::AddedName, "lms/parallel/broadcast/<number>/…"),
                None => match rest.split_once('/') {
                    Some((scope, what)) if number(scope).is_some() => self.of_collective(node, scope, what),
                    _ => self.wrong(node, ViolationKind::UnknownAddedOp, "a known op under lms/parallel/"),
                },
            },
        }
    }
}
