//! What is computed only for others to wait for.
//!
//! Grappler's dependency optimizer runs before each call of a function from Python. An op without an effect whose results nobody reads does
//! nothing from then on but wait for what it read. The gradients of version 1 leave many: each gradient of an op waits for all of them, also
//! for those of what is no variable. So that is what a step runs, and what is predicted, planned for and written back.
//!
//! An `IdentityN`, which custom gradients and optimizers leave behind, would have all that it hands on wait for the last one, and stay in
//! memory meanwhile; a `StopGradient` is of no use any more. Who reads them reads what they hand on, as Grappler and its pruning have it.
//!
//! What no call runs is left out. Nobody outside of a function can ask for it, so it is in nobody's way: in a graph of version 1 an op that
//! hangs on the forward part might be an evaluation, whose run must not run more because of a plan.

use std::collections::{HashMap, HashSet};

use prost::Message;

use super::FlattenError;
use crate::dtype::DataType;
use crate::format::wire::{Fields, put_length_delimited_header, put_string};
use crate::format::{Model, Nodes};
use crate::graph::NodeAttrs;
use crate::ops::OpRegistry;
use crate::proto::tensorflow::attr_value::{ListValue, Value};
use crate::proto::tensorflow::{AttrValue, NodeDef, TensorShapeProto};

/// Field numbers.
mod field {
    pub const NAME: u32 = 1;
    pub const OP: u32 = 2;
    pub const INPUT: u32 = 3;
    pub const DEVICE: u32 = 4;
    pub const GRAPH_NODE: u32 = 1;
}

/// Ops without an effect that run all the same, or that lead through loops and branches.
const RUN: [&str; 16] = [
    "Assert",
    "CheckNumerics",
    "ControlTrigger",
    "LoopCond",
    "Placeholder",
    "PlaceholderV2",
    "PlaceholderWithDefault",
    "Switch",
    "_SwitchN",
    "Merge",
    "Enter",
    "Exit",
    "NextIteration",
    "_ParallelConcatUpdate",
    "_Arg",
    "_Retval",
];

/// Ops that count as stateful, since they read variables, and change nothing.
const READ: [&str; 4] = ["ReadVariableOp", "_ReadVariablesOp", "ResourceGather", "ResourceGatherNd"];

/// Ops that only hand on what they read, once gradients are made.
const HAND_ON: [&str; 2] = ["IdentityN", "StopGradient"];

/// Where a node has to be.
const CLASS: &str = "_class";

/// The shapes of a node's outputs.
const SHAPES: &str = "_output_shapes";

/// How many ops a reader is made to wait for, because an `IdentityN` did that it read, before it goes on reading that.
const MOST_WAITS: usize = 8;

/// An input of a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Input {
    Data(u32, u32),
    Control(u32),
}

/// The main graph of a model, of which nobody computes what nobody reads; none if it is so already. The nodes of `kept` stay.
///
/// # Errors
///
/// If a node reads what is not there.
pub(super) fn without_unread(
    model: &Model,
    registry: &OpRegistry,
    kept: &HashSet<&str>,
    function: &str,
) -> Result<Option<Vec<u8>>, FlattenError> {
    let mut graph = Graph::of(model, registry, kept, function)?;
    graph.bypass();
    graph.stop();
    graph.leave_out();
    Ok(graph.is_changed().then(|| graph.encoded(model)))
}

struct Graph<'g> {
    nodes: Nodes<'g>,
    places: HashMap<&'g str, u32>,
    /// Of each node its inputs. Behind the nodes come those that were added.
    inputs: Vec<Vec<Input>>,
    /// Whether they are others than in the file.
    is_rewired: Vec<bool>,
    /// Whether it only waits.
    only_waits: Vec<bool>,
    /// Whether it may do so if nobody reads it.
    may_wait: Vec<bool>,
    has_effect: Vec<bool>,
    kept: Vec<bool>,
    /// Whether it is left out.
    is_out: Vec<bool>,
    /// What was added: a switch, which of its outputs, and the name of what reads that for others to wait for.
    added: Vec<(u32, u32, String)>,
}

