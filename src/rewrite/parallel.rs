//! Carrying out what makes a graph train on several workers: see [`super`] for the form that it gives it.

use std::collections::BTreeMap;

use super::declare::declare;
use super::error::RewriteError;
use super::names;
use crate::dtype::DataType;
use crate::format::{Edits, Model, Nodes};
use crate::graph::{ByName, Graph, NodeId, TensorId};
use crate::plan::{
    COUNT, Collective, DataParallel, Gathered, MEAN_LOSS, RANK, Reduced, SET_COUNT, WORKERS, graph_digest,
};
use crate::proto::tensorflow::attr_value::{ListValue, Value};
use crate::proto::tensorflow::tensor_shape_proto::Dim;
use crate::proto::tensorflow::{AttrValue, NodeDef, TensorProto, TensorShapeProto};

/// The keys of the groups of devices that reduce together: a group has one type of device.
const HOSTS: (&str, i32) = ("lms/parallel/hosts", 1);
/// See [`HOSTS`].
const GPUS: (&str, i32) = ("lms/parallel/gpus", 2);

/// Adds the collectives and the broadcast to a graph.
///
/// # Errors
///
/// If they are not for this graph.
pub fn parallelize(model: &Model, graph: &Graph, parallel: &DataParallel) -> Result<Edits, RewriteError> {
    let mut adder = Adder::of_step(model, graph, parallel)?;
    adder.placeholders();
    adder.groups(parallel);
    adder.collectives(parallel)?;
    adder.broadcast(&parallel.variables)?;
    Ok(adder.edits())
}

/// Adds the collectives to a graph that is a function's body. What is fed elsewhere the function reads from a variable, so that its
/// arguments stay as they are; the broadcast is for the top level: see [`broadcast_of_function`].
///
/// # Errors
///
/// If they are not for this graph.
pub fn parallelize_function(
    model: &Model,
    graph: &Graph,
    parallel: &DataParallel,
) -> Result<Edits, RewriteError> {
    let mut adder = Adder::of_step(model, graph, parallel)?;
    adder.count();
    let attrs = vec![("dtype", kind(DataType::INT32))];
    adder.on_host(WORKERS, "ReadVariableOp", vec![COUNT.to_string()], attrs);
    adder.groups(parallel);
    adder.collectives(parallel)?;
    Ok(adder.edits())
}

/// Adds to a file's top level what workers do together around the function that is their step: the broadcast, the barrier, and the op
/// that sets the number of workers. `graph` is the top level's.
///
/// # Errors
///
/// If a variable is not there.
pub fn broadcast_of_function(
    model: &Model,
    graph: &Graph,
    parallel: &DataParallel,
) -> Result<Edits, RewriteError> {
    let mut adder = Adder::new(model, graph, parallel)?;
    adder.placeholders();
    adder.count();
    let attrs = vec![("dtype", kind(DataType::INT32)), ("validate_shape", Value::B(false))];
    let inputs = vec![COUNT.to_string(), WORKERS.to_string()];
    adder.on_host(SET_COUNT, "AssignVariableOp", inputs, attrs);
    adder.groups(&DataParallel { collectives: Vec::new(), ..parallel.clone() });
    // The function's have the keys before these.
    adder.keys = parallel.collectives.iter().map(key_count).sum();
    adder.broadcast(&parallel.variables)?;
    Ok(adder.edits())
}

/// How many keys a collective takes.
fn key_count(collective: &Collective) -> i32 {
    match collective.what {
        Gathered::Mean(_) => 1,
        Gathered::Rows { .. } => 2,
    }
}

pub(super) struct Adder<'a> {
    pub graph: &'a Graph<'a>,
    pub nodes: Nodes<'a>,
    pub host: &'a str,
    pub by_name: ByName<'a>,
    inputs: BTreeMap<NodeId, Vec<String>>,
    added: Vec<NodeDef>,
    /// How many collectives have keys.
    keys: i32,
}

pub(super) type Attrs<'v> = Vec<(&'v str, Value)>;

