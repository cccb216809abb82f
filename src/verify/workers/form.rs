//! What was added for several workers has the known form.
//!
//! `lms/parallel/<n>/mean` is the mean of what `in/<k>` read, laid end to end, and `out/<k>` are the parts of it; or of one tensor.
//! `lms/parallel/<n>/rows` and `indices` are all workers' rows and indices one behind the other. A mean and rows divided by the number
//! of workers is what an original input may read in place of the worker's own.

use std::collections::{BTreeMap, HashMap, HashSet};

use super::super::graph::{Graph, NONE, NodeId, Tensor};
use super::super::names::{Input, number};
use super::super::report::{Report, ViolationKind};
use super::Place;
use crate::dtype::DataType;
use crate::format::{Model, Nodes};
use crate::proto::tensorflow::attr_value::{ListValue, Value};
use crate::proto::tensorflow::{AttrValue, TensorProto};

/// Where the names of all that serves several workers begin.
pub(super) const PREFIX: &str = "lms/parallel/";

const WORKERS: &str = "lms/parallel/workers";
const RANK: &str = "lms/parallel/rank";
pub(super) const BROADCAST: &str = "lms/parallel/broadcast";
/// The variable with the number of workers, where the step is a function; also the name by which it is shared.
const COUNT: &str = "lms/parallel/count";

/// An op that all workers run together.
#[derive(Debug, Clone, Copy)]
pub(super) struct Together {
    pub node: NodeId,
    /// Whether steps run it, and not the broadcast.
    pub is_of_step: bool,
}

/// What was found.
#[derive(Debug, Default)]
pub(super) struct Formed {
    pub collectives: Vec<Together>,
    /// What a reduced tensor is of, by what is read in its place.
    pub reduced: HashMap<Tensor, Tensor>,
    /// Whether rows are gathered, by the tensor that they are of.
    pub gathered: HashSet<Tensor>,
}

/// What a node must be.
pub(super) struct Expected {
    pub op: &'static str,
    /// The attributes; those that may have any value are left out of the comparison.
    pub attrs: Vec<(&'static str, Value)>,
    pub free: &'static [&'static str],
}

pub(super) struct Former<'g, 'a> {
    pub graph: &'g Graph<'a>,
    report: &'g mut Report,
    place: Place,
    formed: Formed,
    keys: HashMap<(i64, i64), NodeId>,
}

/// Looks at all that was added, and at all inputs of original nodes.
pub(super) fn check(
    graph: &Graph<'_>,
    original: Nodes<'_>,
    pairs: &[NodeId],
    place: Place,
    report: &mut Report,
) -> Formed {
    let mut former = Former { graph, report, place, formed: Formed::default(), keys: HashMap::new() };
    for node in graph.ids() {
        match pairs[node as usize] == NONE {
            true => former.added(node),
            false => former.shares_nothing(node),
        }
    }
    let Former { formed, report, .. } = former;
    inputs(graph, original, pairs, &formed, report);
    formed
}

/// An original input reads what it read, or all workers' of that; and control inputs are as they were.
fn inputs(graph: &Graph<'_>, original: Nodes<'_>, pairs: &[NodeId], formed: &Formed, report: &mut Report) {
    for node in graph.ids().filter(|&node| pairs[node as usize] != NONE) {
        let before: Vec<(Input<'_>, NodeId)> = original
            .inputs(pairs[node as usize] as usize)
            .filter_map(|input| resolve(graph, input))
            .collect();
        let data: Vec<Tensor> = before
            .iter()
            .filter_map(|&(input, from)| match input {
                Input::Data(_, output) => Some(Tensor { node: from, output }),
                Input::Control(_) => None,
            })
            .collect();
        let control: Vec<NodeId> = before
            .iter()
            .filter(|(input, _)| matches!(input, Input::Control(_)))
            .map(|&(_, from)| from)
            .collect();
        let now = graph.data(node);
        if now.len() != data.len() {
            report.add(ViolationKind::InputCount, || {
                ([graph.name(node)], format!("{} data inputs", data.len()), format!("{}", now.len()))
            });
            continue;
        }
        for (&read, &was) in now.iter().zip(&data) {
            if read != was && formed.reduced.get(&read) != Some(&was) {
                report.add(ViolationKind::WrongTensor, || {
                    let expected = format!("`{}`, or all workers' of it", graph.tensor_name(was));
                    ([graph.name(node)], expected, format!("`{}`", graph.tensor_name(read)))
                });
            }
        }
        let controls: Vec<NodeId> = graph.control(node).iter().map(|control| control.from).collect();
        if controls != control {
            report.add(ViolationKind::LostControl, || {
                ([graph.name(node)], "the control inputs as they were".to_string(), "others".to_string())
            });
        }
    }
}

fn resolve<'a>(graph: &Graph<'_>, input: &'a str) -> Option<(Input<'a>, NodeId)> {
    let input = Input::parse(input)?;
    let (Input::Data(name, _) | Input::Control(name)) = input;
    graph.names.get(name).map(|&node| (input, node))
}

