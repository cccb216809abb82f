//! What may run twice, whatever a strategy would like.

use std::fmt;

use crate::dtype::DataType;
use crate::graph::{ControlFlow, FrameId, Graph, NodeId, RefVariables};
use crate::ops::{Fact, Flow, OpRegistry};

/// Why an op must not run a second time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NotRecomputable {
    /// TensorFlow does not have it, or it is a function's: nothing is known of it.
    Unknown,
    /// It has an effect, or depends on more than its inputs.
    Stateful,
    /// It leads into or out of a loop, takes in what is fed, or is a `Merge` that may find several inputs there.
    ControlFlow,
    /// It reads or gives what is no value of numbers or truth values.
    Type(DataType),
    /// It takes a reference to a variable, or hands on a variable's buffer, which may hold the next value by then.
    RefVariable,
    /// Its definition cannot be decoded.
    Damaged,
    /// It adds up three or more in an order that depends on who else reads them, or is read by what does.
    OrderOfSum,
}

impl fmt::Display for NotRecomputable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            NotRecomputable::Unknown => f.write_str("TensorFlow has no such op"),
            NotRecomputable::Stateful => f.write_str("it has a state or an effect"),
            NotRecomputable::ControlFlow => {
                f.write_str("it is of a loop, takes in what is fed, or has a choice")
            }
            NotRecomputable::Type(dtype) => write!(f, "it reads or gives a {dtype}"),
            NotRecomputable::RefVariable => {
                f.write_str("it takes a reference to a variable, or hands on its buffer")
            }
            NotRecomputable::Damaged => f.write_str("its definition cannot be decoded"),
            NotRecomputable::OrderOfSum => {
                f.write_str("a sum of three or more would add in another order the second time")
            }
        }
    }
}

/// Whether an op gives the same again when it runs a second time with the same inputs, and does nothing else.
///
/// Outside of loops, a `Switch` does, and a `Merge` of whose inputs no more than one is alive, which can be seen from the `Switch` ops
/// before it.
///
/// An op that reads a ref variable's buffer does so if it runs before the variable's updates both times; to see to that is up
/// to the plan.
///
/// # Errors
///
/// Why it may not.
pub fn recomputable(
    graph: &Graph,
    flow: &ControlFlow,
    variables: &RefVariables,
    node: NodeId,
) -> Result<(), NotRecomputable> {
    let op = graph.op(node);
    if OpRegistry::builtin().id(op.name()).is_none() {
        return Err(NotRecomputable::Unknown);
    }
    if op.is_stateful() {
        return Err(NotRecomputable::Stateful);
    }
    let is_outside_loops = flow.frame(node) == FrameId::TOP;
    let facts = op.facts();
    let is_function = !facts.has(Fact::NoFunction)
        && match facts.flow() {
            Some(Flow::Switch) => is_outside_loops,
            Some(Flow::Merge) => is_outside_loops && flow.has_one_input(graph, node),
            _ => flow.frame(node) == flow.output_frame(node),
        };
    if !is_function {
        return Err(NotRecomputable::ControlFlow);
    }
    for tensor in graph.data_inputs(node).iter().copied().chain(graph.outputs(node)) {
        let output_type = graph.output_type(tensor);
        if output_type.dtype.size_in_bytes().is_none() {
            return Err(NotRecomputable::Type(output_type.dtype));
        }
        if output_type.is_ref {
            return Err(NotRecomputable::RefVariable);
        }
    }
    if !graph.sums().allow_second_run(graph, node) {
        return Err(NotRecomputable::OrderOfSum);
    }
    match graph.outputs(node).any(|tensor| variables.is_buffer(tensor)) {
        true => Err(NotRecomputable::RefVariable),
        false => Ok(()),
    }
}
