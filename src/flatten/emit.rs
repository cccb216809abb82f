//! The flat graph in bytes.
//!
//! A node's attributes are copied as they stand in the file, so that nothing is lost that this version does not know.

use std::collections::{BTreeSet, HashSet};

use prost::Message;

use super::colocation::Colocation;
use super::error::FlattenError;
use super::expand::{Expansion, begins_frame};
use super::given_shapes::{Readers, given_shape};
use super::library::{Local, Read, functions_in};
use super::parts::{FlatNode, Flattened, MadeInput, Tensor};
use crate::format::wire::{Fields, put_length_delimited_header, put_string};
use crate::format::{Model, Nodes};
use crate::graph::Device;
use crate::proto::tensorflow::attr_value::{ListValue, Value};
use crate::proto::tensorflow::{AttrValue, NodeDef};

/// Field numbers of `NodeDef` and of the messages around it.
mod field {
    pub const NAME: u32 = 1;
    pub const OP: u32 = 2;
    pub const INPUT: u32 = 3;
    pub const DEVICE: u32 = 4;
    pub const ATTR: u32 = 5;
    pub const GRAPH_NODE: u32 = 1;
    pub const GRAPH_LIBRARY: u32 = 2;
    pub const LIBRARY_FUNCTION: u32 = 1;
}

/// What is to be written next.
enum Part {
    /// The nodes of an instance, from this one on.
    Nodes(u32, u32),
    /// Nodes that were made.
    Made(Vec<u32>),
}

/// Writes the nodes of the flat graph.
pub(super) struct Emitter<'e, 'l, 'a> {
    expansion: &'e mut Expansion<'l, 'a>,
    model: &'e Model,
    colocation: Colocation,
    /// The nodes that stand for the function's arguments. They are there before anything runs, so nobody waits for them.
    arguments: HashSet<u32>,
    graph: Vec<u8>,
    /// The content of the node that is being written.
    node: Vec<u8>,
    controls: Vec<FlatNode>,
    known_controls: HashSet<FlatNode>,
    /// The functions that nodes name.
    called: HashSet<String>,
    readers: Readers,
}

impl<'e, 'l, 'a> Emitter<'e, 'l, 'a> {
    pub fn new(
        expansion: &'e mut Expansion<'l, 'a>,
        model: &'e Model,
        arguments: &[u32],
    ) -> Result<Self, FlattenError> {
        let colocation = Colocation::of(expansion, arguments)?;
        Ok(Emitter {
            expansion,
            model,
            colocation,
            arguments: arguments.iter().copied().collect(),
            graph: Vec::new(),
            node: Vec::new(),
            controls: Vec::new(),
            known_controls: HashSet::new(),
            called: HashSet::new(),
            readers: Readers::default(),
        })
    }

    /// Writes the bodies, each where its call was.
    pub fn bodies(&mut self) -> Result<(), FlattenError> {
        // What is still to be written, the last first.
        let mut open = vec![Part::Nodes(0, 0)];
        while let Some(part) = open.last_mut() {
            let (instance, node) = match part {
                Part::Nodes(instance, next) => {
                    *next += 1;
                    (*instance, *next - 1)
                }
                Part::Made(made) => {
                    let made = std::mem::take(made);
                    open.pop();
                    for made in made {
                        self.made(made)?;
                    }
                    continue;
                }
            };
            if node as usize >= self.expansion.body(instance).nodes.len() {
                open.pop();
                continue;
            }
            match self.expansion.instances[instance as usize].calls.get(&node) {
                None => self.body_node(instance, node)?,
                Some(Flattened { bodies, before, behind, .. }) => {
                    open.push(Part::Made(behind.clone()));
                    open.extend(bodies.iter().rev().map(|&body| Part::Nodes(body, 0)));
                    open.push(Part::Made(before.clone()));
                }
            }
        }
        Ok(())
    }

