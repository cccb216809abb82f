//! From the nodes of a file to a graph.

use std::collections::HashMap;
use std::sync::OnceLock;

use super::error::GraphError;
use super::{Device, Graph, NodeAttrs, NodeId, OutputType, Rows, TensorId, Use};
use crate::dtype::DataType;
use crate::format::{Function, Model, Nodes};
use crate::ops::{AttrLookup, Flow, OpId, OpRegistry, Port};

/// Far more than any real graph has, and few enough that a small damaged file cannot fill the memory.
const MOST_TENSORS: usize = 1 << 25;

/// How inputs are written.
enum Syntax {
    /// `node`, `node:output`, `^node`.
    GraphDef,
    /// `argument`, `node:output_argument:index`, `^node`.
    Function,
}

impl<'a> Graph<'a> {
    /// The graph at the top level of a model.
    ///
    /// # Errors
    ///
    /// If the nodes are no graph: see [`GraphError`].
    pub fn of_model(model: &'a Model, registry: &'a OpRegistry) -> Result<Graph<'a>, GraphError> {
        Builder::new(model.nodes(), registry, Syntax::GraphDef, Vec::new())?.build()
    }

    /// The body of a function, which must be one of the model's.
    ///
    /// The registry must know the functions of the library as ops.
    ///
    /// # Errors
    ///
    /// If the nodes are no graph: see [`GraphError`].
    pub fn of_function(
        model: &'a Model,
        function: &'a Function,
        registry: &'a OpRegistry,
    ) -> Result<Graph<'a>, GraphError> {
        let arguments = function.signature.input_arg.iter().map(|argument| argument.name.clone()).collect();
        Builder::new(model.function_nodes(function), registry, Syntax::Function, arguments)?.build()
    }
}

struct Builder<'a> {
    nodes: Nodes<'a>,
    registry: &'a OpRegistry,
    syntax: Syntax,
    arguments: Vec<String>,
    ops: Vec<OpId>,
    first_output: Vec<u32>,
    output_types: Vec<OutputType>,
}

/// An input of a node.
enum Input {
    Data(TensorId),
    Control(NodeId),
}

