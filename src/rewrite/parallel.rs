//! Carrying out what makes a graph train on several workers: see [`super`] for the form that it gives it.

use std::collections::BTreeMap;

use super::declare::declare;
use super::error::RewriteError;
use super::names;
use crate::dtype::DataType;
use crate::format::{Edits, Model, Nodes};
use crate::graph::{ByName, Graph, NodeId, TensorId};
use crate::plan::{
    BARRIER, BROADCAST, Collective, DataParallel, Gathered, MEAN_LOSS, RANK, Reduced, WORKERS, graph_digest,
};
use crate::proto::tensorflow::attr_value::Value;
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
    let nodes = model.nodes();
    if let Some(node) = names::first_added(nodes) {
        return Err(RewriteError::AlreadyRewritten { node: node.to_string() });
    }
    let found = graph_digest(graph);
    if parallel.graph.nodes != graph.len() || parallel.graph.digest != found {
        return Err(RewriteError::OtherGraph {
            planned_nodes: parallel.graph.nodes,
            planned: parallel.graph.digest.clone(),
            nodes: graph.len(),
            found,
        });
    }
    let mut adder = Adder {
        graph,
        nodes,
        host: &parallel.host_device,
        by_name: ByName::of(graph),
        inputs: BTreeMap::new(),
        added: Vec::new(),
        keys: 0,
    };
    adder.settings(parallel);
    let mut last_ops: Vec<String> = Vec::new();
    for (number, collective) in parallel.collectives.iter().enumerate() {
        let after: Option<Vec<&String>> = collective.after.iter().map(|&at| last_ops.get(at)).collect();
        let after = after.ok_or(RewriteError::NoSuchCollective { number })?;
        let after: Vec<String> = after.into_iter().map(|name| format!("^{name}")).collect();
        let scope = format!("{}{number}", names::PARALLEL);
        let last = match &collective.what {
            Gathered::Mean(tensors) => adder.mean(&scope, collective, tensors, after, parallel)?,
            Gathered::Rows { values, indices } => adder.rows(&scope, collective, (values, indices), after)?,
        };
        last_ops.push(last);
    }
    adder.broadcast(&parallel.variables)?;
    declare(graph, &mut adder.added);
    let inputs = adder.inputs.into_iter().map(|(node, inputs)| (node.index(), inputs)).collect();
    Ok(Edits { inputs, added: adder.added, ..Edits::default() })
}

struct Adder<'a> {
    graph: &'a Graph<'a>,
    nodes: Nodes<'a>,
    host: &'a str,
    by_name: ByName<'a>,
    inputs: BTreeMap<NodeId, Vec<String>>,
    added: Vec<NodeDef>,
    /// How many collectives have keys.
    keys: i32,
}

type Attrs<'v> = Vec<(&'v str, Value)>;

