//! A file that was read.

use std::ops::Range;

use prost::Message;

use super::nodes::NodeError;
use super::scan::SyntaxError;
use super::text::{self, TextGraph};
use super::wire::{Fields, Payload, WireError};
use super::{Encoding, FormatError, Kind, NodeList, Nodes};
use crate::proto::tensorflow::{FunctionDef, MetaGraphDef, OpDef};

/// No protobuf message may have more bytes than this.
pub(super) const LARGEST_MESSAGE: u64 = i32::MAX as u64;

/// Field numbers on the way to the nodes.
pub(super) mod field {
    pub const SAVED_MODEL_META_GRAPHS: u32 = 2;
    pub const META_GRAPH_INFO: u32 = 1;
    pub const META_GRAPH_GRAPH_DEF: u32 = 2;
    pub const META_INFO_TAGS: u32 = 4;
    pub const GRAPH_NODE: u32 = 1;
    pub const GRAPH_LIBRARY: u32 = 2;
    pub const LIBRARY_FUNCTION: u32 = 1;
    pub const FUNCTION_SIGNATURE: u32 = 1;
    pub const FUNCTION_NODE: u32 = 3;
}

/// What to read where a file leaves a choice.
#[derive(Debug, Clone, Default)]
pub struct ReadOptions {
    /// The tags of the graph to take from a SavedModel that holds several.
    pub tags: Option<Vec<String>>,
}

/// A field that encloses the graph in the file.
#[derive(Debug, Clone)]
pub(super) struct Enclosing {
    pub number: u32,
    /// The whole field: key, length, content.
    pub field: Range<usize>,
    pub content: Range<usize>,
}

/// The text that a model was read from.
#[derive(Debug)]
pub(super) struct TextSource {
    pub text: String,
    pub graph: TextGraph,
    pub has_unknown_fields: bool,
}

/// A function of the graph's library: its signature and its body.
#[derive(Debug)]
pub struct Function {
    /// Name, arguments and results.
    pub signature: OpDef,
    /// The nodes of the body, which point into the model's bytes: see [`Model::function_nodes`].
    pub nodes: NodeList,
    /// Where the content of its `FunctionDef` lies in the model's bytes.
    content: Range<usize>,
}

/// A model: the bytes that were read, and where its graph and nodes lie in them.
#[derive(Debug)]
pub struct Model {
    name: String,
    kind: Kind,
    pub(super) bytes: Vec<u8>,
    pub(super) text: Option<TextSource>,
    pub(super) enclosing: Vec<Enclosing>,
    pub(super) graph: Range<usize>,
    nodes: NodeList,
}

impl Model {
    /// Reads a file's content. `name` is what messages call it.
    ///
    /// # Errors
    ///
    /// If the content is none of the formats, is damaged, or leaves open which graph is meant.
    pub fn from_bytes(name: &str, content: Vec<u8>, options: &ReadOptions) -> Result<Model, FormatError> {
        let file = File { name };
        if content.is_empty() {
            return Err(FormatError::Empty { name: name.to_string() });
        }
        if looks_like_text(&content) {
            file.read_text(content, options)
        } else {
            let kind = recognize_binary(&content).map_err(|why| file.unrecognized(why))?;
            file.read_binary(kind, content, options).map(|(model, _)| model)
        }
    }

    /// What messages call the file.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Which message the file holds.
    pub fn kind(&self) -> Kind {
        self.kind
    }

    /// How the file is encoded.
    pub fn encoding(&self) -> Encoding {
        if self.text.is_some() { Encoding::Text } else { Encoding::Binary }
    }

