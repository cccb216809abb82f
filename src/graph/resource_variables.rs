//! Resource variables: which of them a handle leads to, and who writes to it.
//!
//! What reads or changes a resource variable is given its handle. In branches and loops, and behind an `Identity`, it gets that from the ops
//! that lead there.

use rustc_hash::{FxHashMap as HashMap, FxHashSet as HashSet};

use super::{Graph, NodeId, TensorId};
use crate::dtype::DataType;
use crate::ops::{Fact, Flow};

/// All resource variables of a graph, each named by the op that makes its handle.
#[derive(Debug, Clone, Default)]
pub struct ResourceVariables {
    of: HashMap<TensorId, NodeId>,
    writers: HashMap<NodeId, Vec<NodeId>>,
}

impl ResourceVariables {
    /// Finds them. Graphs of ref variables have none.
    pub fn of(graph: &Graph) -> ResourceVariables {
        let mut variables = ResourceVariables::default();
        for node in graph.node_ids() {
            for handle in graph.outputs(node) {
                if graph.output_type(handle).dtype == DataType::RESOURCE && !is_handed_on(graph, node, handle)
                {
                    variables.follow(graph, node, handle);
                }
            }
        }
        for writers in variables.writers.values_mut() {
            writers.sort_unstable();
            writers.dedup();
        }
        variables
    }

    /// The variable that a handle is of: the first in the file if there are several, as behind a branch that picks one. None of an argument
    /// of a function.
    pub fn variable(&self, handle: TensorId) -> Option<NodeId> {
        self.of.get(&handle).copied()
    }

    /// The ops that write to a variable, in the order of the file.
    pub fn writers(&self, variable: NodeId) -> &[NodeId] {
        self.writers.get(&variable).map_or(&[], Vec::as_slice)
    }

    /// Follows a handle to all that is given it.
    fn follow(&mut self, graph: &Graph, variable: NodeId, handle: TensorId) {
        for name in names(graph, handle) {
            self.of.entry(name).or_insert(variable);
            let writers = graph.uses(name).iter().map(|reader| reader.node);
            let writes = |&node: &NodeId| graph.op(node).facts().has(Fact::WritesResource);
            self.writers.entry(variable).or_default().extend(writers.filter(writes));
        }
    }
}

/// A tensor, and all that ops give out who hand it on as it is: its names within branches and loops, and behind an `Identity`.
pub fn names(graph: &Graph, tensor: TensorId) -> Vec<TensorId> {
    let mut names = vec![tensor];
    let mut seen = HashSet::from_iter([tensor]);
    let mut next = 0;
    while let Some(&name) = names.get(next) {
        for reader in graph.uses(name) {
            let handed_on = graph
                .outputs(reader.node)
                .filter(|&output| hands_on(graph, reader.node, reader.slot, output));
            names.extend(handed_on.filter(|&output| seen.insert(output)));
        }
        next += 1;
    }
    names
}

/// Whether an output is what an op was given, so that another op made it.
fn is_handed_on(graph: &Graph, node: NodeId, output: TensorId) -> bool {
    (0..).zip(graph.data_inputs(node)).any(|(slot, _)| hands_on(graph, node, slot, output))
}