impl<'g> Graph<'g> {
    fn of(
        model: &'g Model,
        registry: &OpRegistry,
        kept: &HashSet<&str>,
        function: &str,
    ) -> Result<Graph<'g>, FlattenError> {
        let nodes = model.nodes();
        let all = 0..nodes.len();
        let places: HashMap<&str, u32> = all.clone().map(|node| (nodes.name(node), node as u32)).collect();
        let mut inputs = Vec::with_capacity(nodes.len());
        for node in all.clone() {
            let read = |input: &str| {
                parsed(input, &places).ok_or_else(|| FlattenError::BadInput {
                    function: function.to_string(),
                    reader: nodes.name(node).to_string(),
                    input: input.to_string(),
                })
            };
            inputs.push(nodes.inputs(node).map(read).collect::<Result<Vec<Input>, _>>()?);
        }
        Ok(Graph {
            nodes,
            places,
            inputs,
            is_rewired: vec![false; nodes.len()],
            only_waits: vec![false; nodes.len()],
            may_wait: all.clone().map(|node| may_wait(registry, nodes.op(node))).collect(),
            has_effect: all.clone().map(|node| has_effect(registry, nodes.op(node))).collect(),
            kept: all.map(|node| kept.contains(nodes.name(node))).collect(),
            is_out: vec![false; nodes.len()],
            added: Vec::new(),
        })
    }

    fn is_changed(&self) -> bool {
        self.is_rewired.contains(&true) || self.is_out.contains(&true)
    }

    fn is_switch(&self, node: u32) -> bool {
        ["Switch", "_SwitchN"].contains(&self.nodes.op(node as usize))
    }

    /// Has readers of what only hands on read what that read.
    fn bypass(&mut self) {
        let passed: Vec<Option<Vec<i32>>> = (0..self.nodes.len()).map(|node| self.handed_on(node)).collect();
        if passed.iter().all(Option::is_none) {
            return;
        }
        // A variable's handle does not say whether a branch is taken, as the op does that hands it on.
        let is_passed = |node: u32, output: u32| {
            let types = passed[node as usize].as_ref();
            let dtype = types.and_then(|types| types.get(output as usize));
            dtype.is_some_and(|&dtype| dtype != DataType::RESOURCE.number())
        };
        // Of each tensor that was on a way where it comes from, and what that way waits for.
        let mut sources: HashMap<(u32, u32), (Input, Vec<u32>)> = HashMap::new();
        for reader in 0..self.inputs.len() {
            for place in 0..self.inputs[reader].len() {
                let (mut from, mut waits, mut way) = (self.inputs[reader][place], Vec::new(), Vec::new());
                while let Input::Data(node, output) = from
                    && is_passed(node, output)
                    && way.len() <= self.nodes.len()
                {
                    if let Some(known) = sources.get(&(node, output)) {
                        (from, waits) = known.clone();
                        break;
                    }
                    let Some(&handed @ Input::Data(..)) = self.inputs[node as usize].get(output as usize)
                    else {
                        break;
                    };
                    way.push((node, output));
                    from = handed;
                }
                for &(node, output) in way.iter().rev() {
                    let new =
                        controls(&self.inputs[node as usize]).filter(|control| !waits.contains(control));
                    let new: Vec<u32> = new.collect();
                    if waits.len() + new.len() > MOST_WAITS {
                        (from, waits) = (Input::Data(node, output), Vec::new());
                    } else {
                        waits.extend(new);
                    }
                    sources.insert((node, output), (from, waits.clone()));
                }
                if from != self.inputs[reader][place] {
                    self.inputs[reader][place] = from;
                    self.is_rewired[reader] = true;
                    for wait in waits.into_iter().map(Input::Control) {
                        if !self.inputs[reader].contains(&wait) {
                            self.inputs[reader].push(wait);
                        }
                    }
                }
            }
        }
    }

    /// The types of what an op only hands on, if it does no more than that.
    fn handed_on(&self, node: usize) -> Option<Vec<i32>> {
        if !HAND_ON.contains(&self.nodes.op(node)) || self.kept[node] {
            return None;
        }
        match self.nodes.attr(node, "T")?.value? {
            Value::List(list) => Some(list.r#type),
            Value::Type(dtype) => Some(vec![dtype]),
            _ => None,
        }
    }

    /// Has ops that nobody reads only wait for what they read.
    fn stop(&mut self) {
        let needed = self.needed();
        let mut readers = vec![0usize; self.inputs.len()];
        for (_, inputs) in self.inputs.iter().enumerate().filter(|(node, _)| needed[*node]) {
            data(inputs).for_each(|(from, _)| readers[from as usize] += 1);
        }
        let mut behind = self.behind_switches(&needed);
        let is_unread = |node: &u32| needed[*node as usize] && readers[*node as usize] == 0;
        let mut open: Vec<u32> = (0..self.inputs.len() as u32).filter(is_unread).collect();
        let mut waiting = Vec::new();
        while let Some(node) = open.pop() {
            let index = node as usize;
            if self.kept[index] || !self.may_wait[index] || self.says_what_is_taken(index) {
                continue;
            }
            self.only_waits[index] = true;
            waiting.push(index);
            for (from, output) in data(&self.inputs[index]) {
                readers[from as usize] -= 1;
                if readers[from as usize] == 0 {
                    open.push(from);
                }
                if self.is_switch(from) {
                    behind.entry((from, output)).or_insert_with(|| {
                        let name = free_name(&self.places, self.nodes.name(from as usize), output);
                        self.added.push((from, output, name));
                        (self.nodes.len() + self.added.len() - 1) as u32
                    });
                }
            }
        }
        for node in waiting {
            let inputs = std::mem::take(&mut self.inputs[node]);
            self.inputs[node] = self.waits(&inputs, &behind);
            self.is_rewired[node] = true;
        }
        self.stop_unneeded(&needed);
    }

    /// Leaves out what does not run, but for what others have to be beside.
    fn leave_out(&mut self) {
        self.is_out = self.needed_or_beside().into_iter().map(|needed| !needed).collect();
    }

    /// What runs: what those need that stay, or have an effect.
    fn needed(&self) -> Vec<bool> {
        self.needed_and(|_| Vec::new())
    }

    /// The same, and what of that others have to be beside.
    fn needed_or_beside(&self) -> Vec<bool> {
        self.needed_and(|node| {
            let beside = NodeAttrs::new(self.nodes, node).colocated_with().into_iter();
            beside.filter_map(|name| Some(*self.places.get(name.as_str())? as usize)).collect()
        })
    }

    /// What runs, with what each such node brings along.
    fn needed_and(&self, brings: impl Fn(usize) -> Vec<usize>) -> Vec<bool> {
        let mut needed = vec![false; self.inputs.len()];
        let mut open: Vec<usize> =
            (0..self.inputs.len()).filter(|&node| self.kept[node] || self.has_effect[node]).collect();
        while let Some(node) = open.pop() {
            if !std::mem::replace(&mut needed[node], true) {
                open.extend(self.inputs[node].iter().map(|&input| self.node_of(input)));
                open.extend(brings(node));
            }
        }
        needed
    }

    /// The node of the file that an input comes from.
    fn node_of(&self, input: Input) -> usize {
        let node = input.node() as usize;
        node.checked_sub(self.nodes.len()).map_or(node, |added| self.added[added].0 as usize)
    }

    /// For outputs of switches what reads one of them, and nothing else: who waits for a switch itself waits for either output.
    fn behind_switches(&self, needed: &[bool]) -> HashMap<(u32, u32), u32> {
        let mut behind = HashMap::new();
        for node in (0..self.inputs.len()).filter(|&node| needed[node] && self.nodes.op(node) == "Identity") {
            if let [Input::Data(switch, output)] = self.inputs[node][..]
                && self.is_switch(switch)
            {
                behind.entry((switch, output)).or_insert(node as u32);
            }
        }
        behind
    }

    /// Whether others know by it that a branch is taken: it stays, as Grappler has it.
    fn says_what_is_taken(&self, node: usize) -> bool {
        self.nodes.op(node).starts_with("Identity")
            && data(&self.inputs[node]).any(|(from, _)| self.is_switch(from))
    }

    /// What an op waits for in place of what it reads. Arguments are there before anything runs.
    fn waits(&self, inputs: &[Input], behind: &HashMap<(u32, u32), u32>) -> Vec<Input> {
        let mut waits = Vec::with_capacity(inputs.len());
        let mut known = HashSet::new();
        for &input in inputs {
            let from = match input {
                Input::Data(node, output) => behind.get(&(node, output)).copied().unwrap_or(node),
                Input::Control(node) => node,
            };
            let place = from as usize;
            let is_argument = self.kept.get(place) == Some(&true) && self.inputs[place].is_empty();
            if !is_argument && known.insert(from) {
                waits.push(Input::Control(from));
            }
        }
        waits
    }

    /// Has what nobody needs read nothing that is not computed.
    fn stop_unneeded(&mut self, needed: &[bool]) {
        let mut readers: HashMap<u32, Vec<u32>> = HashMap::new();
        for node in (0..self.inputs.len()).filter(|&node| !needed[node]) {
            data(&self.inputs[node]).for_each(|(from, _)| readers.entry(from).or_default().push(node as u32));
        }
        // What was passed by goes too.
        for node in (0..self.inputs.len()).filter(|&node| !needed[node] && self.nodes.op(node) == "IdentityN")
        {
            self.only_waits[node] = true;
            self.is_rewired[node] = true;
            self.inputs[node].retain(|input| matches!(input, Input::Control(_)));
        }
        let mut open: Vec<u32> =
            (0..self.inputs.len() as u32).filter(|&node| self.only_waits[node as usize]).collect();
        while let Some(node) = open.pop() {
            for reader in readers.remove(&node).unwrap_or_default() {
                let index = reader as usize;
                if !std::mem::replace(&mut self.only_waits[index], true) {
                    self.inputs[index].retain(|input| matches!(input, Input::Control(_)));
                    self.is_rewired[index] = true;
                    open.push(reader);
                }
            }
        }
    }

    fn name(&self, node: u32) -> &str {
        match (node as usize).checked_sub(self.nodes.len()) {
            None => self.nodes.name(node as usize),
            Some(added) => &self.added[added].2,
        }
    }

    fn encoded(&self, model: &Model) -> Vec<u8> {
        let graph = model.graph_def();
        let mut encoded = Vec::with_capacity(graph.len());
        // Behind their switches: the end of the graph is for what the function returns.
        let mut added: HashMap<usize, Vec<&(u32, u32, String)>> = HashMap::new();
        for one in &self.added {
            added.entry(one.0 as usize).or_default().push(one);
        }
        let mut next = 0;
        for part in Fields::of(graph).flatten() {
            let node = next;
            if part.number == field::GRAPH_NODE {
                next += 1;
            }
            if part.number == field::GRAPH_NODE && self.is_out[node] {
                continue;
            }
            if part.number != field::GRAPH_NODE || !self.is_rewired[node] {
                encoded.extend_from_slice(&graph[part.span]);
            } else {
                put_node(&self.node(node), &mut encoded);
            }
            if part.number == field::GRAPH_NODE {
                for (switch, output, name) in added.remove(&node).into_iter().flatten() {
                    put_node(&self.added_node(*switch, *output, name).encode_to_vec(), &mut encoded);
                }
            }
        }
        encoded
    }

    /// The content of a node's `NodeDef`.
    fn node(&self, node: usize) -> Vec<u8> {
        let mut content = Vec::new();
        if self.only_waits[node] {
            put_string(field::NAME, self.nodes.name(node), &mut content);
            put_string(field::OP, "NoOp", &mut content);
            if !self.nodes.device(node).is_empty() {
                put_string(field::DEVICE, self.nodes.device(node), &mut content);
            }
        } else {
            self.nodes.fields_but_inputs(node).for_each(|field| content.extend_from_slice(field));
        }
        for &input in &self.inputs[node] {
            let text = match input {
                Input::Control(from) => format!("^{}", self.name(from)),
                Input::Data(from, 0) => self.name(from).to_string(),
                Input::Data(from, output) => format!("{}:{output}", self.name(from)),
            };
            put_string(field::INPUT, &text, &mut content);
        }
        if self.only_waits[node] {
            // What others have to be beside stays in its place.
            let class = self.nodes.attr(node, CLASS).map(|class| (CLASS.to_string(), class));
            content
                .extend(NodeDef { attr: class.into_iter().collect(), ..NodeDef::default() }.encode_to_vec());
        }
        content
    }

    fn added_node(&self, switch: u32, output: u32, name: &str) -> NodeDef {
        let switch = switch as usize;
        let mut attr = HashMap::new();
        if let Some(dtype) = self.nodes.attr(switch, "T") {
            attr.insert("T".to_string(), dtype);
        }
        if let Some(Value::List(shapes)) = self.nodes.attr(switch, SHAPES).and_then(|attr| attr.value)
            && let Some(shape) = shapes.shape.get(output as usize)
        {
            attr.insert(SHAPES.to_string(), list_of(shape.clone()));
        }
        let from = self.nodes.name(switch);
        NodeDef {
            name: name.to_string(),
            op: "Identity".to_string(),
            input: vec![if output == 0 { from.to_string() } else { format!("{from}:{output}") }],
            device: self.nodes.device(switch).to_string(),
            attr: attr.into_iter().collect(),
            ..NodeDef::default()
        }
    }
}

