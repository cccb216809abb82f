//! Conditions that shapes decide: `if tf.shape(x)[0] > 1`, or `if axis != tf.rank(x) - 1`.
//!
//! AutoGraph makes a branch of such an `if`, since what it asks is a tensor, though it is the same in each step.

use std::collections::BTreeSet;

use super::{Bounds, Shapes, values};
use crate::graph::{Graph, Liveness, TensorId, origin, truth_value};
use crate::ops::Flow;

/// How deep conditions are made of others, and how often one may go by what the branches of another give out.
const DEEPEST: u32 = 16;

/// What branches go by that constants and shapes decide, each with what it is.
pub fn decided_conditions(graph: &Graph, shapes: &Shapes) -> Vec<(TensorId, bool)> {
    let switches = graph.node_ids().filter(|&node| graph.flow(node) == Some(Flow::Switch));
    let predicates = switches.filter_map(|node| graph.data_inputs(node).get(1));
    let all: BTreeSet<TensorId> = predicates.map(|&predicate| origin(graph, predicate)).collect();
    // Most graphs have no branches, or such as only the run decides: these need no look at all of their sizes.
    let mut open: Vec<TensorId> = all.into_iter().filter(|&predicate| may_follow(graph, predicate)).collect();
    let mut found = Vec::new();
    // What a branch gives out is known once it is known which side is taken, and others may go by that.
    for _ in 0..DEEPEST {
        if open.is_empty() {
            break;
        }
        let mut bounds = Bounds { liveness: living(graph, &found), ..Bounds::new(graph, shapes) };
        bounds.find_all();
        let before = found.len();
        open.retain(|&predicate| match truth(&mut bounds, predicate, DEEPEST) {
            Some(truth) => {
                found.push((predicate, truth));
                false
            }
            None => true,
        });
        if found.len() == before {
            break;
        }
    }
    found
}

/// What runs, where some conditions are decided; none if none are.
pub(super) fn living(graph: &Graph, decided: &[(TensorId, bool)]) -> Option<Liveness> {
    (!decided.is_empty()).then(|| Liveness::of(graph, None, decided))
}

/// Whether what makes a predicate is one of the ops that [`truth`] knows.
fn may_follow(graph: &Graph, predicate: TensorId) -> bool {
    let node = graph.producer(predicate);
    let known = [
        "Const",
        "LogicalNot",
        "LogicalAnd",
        "LogicalOr",
        "Equal",
        "NotEqual",
        "Less",
        "LessEqual",
        "Greater",
        "GreaterEqual",
    ];
    node.index() < graph.len() && known.contains(&graph.op(node).name())
}

