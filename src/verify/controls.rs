//! Every control input of the original graph is still there.
//!
//! A control edge is an order that the program asked for: without it an op may run before the one it waits for. More
//! edges than before only narrow the orders that are possible; other rules look at what else they may do.

use super::graph::{Graph, NodeId};
use super::names::Input;
use super::report::{Report, ViolationKind};
use crate::format::Nodes;

/// Looks for the original control inputs of each changed node.
pub(super) fn check(graph: &Graph<'_>, original: Nodes<'_>, pairs: &[(NodeId, NodeId)], report: &mut Report) {
    for &(node, before) in pairs {
        // An original input cannot name an added op.
        let originals = graph.control(node).iter().filter(|control| graph.is_original(control.from));
        let mut now: Vec<&str> = originals.map(|control| graph.name(control.from)).collect();
        now.sort_unstable();
        for input in original.inputs(before as usize).filter(|input| input.starts_with('^')) {
            let kept = match Input::parse(input) {
                Some(Input::Control(from)) => now.binary_search(&from).is_ok(),
                _ => false,
            };
            if !kept {
                report.add(ViolationKind::LostControl, || {
                    ([graph.name(node)], format!("the control input `{input}`"), "it gone".to_string())
                });
            }
        }
    }
}
