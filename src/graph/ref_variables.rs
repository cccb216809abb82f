//! Ref variables: who sees the buffer of which.
//!
//! A `VariableV2` gives out a reference to its buffer, and most ops that only rename a tensor pass that buffer on. What
//! reads it sees the value that the variable has at that moment, not the one that it had when the reference was made.

use std::collections::HashSet;

use super::{Graph, NodeId, TensorId};
use crate::ops::Fact;

/// A variable whose buffer ops share.
#[derive(Debug, Clone, Default)]
pub struct RefVariable {
    /// The ops that read the buffer, in the order of the file.
    pub readers: Vec<NodeId>,
    /// The ops that write to it, in the order of the file.
    pub updates: Vec<NodeId>,
}

/// All ref variables of a graph.
#[derive(Debug, Clone, Default)]
pub struct RefVariables {
    all: Vec<RefVariable>,
    buffers: HashSet<TensorId>,
}

impl RefVariables {
    /// Finds them. Graphs of resource variables have none.
    pub fn of(graph: &Graph) -> RefVariables {
        let mut variables = RefVariables::default();
        for node in graph.node_ids().filter(|&node| graph.op(node).facts().has(Fact::HoldsReference)) {
            for buffer in graph.outputs(node) {
                variables.follow(graph, buffer);
            }
        }
        variables
    }

    /// The variables, in the order of the file.
    pub fn all(&self) -> &[RefVariable] {
        &self.all
    }

    /// Whether a tensor is the buffer of a variable.
    pub fn is_buffer(&self, tensor: TensorId) -> bool {
        self.buffers.contains(&tensor)
    }

    /// Follows a buffer through all ops that pass it on.
    fn follow(&mut self, graph: &Graph, buffer: TensorId) {
        let mut variable = RefVariable::default();
        let mut seen = HashSet::from([buffer]);
        let mut open = vec![buffer];
        while let Some(tensor) = open.pop() {
            for reader in graph.uses(tensor) {
                let node = reader.node;
                let passes = graph.op(node).facts().has(Fact::MayPassOn);
                let updates =
                    !passes && graph.output_type(tensor).is_ref && takes_ref(graph, node, reader.slot);
                if updates {
                    variable.updates.push(node);
                } else {
                    variable.readers.push(node);
                }
                for output in graph.outputs(node) {
                    // An update returns the variable it updated: its first input.
                    let same = passes || updates && reader.slot == 0 && graph.output_type(output).is_ref;
                    if same && seen.insert(output) {
                        open.push(output);
                    }
                }
            }
        }
        for nodes in [&mut variable.readers, &mut variable.updates] {
            nodes.sort_unstable();
            nodes.dedup();
        }
        self.buffers.extend(seen);
        self.all.push(variable);
    }
}

/// Whether a data input of a node takes a reference, not a value.
fn takes_ref(graph: &Graph, node: NodeId, slot: u32) -> bool {
    let ports = graph.op(node).input_ports(&graph.attrs(node));
    ports.is_ok_and(|ports| ports.get(slot as usize).is_some_and(|port| port.is_ref))
}