impl Former<'_, '_> {
    pub(super) fn wrong(&mut self, node: NodeId, kind: ViolationKind, expected: &str) {
        let graph = self.graph;
        self.report.add(kind, || {
            (
                [graph.name(node)],
                expected.to_string(),
                format!("a {} that is not that", graph.nodes.op(node as usize)),
            )
        });
    }

    /// A node by its name under a scope.
    pub(super) fn named(&self, name: &str) -> Option<NodeId> {
        self.graph.names.get(name).copied()
    }

    /// Whether the node is of this op and has just these attributes.
    pub(super) fn is(&mut self, node: NodeId, expected: &Expected) -> bool {
        let graph = self.graph;
        let nodes = graph.nodes;
        // The keys of name, op, inputs, device and attr.
        let plain = |field: &[u8]| matches!(field.first(), Some(0x0a | 0x12 | 0x22 | 0x2a));
        let attrs: BTreeMap<String, AttrValue> =
            nodes.decoded(node as usize).map(|decoded| decoded.attr).unwrap_or_default();
        let known = |name: &String| {
            name == "_output_shapes"
                || expected.free.contains(&name.as_str())
                || expected.attrs.iter().any(|(key, _)| key == name)
        };
        let same = nodes.op(node as usize) == expected.op
            && nodes.fields_but_inputs(node as usize).all(plain)
            && nodes.attrs(node as usize).count() == attrs.len()
            && attrs.keys().all(known)
            && expected
                .attrs
                .iter()
                .all(|(key, value)| attrs.get(*key).and_then(|attr| attr.value.as_ref()) == Some(value));
        if !same {
            self.wrong(
                node,
                ViolationKind::AddedOp,
                &format!("a {} with the attributes that belong to it", expected.op),
            );
        }
        same
    }

    pub(super) fn on_host(&mut self, node: NodeId) {
        let device = self.graph.nodes.device(node as usize);
        if device.strip_prefix("/device:CPU:").and_then(number).is_none() {
            self.wrong(node, ViolationKind::AddedDevice, "a device /device:CPU:…");
        }
    }

    pub(super) fn first_output(node: NodeId) -> Tensor {
        Tensor { node, output: 0 }
    }

    fn added(&mut self, node: NodeId) {
        let name = self.graph.name(node);
        let Some(rest) = name.strip_prefix(PREFIX) else {
            return self.wrong(node, ViolationKind::UnknownAddedOp, "a name under lms/parallel/");
        };
        let of_step = rest.split_once('/').is_some_and(|(scope, _)| number(scope).is_some());
        let has_place = match self.place {
            Place::Graph => !matches!(rest, "count" | "set_count"),
            Place::Function => of_step || matches!(rest, "workers" | "count" | "hosts" | "gpus"),
            Place::AroundFunction => !of_step,
        };
        if !has_place {
            return self.wrong(node, ViolationKind::UnknownAddedOp, "an op that belongs into this graph");
        }
        match rest {
            "workers" if self.place == Place::Function => self.reads_count(node),
            "workers" | "rank" => self.placeholder(node),
            "count" => self.count(node),
            "set_count" => self.set_count(node),
            "hosts" | "gpus" | "zero" => {
                self.constant(node);
            }
            "is_first" => self.is_first(node),
            "one" => self.cast(node, DataType::BOOL, DataType::INT32, "lms/parallel/is_first"),
            "one_long" => self.cast(node, DataType::BOOL, DataType::INT64, "lms/parallel/is_first"),
            "loss" => self.loss(node),
            "broadcast" => self.all_assigned(node),
            "barrier" => self.barrier(node),
            _ if rest.ends_with("/key") => {
                self.constant(node);
            }
            _ => match rest.strip_prefix("broadcast/").and_then(|rest| rest.split_once('/')) {
                Some((number_, what)) if number(number_).is_some() => self.of_broadcast(node, number_, what),
                Some(_) => self.wrong(node, ViolationKind::AddedName, "lms/parallel/broadcast/<number>/…"),
                None => match rest.split_once('/') {
                    Some((scope, what)) if number(scope).is_some() => self.of_collective(node, scope, what),
                    _ => self.wrong(node, ViolationKind::UnknownAddedOp, "a known op under lms/parallel/"),
                },
            },
        }
    }