    /// The whole graph; `model` is the one that the function is of.
    pub fn finish(mut self) -> Vec<u8> {
        let graph = self.model.graph_def();
        let library = self.library();
        for part in Fields::of(graph).flatten() {
            if ![field::GRAPH_NODE, field::GRAPH_LIBRARY].contains(&part.number) {
                self.graph.extend_from_slice(&graph[part.span]);
            }
        }
        if !library.is_empty() {
            put_length_delimited_header(field::GRAPH_LIBRARY, library.len() as u64, &mut self.graph);
            self.graph.extend(library);
        }
        self.graph
    }

    /// The functions that are called, by nodes or by each other, as they stand in the file. What nobody calls any more is the most of a
    /// library, and its nodes are read with the graph.
    fn library(&self) -> Vec<u8> {
        let library = self.expansion.library;
        let mut called: Vec<usize> = self.called.iter().filter_map(|name| library.find(name)).collect();
        let mut wanted = BTreeSet::new();
        while let Some(function) = called.pop() {
            if !wanted.insert(function) {
                continue;
            }
            let nodes = library.nodes(function);
            for node in 0..nodes.len() {
                called.extend(library.find(nodes.op(node)));
                let named = nodes.attrs(node).flat_map(|(_, value)| functions_in(value));
                called.extend(named.filter_map(|name| library.find(&name)));
            }
        }
        let mut encoded = Vec::new();
        for function in wanted {
            let content = self.model.function_bytes(&library.functions()[function]);
            put_length_delimited_header(field::LIBRARY_FUNCTION, content.len() as u64, &mut encoded);
            encoded.extend_from_slice(content);
        }
        encoded
    }

    /// Writes a node that was made.
    pub fn made(&mut self, number: u32) -> Result<(), FlattenError> {
        let made = &self.expansion.made[number as usize];
        let owner = made.owner;
        put_string(field::NAME, &made.name, &mut self.node);
        put_string(field::OP, &made.op, &mut self.node);
        let inputs = made.inputs.clone();
        let mut is_gated = false;
        for input in inputs {
            match input {
                MadeInput::Tensor(tensor) => {
                    is_gated |= self.is_behind_gate(owner, tensor.node);
                    self.data(tensor);
                }
                MadeInput::Data(instance, tensor) => {
                    let tensor = self.expansion.tensor(instance, tensor)?;
                    is_gated |= self.is_behind_gate(owner, tensor.node);
                    self.data(tensor);
                }
                MadeInput::Decides(instance, tensor) => {
                    let tensor = self.expansion.deciding(instance, tensor)?;
                    is_gated |= self.is_behind_gate(owner, tensor.node);
                    self.data(tensor);
                }
                MadeInput::Control(from) => {
                    is_gated |= self.is_behind_gate(owner, from);
                    self.control(from);
                }
                MadeInput::ControlsOf { instance, node } => {
                    let body = self.expansion.body(instance);
                    for read in body.inputs.row(node as usize) {
                        if let Read::Control(from) = read {
                            let from = self.expansion.control(instance, *from)?;
                            is_gated |= self.is_behind_gate(owner, from);
                            self.control(from);
                        }
                    }
                }
                MadeInput::EffectsOf(instance) => {
                    for &effect in self.expansion.effects(instance) {
                        let from = self.expansion.control(instance, Local::Node(effect))?;
                        is_gated |= self.is_behind_gate(owner, from);
                        self.control(from);
                    }
                }
                MadeInput::ReturnsOf(instance) => {
                    let body = self.expansion.body(instance);
                    for &tensor in &body.returns {
                        let from = self.expansion.tensor(instance, tensor)?.node;
                        is_gated |= self.is_behind_gate(owner, from);
                        self.control(from);
                    }
                }
            }
        }
        if !is_gated && let Some(gate) = self.expansion.instances[owner as usize].gate {
            self.control(gate);
        }
        self.put_controls();
        let made = &self.expansion.made[number as usize];
        if !made.device.is_empty() {
            put_string(field::DEVICE, &made.device, &mut self.node);
        }
        match made.like {
            Some(like) => {
                let top = self.model.nodes();
                self.called.extend(top.attrs(like).flat_map(|(_, value)| functions_in(value)));
                self.node.extend(rest_of(top, like));
            }
            None => {
                let attr = made.attrs.iter().map(|(name, value)| (name.to_string(), value.clone())).collect();
                self.node.extend(NodeDef { attr, ..NodeDef::default() }.encode_to_vec());
            }
        }
        self.end_node();
        Ok(())
    }

