//! A flat graph as the body of a function again.

use std::collections::{HashMap, HashSet};

use prost::Message;

use super::top_level::original_nodes;
use super::{Flat, FlattenError};
use crate::format::wire::{Fields, put_length_delimited_header, put_string};
use crate::format::{Edits, Encoding, Function, Model, Nodes};
use crate::graph::NodeAttrs;
use crate::ops::{AttrLookup, OpRegistry};
use crate::proto::tensorflow::FunctionDef;

/// What the name of a function begins with that is another one as it was before it was rewritten.
pub const ORIGINAL_PREFIX: &str = "lms_original_of_";

/// Field numbers.
mod field {
    pub const SIGNATURE: u32 = 1;
    pub const NODE: u32 = 3;
    pub const RETURN: u32 = 4;
    pub const CONTROL_RETURN: u32 = 6;
    pub const OP_NAME: u32 = 1;
    pub const NODE_INPUT: u32 = 3;
}

/// The edits that put a rewritten flat graph in the place of the function that it was made of.
///
/// The function keeps its name, arguments, returns and attributes. As it was it stays in the library under another name, so that
/// [`restored`] can give it back.
///
/// # Errors
///
/// If the graph has inputs that are not there, or the function was rewritten before.
pub fn write_back(
    original: &Model,
    flat: &Flat,
    rewritten: &Model,
    registry: &OpRegistry,
) -> Result<Edits, FlattenError> {
    let functions = original.functions()?;
    let index = position(&functions, &flat.function)?;
    let kept_name = format!("{ORIGINAL_PREFIX}{}", flat.function);
    if functions.iter().any(|function| function.signature.name == kept_name) {
        return Err(FlattenError::NotReversible {
            what: format!(
                "function {:?} has been rewritten already; take that out with --strip",
                flat.function
            ),
        });
    }
    let mut edits = write_over(original, flat, rewritten, registry)?;
    edits.added_functions.push(renamed(original.function_bytes(&functions[index]), &kept_name));
    check_reversible(original, &edits)?;
    Ok(edits)
}

/// The edits that put a rewritten flat graph in the place of the function that it was made of, of which no copy is kept: the function may
/// be a rewritten one itself, whose original the library has.
///
/// # Errors
///
/// If the graph has inputs that are not there.
pub fn write_over(
    original: &Model,
    flat: &Flat,
    rewritten: &Model,
    registry: &OpRegistry,
) -> Result<Edits, FlattenError> {
    let functions = original.functions()?;
    let index = position(&functions, &flat.function)?;
    let old = original.function_bytes(&functions[index]);
    let frame = original.function_frame(&functions[index])?;
    let mut edits = Edits::default();
    edits.functions.insert(index, Some(Body::new(flat, rewritten, registry).function(old, &frame)?));
    Ok(edits)
}

/// The edits that give back the functions that were rewritten, and the nodes of a top level whose calls were made flat; none if there are
/// none.
///
/// # Errors
///
/// If the library is damaged, or an original has no function in its place.
pub fn restored(model: &Model) -> Result<Option<Edits>, FlattenError> {
    let functions = model.functions()?;
    let mut edits = Edits::default();
    for (kept, function) in functions.iter().enumerate() {
        let Some(name) = function.signature.name.strip_prefix(ORIGINAL_PREFIX) else { continue };
        let index = position(&functions, name)?;
        edits.functions.insert(index, Some(renamed(model.function_bytes(function), name)));
        edits.functions.insert(kept, None);
    }
    if let Some((kept, nodes)) = original_nodes(model)? {
        edits.functions.insert(kept, None);
        edits.nodes = Some(nodes);
    }
    Ok((!edits.functions.is_empty()).then_some(edits))
}

/// The names of the functions that were rewritten in a model.
///
/// # Errors
///
/// If the library is damaged.
pub fn original_functions(model: &Model) -> Result<Vec<String>, FlattenError> {
    let functions = model.functions()?;
    let names = functions.iter().filter_map(|function| function.signature.name.strip_prefix(ORIGINAL_PREFIX));
    Ok(names.map(str::to_string).collect())
}