    fn placeholder(&mut self, node: NodeId) {
        let shape = Value::Shape(Default::default());
        let attrs = vec![("dtype", kind(DataType::INT32)), ("shape", shape)];
        self.is(node, &Expected { op: "Placeholder", attrs, free: &[] });
        self.no_inputs(node);
        self.on_host(node);
    }

    /// The variable with the number of workers, by the one name that all share.
    fn count(&mut self, node: NodeId) {
        let attrs = vec![
            ("dtype", kind(DataType::INT32)),
            ("shape", Value::Shape(Default::default())),
            ("container", text("")),
            ("shared_name", text(COUNT)),
        ];
        self.is(node, &Expected { op: "VarHandleOp", attrs, free: &[] });
        self.no_inputs(node);
        self.on_host(node);
    }

    fn reads_count(&mut self, node: NodeId) {
        let attrs = vec![("dtype", kind(DataType::INT32))];
        self.is(node, &Expected { op: "ReadVariableOp", attrs, free: &[] });
        self.reads(node, &[self.output(COUNT)]);
        self.no_controls(node);
        self.on_host(node);
    }

    fn set_count(&mut self, node: NodeId) {
        let attrs = vec![("dtype", kind(DataType::INT32)), ("validate_shape", Value::B(false))];
        self.is(node, &Expected { op: "AssignVariableOp", attrs, free: &[] });
        self.reads(node, &[self.output(COUNT), self.output(WORKERS)]);
        self.no_controls(node);
        self.on_host(node);
    }

    fn no_controls(&mut self, node: NodeId) {
        if !self.graph.control(node).is_empty() {
            self.wrong(node, ViolationKind::AddedInputs, "no control inputs");
        }
    }

    /// An original op that named the variable with the number of workers could change it.
    fn shares_nothing(&mut self, node: NodeId) {
        let shared = self.graph.nodes.attr(node as usize, "shared_name").and_then(|name| name.value);
        if shared == Some(text(COUNT)) {
            self.wrong(
                node,
                ViolationKind::UnknownAddedOp,
                "no original op to be called as one that was added",
            );
        }
    }

    fn no_inputs(&mut self, node: NodeId) {
        if self.graph.sources(node).next().is_some() {
            self.wrong(node, ViolationKind::AddedInputs, "no inputs");
        }
    }

    /// The numbers of a constant of whole numbers.
    pub(super) fn constant(&mut self, node: NodeId) -> Option<Vec<i64>> {
        let op = self.graph.nodes.op(node as usize);
        let value = self.graph.nodes.attr(node as usize, "value").and_then(|value| value.value);
        let numbers = match value {
            Some(Value::Tensor(tensor)) if op == "Const" => numbers(&tensor),
            _ => None,
        };
        if numbers.is_none() {
            self.wrong(node, ViolationKind::AddedOp, "a constant of whole numbers");
        }
        self.no_inputs(node);
        self.on_host(node);
        numbers
    }

    /// The data inputs are just these tensors.
    pub(super) fn reads(&mut self, node: NodeId, expected: &[Option<Tensor>]) -> bool {
        let read: Vec<Option<Tensor>> = self.graph.data(node).iter().copied().map(Some).collect();
        let same = read == expected && expected.iter().all(Option::is_some);
        if !same {
            self.wrong(node, ViolationKind::AddedInputs, "the inputs that belong to it");
        }
        same
    }

