//! Where ops run and where their tensors lie.

use crate::dtype::DataType;
use crate::graph::{Device, Graph, NodeId, Rows, TensorId};
use crate::ops::{GpuKernel, OpRegistry};
use crate::proto::tensorflow::op_def::ArgDef;

/// A memory, and the processor that works on it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Place {
    /// The host.
    Host,
    /// A GPU, by its number in [`Placement::gpus`].
    Gpu(u16),
}

impl Place {
    /// The host as 0, the GPUs from 1.
    pub fn index(self) -> usize {
        match self {
            Place::Host => 0,
            Place::Gpu(gpu) => usize::from(gpu) + 1,
        }
    }
}

/// Where each op runs and each tensor lies, as TensorFlow's placer would have it on a machine with the GPUs that the graph
/// names: what names no device goes to the first GPU if it has a kernel for one, to the host if not.
///
/// Placeholders are on the host: that is where what is fed comes from; but the arguments of functions are on the GPU. All that works on a resource is where the resource
/// is.
#[derive(Debug, Clone)]
pub struct Placement {
    gpus: Vec<Device>,
    ops: Vec<Place>,
    /// Of each op whether it is on the host because its device says so.
    named_host: Vec<bool>,
    outputs: Vec<Place>,
    inputs: Rows<Place>,
}

impl Placement {
    /// Places all ops of a graph.
    pub fn of(graph: &Graph) -> Placement {
        let mut gpus: Vec<Device> = Vec::new();
        let number = |gpu: &Device, gpus: &mut Vec<Device>| {
            let known = gpus.iter().position(|other| other == gpu);
            known.unwrap_or_else(|| {
                gpus.push(gpu.clone());
                gpus.len() - 1
            }) as u16
        };
        let of_device: Vec<Place> = graph
            .devices()
            .iter()
            .map(|device| match device.gpu() {
                Some(gpu) => Place::Gpu(number(&gpu, &mut gpus)),
                None => Place::Host,
            })
            .collect();
        let mut placement = Placement {
            gpus,
            ops: Vec::with_capacity(graph.len()),
            named_host: graph.node_ids().map(|node| graph.device(node).is_cpu()).collect(),
            outputs: vec![Place::Host; graph.tensor_count()],
            inputs: Rows::with_capacity(graph.len(), graph.len() * 2),
        };
        for node in graph.node_ids() {
            placement.place(graph, node, of_device[graph.device_index(node)]);
        }
        placement
    }

    /// Places a node and its arguments.
    fn place(&mut self, graph: &Graph, node: NodeId, named: Place) {
        let (op, attrs) = (graph.op(node), graph.attrs(node));
        let is_fed = match graph.is_argument(node) {
            // The runtime keeps integers of 32 bits on the host.
            true => graph.outputs(node).any(|tensor| graph.output_type(tensor).dtype == DataType::INT32),
            false => op.must_be_fed(),
        };
        let kernel = if named == Place::Host || is_fed { None } else { graph.gpu_kernel(node) };
        // Of the ops of others nothing is known; whoever names a GPU for one has a kernel.
        let is_foreign = OpRegistry::builtin().id(op.name()).is_none();
        let place = if kernel.is_some() || is_foreign { named } else { Place::Host };
        self.ops.push(place);
        let inputs = graph.data_inputs(node).len();
        if !kernel.is_some_and(GpuKernel::uses_host_memory) {
            graph.outputs(node).for_each(|tensor| self.outputs[tensor.index()] = place);
            (0..inputs).for_each(|_| self.inputs.push(place));
            self.inputs.end_row();
            return;
        }
        let in_place = |args: &[ArgDef], arg: usize| match kernel {
            Some(kernel) if kernel.host_memory_arg(&args[arg].name) => Place::Host,
            _ => place,
        };
        if place != Place::Host {
            for (port, tensor) in op.output_ports(&attrs).unwrap_or_default().iter().zip(graph.outputs(node))
            {
                self.outputs[tensor.index()] = in_place(op.outputs(), port.arg);
            }
        }
        let ports = op.input_ports(&attrs).unwrap_or_default();
        for slot in 0..inputs {
            self.inputs.push(ports.get(slot).map_or(place, |port| in_place(op.inputs(), port.arg)));
        }
        self.inputs.end_row();
    }

    /// The same with some ops on the host, as if their devices said so.
    pub fn with_host_ops(&self, graph: &Graph, host_ops: &[NodeId]) -> Placement {
        let mut placement = self.clone();
        for &node in host_ops {
            placement.ops[node.index()] = Place::Host;
            placement.named_host[node.index()] = true;
            for tensor in graph.outputs(node) {
                placement.outputs[tensor.index()] = Place::Host;
            }
            placement.inputs.row_mut(node.index()).fill(Place::Host);
        }
        placement
    }

    /// The GPUs that the graph's ops are on.
    pub fn gpus(&self) -> &[Device] {
        &self.gpus
    }

    /// Where an op runs.
    pub fn op(&self, node: NodeId) -> Place {
        self.ops[node.index()]
    }

    /// Whether an op is on the host because its device says so, and not for want of another kernel.
    pub fn names_host(&self, node: NodeId) -> bool {
        self.named_host[node.index()]
    }

    /// Where an output lies when its producer has made it.
    pub fn output(&self, tensor: TensorId) -> Place {
        self.outputs[tensor.index()]
    }

    /// Where an op wants its inputs, in their order.
    pub fn inputs(&self, node: NodeId) -> &[Place] {
        self.inputs.row(node.index())
    }
}
