//! From a plan to edits of the file.

use std::collections::{BTreeMap, HashMap};

use super::error::RewriteError;
use super::names;
use crate::format::{AttrEdit, Edits, Model, Nodes};
use crate::graph::{ByName, ControlFlow, Device, Graph, NodeId, RefVariables, TensorId};
use crate::plan::{
    InitialValue, NotRecomputable, NotSwappable, Order, Plan, Recomputation, Substitute, Swap, SwapIn,
    WORKERS, computes_nothing, graph_digest, keeps_elements, movable, recomputable, returnable,
};
use crate::proto::tensorflow::attr_value::{ListValue, Value};
use crate::proto::tensorflow::{AttrValue, NodeDef};

/// The op that is a swap: see [`super`].
const SWAP_OP: &str = "PreventGradient";

/// What a rewrite is to change.
#[derive(Debug)]
pub struct Rewritten {
    /// The changes to the file.
    pub edits: Edits,
    /// How many control edges were added.
    pub control_edges: usize,
}

/// Turns a plan into edits.
///
/// # Errors
///
/// If the plan is not one for this graph: see [`RewriteError`].
pub fn rewrite(model: &Model, graph: &Graph, plan: &Plan) -> Result<Rewritten, RewriteError> {
    let nodes = model.nodes();
    let moved = || (0..nodes.len()).find(|&node| names::device_before(nodes, node).is_some());
    if let Some(node) = names::first_swapping(nodes).or_else(|| moved().map(|node| nodes.name(node))) {
        return Err(RewriteError::AlreadyRewritten { node: node.to_string() });
    }
    let found = graph_digest(graph);
    if plan.graph.nodes != graph.len() || plan.graph.digest != found {
        return Err(RewriteError::OtherGraph {
            planned_nodes: plan.graph.nodes,
            planned: plan.graph.digest.clone(),
            nodes: graph.len(),
            found,
        });
    }
    let mut rewriter = Rewriter {
        graph,
        nodes,
        flow: ControlFlow::of(graph),
        variables: RefVariables::of(graph),
        host: Device::parse(&plan.host_device)?,
        serves_any_task: (0..nodes.len()).any(|node| nodes.name(node) == WORKERS),
        by_name: ByName::of(graph),
        inputs: BTreeMap::new(),
        added: Vec::new(),
        returns: HashMap::new(),
        recomputed: Vec::new(),
        times: HashMap::new(),
        begun: HashMap::new(),
        devices: BTreeMap::new(),
        attrs: BTreeMap::new(),
        control_edges: 0,
    };
    for name in &plan.host_ops {
        rewriter.move_to_host(name)?;
    }
    for swap in &plan.swaps {
        let tensor = rewriter.tensor(&swap.tensor)?;
        if rewriter.returns.insert(tensor, swap.swap_ins.len()).is_some() {
            return Err(RewriteError::SwappedTwice { tensor: swap.tensor.clone() });
        }
        rewriter.swap(swap, tensor)?;
    }
    for (number, again) in plan.recomputations.iter().enumerate() {
        rewriter.recomputation(number, again)?;
    }
    for value in &plan.initial_values {
        rewriter.initial_value(value)?;
    }
    rewriter.orders(&plan.orders)?;
    rewriter.part();
    let inputs = rewriter.inputs.into_iter().map(|(node, inputs)| (node.index(), inputs)).collect();
    Ok(Rewritten {
        edits: Edits {
            inputs,
            devices: rewriter.devices,
            attrs: rewriter.attrs,
            added: rewriter.added,
            ..Edits::default()
        },
        control_edges: rewriter.control_edges,
    })
}

struct Rewriter<'a> {
    graph: &'a Graph<'a>,
    nodes: Nodes<'a>,
    flow: ControlFlow,
    variables: RefVariables,
    host: Device,
    /// Whether the graph is for any worker of several.
    serves_any_task: bool,
    by_name: ByName<'a>,
    /// The new inputs of nodes that have some.
    inputs: BTreeMap<NodeId, Vec<String>>,
    added: Vec<NodeDef>,
    /// How often each swapped tensor returns.
    returns: HashMap<TensorId, usize>,
    /// The ops that run again and the names of their second runs, in the order of the plan.
    recomputed: Vec<(NodeId, String)>,
    /// How often each op runs again.
    times: HashMap<NodeId, usize>,
    /// How many variables begin with each constant.
    begun: HashMap<TensorId, usize>,
    /// The devices of the ops that go to the host.
    devices: BTreeMap<usize, Option<String>>,
    /// What changes in these and in those that had to be with them.
    attrs: BTreeMap<usize, Vec<AttrEdit>>,
    control_edges: usize,
}