    pub(super) fn output(&self, name: &str) -> Option<Tensor> {
        self.named(name).map(Self::first_output)
    }

    fn is_first(&mut self, node: NodeId) {
        let attrs = vec![("T", kind(DataType::INT32)), ("incompatible_shape_error", Value::B(true))];
        self.is(node, &Expected { op: "Equal", attrs, free: &[] });
        self.reads(node, &[self.output(RANK), self.output("lms/parallel/zero")]);
        let zero = self.named("lms/parallel/zero").and_then(|zero| self.constant(zero));
        if zero != Some(vec![0]) {
            self.wrong(node, ViolationKind::AddedInputs, "the rank and 0");
        }
        self.on_host(node);
    }

    fn cast(&mut self, node: NodeId, from: DataType, to: DataType, input: &str) {
        let attrs = vec![("SrcT", kind(from)), ("DstT", kind(to)), ("Truncate", Value::B(false))];
        self.is(node, &Expected { op: "Cast", attrs, free: &[] });
        self.reads(node, &[self.output(input)]);
        self.on_host(node);
    }

    fn loss(&mut self, node: NodeId) {
        self.is(node, &Expected { op: "Identity", attrs: Vec::new(), free: &["T"] });
        if self.graph.data(node).len() != 1 {
            self.wrong(node, ViolationKind::AddedInputs, "all workers' mean of a tensor");
        }
        self.on_host(node);
    }

    fn all_assigned(&mut self, node: NodeId) {
        self.is(node, &Expected { op: "NoOp", attrs: Vec::new(), free: &[] });
        let all = self.graph.control(node).iter().all(|control| {
            let name = self.graph.name(control.from);
            name.starts_with("lms/parallel/broadcast/") && name.ends_with("/assign")
        });
        if !all {
            self.wrong(node, ViolationKind::AddedInputs, "the broadcasts of variables");
        }
        self.on_host(node);
    }

    fn barrier(&mut self, node: NodeId) {
        self.collective(node, "CollectiveReduceV2", Some("Id"), false);
        if self.graph.data(node).first() != self.output(WORKERS).as_ref() {
            self.wrong(node, ViolationKind::AddedInputs, "the number of workers");
        }
        self.on_host(node);
    }

    /// A collective of the right form: it takes the number of workers, its group and a key of its own, and waits for collectives only.
    pub(super) fn collective(
        &mut self,
        node: NodeId,
        op: &'static str,
        result: Option<&str>,
        is_of_step: bool,
    ) {
        let mut attrs = vec![("is_stateless", Value::B(false)), ("Nordering_token", Value::I(0))];
        if let Some(result) = result {
            attrs.extend([
                ("merge_op", text("Add")),
                ("final_op", text(result)),
                ("max_subdivs_per_device", Value::I(-1)),
            ]);
        }
        self.is(node, &Expected { op, attrs, free: &["T", "communication_hint", "timeout_seconds"] });
        let name = self.graph.name(node);
        let is_gpu = self.graph.nodes.device(node as usize).contains("GPU");
        let group = if is_gpu { "lms/parallel/gpus" } else { "lms/parallel/hosts" };
        let expected = [self.output(WORKERS), self.output(group), self.output(&format!("{name}/key"))];
        let read: Vec<Option<Tensor>> = self.graph.data(node).iter().skip(1).copied().map(Some).collect();
        if read != expected {
            return self.wrong(
                node,
                ViolationKind::AddedInputs,
                "the number of workers, its group and its key",
            );
        }
        let waits: Vec<NodeId> = self.graph.control(node).iter().map(|control| control.from).collect();
        let is_known = |&from: &NodeId| {
            let other = self.graph.name(from);
            other.starts_with(PREFIX)
                && (self.graph.nodes.op(from as usize).starts_with("Collective")
                    || other.ends_with("/assign"))
        };
        if !waits.iter().all(is_known) {
            self.wrong(node, ViolationKind::AddedInputs, "control inputs from collectives only");
        }
        let keys =
            [group, &format!("{name}/key")].map(|name| self.named(name).and_then(|node| self.constant(node)));
        match keys.map(|key| key.and_then(|key| <[i64; 1]>::try_from(key).ok())) {
            [Some([group]), Some([key])] => {
                if let Some(&other) = self.keys.get(&(group, key)) {
                    let graph = self.graph;
                    self.report.add(ViolationKind::SharedKey, || {
                        (
                            [graph.name(node), graph.name(other)],
                            "keys of their own".to_string(),
                            format!("both {key}"),
                        )
                    });
                }
                self.keys.insert((group, key), node);
            }
            _ => {
                self.wrong(node, ViolationKind::AddedInputs, "one number as the key, and one as the group's")
            }
        }
        self.formed.collectives.push(Together { node, is_of_step });
    }