/// Whether an op gives out what is in one of its inputs as it is.
fn hands_on(graph: &Graph, node: NodeId, slot: u32, output: TensorId) -> bool {
    let number = graph.output_index(output);
    // Any of what leads to a `Merge` may come out of it.
    let is_merged = graph.flow(node) == Some(Flow::Merge) && number == 0;
    is_merged || graph.op(node).facts().passes_on(number) == Some(slot)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::{Model, ReadOptions};
    use crate::ops::OpRegistry;

    /// Of each variable who writes to it.
    type Writers = Vec<(String, Vec<String>)>;

    /// Who writes to the variables of a graph, and which of them its ops are given.
    fn found(text: &str) -> (Writers, Vec<(String, String)>) {
        let model = Model::from_bytes("a graph", text.as_bytes().to_vec(), &ReadOptions::default()).unwrap();
        let graph = Graph::of_model(&model, OpRegistry::builtin()).unwrap();
        let variables = ResourceVariables::of(&graph);
        let name = |node| graph.name(node).to_string();
        let makers = graph.node_ids().filter(|&node| graph.op(node).name() == "VarHandleOp");
        let writers = |node| variables.writers(node).iter().map(|&writer| name(writer)).collect();
        let given = graph.node_ids().filter_map(|node| {
            let variable = variables.variable(*graph.data_inputs(node).first()?)?;
            Some((name(node), name(variable)))
        });
        (makers.map(|node| (name(node), writers(node))).collect(), given.collect())
    }

    fn pairs(of: &[(&str, &str)]) -> Vec<(String, String)> {
        of.iter().map(|&(a, b)| (a.to_string(), b.to_string())).collect()
    }

    const VARIABLES: &str = r#"
        node { name: "a" op: "VarHandleOp" attr { key: "dtype" value { type: DT_FLOAT } } attr { key: "shape" value { shape {} } } }
        node { name: "b" op: "VarHandleOp" attr { key: "dtype" value { type: DT_FLOAT } } attr { key: "shape" value { shape {} } } }
        node { name: "x" op: "Placeholder" attr { key: "dtype" value { type: DT_FLOAT } } }
        node { name: "p" op: "Placeholder" attr { key: "dtype" value { type: DT_BOOL } } }
    "#;

    #[test]
    fn a_branch_is_given_a_variable_by_its_switch_and_may_give_either() {
        let text = format!(
            r#"{VARIABLES}
            node {{ name: "sa" op: "Switch" input: "a" input: "p" attr {{ key: "T" value {{ type: DT_RESOURCE }} }} }}
            node {{ name: "sb" op: "Switch" input: "b" input: "p" attr {{ key: "T" value {{ type: DT_RESOURCE }} }} }}
            node {{ name: "add" op: "AssignAddVariableOp" input: "sa:1" input: "x" attr {{ key: "dtype" value {{ type: DT_FLOAT }} }} }}
            node {{ name: "either" op: "Merge" input: "sb" input: "sa:1" attr {{ key: "T" value {{ type: DT_RESOURCE }} }} attr {{ key: "N" value {{ i: 2 }} }} }}
            node {{ name: "set" op: "AssignVariableOp" input: "either" input: "x" attr {{ key: "dtype" value {{ type: DT_FLOAT }} }} }}
            "#
        );
        let (writers, given) = found(&text);
        let strings = |names: &[&str]| names.iter().map(ToString::to_string).collect::<Vec<_>>();
        assert_eq!(
            writers,
            [("a".to_string(), strings(&["add", "set"])), ("b".to_string(), strings(&["set"]))]
        );
        // Which one it is nobody knows before the step: the first in the file stands for both.
        assert_eq!(given, pairs(&[("sa", "a"), ("sb", "b"), ("add", "a"), ("either", "b"), ("set", "a")]));
    }

    #[test]
    fn a_handle_that_a_loop_carries_around_is_followed_once() {
        let text = format!(
            r#"{VARIABLES}
            node {{ name: "enter" op: "Enter" input: "a" attr {{ key: "T" value {{ type: DT_RESOURCE }} }} attr {{ key: "frame_name" value {{ s: "f" }} }} }}
            node {{ name: "merge" op: "Merge" input: "next" input: "enter" attr {{ key: "T" value {{ type: DT_RESOURCE }} }} attr {{ key: "N" value {{ i: 2 }} }} }}
            node {{ name: "go" op: "Enter" input: "p" attr {{ key: "T" value {{ type: DT_BOOL }} }} attr {{ key: "frame_name" value {{ s: "f" }} }} }}
            node {{ name: "on" op: "LoopCond" input: "go" }}
            node {{ name: "switch" op: "Switch" input: "merge" input: "on" attr {{ key: "T" value {{ type: DT_RESOURCE }} }} }}
            node {{ name: "read" op: "ReadVariableOp" input: "switch:1" attr {{ key: "dtype" value {{ type: DT_FLOAT }} }} }}
            node {{ name: "next" op: "NextIteration" input: "switch:1" attr {{ key: "T" value {{ type: DT_RESOURCE }} }} }}
            node {{ name: "exit" op: "Exit" input: "switch" attr {{ key: "T" value {{ type: DT_RESOURCE }} }} }}
            node {{ name: "add" op: "AssignAddVariableOp" input: "exit" input: "x" attr {{ key: "dtype" value {{ type: DT_FLOAT }} }} }}
            "#
        );
        let (writers, given) = found(&text);
        assert_eq!(writers[0].1, ["add"]);
        let all = ["enter", "merge", "switch", "read", "next", "exit", "add"];
        assert_eq!(given, pairs(&all.map(|name| (name, "a"))));
    }
}
