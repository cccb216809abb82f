//! The graph: what reads what, where, and when it is alive.
//!
//! Everything is numbered. A node is a [`NodeId`], its place in the file; a tensor is a [`TensorId`], its producer's first
//! output's number plus the output's index. What belongs to a node or tensor is in flat arrays under these numbers, so a
//! graph of a million nodes is a few dozen allocations.
//!
//! The body of a function is a graph like the top level ([`Graph::of_function`]); its arguments are tensors that no
//! node of the body produces.

mod attrs;
mod build;
mod by_name;
mod control_flow;
mod device;
pub mod equal;
mod error;
mod liveness;
pub mod reach;
mod ref_variables;
mod resource_variables;
mod rows;
mod sums;

use std::fmt;
use std::sync::OnceLock;

pub use attrs::{NodeAttrs, output_shapes};
pub use by_name::ByName;
pub use control_flow::{Condition, ControlFlow, FrameId, origin};
pub use device::{Device, DeviceError};
pub use error::GraphError;
pub use liveness::{Liveness, truth_value};
pub use ref_variables::{RefVariable, RefVariables};
pub use resource_variables::{ResourceVariables, names};
pub use rows::Rows;
pub use sums::Sums;

use crate::dtype::DataType;
use crate::format::Nodes;
use crate::ops::{Flow, GpuKernel, OpId, OpInfo, OpRegistry};

/// The attribute of placeholders that stand for arguments of functions which are on a GPU when these are called, in flat graphs alone.
pub(crate) const ARGUMENT_ATTR: &str = "_lms_argument";

/// The attribute of what stands for an argument of a function that Python calls, be it a tensor or a variable.
const PYTHON_ATTR: &str = "_lms_function";

/// A node: its place in the file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NodeId(pub u32);

impl NodeId {
    /// The number as an index.
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

/// One output of a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TensorId(pub u32);

impl TensorId {
    /// The number as an index.
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

/// One input of a node that reads a tensor.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Use {
    /// The node that reads.
    pub node: NodeId,
    /// Which of its data inputs, counted from 0.
    pub slot: u32,
}

/// What an output holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OutputType {
    /// The type of the values, never a ref type.
    pub dtype: DataType,
    /// Whether it is a reference to a variable's buffer.
    pub is_ref: bool,
}

/// A graph, or the body of a function.
#[derive(Debug)]
pub struct Graph<'a> {
    nodes: Nodes<'a>,
    registry: &'a OpRegistry,
    /// The names of a function's arguments; they are numbered behind the nodes.
    arguments: Vec<String>,
    ops: Vec<OpId>,
    /// For each node its place in `devices`.
    device_of: Vec<u32>,
    devices: Vec<Device>,
    data_inputs: Rows<TensorId>,
    control_inputs: Rows<NodeId>,
    /// For each node its first tensor, and at last the number of tensors.
    first_output: Vec<u32>,
    producers: Vec<NodeId>,
    output_types: Vec<OutputType>,
    uses: Rows<Use>,
    control_outputs: Rows<NodeId>,
    topological: Vec<NodeId>,
    has_loops: bool,
    kernels: OnceLock<Vec<Option<&'static GpuKernel>>>,
    sums: OnceLock<Sums>,
}

impl<'a> Graph<'a> {
    /// How many nodes there are, a function's arguments not counted.
    pub fn len(&self) -> usize {
        self.nodes.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.nodes.is_empty()
    }

    /// How many tensors there are.
    pub fn tensor_count(&self) -> usize {
        self.producers.len()
    }

    /// All nodes in the order of the file.
    pub fn node_ids(&self) -> impl ExactSizeIterator<Item = NodeId> + use<> {
        (0..self.nodes.len() as u32).map(NodeId)
    }

    /// All tensors, by producer in the order of the file.
    pub fn tensor_ids(&self) -> impl ExactSizeIterator<Item = TensorId> + use<> {
        (0..self.producers.len() as u32).map(TensorId)
    }

    /// The node's name.
    pub fn name(&self, node: NodeId) -> &str {
        match node.index().checked_sub(self.nodes.len()) {
            None => self.nodes.name(node.index()),
            Some(argument) => &self.arguments[argument],
        }
    }