fn position(functions: &[Function], name: &str) -> Result<usize, FlattenError> {
    functions
        .iter()
        .position(|function| function.signature.name == name)
        .ok_or_else(|| FlattenError::NotReversible { what: format!("it has no function {name:?}") })
}

/// Makes sure that the file comes back as it was.
pub(super) fn check_reversible(original: &Model, edits: &Edits) -> Result<(), FlattenError> {
    let before = original.edited(&Edits::default(), Encoding::Binary);
    // A text with unknown fields has no binary encoding, and cannot be written either.
    let Ok(before) = before else { return Ok(()) };
    let written = original.changed(edits, Encoding::Binary)?;
    let back = restored(&written)?.unwrap_or_default();
    if written.edited(&back, Encoding::Binary)?.to_vec() != before.to_vec() {
        return Err(FlattenError::NotReversible {
            what: "its function library is encoded in a way that no protocol buffer writer uses".to_string(),
        });
    }
    Ok(())
}

/// The content of a `FunctionDef` with another name.
fn renamed(function: &[u8], name: &str) -> Vec<u8> {
    let mut renamed = Vec::with_capacity(function.len() + name.len());
    for part in Fields::of(function).flatten() {
        let Some(signature) = part.bytes(field::SIGNATURE) else {
            renamed.extend_from_slice(&function[part.span]);
            continue;
        };
        let mut content = Vec::with_capacity(signature.len() + name.len());
        for inner in Fields::new(function, signature).flatten() {
            match inner.bytes(field::OP_NAME) {
                Some(_) => put_string(field::OP_NAME, name, &mut content),
                None => content.extend_from_slice(&function[inner.span]),
            }
        }
        put_length_delimited_header(field::SIGNATURE, content.len() as u64, &mut renamed);
        renamed.extend(content);
    }
    renamed
}

/// A flat graph on its way to a body.
struct Body<'b> {
    flat: &'b Flat,
    nodes: Nodes<'b>,
    registry: &'b OpRegistry,
    places: HashMap<&'b str, usize>,
    /// The nodes that stand for arguments, with the arguments' names.
    arguments: HashMap<&'b str, &'b str>,
    /// The nodes that stand for returns, for the step and for other variables, which no body has.
    ends: HashSet<&'b str>,
    /// How the outputs of a node are named, once it is known.
    outputs: HashMap<usize, Vec<String>>,
}