impl Rewriter<'_> {
    fn node(&self, name: &str, role: &'static str) -> Result<NodeId, RewriteError> {
        let found = self.by_name.node(name);
        found.ok_or_else(|| RewriteError::NoSuchNode { name: name.to_string(), role })
    }

    fn tensor(&self, name: &str) -> Result<TensorId, RewriteError> {
        self.by_name.tensor(name).ok_or_else(|| RewriteError::NoSuchTensor { tensor: name.to_string() })
    }

    /// The host of an op's device.
    fn host_of(&self, node: NodeId) -> String {
        let device = self.graph.device(node);
        let host = match self.serves_any_task {
            true => device.host_of_any_task(&self.host),
            false => device.host(&self.host),
        };
        host.to_string()
    }

    /// Moves an op to the host of its device.
    fn move_to_host(&mut self, name: &str) -> Result<(), RewriteError> {
        let node = self.node(name, "an op that goes to the host")?;
        let op = self.graph.op(node);
        if !(computes_nothing(op) || keeps_elements(op)) || self.graph.device(node).is_cpu() {
            return Err(RewriteError::NotMovable { node: name.to_string(), op: op.name().to_string() });
        }
        let before = self.nodes.device(node.index()).to_string();
        let device = self.host_of(node);
        self.devices.insert(node.index(), Some(device));
        self.attrs.entry(node.index()).or_default().push(AttrEdit::Add(names::DEVICE_BEFORE, before));
        Ok(())
    }

    /// Parts ops that had to be together, where one of them goes to the host and the other stays where it is.
    fn part(&mut self) {
        if self.devices.is_empty() {
            return;
        }
        let goes = |node: NodeId| self.devices.contains_key(&node.index());
        for node in self.graph.node_ids() {
            let named = self.graph.attrs(node).colocated_with();
            let mut others = named.iter().filter_map(|name| self.by_name.node(name));
            if others.any(|other| goes(other) != goes(node)) {
                let rename = AttrEdit::Rename(names::CLASS, names::CLASS_BEFORE);
                self.attrs.entry(node.index()).or_default().push(rename);
            }
        }
    }

    /// Whether a tensor can be brought to the GPU: from there by way of the host, or from an op that goes to the host.
    fn check_swappable(&self, tensor: TensorId) -> Result<(), NotSwappable> {
        match self.devices.contains_key(&self.graph.producer(tensor).index()) {
            true => movable(self.graph, tensor),
            false => returnable(self.graph, &self.variables, tensor),
        }
    }

    fn swap(&mut self, swap: &Swap, tensor: TensorId) -> Result<(), RewriteError> {
        if let Err(why) = self.check_swappable(tensor) {
            return Err(RewriteError::NotSwappable { tensor: swap.tensor.clone(), why });
        }
        if swap.swap_ins.is_empty() {
            return Err(RewriteError::NeverBack { tensor: swap.tensor.clone() });
        }
        let producer = self.graph.producer(tensor);
        let (name, output) = (self.graph.name(producer), self.graph.output_index(tensor));
        let mut source = names::input(name, output);
        if !swap.waiting.is_empty() {
            let swap_out = names::swap_out(name, output);
            let message = format!("{swap_out}: copies a tensor to host memory; {ADVICE}");
            self.add_swap_op(swap_out.clone(), tensor, vec![source], message);
            for waiting in &swap.waiting {
                let waiting = self.node(waiting, "an op that waits")?;
                self.check_sums(waiting)?;
                self.check_frames(producer, waiting)?;
                self.add_control_input(waiting, &swap_out);
            }
            source = swap_out;
        }
        for (number, swap_in) in swap.swap_ins.iter().enumerate() {
            self.swap_in(swap, swap_in, tensor, number, &source)?;
        }
        Ok(())
    }

    fn swap_in(
        &mut self,
        swap: &Swap,
        swap_in: &SwapIn,
        tensor: TensorId,
        number: usize,
        source: &str,
    ) -> Result<(), RewriteError> {
        let producer = self.graph.producer(tensor);
        let name = names::swap_in(self.graph.name(producer), self.graph.output_index(tensor), number);
        let mut inputs = vec![source.to_string()];
        for trigger in &swap_in.triggers {
            let trigger = self.node(trigger, "a trigger")?;
            if self.flow.output_frame(trigger) != self.flow.output_frame(producer) {
                return Err(self.across_frames(producer, trigger));
            }
            inputs.push(format!("^{}", self.graph.name(trigger)));
            self.control_edges += 1;
        }
        for consumer in &swap_in.consumers {
            let consumer_id = self.node(consumer, "a consumer")?;
            self.check_frames(producer, consumer_id)?;
            if !self.redirect(consumer_id, tensor, &name, names::like) {
                return Err(RewriteError::NotAConsumer {
                    tensor: swap.tensor.clone(),
                    consumer: consumer.clone(),
                });
            }
        }
        let message = format!("{name}: brings a tensor back from host memory; {ADVICE}");
        self.add_swap_op(name, tensor, inputs, message);
        Ok(())
    }

    /// Lets a variable begin with a copy of a constant.
    ///
    /// The copy waits for the variable's handle, as its reader does anyway: Grappler computes it beforehand, and makes one of all equal
    /// constants that wait for the same.
    fn initial_value(&mut self, value: &InitialValue) -> Result<(), RewriteError> {
        let tensor = self.tensor(&value.tensor)?;
        if let Err(why) = movable(self.graph, tensor) {
            return Err(RewriteError::NotSwappable { tensor: value.tensor.clone(), why });
        }
        let producer = self.graph.producer(tensor);
        let (node, output) = (self.graph.name(producer), self.graph.output_index(tensor));
        let number = self.begun.entry(tensor).or_default();
        let name = names::initial(node, output, *number);
        *number += 1;
        let assign = self.node(&value.assign, "an op that assigns")?;
        self.check_frames(producer, assign)?;
        if !self.redirect(assign, tensor, &name, names::like) {
            let (tensor, consumer) = (value.tensor.clone(), value.assign.clone());
            return Err(RewriteError::NotAConsumer { tensor, consumer });
        }
        let variable = self.graph.data_inputs(assign).first().filter(|&&variable| variable != tensor);
        let variable =
            variable.map(|&variable| format!("^{}", self.graph.name(self.graph.producer(variable))));
        self.control_edges += usize::from(variable.is_some());
        let inputs = [names::input(node, output)].into_iter().chain(variable).collect();
        let message = format!("{name}: gives a variable memory of its own; {ADVICE}");
        self.add_swap_op(name, tensor, inputs, message);
        Ok(())
    }

    /// Adds a copy of an op that runs later. `number` is its place in the plan.
    fn recomputation(&mut self, number: usize, again: &Recomputation) -> Result<(), RewriteError> {
        let op = self.node(&again.op, "an op that runs again")?;
        if let Err(why) = recomputable(self.graph, &self.flow, &self.variables, op) {
            return Err(RewriteError::NotRecomputable { node: again.op.clone(), why });
        }
        let time = self.times.entry(op).or_default();
        let name = names::recompute(&again.op, *time);
        *time += 1;
        let mut node = self.nodes.decoded(op.index()).ok_or_else(|| RewriteError::NotRecomputable {
            node: again.op.clone(),
            why: NotRecomputable::Damaged,
        })?;
        node.attr.insert("_lms_recompute".to_string(), attr_value(Value::I(*time as i64 - 1)));
        for input in &again.inputs {
            let tensor = self.tensor(&input.tensor)?;
            let is_read = self.graph.data_inputs(op).contains(&tensor);
            let substitute = self.substitute(&input.tensor, input.from, number).filter(|_| is_read);
            let substitute = substitute.ok_or_else(|| RewriteError::NoSuchSubstitute {
                node: again.op.clone(),
                tensor: input.tensor.clone(),
            })?;
            let slots = self.graph.data_inputs(op).iter().zip(&mut node.input);
            for (_, written) in slots.filter(|(read, _)| **read == tensor) {
                *written = match input.from {
                    Substitute::SwapIn(_) => names::like(written, &substitute),
                    Substitute::Recomputation(_) => names::same_output(written, &substitute),
                };
            }
        }
        for trigger in &again.triggers {
            let trigger = self.node(trigger, "a trigger")?;
            self.check_frames(trigger, op)?;
            node.input.push(format!("^{}", self.graph.name(trigger)));
            self.control_edges += 1;
        }
        for output in &again.outputs {
            let tensor = self.tensor(&output.tensor)?;
            let is_own = self.graph.producer(tensor) == op;
            for consumer in &output.consumers {
                let consumer_id = self.node(consumer, "a consumer")?;
                self.check_frames(op, consumer_id)?;
                if !is_own || !self.redirect(consumer_id, tensor, &name, names::same_output) {
                    let (tensor, consumer) = (output.tensor.clone(), consumer.clone());
                    return Err(RewriteError::NotAConsumer { tensor, consumer });
                }
            }
        }
        node.name.clone_from(&name);
        self.added.push(node);
        self.recomputed.push((op, name));
        Ok(())
    }

    /// The node that holds the same as a tensor; none if the plan has no such thing before its recomputation `number`.
    fn substitute(&self, tensor: &str, from: Substitute, number: usize) -> Option<String> {
        let id = self.tensor(tensor).ok()?;
        match from {
            Substitute::SwapIn(which) => {
                let producer = self.graph.name(self.graph.producer(id));
                let is_there = self.returns.get(&id).is_some_and(|&returns| (which as usize) < returns);
                is_there.then(|| names::swap_in(producer, self.graph.output_index(id), which as usize))
            }
            Substitute::Recomputation(other) => {
                let (op, name) = self.recomputed.get(other as usize).filter(|_| (other as usize) < number)?;
                (*op == self.graph.producer(id)).then(|| name.clone())
            }
        }
    }

    /// Lets all inputs of a consumer that read the tensor read another node. Whether there were any.
    fn redirect(
        &mut self,
        consumer: NodeId,
        tensor: TensorId,
        to: &str,
        written: impl Fn(&str, &str) -> String,
    ) -> bool {
        let slots = self.graph.data_inputs(consumer).iter().enumerate().filter(|(_, read)| **read == tensor);
        let slots: Vec<usize> = slots.map(|(slot, _)| slot).collect();
        let original: Vec<&str> = self.nodes.inputs(consumer.index()).collect();
        let inputs = self.inputs_of(consumer);
        let mut redirected = false;
        for slot in slots {
            // Another swap-in may have been here.
            if inputs[slot] == original[slot] {
                inputs[slot] = written(original[slot], to);
                redirected = true;
            }
        }
        redirected
    }

    fn orders(&mut self, orders: &[Order]) -> Result<(), RewriteError> {
        // One op for all that a node waits for.
        let mut before: BTreeMap<NodeId, Vec<NodeId>> = BTreeMap::new();
        for order in orders {
            let first = self.node(&order.before, "an op that runs first")?;
            let second = self.node(&order.after, "an op that runs second")?;
            self.check_sums(second)?;
            self.check_frames(first, second)?;
            let firsts = before.entry(second).or_default();
            if !firsts.contains(&first) {
                firsts.push(first);
            }
        }
        for (number, (second, firsts)) in before.into_iter().enumerate() {
            let name = names::order(number);
            self.add_control_input(second, &name);
            self.control_edges += firsts.len();
            self.added.push(NodeDef {
                name,
                op: "NoOp".to_string(),
                input: firsts.into_iter().map(|first| format!("^{}", self.graph.name(first))).collect(),
                device: self.nodes.device(second.index()).to_string(),
                ..NodeDef::default()
            });
        }
        Ok(())
    }

    /// Whether sums add in the same order when an op waits for another one.
    fn check_sums(&self, node: NodeId) -> Result<(), RewriteError> {
        match self.graph.sums().stays_equal(node) {
            true => Err(RewriteError::OrderOfSum { node: self.graph.name(node).to_string() }),
            false => Ok(()),
        }
    }

    fn inputs_of(&mut self, node: NodeId) -> &mut Vec<String> {
        let nodes = self.nodes;
        self.inputs.entry(node).or_insert_with(|| nodes.inputs(node.index()).map(str::to_string).collect())
    }

    fn add_control_input(&mut self, node: NodeId, from: &str) {
        self.inputs_of(node).push(format!("^{from}"));
        self.control_edges += 1;
    }

    fn check_frames(&self, from: NodeId, to: NodeId) -> Result<(), RewriteError> {
        if self.flow.output_frame(from) == self.flow.frame(to) {
            Ok(())
        } else {
            Err(self.across_frames(from, to))
        }
    }

    fn across_frames(&self, first: NodeId, second: NodeId) -> RewriteError {
        RewriteError::AcrossFrames {
            first: self.graph.name(first).to_string(),
            second: self.graph.name(second).to_string(),
        }
    }

    fn add_swap_op(&mut self, name: String, tensor: TensorId, inputs: Vec<String>, message: String) {
        let producer = self.graph.producer(tensor);
        let dtype = self.graph.output_type(tensor).dtype;
        let mut attr = BTreeMap::from([
            ("T".to_string(), attr_value(Value::Type(dtype.number()))),
            ("message".to_string(), attr_value(Value::S(message.into_bytes()))),
        ]);
        if let Some(shapes) = self.output_shapes(tensor) {
            attr.insert("_output_shapes".to_string(), shapes);
        }
        self.added.push(NodeDef {
            name,
            op: SWAP_OP.to_string(),
            input: inputs,
            device: self.host_of(producer),
            attr,
            ..NodeDef::default()
        });
    }

    /// The attribute `_output_shapes` with the shape of one tensor, where its producer has the attribute.
    fn output_shapes(&self, tensor: TensorId) -> Option<AttrValue> {
        let producer = self.graph.producer(tensor);
        let all = self.nodes.attr(producer.index(), "_output_shapes")?;
        let Some(Value::List(list)) = all.value else { return None };
        let shape = list.shape.into_iter().nth(self.graph.output_index(tensor) as usize)?;
        Some(attr_value(Value::List(ListValue { shape: vec![shape], ..ListValue::default() })))
    }
}

/// What a swap op tells who differentiates through it.
const ADVICE: &str = "gradients cannot be taken of a rewritten graph: rewrite the training graph instead";

fn attr_value(value: Value) -> AttrValue {
    AttrValue { value: Some(value) }
}