    /// The node's op. Not for a function's arguments.
    pub fn op(&self, node: NodeId) -> &'a OpInfo {
        self.registry.op(self.ops[node.index()])
    }

    /// The number of the node's op.
    pub fn op_id(&self, node: NodeId) -> OpId {
        self.ops[node.index()]
    }

    /// The ops that nodes may have.
    pub fn registry(&self) -> &'a OpRegistry {
        self.registry
    }

    /// The node's attributes.
    pub fn attrs(&self, node: NodeId) -> NodeAttrs<'a> {
        NodeAttrs::new(self.nodes, node.index())
    }

    /// The kernel that the node gets on a GPU ([`OpInfo::gpu_kernel`]). All nodes' are looked up when one is asked for: many ask, and each
    /// look-up walks through the node's bytes.
    pub fn gpu_kernel(&self, node: NodeId) -> Option<&'static GpuKernel> {
        let all = || self.node_ids().map(|node| self.op(node).gpu_kernel(&self.attrs(node))).collect();
        self.kernels.get_or_init(all).get(node.index()).copied().flatten()
    }

    /// What the order depends on in which sums add. It is found when it is asked for.
    pub fn sums(&self) -> &Sums {
        self.sums.get_or_init(|| Sums::of(self))
    }

    /// The device that the node names.
    pub fn device(&self, node: NodeId) -> &Device {
        &self.devices[self.device_index(node)]
    }

    /// The place of the node's device among [`Graph::devices`].
    pub fn device_index(&self, node: NodeId) -> usize {
        self.device_of[node.index()] as usize
    }

    /// The devices that nodes name, each once, in the order in which they come.
    pub fn devices(&self) -> &[Device] {
        &self.devices
    }

    /// What the node reads, in the order of its inputs.
    pub fn data_inputs(&self, node: NodeId) -> &[TensorId] {
        self.data_inputs.row(node.index())
    }

    /// The nodes that the node waits for without reading them.
    pub fn control_inputs(&self, node: NodeId) -> &[NodeId] {
        self.control_inputs.row(node.index())
    }

    /// The nodes that wait for the node without reading it.
    pub fn control_outputs(&self, node: NodeId) -> &[NodeId] {
        self.control_outputs.row(node.index())
    }

    /// All nodes that the node waits for: first those it reads, an op as often as it reads it.
    pub fn predecessors(&self, node: NodeId) -> impl Iterator<Item = NodeId> {
        let read = self.data_inputs(node).iter().map(|&tensor| self.producer(tensor));
        read.chain(self.control_inputs(node).iter().copied())
    }

    /// All nodes that wait for the node: first those that read it.
    pub fn successors(&self, node: NodeId) -> impl Iterator<Item = NodeId> {
        let readers = self.outputs(node).flat_map(|tensor| self.uses(tensor)).map(|reader| reader.node);
        readers.chain(self.control_outputs(node).iter().copied())
    }

    /// The node's outputs.
    pub fn outputs(&self, node: NodeId) -> impl ExactSizeIterator<Item = TensorId> + use<> {
        (self.first_output[node.index()]..self.first_output[node.index() + 1]).map(TensorId)
    }

    /// The node that makes a tensor.
    pub fn producer(&self, tensor: TensorId) -> NodeId {
        self.producers[tensor.index()]
    }

    /// Which of its producer's outputs a tensor is.
    pub fn output_index(&self, tensor: TensorId) -> u32 {
        tensor.0 - self.first_output[self.producer(tensor).index()]
    }

    /// What a tensor holds.
    pub fn output_type(&self, tensor: TensorId) -> OutputType {
        self.output_types[tensor.index()]
    }

    /// The inputs that read a tensor, by node in the order of the file.
    pub fn uses(&self, tensor: TensorId) -> &[Use] {
        self.uses.row(tensor.index())
    }

    /// What a node is in control flow; none for most.
    pub fn flow(&self, node: NodeId) -> Option<Flow> {
        self.op(node).facts().flow()
    }

    /// All nodes, each after all that it waits for, the back edges of loops aside.
    pub fn topological(&self) -> &[NodeId] {
        &self.topological
    }

    /// Goes over the graph until a pass changes nothing more, which it says; once, if there are no loops: what comes around in one is seen by
    /// the next pass.
    pub fn until_stable(&self, mut pass: impl FnMut() -> bool) {
        while pass() && self.has_loops {}
    }

    /// Whether an edge closes a loop: `NextIteration` to the `Merge` that heads the loop.
    pub fn is_back_edge(&self, from: NodeId, to: NodeId) -> bool {
        // A function's arguments have no op.
        self.has_loops
            && from.index() < self.len()
            && self.flow(from) == Some(Flow::NextIteration)
            && self.flow(to) == Some(Flow::Merge)
    }

    /// Whether a placeholder stands for an argument of a function that is on a GPU: what is given for it lies there before the step, and stays
    /// until it is done, for who calls holds it.
    pub fn is_argument(&self, node: NodeId) -> bool {
        self.op(node).name() == "Placeholder" && self.attrs(node).raw(ARGUMENT_ATTR).is_some()
    }

    /// Whether an op stands for an argument of a function that Python calls, be it a tensor or a variable. A signature of a SavedModel is no such
    /// function: the parts of a step in it were seen to begin as those of a session.
    pub fn is_given_by_python(&self, node: NodeId) -> bool {
        matches!(self.op(node).name(), "Placeholder" | "VarHandleOp")
            && self.attrs(node).raw(PYTHON_ATTR).is_some()
    }

    /// Whether an op is Keras's learning phase: what is fed there says whether the step trains.
    pub fn is_learning_phase(&self, node: NodeId) -> bool {
        self.name(node).contains("keras_learning_phase")
    }

    /// How to name a tensor in messages and plans: `node:output`.
    pub fn tensor_name(&self, tensor: TensorId) -> TensorName<'_> {
        TensorName { node: self.name(self.producer(tensor)), output: self.output_index(tensor) }
    }
}

/// A tensor's name, `node:output`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct TensorName<'a> {
    /// The producer.
    pub node: &'a str,
    /// Which of its outputs.
    pub output: u32,
}

impl fmt::Display for TensorName<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.node, self.output)
    }
}