    /// The original tensor that a node reads first.
    fn source(&mut self, node: NodeId) -> Option<Tensor> {
        let source =
            self.graph.data(node).first().copied().filter(|tensor| self.graph.is_original(tensor.node));
        if source.is_none() {
            self.wrong(node, ViolationKind::AddedInputs, "a tensor of the original graph");
        }
        source
    }

    pub(super) fn attr_type(&self, node: NodeId) -> Option<DataType> {
        match self.graph.nodes.attr(node as usize, "T")?.value {
            Some(Value::Type(number)) => Some(DataType::new(number)),
            _ => None,
        }
    }

    /// A mean of whole numbers is none.
    fn is_of_fractions(&mut self, node: NodeId) {
        let kinds = [DataType::FLOAT, DataType::HALF, DataType::DOUBLE, DataType::BFLOAT16];
        if !self.attr_type(node).is_some_and(|dtype| kinds.contains(&dtype)) {
            self.wrong(node, ViolationKind::AddedOp, "a type of which there are means");
        }
    }

    fn of_collective(&mut self, node: NodeId, scope: &str, what: &str) {
        let under = |what: &str| format!("{PREFIX}{scope}/{what}");
        let device = self.graph.nodes.device(node as usize);
        let owner = ["mean", "rows"].iter().find_map(|what| self.named(&under(what)));
        if owner.is_none_or(|owner| self.graph.nodes.device(owner as usize) != device)
            && !matches!(what, "flat" | "axis" | "sizes" | "back")
            && !what.starts_with("shape/")
            && !what.starts_with("back/")
        {
            self.wrong(node, ViolationKind::AddedDevice, "the device of its collective");
        }
        let joined = self.named(&under("joined"));
        match (what, what.split_once('/')) {
            ("flat" | "axis" | "sizes", _) | (_, Some(("shape", _))) => {
                self.constant(node);
            }
            ("mean", _) => {
                self.collective(node, "CollectiveReduceV2", Some("Div"), true);
                self.is_of_fractions(node);
                match joined {
                    Some(joined) => {
                        if self.graph.data(node).first() != Some(&Self::first_output(joined)) {
                            self.wrong(node, ViolationKind::AddedInputs, "what was joined");
                        }
                    }
                    None => {
                        if let Some(source) = self.source(node) {
                            self.formed.reduced.insert(Self::first_output(node), source);
                        }
                    }
                }
            }
            ("joined", _) => self.joined(node, scope),
            ("split", _) => {
                self.is(
                    node,
                    &Expected {
                        op: "SplitV",
                        attrs: vec![("Tlen", kind(DataType::INT64))],
                        free: &["T", "num_split"],
                    },
                );
                let inputs =
                    [self.output(&under("mean")), self.output(&under("sizes")), self.output(&under("axis"))];
                self.reads(node, &inputs);
            }
            (_, Some(("in", k))) => {
                self.is(
                    node,
                    &Expected { op: "Reshape", attrs: vec![("Tshape", kind(DataType::INT32))], free: &["T"] },
                );
                let flat = self.named(&under("flat")).and_then(|flat| self.constant(flat));
                if self.graph.data(node).get(1) != self.output(&under("flat")).as_ref()
                    || flat != Some(vec![-1])
                    || number(k).is_none()
                {
                    self.wrong(node, ViolationKind::AddedInputs, "a tensor and the shape [-1]");
                }
                self.source(node);
            }
            (_, Some(("out", k))) => self.part(node, scope, k),
            ("back", _) => self.back(node, scope, None),
            (_, Some(("back", k))) => self.back(node, scope, Some(k)),
            ("count", _) => {
                let to = self.graph.nodes.attr(node as usize, "DstT").and_then(|to| to.value);
                match to {
                    Some(Value::Type(to)) => self.cast_anywhere(node, DataType::new(to)),
                    _ => self.wrong(node, ViolationKind::AddedOp, "a conversion of the number of workers"),
                }
            }
            ("part", _) => {
                self.is(node, &Expected { op: "RealDiv", attrs: Vec::new(), free: &["T"] });
                self.source(node);
                if self.graph.data(node).get(1) != self.output(&under("count")).as_ref() {
                    self.wrong(node, ViolationKind::AddedInputs, "rows and the number of workers");
                }
            }
            ("rows", _) => {
                self.collective(node, "CollectiveGatherV2", None, true);
                self.is_of_fractions(node);
                let part = self.named(&under("part"));
                let source = part.and_then(|part| self.source(part));
                if self.graph.data(node).first().copied() != part.map(Self::first_output) {
                    self.wrong(node, ViolationKind::AddedInputs, "the divided rows");
                }
                if let Some(source) = source {
                    self.formed.reduced.insert(Self::first_output(node), source);
                    self.formed.gathered.insert(source);
                }
            }
            ("indices", _) => {
                self.collective(node, "CollectiveGatherV2", None, true);
                if let Some(source) = self.source(node) {
                    self.formed.reduced.insert(Self::first_output(node), source);
                    self.formed.gathered.insert(source);
                }
            }
            _ => self.wrong(node, ViolationKind::UnknownAddedOp, "a known op of a collective"),
        }
    }