impl Adder<'_> {
    fn tensor(&self, name: &str) -> Result<TensorId, RewriteError> {
        self.by_name.tensor(name).ok_or_else(|| RewriteError::NoSuchTensor { tensor: name.to_string() })
    }

    fn node(&mut self, name: &str, op: &str, device: &str, input: Vec<String>, attrs: Attrs) -> String {
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

    fn on_host(&mut self, name: &str, op: &str, input: Vec<String>, attrs: Attrs) -> String {
        let host = self.host;
        self.node(name, op, host, input, attrs)
    }

    fn ints(&mut self, name: &str, values: &[i64], is_list: bool, dtype: DataType) -> String {
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

    /// What is fed, and the keys of the groups.
    fn settings(&mut self, parallel: &DataParallel) {
        for name in [WORKERS, RANK] {
            let shape = Value::Shape(TensorShapeProto::default());
            let attrs = vec![("dtype", kind(DataType::INT32)), ("shape", shape)];
            self.on_host(name, "Placeholder", Vec::new(), attrs);
        }
        self.ints(HOSTS.0, &[HOSTS.1.into()], false, DataType::INT32);
        if parallel.collectives.iter().any(|one| is_gpu(&one.device)) {
            self.ints(GPUS.0, &[GPUS.1.into()], false, DataType::INT32);
        }
    }

    /// A collective of its own key.
    #[allow(clippy::too_many_arguments)]
    fn collective(
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
        let is_loss = |one: &Reduced| parallel.loss.as_ref() == Some(&one.tensor);
        if let [one] = tensors {
            let input = self.input(first);
            let mean =
                self.collective(&name, "CollectiveReduceV2", device, &input, after, dtype, Some("Div"));
            self.redirect(first, &one.consumers, &mean)?;
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
            self.redirect(ids[at], &one.consumers, &out)?;
            if is_loss(one) {
                self.on_host(MEAN_LOSS, "Identity", vec![out], vec![("T", kind(dtype))]);
            }
        }
        Ok(mean)
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

    /// Gives all workers what worker 0 has: the sum of its bits and of zeros, so that not even the sign of a zero gets lost.
    fn broadcast(&mut self, variables: &[String]) -> Result<(), RewriteError> {
        let zero = self.ints("lms/parallel/zero", &[0], false, DataType::INT32);
        let attrs = vec![("T", kind(DataType::INT32)), ("incompatible_shape_error", Value::B(true))];
        let is_first = self.on_host("lms/parallel/is_first", "Equal", vec![RANK.to_string(), zero], attrs);
        let mut ones: BTreeMap<i32, String> = BTreeMap::new();
        for (dtype, name) in
            [(DataType::INT32, "lms/parallel/one"), (DataType::INT64, "lms/parallel/one_long")]
        {
            let attrs = cast(DataType::BOOL, dtype);
            ones.insert(dtype.number(), self.on_host(name, "Cast", vec![is_first.clone()], attrs));
        }
        let (mut all, mut after) = (Vec::new(), Vec::new());
        for (number, variable) in variables.iter().enumerate() {
            let no_variable = || RewriteError::NoSuchNode { name: variable.clone(), role: "a variable" };
            let node = self.by_name.node(variable).ok_or_else(no_variable)?;
            let is_ref = self.graph.op(node).name() != "VarHandleOp";
            let device = self.nodes.device(node.index()).to_string();
            let dtype = crate::parallel::variable_type(self.graph, node).ok_or_else(no_variable)?;
            let scope = format!("{BROADCAST}/{number}");
            let read = match is_ref {
                true => ("Identity", vec![("T", kind(dtype))]),
                false => ("ReadVariableOp", vec![("dtype", kind(dtype))]),
            };
            let mut inputs = vec![variable.clone()];
            inputs.append(&mut after);
            let mut at = self.node(&format!("{scope}/read"), read.0, &device, inputs, read.1);
            let (there, back, whole) = bits(dtype);
            for (step, &(op, from, to)) in there.iter().enumerate() {
                let attrs = conversion(op, from, to);
                at = self.on_host(&format!("{scope}/to/{step}"), op, vec![at], attrs);
            }
            let inputs = vec![at, ones[&whole.number()].clone()];
            at = self.on_host(&format!("{scope}/own"), "Mul", inputs, vec![("T", kind(whole))]);
            let name = format!("{scope}/sum");
            let host = self.host;
            at = self.collective(&name, "CollectiveReduceV2", host, &at, Vec::new(), whole, Some("Id"));
            for (step, &(op, from, to)) in back.iter().enumerate() {
                let attrs = conversion(op, from, to);
                at = self.on_host(&format!("{scope}/from/{step}"), op, vec![at], attrs);
            }
            let assign = match is_ref {
                true => (
                    "Assign",
                    vec![
                        ("T", kind(dtype)),
                        ("use_locking", Value::B(true)),
                        ("validate_shape", Value::B(true)),
                    ],
                ),
                false => {
                    ("AssignVariableOp", vec![("dtype", kind(dtype)), ("validate_shape", Value::B(false))])
                }
            };
            let name = self.node(
                &format!("{scope}/assign"),
                assign.0,
                &device,
                vec![variable.clone(), at],
                assign.1,
            );
            after = vec![format!("^{name}")];
            all.push(format!("^{name}"));
        }
        self.on_host(BROADCAST, "NoOp", all, Vec::new());
        self.collective(
            BARRIER,
            "CollectiveReduceV2",
            self.host,
            WORKERS,
            Vec::new(),
            DataType::INT32,
            Some("Id"),
        );
        Ok(())
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

/// A conversion's op, and from what to what it leads.
type Conversion = (&'static str, DataType, DataType);

/// How a type becomes whole numbers and back, and which.
fn bits(dtype: DataType) -> (Vec<Conversion>, Vec<Conversion>, DataType) {
    let (short, long) = (DataType::INT32, DataType::INT64);
    let (float, bitcast, cast) = (DataType::FLOAT, "Bitcast", "Cast");
    match dtype {
        DataType::INT32 => (vec![], vec![], short),
        DataType::INT64 => (vec![], vec![], long),
        DataType::FLOAT | DataType::UINT32 => {
            (vec![(bitcast, dtype, short)], vec![(bitcast, short, dtype)], short)
        }
        DataType::DOUBLE | DataType::UINT64 => {
            (vec![(bitcast, dtype, long)], vec![(bitcast, long, dtype)], long)
        }
        DataType::HALF | DataType::BFLOAT16 => (
            vec![(cast, dtype, float), (bitcast, float, short)],
            vec![(bitcast, short, float), (cast, float, dtype)],
            short,
        ),
        _ => (vec![(cast, dtype, short)], vec![(cast, short, dtype)], short),
    }
}

fn conversion(op: &str, from: DataType, to: DataType) -> Attrs<'static> {
    if op == "Bitcast" { vec![("T", kind(from)), ("type", kind(to))] } else { cast(from, to) }
}

fn cast(from: DataType, to: DataType) -> Attrs<'static> {
    vec![("SrcT", kind(from)), ("DstT", kind(to)), ("Truncate", Value::B(false))]
}

fn is_gpu(device: &str) -> bool {
    device.contains("GPU")
}

fn kind(dtype: DataType) -> Value {
    Value::Type(dtype.number())
}

fn text(text: &str) -> Value {
    Value::S(text.as_bytes().to_vec())
}
