//! Variables that are changed while somebody is still to read what they were.
//!
//! What reads a resource variable gets its memory, not a copy. So TensorFlow copies a variable before an op changes it in place, if a tensor
//! is left that is what was read (`PrepareToUpdateVariable`): the copy is the variable from then on, and what it was is there until its last
//! reader has been launched. Plans can bring that about, as where a gradient that reads weights waits until the weights' own update has given
//! memory back.
//!
//! A variable whose rows are touched is copied with each read ([`super::copied_reads`]), and before each change.

use rustc_hash::FxHashMap as HashMap;

use super::copied_reads::{read_variable, touched_variables};
use super::program::NONE;
use crate::graph::{Graph, NodeId, ResourceVariables, names};
use crate::order::{Place, Placement};

/// Of the smallest variables that are together less than one part in so many, it does not matter whether they are copied: second runs of a
/// batch norm read moving averages of some hundred bytes.
const LITTLE: u64 = 256;

/// A variable on a GPU that a step reads and changes in place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Changed {
    pub node: NodeId,
    pub gpu: u16,
    pub bytes: u64,
    /// Whether it is copied before each change, whoever reads it.
    pub is_always_copied: bool,
}

/// Which ops read variables that the step changes in place, and which change them.
#[derive(Debug, Default)]
pub(super) struct ChangedVariables {
    pub variables: Vec<Changed>,
    /// For each op of the step the number of the variable that it reads; empty if there are none.
    read_by: Vec<u32>,
    /// For each op those that it changes.
    changed_by: HashMap<u32, Vec<u32>>,
}

impl ChangedVariables {
    /// Finds them among the ops of a step. `bytes` is a variable's size in memory.
    pub fn of(
        graph: &Graph,
        handles: &ResourceVariables,
        placement: &Placement,
        order: &[NodeId],
        bytes: impl Fn(NodeId) -> Option<u64>,
    ) -> ChangedVariables {
        let mut found = ChangedVariables::default();
        let mut numbers: HashMap<NodeId, u32> = HashMap::default();
        let touched = touched_variables(graph, handles, order);
        for (op, &node) in (0..).zip(order) {
            if !changes_in_place(graph.op(node).name()) {
                continue;
            }
            for &input in graph.data_inputs(node) {
                let Some(variable) = handles.variable(input) else { continue };
                let Place::Gpu(gpu) = placement.op(variable) else { continue };
                let Some(bytes) = bytes(variable) else { continue };
                let number = *numbers.entry(variable).or_insert_with(|| {
                    let is_always_copied = touched.contains(&variable);
                    found.variables.push(Changed { node: variable, gpu, bytes, is_always_copied });
                    found.variables.len() as u32 - 1
                });
                found.changed_by.entry(op).or_default().push(number);
            }
        }
        let is_little = little(found.variables.iter().map(|changed| changed.bytes));
        let matters = |variable: &u32| !is_little[*variable as usize];
        for changed in found.changed_by.values_mut() {
            changed.retain(matters);
        }
        if found.variables.is_empty() {
            return found;
        }
        let read = |&node: &NodeId| {
            let variable = read_variable(graph, handles, node);
            variable.and_then(|variable| numbers.get(&variable).copied()).filter(matters).unwrap_or(NONE)
        };
        found.read_by = order.iter().map(read).collect();
        found
    }

    /// The variable that an entry of the step's programs reads, if it is one that is changed.
    pub fn read_by(&self, op: u32) -> Option<u32> {
        self.read_by.get(op as usize).copied().filter(|&variable| variable != NONE)
    }

    /// Each op that reads what a variable is, with each that changes that variable: of the step's ops, which are in this order.
    pub fn readers(&self, graph: &Graph, order: &[NodeId]) -> Vec<(NodeId, NodeId)> {
        let mut changes: Vec<Vec<NodeId>> = vec![Vec::new(); self.variables.len()];
        for (op, &node) in (0..).zip(order) {
            self.changed_by(op).iter().for_each(|&variable| changes[variable as usize].push(node));
        }
        let mut pairs = Vec::new();
        for (op, &read) in (0..).zip(order) {
            let Some(variable) = self.read_by(op) else { continue };
            for value in graph.outputs(read).flat_map(|value| names(graph, value)) {
                let readers = graph.uses(value).iter().map(|reader| reader.node);
                let changes = &changes[variable as usize];
                pairs.extend(readers.flat_map(|reader| changes.iter().map(move |&change| (reader, change))));
            }
        }
        pairs
    }

    /// The variables that an entry changes in place.
    pub fn changed_by(&self, op: u32) -> &[u32] {
        self.changed_by.get(&op).map_or(&[], Vec::as_slice)
    }
}

/// Of which of these bytes it does not matter, as they are the least and little together.
fn little(bytes: impl Iterator<Item = u64>) -> Vec<bool> {
    let bytes: Vec<u64> = bytes.collect();
    let mut least: Vec<usize> = (0..bytes.len()).collect();
    least.sort_by_key(|&number| (bytes[number], number));
    let most = bytes.iter().sum::<u64>() / LITTLE;
    let mut is_little = vec![false; bytes.len()];
    let mut sum = 0;
    for number in least {
        sum += bytes[number];
        is_little[number] = sum <= most;
    }
    is_little
}

/// Whether an op changes all of a resource variable in place, and so must have it for itself.
fn changes_in_place(op: &str) -> bool {
    op.starts_with("ResourceApply") || op == "AssignAddVariableOp" || op == "AssignSubVariableOp"
}