    /// The nodes of the graph.
    pub fn nodes(&self) -> Nodes<'_> {
        Nodes::new(&self.bytes, &self.nodes)
    }

    /// The GraphDef in the binary encoding, as TensorFlow imports it.
    pub fn graph_def(&self) -> &[u8] {
        &self.bytes[self.graph.clone()]
    }

    /// Everything about the graph's MetaGraphDef but the graph; none for a bare GraphDef.
    ///
    /// # Errors
    ///
    /// If these parts do not decode.
    pub fn meta_graph(&self) -> Result<Option<MetaGraphDef>, FormatError> {
        let Some(graph) = self.enclosing.last() else { return Ok(None) };
        let whole = match self.enclosing.len() {
            1 => 0..self.bytes.len(),
            outer => self.enclosing[outer - 2].content.clone(),
        };
        // A message is the sum of its fields, so it can be decoded without one of them.
        let mut rest = self.bytes[whole.start..graph.field.start].to_vec();
        rest.extend_from_slice(&self.bytes[graph.field.end..whole.end]);
        match MetaGraphDef::decode(rest.as_slice()) {
            Ok(meta_graph) => Ok(Some(meta_graph)),
            Err(source) => Err(FormatError::Decode {
                name: self.name.clone(),
                part: "the MetaGraphDef around the graph".to_string(),
                source,
            }),
        }
    }

    /// The file but for the graph's nodes: each message around them, outermost first, with its name and the parts of its
    /// binary encoding, in order.
    ///
    /// The parts of one message, put together, are that message without the nodes. The keys and lengths of the
    /// messages within are in none of them.
    pub fn surroundings(&self) -> Vec<(&'static str, Vec<&[u8]>)> {
        let mut around = 0..self.bytes.len();
        let names = match self.kind {
            Kind::GraphDef => ["tensorflow.GraphDef"; 3],
            Kind::MetaGraphDef => ["tensorflow.MetaGraphDef", "tensorflow.GraphDef", ""],
            Kind::SavedModel => ["tensorflow.SavedModel", "tensorflow.MetaGraphDef", "tensorflow.GraphDef"],
        };
        let mut messages = Vec::new();
        for (name, inner) in names.into_iter().zip(&self.enclosing) {
            let parts =
                vec![&self.bytes[around.start..inner.field.start], &self.bytes[inner.field.end..around.end]];
            messages.push((name, parts));
            around = inner.content.clone();
        }
        let not_a_node = Fields::new(&self.bytes, self.graph.clone())
            .flatten()
            .filter(|part| part.bytes(field::GRAPH_NODE).is_none())
            .map(|part| &self.bytes[part.span])
            .collect();
        messages.push(("tensorflow.GraphDef", not_a_node));
        messages
    }

    /// The fields of a text file that the definitions do not know and its binary encoding therefore lacks, in order.
    pub fn unknown_text(&self) -> Vec<&str> {
        let Some(source) = self.text.as_ref().filter(|source| source.has_unknown_fields) else {
            return Vec::new();
        };
        text::unknown_fields(&source.text, self.kind)
    }

    /// The functions of the graph's library.
    ///
    /// # Errors
    ///
    /// If the library is damaged.
    pub fn functions(&self) -> Result<Vec<Function>, FormatError> {
        let file = File { name: &self.name };
        let damaged = |error| file.damaged(self.kind, "the function library", error);
        let mut functions = Vec::new();
        for library in sub_messages(&self.bytes, self.graph.clone(), field::GRAPH_LIBRARY).map_err(damaged)? {
            for function in sub_messages(&self.bytes, library, field::LIBRARY_FUNCTION).map_err(damaged)? {
                let mut signature = OpDef::default();
                for range in
                    sub_messages(&self.bytes, function.clone(), field::FUNCTION_SIGNATURE).map_err(damaged)?
                {
                    signature.merge(&self.bytes[range]).map_err(|source| FormatError::Decode {
                        name: self.name.clone(),
                        part: "a function's signature".to_string(),
                        source,
                    })?;
                }
                let nodes = NodeList::read(&self.bytes, function.clone(), field::FUNCTION_NODE)
                    .map_err(|error| file.bad_node(self.kind, error))?;
                functions.push(Function { signature, nodes, content: function });
            }
        }
        Ok(functions)
    }

    /// The nodes of a function that [`Model::functions`] of this model returned.
    pub fn function_nodes<'a>(&'a self, function: &'a Function) -> Nodes<'a> {
        Nodes::new(&self.bytes, &function.nodes)
    }

    /// The content of a function's `FunctionDef`, for a function that [`Model::functions`] of this model returned.
    pub fn function_bytes(&self, function: &Function) -> &[u8] {
        &self.bytes[function.content.clone()]
    }

    /// A function but for its nodes: signature, returns, control returns and attributes.
    ///
    /// # Errors
    ///
    /// If these parts do not decode.
    pub fn function_frame(&self, function: &Function) -> Result<FunctionDef, FormatError> {
        // A message is the sum of its fields, so it can be decoded without some of them.
        let parts = Fields::new(&self.bytes, function.content.clone()).flatten();
        let frame: Vec<u8> = parts
            .filter(|part| part.number != field::FUNCTION_NODE)
            .flat_map(|part| &self.bytes[part.span])
            .copied()
            .collect();
        FunctionDef::decode(frame.as_slice()).map_err(|source| FormatError::Decode {
            name: self.name.clone(),
            part: format!("function {:?}", function.signature.name),
            source,
        })
    }
}

/// A file that is being read; knows how to word its errors.
struct File<'a> {
    name: &'a str,
}

