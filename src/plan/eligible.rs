//! What is never swapped, whatever a strategy would like.

use std::fmt;

use crate::dtype::DataType;
use crate::graph::{Graph, RefVariables, TensorId};
use crate::ops::Fact;

/// Why a tensor cannot be swapped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NotSwappable {
    /// A reference to a variable's buffer, not a value.
    Ref,
    /// A type whose values are no plain bytes: strings, resources, variants, and types of the future.
    Type(DataType),
    /// It is in host memory already.
    HostMemory,
    /// It stays in memory from step to step.
    Persistent,
    /// A sum of three or more would add in another order: the sum reads it beside others, or equal ops do that TensorFlow merges for the sum.
    OrderOfSum,
}

impl fmt::Display for NotSwappable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            NotSwappable::Ref => f.write_str("it is a reference to a variable"),
            NotSwappable::Type(dtype) => write!(f, "it is of type {dtype}"),
            NotSwappable::HostMemory => f.write_str("it is in host memory already"),
            NotSwappable::Persistent => f.write_str("it stays in memory from step to step"),
            NotSwappable::OrderOfSum => f.write_str(
                "a sum of three or more, or what TensorFlow merges for one, reads it, and would add in another order",
            ),
        }
    }
}

/// Whether a tensor's bytes can leave a GPU and come back at all.
///
/// # Errors
///
/// Why they cannot.
pub fn swappable(graph: &Graph, variables: &RefVariables, tensor: TensorId) -> Result<(), NotSwappable> {
    changes_never(graph, variables, tensor)?;
    keeps_order_of_sums(graph, tensor)?;
    movable(graph, tensor)
}

/// Whether what a GPU has of a tensor can be a copy that comes later than it could, or again: of one that leaves the GPU, or of one
/// that the host makes, as what is fed and what an input pipeline gives.
///
/// # Errors
///
/// Why it cannot.
pub fn returnable(graph: &Graph, variables: &RefVariables, tensor: TensorId) -> Result<(), NotSwappable> {
    changes_never(graph, variables, tensor)?;
    keeps_order_of_sums(graph, tensor)?;
    match graph.device(graph.producer(tensor)).is_cpu() {
        true => is_plain(graph, tensor),
        false => movable(graph, tensor),
    }
}

/// Whether a tensor is the same as long as it is there: a copy of a variable's buffer would miss the updates.
fn changes_never(graph: &Graph, variables: &RefVariables, tensor: TensorId) -> Result<(), NotSwappable> {
    let producer = graph.producer(tensor);
    match graph.op(producer).facts().has(Fact::Persistent)
        || graph.is_argument(producer)
        || variables.is_buffer(tensor)
    {
        true => Err(NotSwappable::Persistent),
        false => Ok(()),
    }
}

/// Whether sums add in the same order when some readers of a tensor read a copy of it.
fn keeps_order_of_sums(graph: &Graph, tensor: TensorId) -> Result<(), NotSwappable> {
    match graph.sums().allow_copy(graph, tensor) {
        true => Ok(()),
        false => Err(NotSwappable::OrderOfSum),
    }
}

/// Whether a tensor's bytes can go to the host and back, whatever comes of them meanwhile. Of constants that is all there is to ask.
///
/// # Errors
///
/// Why they cannot.
pub fn movable(graph: &Graph, tensor: TensorId) -> Result<(), NotSwappable> {
    is_plain(graph, tensor)?;
    if graph.device(graph.producer(tensor)).is_cpu() || in_host_memory(graph, tensor) {
        return Err(NotSwappable::HostMemory);
    }
    Ok(())
}

/// Whether a tensor is a value of so many bytes.
fn is_plain(graph: &Graph, tensor: TensorId) -> Result<(), NotSwappable> {
    let output = graph.output_type(tensor);
    if output.is_ref {
        return Err(NotSwappable::Ref);
    }
    match output.dtype.size_in_bytes() {
        Some(_) => Ok(()),
        None => Err(NotSwappable::Type(output.dtype)),
    }
}

