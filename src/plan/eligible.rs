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
}

impl fmt::Display for NotSwappable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            NotSwappable::Ref => f.write_str("it is a reference to a variable"),
            NotSwappable::Type(dtype) => write!(f, "it is of type {dtype}"),
            NotSwappable::HostMemory => f.write_str("it is in host memory already"),
            NotSwappable::Persistent => f.write_str("it stays in memory from step to step"),
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
    let (op, attrs) = (graph.op(producer), graph.attrs(producer));
    let Some(kernel) = op.gpu_kernel(&attrs) else {
        // An op of TensorFlow without such a kernel runs on the host; of other ops nothing is known.
        return crate::ops::OpRegistry::builtin().id(op.name()).is_some();
    };
    let Ok(ports) = op.output_ports(&attrs) else { return false };
    let port = ports.get(graph.output_index(tensor) as usize);
    port.is_some_and(|port| kernel.host_memory_arg(&op.outputs()[port.arg].name))
}