impl File<'_> {
    fn unrecognized(&self, why: impl Into<String>) -> FormatError {
        FormatError::Unrecognized { name: self.name.to_string(), why: why.into() }
    }

    fn damaged(&self, kind: Kind, part: &'static str, error: WireError) -> FormatError {
        FormatError::Damaged { name: self.name.to_string(), kind, part, error }
    }

    fn bad_node(&self, kind: Kind, error: NodeError) -> FormatError {
        match error {
            NodeError::Wire(error) => self.damaged(kind, "the graph's nodes", error),
            NodeError::NotUtf8 { node, field } => {
                FormatError::NotUtf8 { name: self.name.to_string(), node, field }
            }
        }
    }

    fn syntax(&self, text: &str, error: SyntaxError) -> FormatError {
        let (line, column) = error.position(text);
        FormatError::Syntax { name: self.name.to_string(), line, column, message: error.message }
    }

    /// Reads the binary encoding; returns also which of the file's graphs it took.
    fn read_binary(
        &self,
        kind: Kind,
        bytes: Vec<u8>,
        options: &ReadOptions,
    ) -> Result<(Model, usize), FormatError> {
        if bytes.len() as u64 > LARGEST_MESSAGE {
            return Err(FormatError::TooLarge { name: self.name.to_string(), bytes: bytes.len() as u64 });
        }
        let (enclosing, chosen) = self.find_graph(kind, &bytes, options)?;
        let graph = enclosing.last().map_or(0..bytes.len(), |inner| inner.content.clone());
        let nodes = NodeList::read(&bytes, graph.clone(), field::GRAPH_NODE)
            .map_err(|error| self.bad_node(kind, error))?;
        let name = self.name.to_string();
        Ok((Model { name, kind, bytes, text: None, enclosing, graph, nodes }, chosen))
    }

    fn read_text(&self, content: Vec<u8>, options: &ReadOptions) -> Result<Model, FormatError> {
        if content.len() as u64 > u64::from(u32::MAX) {
            return Err(FormatError::TooLarge { name: self.name.to_string(), bytes: content.len() as u64 });
        }
        let text = match String::from_utf8(content) {
            Ok(text) => text,
            Err(error) => {
                let valid = error.utf8_error().valid_up_to();
                let text = String::from_utf8_lossy(&error.as_bytes()[..valid]).into_owned();
                return Err(self.syntax(&text, SyntaxError::new(valid, "this byte is not UTF-8")));
            }
        };
        let kind = match text::recognize(&text) {
            Ok(Some(kind)) => kind,
            Ok(None) => return Err(self.unrecognized("none of the text's fields belongs to one")),
            Err(error) => return Err(self.syntax(&text, error)),
        };
        let converted = match text::convert(&text, kind) {
            Ok(converted) => converted,
            Err(error) => return Err(self.syntax(&text, error)),
        };
        let (mut model, chosen) = self.read_binary(kind, converted.binary, options)?;
        let graph = converted.graphs.into_iter().nth(chosen);
        let graph = graph.ok_or_else(|| FormatError::NoGraph { name: self.name.to_string(), kind })?;
        model.text = Some(TextSource { text, graph, has_unknown_fields: converted.has_unknown_fields });
        Ok(model)
    }

    /// The fields around the graph, outermost first, and which of the file's graphs that is.
    fn find_graph(
        &self,
        kind: Kind,
        bytes: &[u8],
        options: &ReadOptions,
    ) -> Result<(Vec<Enclosing>, usize), FormatError> {
        let whole = 0..bytes.len();
        let graph_of = |meta_graph: Range<usize>| -> Result<Option<Enclosing>, FormatError> {
            let damaged = |error| self.damaged(kind, "the MetaGraphDef", error);
            let mut graphs = enclosed(bytes, meta_graph, field::META_GRAPH_GRAPH_DEF).map_err(damaged)?;
            if graphs.len() > 1 {
                return Err(self.unrecognized("its MetaGraphDef has its graph in several parts"));
            }
            Ok(graphs.pop())
        };
        let no_graph = || FormatError::NoGraph { name: self.name.to_string(), kind };
        match kind {
            Kind::GraphDef => Ok((Vec::new(), 0)),
            Kind::MetaGraphDef => Ok((vec![graph_of(whole)?.ok_or_else(no_graph)?], 0)),
            Kind::SavedModel => {
                let meta_graphs = enclosed(bytes, whole, field::SAVED_MODEL_META_GRAPHS)
                    .map_err(|error| self.damaged(kind, "the SavedModel", error))?;
                let chosen = self.choose(bytes, &meta_graphs, options)?;
                let meta_graph = meta_graphs.into_iter().nth(chosen).ok_or_else(no_graph)?;
                let graph = graph_of(meta_graph.content.clone())?.ok_or_else(no_graph)?;
                Ok((vec![meta_graph, graph], chosen))
            }
        }
    }

    fn choose(
        &self,
        bytes: &[u8],
        meta_graphs: &[Enclosing],
        options: &ReadOptions,
    ) -> Result<usize, FormatError> {
        let tag_sets: Vec<Vec<String>> = meta_graphs.iter().map(|m| tags(bytes, m.content.clone())).collect();
        let sorted = |tags: &[String]| {
            let mut tags = tags.to_vec();
            tags.sort();
            tags
        };
        let found = match &options.tags {
            None if meta_graphs.len() < 2 => Some(0),
            None => None,
            Some(wanted) => tag_sets.iter().position(|tags| sorted(tags) == sorted(wanted)),
        };
        found.ok_or_else(|| FormatError::ChooseGraph {
            name: self.name.to_string(),
            choices: tag_sets.iter().map(|tags| tags.join(",")).collect(),
        })
    }
}