impl<'b> Body<'b> {
    fn new(flat: &'b Flat, rewritten: &'b Model, registry: &'b OpRegistry) -> Body<'b> {
        let nodes = rewritten.nodes();
        let returns = flat.returns.iter().map(|(node, _)| node.as_str());
        Body {
            flat,
            nodes,
            registry,
            places: (0..nodes.len()).map(|node| (nodes.name(node), node)).collect(),
            arguments: flat.arguments.iter().map(|(node, name)| (node.as_str(), name.as_str())).collect(),
            ends: returns
                .chain([flat.train_step.as_str()])
                .chain(flat.idle.iter().map(String::as_str))
                .collect(),
            outputs: HashMap::new(),
        }
    }

    /// The content of the `FunctionDef`, with all of the old one but its nodes and what it returns.
    fn function(mut self, old: &[u8], frame: &FunctionDef) -> Result<Vec<u8>, FlattenError> {
        let mut content = Vec::with_capacity(old.len() * 2);
        for part in Fields::of(old).flatten() {
            if ![field::NODE, field::RETURN, field::CONTROL_RETURN].contains(&part.number) {
                content.extend_from_slice(&old[part.span]);
            }
        }
        for node in 0..self.nodes.len() {
            let name = self.nodes.name(node);
            if self.ends.contains(name) || self.arguments.contains_key(name) {
                continue;
            }
            let encoded = self.node(node)?;
            put_length_delimited_header(field::NODE, encoded.len() as u64, &mut content);
            content.extend(encoded);
        }
        let mut ends = FunctionDef { control_ret: frame.control_ret.clone(), ..FunctionDef::default() };
        for (node, name) in &self.flat.returns {
            let place = self.places.get(node.as_str()).copied();
            let input = place.and_then(|place| self.nodes.inputs(place).next());
            let input = input.ok_or_else(|| self.bad(name, node))?;
            let read = self.input(name, input)?;
            ends.ret.insert(name.clone(), read.unwrap_or_default());
        }
        content.extend(ends.encode_to_vec());
        Ok(content)
    }

    /// The content of a node's `NodeDef` in a body.
    fn node(&mut self, node: usize) -> Result<Vec<u8>, FlattenError> {
        let nodes = self.nodes;
        let raw = nodes.raw(node);
        let mut encoded = Vec::with_capacity(raw.len() + 32);
        for part in Fields::of(raw).flatten() {
            if part.number < field::NODE_INPUT {
                encoded.extend_from_slice(&raw[part.span]);
            }
        }
        for input in nodes.inputs(node) {
            if let Some(input) = self.input(nodes.name(node), input)? {
                put_string(field::NODE_INPUT, &input, &mut encoded);
            }
        }
        for part in Fields::of(raw).flatten() {
            if part.number > field::NODE_INPUT {
                encoded.extend_from_slice(&raw[part.span]);
            }
        }
        Ok(encoded)
    }

    /// An input as bodies write it; none for a control input that a body needs not.
    fn input(&mut self, reader: &str, input: &str) -> Result<Option<String>, FlattenError> {
        if let Some(from) = input.strip_prefix('^') {
            // Arguments are there before anything runs. What waits for the end of the step was made to by the rewrite.
            let is_needed = !self.arguments.contains_key(from) && !self.ends.contains(from);
            return Ok(is_needed.then(|| input.to_string()));
        }
        let (name, output) = match input.rsplit_once(':') {
            Some((name, output)) => (name, output.parse().map_err(|_| self.bad(reader, input))?),
            None => (input, 0usize),
        };
        if let Some(argument) = self.arguments.get(name) {
            return Ok(Some(argument.to_string()));
        }
        let place = *self.places.get(name).ok_or_else(|| self.bad(reader, input))?;
        if !self.outputs.contains_key(&place) {
            let outputs = self.output_names(place)?;
            self.outputs.insert(place, outputs);
        }
        let named = self.outputs[&place].get(output).ok_or_else(|| self.bad(reader, input))?;
        Ok(Some(format!("{name}:{named}")))
    }

    /// Of each output of a node how bodies name it: `argument:index`.
    fn output_names(&self, node: usize) -> Result<Vec<String>, FlattenError> {
        let (function, name) = (self.flat.function.clone(), self.nodes.name(node).to_string());
        let op = self.nodes.op(node);
        let Some(info) = self.registry.get(op) else {
            return Err(FlattenError::UnknownOp { function, node: name, op: op.to_string() });
        };
        let attrs = NodeAttrs::new(self.nodes, node);
        let ports = info
            .output_ports(&attrs as &dyn AttrLookup)
            .map_err(|error| FlattenError::Signature { function, node: name, error })?;
        let mut names = Vec::with_capacity(ports.len());
        let mut first = 0;
        for (index, port) in ports.iter().enumerate() {
            if index > 0 && ports[index - 1].arg != port.arg {
                first = index;
            }
            names.push(format!("{}:{}", info.outputs()[port.arg].name, index - first));
        }
        Ok(names)
    }

    fn bad(&self, reader: &str, input: &str) -> FlattenError {
        FlattenError::BadInput {
            function: self.flat.function.clone(),
            reader: reader.to_string(),
            input: input.to_string(),
        }
    }
}
