//! An original op reads what it read, or all workers' means or rows of just that tensor.

use super::super::graph::{Graph, NONE, NodeId, Tensor};
use super::super::names::Input;
use super::super::report::{Report, ViolationKind};
use super::form::Formed;
use crate::format::Nodes;

/// An original input reads what it read, or all workers' of that; and control inputs are as they were.
pub(super) fn check(
    graph: &Graph<'_>,
    original: Nodes<'_>,
    pairs: &[NodeId],
    formed: &Formed,
    report: &mut Report,
) {
    for node in graph.ids().filter(|&node| pairs[node as usize] != NONE) {
        let before: Vec<(Input<'_>, NodeId)> = original
            .inputs(pairs[node as usize] as usize)
            .filter_map(|input| resolve(graph, input))
            .collect();
        let data: Vec<Tensor> = before
            .iter()
            .filter_map(|&(input, from)| match input {
                Input::Data(_, output) => Some(Tensor { node: from, output }),
                Input::Control(_) => None,
            })
            .collect();
        let control: Vec<NodeId> = before
            .iter()
            .filter(|(input, _)| matches!(input, Input::Control(_)))
            .map(|&(_, from)| from)
            .collect();
        let now = graph.data(node);
        if now.len() != data.len() {
            report.add(ViolationKind::InputCount, || {
                ([graph.name(node)], format!("{} data inputs", data.len()), format!("{}", now.len()))
            });
            continue;
        }
        for (&read, &was) in now.iter().zip(&data) {
            if read != was && formed.reduced.get(&read) != Some(&was) {
                report.add(ViolationKind::WrongTensor, || {
                    let expected = format!("`{}`, or all workers' of it", graph.tensor_name(was));
                    ([graph.name(node)], expected, format!("`{}`", graph.tensor_name(read)))
                });
            }
        }
        let controls: Vec<NodeId> = graph.control(node).iter().map(|control| control.from).collect();
        if controls != control {
            report.add(ViolationKind::LostControl, || {
                ([graph.name(node)], "the control inputs as they were".to_string(), "others".to_string())
            });
        }
    }
}

fn resolve<'a>(graph: &Graph<'_>, input: &'a str) -> Option<(Input<'a>, NodeId)> {
    let input = Input::parse(input)?;
    let (Input::Data(name, _) | Input::Control(name)) = input;
    graph.names.get(name).map(|&node| (input, node))
}