    fn body_node(&mut self, instance: u32, node: u32) -> Result<(), FlattenError> {
        let shapes = self.expansion.give_shapes(&mut self.readers, instance, node)?;
        for &(_, made) in &shapes {
            self.made(made)?;
        }
        let body = self.expansion.body(instance);
        let nodes = body.nodes;
        let name = self.expansion.name(FlatNode::Body { instance, node });
        put_string(field::NAME, name, &mut self.node);
        let op = nodes.op(node as usize);
        put_string(field::OP, op, &mut self.node);
        if self.expansion.library.find(op).is_some() {
            self.called.insert(op.to_string());
        }
        let mut is_gated = false;
        for (slot, &read) in body.inputs.row(node as usize).iter().enumerate() {
            match read {
                Read::Data(tensor) => {
                    let tensor = match given_shape(&shapes, slot) {
                        Some(shape) => shape,
                        None => self.expansion.tensor(instance, tensor)?,
                    };
                    is_gated |= self.is_behind_gate(instance, tensor.node);
                    self.data(tensor);
                }
                Read::Control(from) => {
                    let from = self.expansion.control(instance, from)?;
                    is_gated |= self.is_behind_gate(instance, from);
                    self.control(from);
                }
            }
        }
        if !is_gated && let Some(gate) = self.expansion.instances[instance as usize].gate {
            self.control(gate);
        }
        self.put_controls();
        let device = self.device(instance, node)?;
        if !device.is_empty() {
            put_string(field::DEVICE, &device, &mut self.node);
        }
        self.attrs(instance, node)?;
        self.end_node();
        Ok(())
    }

    /// Whether a node runs behind what an instance's nodes wait for.
    fn is_behind_gate(&self, instance: u32, node: FlatNode) -> bool {
        let instance = &self.expansion.instances[instance as usize];
        let gated = instance.gated;
        let end = self.expansion.instances[gated as usize].end;
        let owner = self.expansion.owner(node);
        let leads_there = match node {
            FlatNode::Made(made) => self.expansion.made[made as usize].branches.contains(&gated),
            FlatNode::Body { .. } => false,
        };
        instance.gate.is_some()
            && ((gated..end).contains(&owner) || instance.gate == Some(node) || leads_there)
    }

    fn data(&mut self, tensor: Tensor) {
        let name = self.expansion.name(tensor.node);
        match tensor.output {
            0 => put_string(field::INPUT, name, &mut self.node),
            output => put_string(field::INPUT, &format!("{name}:{output}"), &mut self.node),
        }
    }

    /// Notes a control input, to be written behind the data inputs.
    fn control(&mut self, from: FlatNode) {
        let is_argument = matches!(from, FlatNode::Made(made) if self.arguments.contains(&made));
        if !is_argument && self.known_controls.insert(from) {
            self.controls.push(from);
        }
    }

    fn put_controls(&mut self) {
        for from in std::mem::take(&mut self.controls) {
            let name = format!("^{}", self.expansion.name(from));
            put_string(field::INPUT, &name, &mut self.node);
        }
        self.known_controls.clear();
    }

    fn end_node(&mut self) {
        put_length_delimited_header(field::GRAPH_NODE, self.node.len() as u64, &mut self.graph);
        self.graph.append(&mut self.node);
    }

