//! Calls at the top level, and in what was traced in a graph of version 1, that run as a whole.
//!
//! A function that was traced by `tf.function` says which of its ops are its effects, and its callers say the same of their calls. A graph of
//! version 1 says nothing: there a call brings all effects of its function, since it is one op.

use super::library::Library;
use crate::dtype::DataType;
use crate::format::Nodes;
use crate::graph::NodeAttrs;
use crate::ops::{AttrLookup, OpRegistry};

impl Library<'_> {
    /// Says of calls that they are whole, and has them waited for; and those at the top level that have no results. `order` is what
    /// [`Library::read`] returned.
    pub fn find_whole_calls(&mut self, order: &[usize]) {
        let acting = self.acting(order);
        for &function in order {
            let Some(body) = &mut self.bodies[function] else { continue };
            let is_top = function == self.functions.len();
            for (&node, call) in body.calls.iter_mut().filter(|(_, call)| call.stays.is_none()) {
                let acts = call.callees.iter().any(|&callee| acting[callee]);
                call.is_whole = call.kind.is_plain() && acts && !body.says_effects;
                let has_results =
                    || result_types(self.registry, body.nodes, node).is_some_and(|all| !all.is_empty());
                call.is_awaited |= call.is_whole || is_top && !has_results();
            }
        }
    }

    /// Of each function whether it changes anything that outlives its run, itself or by what it calls. `order` is what [`Library::read`]
    /// returned.
    fn acting(&self, order: &[usize]) -> Vec<bool> {
        let mut acting = vec![false; self.bodies.len()];
        for &function in order {
            let body = self.body(function);
            let acts = |node: &u32| match body.calls.get(node) {
                Some(call) => call.stays.is_some() || call.callees.iter().any(|&callee| acting[callee]),
                None => self.has_effect(body.nodes.op(*node as usize)),
            };
            acting[function] = body.effects.iter().any(acts);
        }
        acting
    }
}

/// The types of the results of a node.
pub(super) fn result_types(registry: &OpRegistry, nodes: Nodes<'_>, node: u32) -> Option<Vec<DataType>> {
    let attrs = NodeAttrs::new(nodes, node as usize);
    let info = registry.get(nodes.op(node as usize))?;
    let ports = info.output_ports(&attrs as &dyn AttrLookup).ok()?;
    Some(ports.iter().map(|port| port.dtype).collect())
}
