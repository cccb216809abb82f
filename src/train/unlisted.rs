//! The variables of a graph whose file lists none.
//!
//! A GraphDef has no lists, and a MetaGraphDef goes without where TensorFlow cannot write one: it then only warns ("Type is unsupported, or the
//! types of the items don't match field type in CollectionDef").

use super::recipe::{Initial, Variable, variable_nodes};
use crate::graph::{ByName, Graph, NodeId};

/// All variables of a graph, by the names that TensorFlow gives the ops of one: `v/Assign` has its first value, and `v/read` or
/// `v/Read/ReadVariableOp` reads it. None if one variable has no such op, as a list is taken for all that there is to initialize.
pub(super) fn variables(graph: &Graph) -> Vec<Variable> {
    let by_name = ByName::of(graph);
    let named = |name: String, variable: NodeId| {
        let node = by_name.node(&name)?;
        let reads_it =
            graph.data_inputs(node).first().is_some_and(|&input| graph.producer(input) == variable);
        reads_it.then_some(node)
    };
    let variable = |node: NodeId| {
        let name = graph.name(node);
        let read = match graph.op(node).name() {
            "VarHandleOp" => named(format!("{name}/Read/ReadVariableOp"), node)?,
            _ => named(format!("{name}/read"), node).unwrap_or(node),
        };
        let assign = named(format!("{name}/Assign"), node)?;
        let &[_, value] = graph.data_inputs(assign) else { return None };
        let value = graph.tensor_name(value).to_string();
        Some(Variable {
            name: name.to_string(),
            initial: Some(Initial { value, initializer: graph.name(assign).to_string() }),
            snapshot: format!("{}:0", graph.name(read)),
        })
    };
    variable_nodes(graph).map(variable).collect::<Option<_>>().unwrap_or_default()
}