/// The contents of all length-delimited fields `number` of a message.
fn sub_messages(bytes: &[u8], message: Range<usize>, number: u32) -> Result<Vec<Range<usize>>, WireError> {
    Ok(enclosed(bytes, message, number)?.into_iter().map(|inner| inner.content).collect())
}

fn enclosed(bytes: &[u8], message: Range<usize>, number: u32) -> Result<Vec<Enclosing>, WireError> {
    let mut found = Vec::new();
    for field in Fields::new(bytes, message) {
        let field = field?;
        if let Some(content) = field.bytes(number) {
            found.push(Enclosing { number, field: field.span, content });
        }
    }
    Ok(found)
}

fn tags(bytes: &[u8], meta_graph: Range<usize>) -> Vec<String> {
    let mut tags = Vec::new();
    for info in sub_messages(bytes, meta_graph, field::META_GRAPH_INFO).unwrap_or_default() {
        for tag in sub_messages(bytes, info, field::META_INFO_TAGS).unwrap_or_default() {
            tags.push(String::from_utf8_lossy(&bytes[tag]).into_owned());
        }
    }
    tags
}

/// Whether a file is text: its beginning has no control characters.
///
/// Each binary graph has them there: the keys of its first fields are some.
fn looks_like_text(content: &[u8]) -> bool {
    let control = |byte: u8| byte < b' ' && !b"\t\n\r".contains(&byte);
    content.iter().take(1024).any(|byte| byte.is_ascii_alphabetic())
        && !content.iter().take(1024).any(|&byte| control(byte))
}

/// Tells the three messages apart by their first field, or says why it is none of them.
fn recognize_binary(bytes: &[u8]) -> Result<Kind, String> {
    let first = match Fields::of(bytes).next() {
        Some(Ok(first)) => first,
        Some(Err(error)) => return Err(format!("{error}")),
        None => return Err("it is empty".to_string()),
    };
    match (first.number, first.payload) {
        (1, Payload::Varint(_)) => Ok(Kind::SavedModel),
        (1, Payload::Bytes(content)) if is_node(bytes, content.clone()) => Ok(Kind::GraphDef),
        (1, Payload::Bytes(content)) if is_message(bytes, content.clone()) => Ok(Kind::MetaGraphDef),
        // A MetaGraphDef that begins with its graph, or a SavedModel that begins with its MetaGraphDef.
        (2, Payload::Bytes(content)) => match Fields::new(bytes, content).next() {
            Some(Ok(inner)) => match inner.bytes(1) {
                Some(node) if is_node(bytes, node.clone()) => Ok(Kind::MetaGraphDef),
                _ => Ok(Kind::SavedModel),
            },
            _ => Err("its first field is no graph".to_string()),
        },
        (number, _) => Err(format!("its first field has the number {number}")),
    }
}

/// Whether a message has a node's fields: a name, and an op that reads like one.
fn is_node(bytes: &[u8], message: Range<usize>) -> bool {
    let mut has_op = false;
    for field in Fields::new(bytes, message) {
        let Ok(field) = field else { return false };
        if field.number == 2 {
            let Some(op) = field.bytes(2) else { return false };
            let plain = |byte: &u8| byte.is_ascii_alphanumeric() || b"_>./-".contains(byte);
            has_op = !op.is_empty() && bytes[op].iter().all(plain);
        }
    }
    has_op
}

fn is_message(bytes: &[u8], message: Range<usize>) -> bool {
    Fields::new(bytes, message).all(|field| field.is_ok())
}
