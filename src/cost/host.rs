//! Which nodes run on the host.

use crate::graph::{Graph, NodeId};
use crate::ops::OpRegistry;

/// Whether a node does its work on the host: where it names the host, where the op has no kernel for GPUs, or where
/// all that the kernel makes is in host memory, as shapes and sizes are.
pub(super) fn runs_on_host(graph: &Graph, node: NodeId) -> bool {
    if graph.device(node).is_cpu() {
        return true;
    }
    // Kernels that compute in host memory make integers and truth values. To look a kernel up takes longer than all else here.
    let is_fraction = |tensor| {
        let dtype = graph.output_type(tensor).dtype;
        dtype.name().is_some_and(|name| name.starts_with("float") || name.starts_with("bfloat"))
    };
    if graph.outputs(node).len() == 0 || graph.outputs(node).any(is_fraction) {
        return false;
    }
    let op = graph.op(node);
    match graph.gpu_kernel(node) {
        // Of ops that are not TensorFlow's own nothing is known.
        None => OpRegistry::builtin().id(op.name()).is_some(),
        Some(kernel) => op.outputs().iter().all(|output| kernel.host_memory_arg(&output.name)),
    }
}