    fn cast_anywhere(&mut self, node: NodeId, to: DataType) {
        let attrs = vec![("SrcT", kind(DataType::INT32)), ("DstT", kind(to)), ("Truncate", Value::B(false))];
        self.is(node, &Expected { op: "Cast", attrs, free: &[] });
        self.reads(node, &[self.output(WORKERS)]);
    }

    /// All of `in/0`, `in/1`, … in this order.
    fn joined(&mut self, node: NodeId, scope: &str) {
        let count = self.graph.data(node).len().saturating_sub(1);
        let attrs = vec![("N", Value::I(count as i64)), ("Tidx", kind(DataType::INT32))];
        self.is(node, &Expected { op: "ConcatV2", attrs, free: &["T"] });
        let mut expected: Vec<Option<Tensor>> =
            (0..count).map(|k| self.output(&format!("{PREFIX}{scope}/in/{k}"))).collect();
        expected.push(self.output(&format!("{PREFIX}{scope}/axis")));
        self.reads(node, &expected);
        let axis = self.named(&format!("{PREFIX}{scope}/axis")).and_then(|axis| self.constant(axis));
        let sizes = self.named(&format!("{PREFIX}{scope}/sizes")).and_then(|sizes| self.constant(sizes));
        if axis != Some(vec![0]) || sizes.is_none_or(|sizes| sizes.len() != count) {
            self.wrong(node, ViolationKind::AddedInputs, "axis 0, and as many sizes as there are tensors");
        }
    }

    /// A mean brought to where the tensor is that it is of.
    fn back(&mut self, node: NodeId, scope: &str, k: Option<&str>) {
        let under = |what: &str| format!("{PREFIX}{scope}/{what}");
        let [mean, own] = match k {
            None => ["mean", "mean"].map(under),
            Some(k) => ["out", "in"].map(|what| under(&format!("{what}/{k}"))),
        };
        let source = self.named(&own).and_then(|own| self.source(own));
        let (Some(source), true) = (source, self.named(&under("joined")).is_some() == k.is_some()) else {
            return self.wrong(node, ViolationKind::AddedInputs, "a mean of the original graph");
        };
        let device = self.graph.nodes.device(source.node as usize);
        let beside = format!("loc:@{}", self.graph.name(source.node)).into_bytes();
        let beside = Value::List(ListValue { s: vec![beside], ..ListValue::default() });
        let attrs = if device.is_empty() { vec![("_class", beside)] } else { Vec::new() };
        self.is(node, &Expected { op: "Identity", attrs, free: &["T"] });
        self.no_controls(node);
        if self.graph.nodes.device(node as usize) != device {
            self.wrong(node, ViolationKind::AddedDevice, "the device of the tensor that it is of");
        }
        if self.reads(node, &[self.output(&mean)]) {
            self.formed.reduced.insert(Self::first_output(node), source);
        }
    }

