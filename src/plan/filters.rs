//! Which ops a user lets take part.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::graph::{Graph, NodeId};

/// A choice of ops by the beginning of their names and by their types.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct NameOrType {
    /// Beginnings of names.
    pub scopes: Vec<String>,
    /// Op types.
    pub types: Vec<String>,
}

impl NameOrType {
    fn is_empty(&self) -> bool {
        self.scopes.is_empty() && self.types.is_empty()
    }

    /// What chooses an op: by its name, or by its type.
    fn entry(&self, graph: &Graph, node: NodeId) -> Option<Entry<'_>> {
        if self.is_empty() {
            return None;
        }
        let name = graph.name(node);
        let scope = self.scopes.iter().find(|scope| name.starts_with(scope.as_str()));
        let of_type = || self.types.iter().find(|op| graph.op(node).name() == *op);
        scope.map(|scope| Entry::Scope(scope)).or_else(|| of_type().map(|op| Entry::Type(op)))
    }
}

/// One entry of a choice.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Entry<'a> {
    Scope(&'a str),
    Type(&'a str),
}

/// What a filter is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Side {
    /// The producers of what leaves.
    Output,
    /// The consumers of what comes back.
    Input,
}

/// The filter that keeps an op out, by the name of its flag.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Refusal<'a> {
    side: Side,
    cause: Cause<'a>,
}

/// Why a filter keeps an op out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Cause<'a> {
    ExcludedBy(Entry<'a>),
    NotAmong(&'a NameOrType),
}

impl fmt::Display for Refusal<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let side = match self.side {
            Side::Output => "output",
            Side::Input => "input",
        };
        match self.cause {
            Cause::ExcludedBy(Entry::Scope(scope)) => write!(f, "--excl-{side}-by-scopes {scope}"),
            Cause::ExcludedBy(Entry::Type(op)) => write!(f, "--excl-{side}-by-types {op}"),
            Cause::NotAmong(included) => {
                let given = [("scopes", &included.scopes), ("types", &included.types)];
                let given = given.iter().filter(|(_, entries)| !entries.is_empty());
                let flags: Vec<String> = given
                    .map(|(by, entries)| format!("--incl-{side}-by-{by} {}", entries.join(",")))
                    .collect();
                f.write_str(&flags.join(" and "))
            }
        }
    }
}

/// The eight filters of TFLMS: whose outputs may leave, and for whom they may come back.
///
/// An op that is excluded is out. Where something is included, what is not included is out too.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Filters {
    /// Producers whose outputs stay.
    pub exclude_output_by: NameOrType,
    /// The only producers whose outputs may leave.
    pub include_output_by: NameOrType,
    /// Consumers that go on reading the original.
    pub exclude_input_by: NameOrType,
    /// The only consumers that may read what came back.
    pub include_input_by: NameOrType,
}

impl Filters {
    /// Whether an op's outputs may leave.
    pub fn admit_producer(&self, graph: &Graph, node: NodeId) -> bool {
        self.refuse_producer(graph, node).is_none()
    }

    /// Whether an op may read what came back.
    pub fn admit_consumer(&self, graph: &Graph, node: NodeId) -> bool {
        self.refuse_consumer(graph, node).is_none()
    }

    /// The filter for which an op's outputs may not leave, if there is one.
    pub fn refuse_producer(&self, graph: &Graph, node: NodeId) -> Option<Refusal<'_>> {
        refuse((&self.exclude_output_by, &self.include_output_by), Side::Output, graph, node)
    }

    /// The filter for which an op may not read what came back, if there is one.
    pub fn refuse_consumer(&self, graph: &Graph, node: NodeId) -> Option<Refusal<'_>> {
        refuse((&self.exclude_input_by, &self.include_input_by), Side::Input, graph, node)
    }
}

fn refuse<'a>(
    (excluded, included): (&'a NameOrType, &'a NameOrType),
    side: Side,
    graph: &Graph,
    node: NodeId,
) -> Option<Refusal<'a>> {
    let excluded_by = excluded.entry(graph, node).map(Cause::ExcludedBy);
    let is_included = || included.is_empty() || included.entry(graph, node).is_some();
    let cause = excluded_by.or_else(|| (!is_included()).then_some(Cause::NotAmong(included)))?;
    Some(Refusal { side, cause })
}