impl<'a> Adder<'a> {
    fn new(
        model: &'a Model,
        graph: &'a Graph<'a>,
        parallel: &'a DataParallel,
    ) -> Result<Adder<'a>, RewriteError> {
        let nodes = model.nodes();
        match names::first_added(nodes) {
            Some(node) => Err(RewriteError::AlreadyRewritten { node: node.to_string() }),
            None => Ok(Adder {
                graph,
                nodes,
                host: &parallel.host_device,
                by_name: ByName::of(graph),
                inputs: BTreeMap::new(),
                added: Vec::new(),
                keys: 0,
            }),
        }
    }

    /// For the graph that the collectives were found for.
    fn of_step(
        model: &'a Model,
        graph: &'a Graph<'a>,
        parallel: &'a DataParallel,
    ) -> Result<Adder<'a>, RewriteError> {
        let adder = Adder::new(model, graph, parallel)?;
        let found = graph_digest(graph);
        if parallel.graph.nodes != graph.len() || parallel.graph.digest != found {
            return Err(RewriteError::OtherGraph {
                planned_nodes: parallel.graph.nodes,
                planned: parallel.graph.digest.clone(),
                nodes: graph.len(),
                found,
            });
        }
        Ok(adder)
    }

    fn edits(mut self) -> Edits {
        declare(self.graph, &mut self.added);
        let inputs = self.inputs.into_iter().map(|(node, inputs)| (node.index(), inputs)).collect();
        Edits { inputs, added: self.added, ..Edits::default() }
    }

    fn collectives(&mut self, parallel: &DataParallel) -> Result<(), RewriteError> {
        let mut last_ops: Vec<String> = Vec::new();
        for (number, collective) in parallel.collectives.iter().enumerate() {
            let after: Option<Vec<&String>> = collective.after.iter().map(|&at| last_ops.get(at)).collect();
            let after = after.ok_or(RewriteError::NoSuchCollective { number })?;
            let after: Vec<String> = after.into_iter().map(|name| format!("^{name}")).collect();
            let scope = format!("{}{number}", names::PARALLEL);
            let last = match &collective.what {
                Gathered::Mean(tensors) => self.mean(&scope, collective, tensors, after, parallel)?,
                Gathered::Rows { values, indices } => {
                    self.rows(&scope, collective, (values, indices), after)?
                }
            };
            last_ops.push(last);
        }
        Ok(())
    }

    fn tensor(&self, name: &str) -> Result<TensorId, RewriteError> {
        self.by_name.tensor(name).ok_or_else(|| RewriteError::NoSuchTensor { tensor: name.to_string() })
    }

    pub(super) fn node(
        &mut self,
        name: &str,
        op: &str,
        device: &str,
        input: Vec<String>,
        attrs: Attrs,
    ) -> String {
        let attr = attrs.into_iter().map(|(key, value)| (key.to_string(), AttrValue { value: Some(value) }));
        self.added.push(NodeDef {
            name: name.to_string(),
            op: op.to_string(),
            input,
            device: device.to_string(),
            attr: attr.collect(),
            ..NodeDef::default()
        });
        name.to_string()
    }

    pub(super) fn on_host(&mut self, name: &str, op: &str, input: Vec<String>, attrs: Attrs) -> String {
        let host = self.host;
        self.node(name, op, host, input, attrs)
    }

    pub(super) fn ints(&mut self, name: &str, values: &[i64], is_list: bool, dtype: DataType) -> String {
        let dims =
            if is_list { vec![Dim { size: values.len() as i64, ..Dim::default() }] } else { Vec::new() };
        let is_long = dtype == DataType::INT64;
        let tensor = TensorProto {
            dtype: dtype.number(),
            tensor_shape: Some(TensorShapeProto { dim: dims, unknown_rank: false }),
            int_val: if is_long { Vec::new() } else { values.iter().map(|&value| value as i32).collect() },
            int64_val: if is_long { values.to_vec() } else { Vec::new() },
            ..TensorProto::default()
        };
        self.on_host(
            name,
            "Const",
            Vec::new(),
            vec![("dtype", kind(dtype)), ("value", Value::Tensor(tensor))],
        )
    }

    /// What is fed.
    fn placeholders(&mut self) {
        for name in [WORKERS, RANK] {
            let shape = Value::Shape(TensorShapeProto::default());
            let attrs = vec![("dtype", kind(DataType::INT32)), ("shape", shape)];
            self.on_host(name, "Placeholder", Vec::new(), attrs);
        }
    }

    /// The variable with the number of workers, which whoever names it shares.
    fn count(&mut self) {
        let attrs = vec![
            ("dtype", kind(DataType::INT32)),
            ("shape", Value::Shape(TensorShapeProto::default())),
            ("container", text("")),
            ("shared_name", text(COUNT)),
        ];
        self.on_host(COUNT, "VarHandleOp", Vec::new(), attrs);
    }

    /// The keys of the groups.
    fn groups(&mut self, parallel: &DataParallel) {
        self.ints(HOSTS.0, &[HOSTS.1.into()], false, DataType::INT32);
        if parallel.collectives.iter().any(|one| is_gpu(&one.device)) {
            self.ints(GPUS.0, &[GPUS.1.into()], false, DataType::INT32);
        }
    }

    /// A collective of its own key.
    #[allow(clippy::too_many_arguments)]
    pub(super) fn collective(
        &mut self,
        name: &str,
        op: &str,
        device: &str,
        input: &str,
        after: Vec<String>,
        dtype: DataType,
        result: Option<&str>,
    ) -> String {
        self.keys += 1;
        let key = self.ints(&format!("{name}/key"), &[self.keys.into()], false, DataType::INT32);
        let group = if is_gpu(device) { GPUS.0 } else { HOSTS.0 };
        let mut inputs = vec![input.to_string(), WORKERS.to_string(), group.to_string(), key];
        inputs.extend(after);
        let mut attrs = vec![
            ("T", kind(dtype)),
            ("communication_hint", text("auto")),
            ("timeout_seconds", Value::F(0.0)),
            ("is_stateless", Value::B(false)),
            ("Nordering_token", Value::I(0)),
        ];
        if let Some(result) = result {
            let reduce = [
                ("merge_op", text("Add")),
                ("final_op", text(result)),
                ("max_subdivs_per_device", Value::I(-1)),
            ];
            attrs.extend(reduce);
        }
        self.node(name, op, device, inputs, attrs)
    }

    /// The mean of each tensor; the name of the op that ends it.
    fn mean(
        &mut self,
        scope: &str,
        collective: &Collective,
        tensors: &[Reduced],
        after: Vec<String>,
        parallel: &DataParallel,
    ) -> Result<String, RewriteError> {
        let device = collective.device.as_str();
        let name = format!("{scope}/mean");
        let ids: Vec<TensorId> =
            tensors.iter().map(|one| self.tensor(&one.tensor)).collect::<Result<_, _>>()?;
        let Some(&first) = ids.first() else {
            return Err(RewriteError::UnfitCollective { name: scope.to_string() });
        };
        let dtype = self.graph.output_type(first).dtype;
        if ids.iter().any(|&id| self.graph.output_type(id).dtype != dtype) {
            return Err(RewriteError::UnfitCollective { name: scope.to_string() });
        }
        // A function returns it.
        let loss = parallel.loss.as_ref().filter(|_| parallel.graph.function.is_none());
        let is_loss = |one: &Reduced| loss == Some(&one.tensor);
        if let [one] = tensors {
            let input = self.input(first);
            let mean =
                self.collective(&name, "CollectiveReduceV2", device, &input, after, dtype, Some("Div"));
            let read = self.back(&format!("{scope}/back"), &mean, (first, one), device);
            self.redirect(first, &one.consumers, &read)?;
            if is_loss(one) {
                self.on_host(MEAN_LOSS, "Identity", vec![mean.clone()], vec![("T", kind(dtype))]);
            }
            return Ok(mean);
        }
        let flat = self.ints(&format!("{scope}/flat"), &[-1], true, DataType::INT32);
        let axis = self.ints(&format!("{scope}/axis"), &[0], false, DataType::INT32);
        let reshape = || vec![("T", kind(dtype)), ("Tshape", kind(DataType::INT32))];
        let mut parts = Vec::new();
        for (at, &id) in ids.iter().enumerate() {
            let inputs = vec![self.input(id), flat.clone()];
            parts.push(self.node(&format!("{scope}/in/{at}"), "Reshape", device, inputs, reshape()));
        }
        parts.push(axis.clone());
        let count = Value::I(tensors.len() as i64);
        let attrs = vec![("T", kind(dtype)), ("N", count.clone()), ("Tidx", kind(DataType::INT32))];
        let joined = self.node(&format!("{scope}/joined"), "ConcatV2", device, parts, attrs);
        let mean = self.collective(&name, "CollectiveReduceV2", device, &joined, after, dtype, Some("Div"));
        let shapes: Option<Vec<&Vec<i64>>> = tensors.iter().map(|one| one.shape.as_ref()).collect();
        let shapes = shapes.ok_or_else(|| RewriteError::UnfitCollective { name: scope.to_string() })?;
        let sizes: Vec<i64> = shapes.iter().map(|shape| shape.iter().product()).collect();
        let sizes = self.ints(&format!("{scope}/sizes"), &sizes, true, DataType::INT64);
        let attrs = vec![("T", kind(dtype)), ("Tlen", kind(DataType::INT64)), ("num_split", count)];
        let split =
            self.node(&format!("{scope}/split"), "SplitV", device, vec![mean.clone(), sizes, axis], attrs);
        for (at, (one, shape)) in tensors.iter().zip(shapes).enumerate() {
            let shape = self.ints(&format!("{scope}/shape/{at}"), shape, true, DataType::INT64);
            let part = names::input(&split, at as u32);
            let attrs = vec![("T", kind(dtype)), ("Tshape", kind(DataType::INT64))];
            let out = self.node(&format!("{scope}/out/{at}"), "Reshape", device, vec![part, shape], attrs);
            let read = self.back(&format!("{scope}/back/{at}"), &out, (ids[at], one), device);
            self.redirect(ids[at], &one.consumers, &read)?;
            if is_loss(one) {
                self.on_host(MEAN_LOSS, "Identity", vec![out], vec![("T", kind(dtype))]);
            }
        }
        Ok(mean)
    }

    /// What reads a mean: the mean, or what brings it to where the worker's own tensor is.
    ///
    /// TensorFlow puts a `Switch` where its data come from, whatever it is colocated with. One that read a mean on the host would be there,
    /// and what it gives out would be copied to the GPU once more.
    fn back(&mut self, name: &str, mean: &str, (own, reduced): (TensorId, &Reduced), device: &str) -> String {
        let is_switch = |consumer: &String| {
            let node = self.by_name.node(consumer);
            node.is_some_and(|node| self.graph.op(node).name() == "Switch")
        };
        if is_gpu(device) || !reduced.consumers.iter().any(is_switch) {
            return mean.to_string();
        }
        let producer = self.graph.producer(own);
        let place = self.nodes.device(producer.index()).to_string();
        let mut attrs = vec![("T", kind(self.graph.output_type(own).dtype))];
        if place.is_empty() {
            let beside = format!("loc:@{}", self.graph.name(producer)).into_bytes();
            attrs.push((names::CLASS, Value::List(ListValue { s: vec![beside], ..ListValue::default() })));
        }
        self.node(name, "Identity", &place, vec![mean.to_string()], attrs)
    }

    /// All workers' rows, each divided by the number of workers, and their indices.
    fn rows(
        &mut self,
        scope: &str,
        collective: &Collective,
        (values, indices): (&Reduced, &Reduced),
        after: Vec<String>,
    ) -> Result<String, RewriteError> {
        let device = collective.device.as_str();
        let (rows, places) = (self.tensor(&values.tensor)?, self.tensor(&indices.tensor)?);
        let dtype = self.graph.output_type(rows).dtype;
        let attrs =
            vec![("SrcT", kind(DataType::INT32)), ("DstT", kind(dtype)), ("Truncate", Value::B(false))];
        let count = self.node(&format!("{scope}/count"), "Cast", device, vec![WORKERS.to_string()], attrs);
        let inputs = vec![self.input(rows), count];
        let part = self.node(&format!("{scope}/part"), "RealDiv", device, inputs, vec![("T", kind(dtype))]);
        let name = format!("{scope}/rows");
        let all = self.collective(&name, "CollectiveGatherV2", device, &part, after, dtype, None);
        self.redirect(rows, &values.consumers, &all)?;
        let name = format!("{scope}/indices");
        let (input, dtype) = (self.input(places), self.graph.output_type(places).dtype);
        let after = vec![format!("^{all}")];
        let all = self.collective(&name, "CollectiveGatherV2", device, &input, after, dtype, None);
        self.redirect(places, &indices.consumers, &all)?;
        Ok(all)
    }

    /// How a tensor is written as an input.
    fn input(&self, tensor: TensorId) -> String {
        names::input(self.graph.name(self.graph.producer(tensor)), self.graph.output_index(tensor))
    }

    /// Lets these ops read another node's first output wherever they read the tensor.
    fn redirect(&mut self, tensor: TensorId, consumers: &[String], to: &str) -> Result<(), RewriteError> {
        for consumer in consumers {
            let role = "an op that reads what is reduced";
            let no_node = || RewriteError::NoSuchNode { name: consumer.clone(), role };
            let node = self.by_name.node(consumer).ok_or_else(no_node)?;
            let slots: Vec<usize> = (0..)
                .zip(self.graph.data_inputs(node))
                .filter(|(_, read)| **read == tensor)
                .map(|(slot, _)| slot)
                .collect();
            if slots.is_empty() {
                let tensor = self.graph.tensor_name(tensor).to_string();
                return Err(RewriteError::NotAConsumer { tensor, consumer: consumer.clone() });
            }
            let nodes = self.nodes;
            let written = || nodes.inputs(node.index()).map(str::to_string).collect();
            let inputs = self.inputs.entry(node).or_insert_with(written);
            for slot in slots {
                inputs[slot] = names::like(&inputs[slot], to);
            }
        }
        Ok(())
    }
}

fn is_gpu(device: &str) -> bool {
    device.contains("GPU")
}

pub(super) fn kind(dtype: DataType) -> Value {
    Value::Type(dtype.number())
}

pub(super) fn text(text: &str) -> Value {
    Value::S(text.as_bytes().to_vec())
}
