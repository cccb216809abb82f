//! Where ops run and where their tensors lie.

use crate::dtype::DataType;
use crate::graph::{Device, Graph, NodeId, Rows, TensorId};
use crate::ops::{Flow, GpuKernel, OpRegistry};
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
/// Placeholders are on the host: that is where what is fed comes from; but the arguments of functions are on the GPU. All that works on a
/// resource is where the resource is, and a `Switch` is where its data come from, whatever it is colocated with
/// (`OptimizeControlFlowColocation`).
///
/// Where a device is not named, two rules of the placer (`placer.cc`) go before that. What tells a shape, a size or a rank, and so reads no
/// values, is where its input is made. And what reads nothing, a constant say, is on the host if all that waits for it is there.
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
        // Sorted, since which of them an op of the file is on first says nothing.
        let mut gpus: Vec<Device> = graph.devices().iter().filter_map(Device::gpu).collect();
        gpus.sort();
        gpus.dedup();
        let number = |gpu: &Device| gpus.partition_point(|other| other < gpu) as u16;
        let place = |device: &Device| device.gpu().map_or(Place::Host, |gpu| Place::Gpu(number(&gpu)));
        let of_device: Vec<Place> = graph.devices().iter().map(place).collect();
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
        for &node in graph.topological() {
            placement.follow(graph, node);
        }
        for node in graph.node_ids().filter(|&node| is_generator(graph, node)) {
            let mut after = graph.successors(node).map(|next| placement.op(next)).peekable();
            if names_no_place(graph, node)
                && after.peek().is_some()
                && after.all(|place| place == Place::Host)
            {
                placement.go_to_host(graph, node);
            }
        }
        placement
    }

    /// Moves an op to where what it works on is.
    fn follow(&mut self, graph: &Graph, node: NodeId) {
        if asks_about_input(graph, node) {
            self.follow_input(graph, node);
            return;
        }
        let inputs = graph.data_inputs(node);
        let leads = |tensor: TensorId| match graph.flow(node) {
            Some(Flow::Switch) => inputs.first() == Some(&tensor),
            _ => graph.output_type(tensor).dtype == DataType::RESOURCE,
        };
        let there = inputs.iter().filter(|&&tensor| leads(tensor)).map(|&tensor| graph.producer(tensor));
        // An argument of a function is no node. Of several resources one on the host is enough.
        let there = there.filter(|&from| from.index() < graph.len() && !graph.is_back_edge(from, node));
        let Some(there) = there.map(|from| self.op(from)).min() else { return };
        if there == Place::Host && self.op(node) != Place::Host {
            self.go_to_host(graph, node);
        } else if there != self.op(node) && graph.flow(node) == Some(Flow::Switch) {
            self.go_to(graph, node, there);
        }
    }

    /// Moves an op that asks about its input to where that is made. A generator has no place yet when the placer comes by.
    fn follow_input(&mut self, graph: &Graph, node: NodeId) {
        let Some(&input) = graph.data_inputs(node).first() else { return };
        let from = graph.producer(input);
        // An argument of a function is no node.
        if from.index() >= graph.len() || is_generator(graph, from) || !names_no_place(graph, node) {
            return;
        }
        let there = self.op(from);
        if there != self.op(node) {
            self.go_to(graph, node, there);
        }
    }

    /// Moves an op there, if it has a kernel for that.
    fn go_to(&mut self, graph: &Graph, node: NodeId, there: Place) {
        if there == Place::Host {
            return self.go_to_host(graph, node);
        }
        let (place, inputs) = self.at(graph, node, there);
        self.ops[node.index()] = place;
        self.inputs.row_mut(node.index()).copy_from_slice(&inputs);
    }

    /// Puts an op and all that it takes and gives on the host.
    fn go_to_host(&mut self, graph: &Graph, node: NodeId) {
        self.ops[node.index()] = Place::Host;
        for tensor in graph.outputs(node) {
            self.outputs[tensor.index()] = Place::Host;
        }
        self.inputs.row_mut(node.index()).fill(Place::Host);
    }

    /// Places a node and its arguments.
    fn place(&mut self, graph: &Graph, node: NodeId, named: Place) {
        let (place, inputs) = self.at(graph, node, named);
        self.ops.push(place);
        inputs.into_iter().for_each(|input| self.inputs.push(input));
        self.inputs.end_row();
    }

    /// Where a node is whose device is there, and where it wants its inputs; its outputs are placed.
    fn at(&mut self, graph: &Graph, node: NodeId, named: Place) -> (Place, Vec<Place>) {
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
        let inputs = graph.data_inputs(node).len();
        if !kernel.is_some_and(GpuKernel::uses_host_memory) {
            graph.outputs(node).for_each(|tensor| self.outputs[tensor.index()] = place);
            return (place, vec![place; inputs]);
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
        let wanted = |slot: usize| ports.get(slot).map_or(place, |port| in_place(op.inputs(), port.arg));
        (place, (0..inputs).map(wanted).collect())
    }

    /// The same with some ops on the host, as if their devices said so.
    pub fn with_host_ops(&self, graph: &Graph, host_ops: &[NodeId]) -> Placement {
        let mut placement = self.clone();
        for &node in host_ops {
            placement.go_to_host(graph, node);
            placement.named_host[node.index()] = true;
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

/// Whether TensorFlow counts an op among those that know of their input's shape alone (`NC_METADATA` in `graph.cc`).
fn asks_about_input(graph: &Graph, node: NodeId) -> bool {
    matches!(graph.op(node).name(), "Shape" | "Size" | "Rank")
}

/// Whether an op reads nothing and makes one tensor, which is no variable's buffer: the placer looks at its readers first. An argument of
/// a function has its place before the placer comes: where what is given lies.
fn is_generator(graph: &Graph, node: NodeId) -> bool {
    let mut outputs = graph.outputs(node);
    let only = outputs.next().filter(|_| outputs.next().is_none());
    graph.data_inputs(node).is_empty()
        && only.is_some_and(|tensor| !graph.output_type(tensor).is_ref)
        && !graph.is_argument(node)
}

/// Whether the placer is free to put an op on any type of device.
fn names_no_place(graph: &Graph, node: NodeId) -> bool {
    graph.device(node).kind.is_none() && graph.attrs(node).colocated_with().is_empty()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::{Model, ReadOptions};

    /// Where the ops of these names run.
    fn places(text: &str, names: &[&str]) -> Vec<Place> {
        let model =
            Model::from_bytes("test.pbtxt", text.as_bytes().to_vec(), &ReadOptions::default()).unwrap();
        let graph = Graph::of_model(&model, OpRegistry::builtin()).unwrap();
        let placement = Placement::of(&graph);
        let node = |name: &&str| graph.node_ids().find(|&node| graph.name(node) == *name).unwrap();
        names.iter().map(|name| placement.op(node(name))).collect()
    }

    fn node(name: &str, op: &str, inputs: &str, types: &[(&str, &str)]) -> String {
        let inputs: String = inputs.split_whitespace().map(|input| format!("input: '{input}' ")).collect();
        let attrs: String = types
            .iter()
            .map(|(key, dtype)| format!("attr {{ key: '{key}' value {{ type: {dtype} }} }} "))
            .collect();
        format!("node {{ name: '{name}' op: '{op}' {inputs} {attrs} }}\n")
    }

    #[test]
    fn what_works_on_a_resource_is_where_that_is() {
        // There is no kernel for a variable of 32-bit integers on a GPU, but one for what reads any variable.
        let of = |dtype: &str| {
            let graph = [
                node("v", "VarHandleOp", "", &[("dtype", dtype)]),
                node("read", "ReadVariableOp", "v", &[("dtype", dtype)]),
            ];
            places(&graph.concat(), &["v", "read"])
        };
        assert_eq!(of("DT_INT32"), [Place::Host, Place::Host]);
        assert_eq!(of("DT_FLOAT"), [Place::Gpu(0), Place::Gpu(0)]);
    }

    #[test]
    fn a_switch_is_where_its_data_come_from() {
        let float = [("T", "DT_FLOAT")];
        let graph = [
            node("fed", "Placeholder", "", &[("dtype", "DT_FLOAT")]),
            node("p", "Placeholder", "", &[("dtype", "DT_BOOL")]),
            node("of_fed", "Switch", "fed p", &float),
            node("again", "Switch", "of_fed:1 p", &float),
            node("made", "Relu", "fed", &float),
            node("of_made", "Switch", "made p", &float),
        ];
        let gpu = Place::Gpu(0);
        let found = places(&graph.concat(), &["of_fed", "again", "made", "of_made"]);
        assert_eq!(found, [Place::Host, Place::Host, gpu, gpu]);
    }

    /// As TensorFlow 2.21 places them (`RunOptions.output_partition_graphs`).
    #[test]
    fn what_asks_about_a_shape_is_where_its_input_is_and_a_constant_where_its_readers_are() {
        let (float, fed) = ([("T", "DT_FLOAT")], [("dtype", "DT_FLOAT")]);
        let on_host = |node: String| node.replacen("op:", "device: '/device:CPU:0' op:", 1);
        let on_second = |node: String| node.replacen("op:", "device: '/device:GPU:1' op:", 1);
        let graph = [
            node("fed", "Placeholder", "", &fed),
            on_host(node("host", "Relu", "fed", &float)),
            node("first", "Relu", "fed", &float),
            on_second(node("second", "Relu", "fed", &float)),
            node("of_fed", "Shape", "fed", &float),
            node("of_host", "Shape", "host", &float),
            node("of_second", "Size", "second", &float),
            node("named", "Shape", "host", &float).replacen("op:", "device: '/device:GPU:0' op:", 1),
            node("values", "Relu", "host", &float),
            node("for_host", "Const", "", &fed),
            node("for_both", "Const", "", &fed),
            on_host(node("reads", "AddV2", "for_host for_both", &float)),
            node("reads_too", "Relu", "for_both", &float),
            node("argument", "Placeholder", "", &fed)
                .replace(" }\n", " attr { key: '_lms_argument' value { b: false } } }\n"),
            on_host(node("reads_argument", "Relu", "argument", &float)),
        ];
        let names = ["of_fed", "of_host", "of_second", "named", "values", "for_host", "for_both", "argument"];
        let (host, first, second) = (Place::Host, Place::Gpu(0), Place::Gpu(1));
        assert_eq!(places(&graph.concat(), &names), [first, host, second, first, first, host, first, first]);
    }
}