    /// Copies what a node has beside name, op, inputs and device.
    fn attrs(&mut self, instance: u32, node: u32) -> Result<(), FlattenError> {
        let body = self.expansion.body(instance);
        let nodes = body.nodes;
        let raw = nodes.raw(node as usize);
        for part in Fields::of(raw).flatten() {
            if (field::NAME..=field::DEVICE).contains(&part.number) {
                continue;
            }
            let Some(entry) = part.bytes(field::ATTR) else {
                self.node.extend_from_slice(&raw[part.span]);
                continue;
            };
            let (mut key, mut value) = (0..0, 0..0);
            for inner in Fields::new(raw, entry).flatten() {
                match inner.number {
                    1 => key = inner.bytes(1).unwrap_or_default(),
                    2 => value = inner.bytes(2).unwrap_or_default(),
                    _ => {}
                }
            }
            let (key, value) = (&raw[key], &raw[value]);
            self.called.extend(functions_in(value));
            let new = match key {
                b"_class" => self.colocated(instance, node).map(Some),
                b"frame_name" if instance > 0 && begins_frame(nodes.op(node as usize)) => {
                    self.frame(instance, value).map(Some)
                }
                _ if is_placeholder(value) => Some(Some(self.given(instance, node, value)?)),
                _ => Some(None),
            };
            match new {
                None => {}
                Some(None) => self.node.extend_from_slice(&raw[part.span]),
                Some(Some(new)) => {
                    let attr = [(String::from_utf8_lossy(key).into_owned(), new)].into();
                    self.node.extend(NodeDef { attr, ..NodeDef::default() }.encode_to_vec());
                }
            }
        }
        Ok(())
    }

    /// The device that a node asks for: where a variable lies that it has to be with, if it is on another device, else its own.
    fn device(&self, instance: u32, node: u32) -> Result<String, FlattenError> {
        let device = self.expansion.device(instance, node)?;
        let Some(handle) = self.colocation.handle(self.expansion, FlatNode::Body { instance, node }) else {
            return Ok(device);
        };
        let parsed = |device: &str| {
            Device::parse(device).map_err(|error| {
                let body = self.expansion.body(instance);
                let (function, node) = (body.name().to_string(), body.nodes.name(node as usize).to_string());
                FlattenError::Device { function, node, error }
            })
        };
        let variable = &self.expansion.made[handle as usize].device;
        let (own, there) = (parsed(&device)?, parsed(variable)?);
        let kind = |device: &Device| device.gpu().map(|gpu| (gpu.kind, gpu.index));
        Ok(if kind(&own) == kind(&there) { device } else { variable.clone() })
    }

    /// Where a node must be beside others: those of them that are there. None if none are.
    fn colocated(&self, instance: u32, node: u32) -> Option<AttrValue> {
        let names = self.colocation.named(self.expansion, instance, node);
        let s: Vec<Vec<u8>> = names.into_iter().map(|name| format!("loc:@{name}").into_bytes()).collect();
        let list = ListValue { s, ..ListValue::default() };
        (!list.s.is_empty()).then_some(AttrValue { value: Some(Value::List(list)) })
    }

    /// The name of a loop, another one in each copy of a body.
    fn frame(&self, instance: u32, value: &[u8]) -> Option<AttrValue> {
        let Some(Value::S(frame)) = AttrValue::decode(value).ok()?.value else { return None };
        let name = [self.expansion.instances[instance as usize].scope.as_bytes(), &frame].concat();
        Some(AttrValue { value: Some(Value::S(name)) })
    }

    /// What the caller gives for an attribute.
    fn given(&self, instance: u32, node: u32, value: &[u8]) -> Result<AttrValue, FlattenError> {
        let attrs = &self.expansion.instances[instance as usize].attrs;
        let wanted = match AttrValue::decode(value).unwrap_or_default().value {
            Some(Value::Placeholder(wanted)) => wanted,
            _ => String::new(),
        };
        attrs.get(&wanted).cloned().ok_or_else(|| {
            let body = self.expansion.body(instance);
            FlattenError::NoAttribute {
                function: body.name().to_string(),
                node: body.nodes.name(node as usize).to_string(),
                attr: wanted,
            }
        })
    }
}

/// Whether an undecoded `AttrValue` is the caller's to give.
fn is_placeholder(value: &[u8]) -> bool {
    const PLACEHOLDER: u32 = 9;
    matches!(Fields::of(value).next(), Some(Ok(field)) if field.number == PLACEHOLDER)
}

/// What a node has beside name, op, inputs and device, as it stands in the file.
fn rest_of(nodes: Nodes<'_>, node: usize) -> Vec<u8> {
    let raw = nodes.raw(node);
    let parts = Fields::of(raw).flatten().filter(|part| part.number > field::DEVICE);
    parts.flat_map(|part| &raw[part.span]).copied().collect()
}