impl Input {
    fn node(self) -> u32 {
        match self {
            Input::Data(node, _) | Input::Control(node) => node,
        }
    }
}

fn data(inputs: &[Input]) -> impl Iterator<Item = (u32, u32)> + '_ {
    inputs.iter().filter_map(|&input| match input {
        Input::Data(node, output) => Some((node, output)),
        Input::Control(_) => None,
    })
}

fn controls(inputs: &[Input]) -> impl Iterator<Item = u32> + '_ {
    inputs.iter().filter_map(|&input| match input {
        Input::Control(node) => Some(node),
        Input::Data(..) => None,
    })
}

/// An input as nodes have it.
fn parsed(input: &str, places: &HashMap<&str, u32>) -> Option<Input> {
    if let Some(name) = input.strip_prefix('^') {
        return Some(Input::Control(*places.get(name)?));
    }
    if let Some((name, output)) = input.rsplit_once(':') {
        return Some(Input::Data(*places.get(name)?, output.parse().ok()?));
    }
    Some(Input::Data(*places.get(input)?, 0))
}

/// Whether such an op changes something, as far as Grappler knows.
fn has_effect(registry: &OpRegistry, op: &str) -> bool {
    let Some(info) = registry.get(op) else { return true };
    (info.is_stateful() && !READ.contains(&op))
        || info.inputs().iter().any(|argument| argument.is_ref)
        || op.contains("Queue")
        || op.to_ascii_lowercase().contains("inplace")
}

/// Whether Grappler has such an op do nothing where nobody reads it.
fn may_wait(registry: &OpRegistry, op: &str) -> bool {
    let has_outputs = registry.get(op).is_some_and(|info| !info.outputs().is_empty());
    has_outputs && !has_effect(registry, op) && !RUN.contains(&op) && !op.starts_with("Submodel")
}

/// A name that no node has, for what reads an output of a switch.
fn free_name(places: &HashMap<&str, u32>, switch: &str, output: u32) -> String {
    let wanted = format!("{switch}/output_{output}");
    let mut name = wanted.clone();
    let mut number = 0;
    while places.contains_key(name.as_str()) {
        number += 1;
        name = format!("{wanted}_{number}");
    }
    name
}

fn put_node(content: &[u8], graph: &mut Vec<u8>) {
    put_length_delimited_header(field::GRAPH_NODE, content.len() as u64, graph);
    graph.extend_from_slice(content);
}

fn list_of(shape: TensorShapeProto) -> AttrValue {
    AttrValue { value: Some(Value::List(ListValue { shape: vec![shape], ..ListValue::default() })) }
}