impl<'a> Builder<'a> {
    fn new(
        nodes: Nodes<'a>,
        registry: &'a OpRegistry,
        syntax: Syntax,
        arguments: Vec<String>,
    ) -> Result<Builder<'a>, GraphError> {
        let mut builder = Builder {
            nodes,
            registry,
            syntax,
            arguments,
            ops: Vec::with_capacity(nodes.len()),
            first_output: Vec::with_capacity(nodes.len() + 1),
            output_types: Vec::with_capacity(nodes.len()),
        };
        builder.add_outputs()?;
        Ok(builder)
    }

    fn node_name(&self, node: usize) -> String {
        self.nodes.name(node).to_string()
    }

    /// Numbers all outputs.
    fn add_outputs(&mut self) -> Result<(), GraphError> {
        for node in 0..self.nodes.len() {
            let op = self.nodes.op(node);
            let id = self
                .registry
                .id(op)
                .ok_or_else(|| GraphError::UnknownOp { node: self.node_name(node), op: op.to_string() })?;
            self.ops.push(id);
            self.first_output.push(self.output_types.len() as u32);
            for port in self.ports(node)? {
                self.output_types.push(OutputType { dtype: port.dtype, is_ref: port.is_ref });
            }
            if self.output_types.len() > MOST_TENSORS {
                return Err(GraphError::TooLarge { what: "tensors", limit: MOST_TENSORS });
            }
        }
        for _ in 0..self.arguments.len() {
            self.first_output.push(self.output_types.len() as u32);
            self.output_types.push(OutputType { dtype: DataType::INVALID, is_ref: false });
        }
        self.first_output.push(self.output_types.len() as u32);
        Ok(())
    }

    fn ports(&self, node: usize) -> Result<Vec<Port>, GraphError> {
        let attrs = NodeAttrs::new(self.nodes, node);
        let op = self.registry.op(self.ops[node]);
        op.output_ports(&attrs as &dyn AttrLookup)
            .map_err(|error| GraphError::Signature { node: self.node_name(node), error })
    }

    fn build(self) -> Result<Graph<'a>, GraphError> {
        let by_name = self.index_names()?;
        let (data_inputs, control_inputs) = self.resolve_inputs(&by_name)?;
        let (device_of, devices) = self.intern_devices()?;
        let mut producers = Vec::with_capacity(self.output_types.len());
        for node in 0..self.first_output.len() - 1 {
            producers.resize(self.first_output[node + 1] as usize, NodeId(node as u32));
        }
        let nodes = self.nodes.len();
        let uses = Rows::group(
            self.output_types.len(),
            || {
                (0..nodes as u32).flat_map(|node| {
                    let inputs = data_inputs.row(node as usize).iter().enumerate();
                    inputs.map(move |(slot, tensor)| {
                        (tensor.index(), Use { node: NodeId(node), slot: slot as u32 })
                    })
                })
            },
            Use { node: NodeId(0), slot: 0 },
        );
        let control_outputs = Rows::group(
            nodes,
            || {
                (0..nodes as u32).flat_map(|node| {
                    control_inputs.row(node as usize).iter().map(move |from| (from.index(), NodeId(node)))
                })
            },
            NodeId(0),
        );
        let is_next = |&op: &OpId| self.registry.op(op).facts().flow() == Some(Flow::NextIteration);
        let has_loops = self.ops.iter().any(is_next);
        let mut graph = Graph {
            nodes: self.nodes,
            registry: self.registry,
            arguments: self.arguments,
            ops: self.ops,
            device_of,
            devices,
            data_inputs,
            control_inputs,
            first_output: self.first_output,
            producers,
            output_types: self.output_types,
            uses,
            control_outputs,
            topological: Vec::new(),
            has_loops,
            kernels: OnceLock::new(),
            sums: OnceLock::new(),
        };
        graph.topological = sort(&graph)?;
        Ok(graph)
    }

    fn index_names(&self) -> Result<HashMap<&str, NodeId>, GraphError> {
        let mut by_name = HashMap::with_capacity(self.nodes.len() + self.arguments.len());
        let names = (0..self.nodes.len()).map(|node| self.nodes.name(node));
        for (index, name) in names.chain(self.arguments.iter().map(String::as_str)).enumerate() {
            if name.is_empty() {
                return Err(GraphError::NoName { index });
            }
            if let Some(NodeId(first)) = by_name.insert(name, NodeId(index as u32)) {
                let name = name.to_string();
                return Err(GraphError::DuplicateName { name, first: first as usize, second: index });
            }
        }
        Ok(by_name)
    }

    fn resolve_inputs(
        &self,
        by_name: &HashMap<&str, NodeId>,
    ) -> Result<(Rows<TensorId>, Rows<NodeId>), GraphError> {
        let nodes = self.nodes.len();
        let mut data = Rows::with_capacity(nodes, self.nodes.input_count());
        let mut control = Rows::with_capacity(nodes, 0);
        for node in 0..nodes {
            let mut seen_control = false;
            for input in self.nodes.inputs(node) {
                match self.resolve(node, input, by_name)? {
                    Input::Control(from) => {
                        seen_control = true;
                        control.push(from);
                    }
                    Input::Data(_) if seen_control => {
                        return Err(GraphError::DataAfterControl {
                            node: self.node_name(node),
                            input: input.to_string(),
                        });
                    }
                    Input::Data(tensor) => data.push(tensor),
                }
            }
            data.end_row();
            control.end_row();
        }
        Ok((data, control))
    }

    fn resolve(
        &self,
        node: usize,
        input: &str,
        by_name: &HashMap<&str, NodeId>,
    ) -> Result<Input, GraphError> {
        let dangling = || GraphError::DanglingInput { node: self.node_name(node), input: input.to_string() };
        if let Some(name) = input.strip_prefix('^') {
            // An argument of a function is there before any node runs.
            let from = by_name.get(name).filter(|from| from.index() < self.nodes.len());
            return from.map(|&from| Input::Control(from)).ok_or_else(dangling);
        }
        let (name, output) = match self.syntax {
            Syntax::GraphDef => match input.rsplit_once(':') {
                Some((name, index)) => (name, index.parse().map_err(|_| dangling())?),
                None => (input, 0),
            },
            Syntax::Function => {
                let mut parts = input.splitn(3, ':');
                let name = parts.next().unwrap_or_default();
                match (parts.next(), parts.next()) {
                    (Some(argument), Some(index)) => {
                        let producer = by_name.get(name).ok_or_else(dangling)?.index();
                        let index: usize = index.parse().map_err(|_| dangling())?;
                        let first = self.first_port(producer, argument).ok_or_else(dangling)?;
                        (name, first.saturating_add(index))
                    }
                    (None, _) => (name, 0),
                    _ => return Err(dangling()),
                }
            }
        };
        let producer = by_name.get(name).ok_or_else(dangling)?.index();
        let (first, end) = (self.first_output[producer] as usize, self.first_output[producer + 1] as usize);
        if output >= end - first {
            return Err(GraphError::NoSuchOutput {
                node: self.node_name(node),
                input: input.to_string(),
                outputs: end - first,
            });
        }
        Ok(Input::Data(TensorId((first + output) as u32)))
    }

    /// The first output that belongs to an output argument of the node's op.
    fn first_port(&self, node: usize, argument: &str) -> Option<usize> {
        let op = self.registry.op(*self.ops.get(node)?);
        let wanted = op.outputs().iter().position(|output| output.name == argument)?;
        self.ports(node).ok()?.iter().position(|port| port.arg == wanted)
    }

    fn intern_devices(&self) -> Result<(Vec<u32>, Vec<Device>), GraphError> {
        let mut devices = Vec::new();
        let mut by_name: HashMap<&str, u32> = HashMap::new();
        let mut device_of = Vec::with_capacity(self.nodes.len());
        for node in 0..self.nodes.len() {
            let name = self.nodes.device(node);
            let index = match by_name.get(name) {
                Some(&index) => index,
                None => {
                    let device = Device::parse(name)
                        .map_err(|error| GraphError::Device { node: self.node_name(node), error })?;
                    // Two notations of one device are one device.
                    let index = devices.iter().position(|other| *other == device).unwrap_or(devices.len());
                    if index == devices.len() {
                        devices.push(device);
                    }
                    by_name.insert(name, index as u32);
                    index as u32
                }
            };
            device_of.push(index);
        }
        Ok((device_of, devices))
    }
}