/// A truth value, if it is known.
fn truth(bounds: &mut Bounds, tensor: TensorId, deepest: u32) -> Option<bool> {
    let graph = bounds.graph;
    let deeper = deepest.checked_sub(1)?;
    let tensor = origin(graph, tensor);
    let node = graph.producer(tensor);
    if node.index() >= graph.len() {
        return None;
    }
    let inputs = graph.data_inputs(node);
    let op = graph.op(node).name();
    match (op, inputs) {
        ("Const", []) if bounds.shapes.get(tensor)?.is_empty() => truth_value(graph, node),
        ("LogicalNot", &[input]) => truth(bounds, input, deeper).map(|truth| !truth),
        ("LogicalAnd" | "LogicalOr", &[one, other]) => {
            // Either may decide alone.
            let decides = op == "LogicalOr";
            let truths = [one, other].map(|input| truth(bounds, input, deeper));
            match truths {
                [Some(one), Some(other)] if one == other => Some(one),
                truths => truths
                    .contains(&Some(decides))
                    .then_some(decides)
                    .or_else(|| truths.iter().all(Option::is_some).then_some(!decides)),
            }
        }
        ("Equal" | "NotEqual" | "Less" | "LessEqual" | "Greater" | "GreaterEqual", &[one, other]) => {
            let number = |bounds: &mut Bounds, input| match values::of(bounds, input)?[..] {
                [number] => number.exact(),
                _ => None,
            };
            let (one, other) = (number(bounds, one)?, number(bounds, other)?);
            Some(match op {
                "Equal" => one == other,
                "NotEqual" => one != other,
                "Less" => one < other,
                "LessEqual" => one <= other,
                "Greater" => one > other,
                _ => one >= other,
            })
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::{Model, ReadOptions};
    use crate::ops::OpRegistry;

    /// A node of 32 bit integers, `name op inputs`, of this shape.
    fn node(name: &str, op: &str, inputs: &[&str], shape: &str, attrs: &str) -> String {
        let inputs: String = inputs.iter().map(|input| format!("input: '{input}' ")).collect();
        format!(
            "node {{ name: '{name}' op: '{op}' {inputs} attr {{ key: 'T' value {{ type: DT_INT32 }} }} {attrs}
             attr {{ key: '_output_shapes' value {{ list {{ shape {{ {shape} }} }} }} }} }}\n"
        )
    }

    fn number(name: &str, number: i32) -> String {
        let value = format!("tensor {{ dtype: DT_INT32 tensor_shape {{}} int_val: {number} }}");
        let attrs = format!(
            "attr {{ key: 'dtype' value {{ type: DT_INT32 }} }} attr {{ key: 'value' value {{ {value} }} }}"
        );
        node(name, "Const", &[], "", &attrs)
    }

    /// What a branch's predicate is, of these nodes beside a tensor `x` of two dimensions and an unknown number `fed`.
    fn decided(nodes: &[String]) -> Option<bool> {
        decided_of(nodes)[1]
    }

    /// The same, behind what the node `first` is, if there is one.
    fn decided_of(nodes: &[String]) -> [Option<bool>; 2] {
        let fed = "attr { key: 'dtype' value { type: DT_INT32 } }";
        let text = [
            node("x", "Placeholder", &[], "dim { size: 3 } dim { size: 4 }", fed),
            node("fed", "Placeholder", &[], "", fed),
            node("rank", "Rank", &["x"], "", ""),
            node("size", "Size", &["x"], "", ""),
            number("one", 1),
            number("two", 2),
            nodes.concat(),
            node("switch", "Switch", &["x", "predicate"], "", ""),
        ]
        .concat();
        let model = Model::from_bytes("a graph", text.into_bytes(), &ReadOptions::default()).unwrap();
        let graph = Graph::of_model(&model, OpRegistry::builtin()).unwrap();
        let found = decided_conditions(&graph, &Shapes::declared(&graph));
        let is_of = |of: TensorId, name| graph.name(graph.producer(of)) == name;
        let of = |name| found.iter().find(|&&(of, _)| is_of(of, name)).map(|&(_, truth)| truth);
        [of("first"), of("predicate")]
    }

    fn asks(name: &str, op: &str, inputs: &[&str]) -> String {
        node(name, op, inputs, "", "")
    }

    #[test]
    fn what_ranks_and_sizes_are_compared_with_is_decided() {
        let compared = |op: &str, inputs: &[&str]| decided(&[asks("predicate", op, inputs)]);
        for (op, [less, equal, greater]) in [
            ("Equal", [false, true, false]),
            ("NotEqual", [true, false, true]),
            ("Less", [true, false, false]),
            ("LessEqual", [true, true, false]),
            ("Greater", [false, false, true]),
            ("GreaterEqual", [false, true, true]),
        ] {
            assert_eq!(compared(op, &["rank", "size"]), Some(less), "{op}");
            assert_eq!(compared(op, &["rank", "two"]), Some(equal), "{op}");
            assert_eq!(compared(op, &["size", "one"]), Some(greater), "{op}");
            assert_eq!(compared(op, &["rank", "fed"]), None, "{op}");
        }
    }

    #[test]
    fn what_a_decided_branch_gives_out_decides_others() {
        let nodes = |number: &str| {
            decided_of(&[
                asks("first", "Less", &["one", "two"]),
                node("taken", "Switch", &["two", "first"], "", ""),
                node("left", "Switch", &[number, "first"], "", ""),
                node("either", "Merge", &["taken:1", "left"], "", "attr { key: 'N' value { i: 2 } }"),
                asks("predicate", "Equal", &["either", "rank"]),
            ])
        };
        assert_eq!(nodes("one"), [Some(true), Some(true)]);
        assert_eq!(nodes("fed"), [Some(true), Some(true)]);
        let undecided = decided_of(&[
            asks("first", "Less", &["fed", "two"]),
            node("taken", "Switch", &["two", "first"], "", ""),
            node("left", "Switch", &["one", "first"], "", ""),
            node("either", "Merge", &["taken:1", "left"], "", "attr { key: 'N' value { i: 2 } }"),
            asks("predicate", "Equal", &["either", "rank"]),
        ]);
        assert_eq!(undecided, [None, None]);
    }

    #[test]
    fn of_two_conditions_one_may_decide() {
        let made = |op: &str, inputs: &[&str]| {
            decided(&[
                asks("yes", "Less", &["one", "two"]),
                asks("no", "LogicalNot", &["yes"]),
                asks("unknown", "Less", &["fed", "two"]),
                asks("predicate", op, inputs),
            ])
        };
        assert_eq!(made("LogicalAnd", &["yes", "yes"]), Some(true));
        assert_eq!(made("LogicalAnd", &["yes", "no"]), Some(false));
        assert_eq!(made("LogicalAnd", &["unknown", "no"]), Some(false));
        assert_eq!(made("LogicalAnd", &["unknown", "yes"]), None);
        assert_eq!(made("LogicalOr", &["no", "no"]), Some(false));
        assert_eq!(made("LogicalOr", &["no", "yes"]), Some(true));
        assert_eq!(made("LogicalOr", &["yes", "unknown"]), Some(true));
        assert_eq!(made("LogicalOr", &["no", "unknown"]), None);
    }
}