    /// A part of a mean has the size and the shape of the tensor that it is of.
    fn part(&mut self, node: NodeId, scope: &str, k: &str) {
        let under = |what: &str| format!("{PREFIX}{scope}/{what}");
        self.is(
            node,
            &Expected { op: "Reshape", attrs: vec![("Tshape", kind(DataType::INT64))], free: &["T"] },
        );
        let Some(k) = number(k) else {
            return self.wrong(node, ViolationKind::AddedName, "lms/parallel/<number>/out/<number>");
        };
        let part = self.named(&under("split")).map(|node| Tensor { node, output: k });
        if !self.reads(node, &[part, self.output(&under(&format!("shape/{k}")))]) {
            return;
        }
        let source = self.named(&under(&format!("in/{k}"))).and_then(|own| self.source(own));
        let shape = self.named(&under(&format!("shape/{k}"))).and_then(|shape| self.constant(shape));
        let sizes = self.named(&under("sizes")).and_then(|sizes| self.constant(sizes));
        let (Some(source), Some(shape), Some(sizes)) = (source, shape, sizes) else {
            return self.wrong(node, ViolationKind::AddedInputs, "a part of known size");
        };
        let count =
            shape.iter().try_fold(1i64, |product, &size| product.checked_mul(size).filter(|_| size >= 0));
        let known = self.declared_shape(source);
        if count.is_none()
            || sizes.get(k as usize) != count.as_ref()
            || known.is_some_and(|known| known != shape)
        {
            return self.wrong(
                node,
                ViolationKind::AddedInputs,
                "the size and the shape of the tensor that it is of",
            );
        }
        self.formed.reduced.insert(Self::first_output(node), source);
    }

    /// The shape that the file gives a tensor, if it does in full.
    fn declared_shape(&self, tensor: Tensor) -> Option<Vec<i64>> {
        match self.graph.nodes.attr(tensor.node as usize, "_output_shapes")?.value? {
            Value::List(list) => {
                let shape = list.shape.into_iter().nth(tensor.output as usize)?;
                let sizes: Vec<i64> = shape.dim.iter().map(|dim| dim.size).collect();
                (!shape.unknown_rank && sizes.iter().all(|&size| size >= 0)).then_some(sizes)
            }
            _ => None,
        }
    }
}

/// The group and the key of each collective of a graph of which the form is shown, with its name.
pub(in super::super) fn keys(model: &Model) -> Vec<((i64, i64), String)> {
    let nodes = model.nodes();
    let places: HashMap<&str, usize> = (0..nodes.len()).map(|node| (nodes.name(node), node)).collect();
    let number = |name: &str| match nodes.attr(*places.get(name)?, "value")?.value? {
        Value::Tensor(tensor) => numbers(&tensor)?.first().copied(),
        _ => None,
    };
    let is_together =
        |&node: &usize| nodes.name(node).starts_with(PREFIX) && nodes.op(node).starts_with("Collective");
    let key = |node: usize| {
        let name = nodes.name(node);
        let group = nodes.inputs(node).nth(2)?;
        Some(((number(group)?, number(&format!("{name}/key"))?), name.to_string()))
    };
    (0..nodes.len()).filter(is_together).filter_map(key).collect()
}

/// The whole numbers of a tensor, if it has some.
fn numbers(tensor: &TensorProto) -> Option<Vec<i64>> {
    let shape = tensor.tensor_shape.as_ref()?;
    let numbers: Vec<i64> = match DataType::new(tensor.dtype) {
        DataType::INT32 => tensor.int_val.iter().map(|&value| i64::from(value)).collect(),
        DataType::INT64 => tensor.int64_val.clone(),
        _ => return None,
    };
    let plain = tensor.tensor_content.is_empty() && !shape.unknown_rank && shape.dim.len() < 2;
    let count = shape.dim.first().map_or(1, |dim| dim.size);
    (plain && count == numbers.len() as i64).then_some(numbers)
}

fn kind(dtype: DataType) -> Value {
    Value::Type(dtype.number())
}

fn text(text: &str) -> Value {
    Value::S(text.as_bytes().to_vec())
}