/// Kahn's algorithm, first come first served, so that the order is the same in every run.
fn sort(graph: &Graph) -> Result<Vec<NodeId>, GraphError> {
    let mut waiting = vec![0u32; graph.len()];
    for node in graph.node_ids() {
        let in_graph = |from: &NodeId| from.index() < graph.len() && !graph.is_back_edge(*from, node);
        waiting[node.index()] = graph.predecessors(node).filter(in_graph).count() as u32;
    }
    let mut order: Vec<NodeId> = graph.node_ids().filter(|node| waiting[node.index()] == 0).collect();
    let mut next = 0;
    while let Some(&node) = order.get(next) {
        next += 1;
        for successor in graph.successors(node) {
            if !graph.is_back_edge(node, successor) {
                waiting[successor.index()] -= 1;
                if waiting[successor.index()] == 0 {
                    order.push(successor);
                }
            }
        }
    }
    if order.len() == graph.len() { Ok(order) } else { Err(find_cycle(graph, &waiting)) }
}

/// One cycle among the nodes that still wait: every one of them waits for another of them.
fn find_cycle(graph: &Graph, waiting: &[u32]) -> GraphError {
    let stuck = |node: NodeId| node.index() < waiting.len() && waiting[node.index()] > 0;
    let mut place = vec![usize::MAX; waiting.len()];
    let mut path = Vec::new();
    let mut node = graph.node_ids().find(|&node| stuck(node));
    while let Some(current) = node {
        if place[current.index()] != usize::MAX {
            path.drain(..place[current.index()]);
            break;
        }
        place[current.index()] = path.len();
        path.push(current);
        node = graph.predecessors(current).find(|&from| stuck(from) && !graph.is_back_edge(from, current));
    }
    path.reverse();
    GraphError::Cycle { nodes: path.into_iter().map(|node| graph.name(node).to_string()).collect() }
}