/// Whether the kernel that the producer gets on a GPU leaves this output in host memory, as shapes and sizes are.
fn in_host_memory(graph: &Graph, tensor: TensorId) -> bool {
    let producer = graph.producer(tensor);
    let op = graph.op(producer);
    let Some(kernel) = graph.gpu_kernel(producer) else {
        // An op of TensorFlow without such a kernel runs on the host; of other ops nothing is known.
        return crate::ops::OpRegistry::builtin().id(op.name()).is_some();
    };
    if !kernel.uses_host_memory() {
        return false;
    }
    let Ok(ports) = op.output_ports(&graph.attrs(producer)) else { return false };
    let port = ports.get(graph.output_index(tensor) as usize);
    port.is_some_and(|port| kernel.host_memory_arg(&op.outputs()[port.arg].name))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::{Model, ReadOptions};
    use crate::graph::ControlFlow;
    use crate::ops::OpRegistry;
    use crate::plan::{NotRecomputable, recomputable};

    const GRAPH: &str = r#"
        node { name: "in" op: "Placeholder" attr { key: "dtype" value { type: DT_FLOAT } } }
        node { name: "read_by_two" op: "Relu" input: "in" attr { key: "T" value { type: DT_FLOAT } } }
        node { name: "summed_alone" op: "Tanh" input: "in" attr { key: "T" value { type: DT_FLOAT } } }
        node { name: "factor" op: "Sin" input: "in" attr { key: "T" value { type: DT_FLOAT } } }
        node { name: "twin" op: "Mul" input: "factor" input: "summed_alone" attr { key: "T" value { type: DT_FLOAT } } }
        node { name: "other" op: "Mul" input: "factor" input: "summed_alone" attr { key: "T" value { type: DT_FLOAT } } }
        node { name: "alone" op: "Elu" input: "in" attr { key: "T" value { type: DT_FLOAT } } }
        node { name: "pair" op: "AddN" input: "read_by_two" input: "alone" attr { key: "T" value { type: DT_FLOAT } } attr { key: "N" value { i: 2 } } }
        node { name: "long" op: "AddN" input: "read_by_two" input: "twin" input: "other" attr { key: "T" value { type: DT_FLOAT } } attr { key: "N" value { i: 3 } } }
        node { name: "fed" op: "Cos" input: "in" attr { key: "T" value { type: DT_FLOAT } } }
        node { name: "short" op: "AddN" input: "fed" input: "fed" input: "pair" attr { key: "T" value { type: DT_FLOAT } } attr { key: "N" value { i: 3 } } }
    "#;

    #[test]
    fn sums_keep_the_order_in_which_they_add() {
        let model = Model::from_bytes("a graph", GRAPH.as_bytes().to_vec(), &ReadOptions::default()).unwrap();
        let graph = Graph::of_model(&model, OpRegistry::builtin()).unwrap();
        let variables = RefVariables::of(&graph);
        let node = |name: &str| graph.node_ids().find(|&node| graph.name(node) == name).unwrap();
        let of = |name: &str| swappable(&graph, &variables, graph.outputs(node(name)).next().unwrap());
        // Others read it too, it is one of two equal ops, or both of these read it.
        for name in ["read_by_two", "twin", "other", "factor", "summed_alone"] {
            assert_eq!(of(name), Err(NotSwappable::OrderOfSum), "{name}");
        }
        // Nobody else reads what the sum reads, though twice; two are the same in any order.
        for name in ["fed", "pair", "alone"] {
            assert_eq!(of(name), Ok(()), "{name}");
        }
        let flow = ControlFlow::of(&graph);
        let again = |name: &str| recomputable(&graph, &flow, &variables, node(name));
        // The second run of `pair` would read what `long` reads too.
        for name in ["long", "short", "read_by_two", "pair"] {
            assert_eq!(again(name), Err(NotRecomputable::OrderOfSum), "{name}");
        }
        assert!(again("alone").is_ok() && again("fed").is_ok());
    }
}
