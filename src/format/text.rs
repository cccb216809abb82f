//! The protobuf text format (`.pbtxt`), read for two purposes at once.
//!
//! The analysis wants the binary encoding, so a text file is converted: piece by piece, a node at a time, so that no
//! syntax tree of the whole file is ever in memory. The writer wants the text as it was, so the place of each node
//! is kept, and a rewrite changes only the lines that it must.
//!
//! Fields that this library's definitions do not know are left out of the conversion and stay in the text.

use std::ops::Range;

#[cfg(feature = "text")]
use miette::Diagnostic;
use prost::Message;
use prost_reflect::{DynamicMessage, Kind, MessageDescriptor};

use super::scan::{Scanner, SyntaxError, TextField, TextValue};
use super::wire::put_length_delimited_header;
use crate::proto::descriptor_pool;
use crate::proto::tensorflow::{GraphDef, MetaGraphDef, NodeDef, SavedModel};

/// Where the nodes of one graph stand in the text.
#[derive(Debug, Clone)]
pub(super) struct TextGraph {
    /// The graph's fields: the whole file, or what is between the braces of `graph_def { … }`.
    pub body: Range<usize>,
    /// Each node's whole field, `node { … }`.
    pub nodes: Vec<Range<usize>>,
}

/// A text file and its binary encoding.
#[derive(Debug)]
pub(super) struct Converted {
    /// The same message in the binary encoding, without the unknown fields.
    pub binary: Vec<u8>,
    /// The graphs in the order in which they stand in the file.
    pub graphs: Vec<TextGraph>,
    /// Whether there are fields that the definitions do not know.
    pub has_unknown_fields: bool,
}

/// The names of the fields that lead to a node, outermost first.
fn path_to_nodes(kind: super::Kind) -> &'static [&'static str] {
    match kind {
        super::Kind::GraphDef => &["node"],
        super::Kind::MetaGraphDef => &["graph_def", "node"],
        super::Kind::SavedModel => &["meta_graphs", "graph_def", "node"],
    }
}

/// Whether the text looks like a message of this kind, from the names of its fields at the top.
pub(super) fn recognize(text: &str) -> Result<Option<super::Kind>, SyntaxError> {
    for field in Scanner::new(text).fields() {
        match field?.name(text) {
            "node" | "library" | "versions" => return Ok(Some(super::Kind::GraphDef)),
            "graph_def" | "meta_info_def" | "saver_def" | "collection_def" | "signature_def" => {
                return Ok(Some(super::Kind::MetaGraphDef));
            }
            "meta_graphs" | "saved_model_schema_version" => return Ok(Some(super::Kind::SavedModel)),
            _ => {}
        }
    }
    Ok(None)
}

/// Converts a text file.
pub(super) fn convert(text: &str, kind: super::Kind) -> Result<Converted, SyntaxError> {
    let mut converter = Converter {
        text,
        graphs: Vec::new(),
        has_unknown_fields: false,
        binary: Vec::with_capacity(text.len() / 3),
    };
    converter.message(0..text.len(), &descriptor(kind.message_name()), path_to_nodes(kind))?;
    Ok(Converted {
        binary: converter.binary,
        graphs: converter.graphs,
        has_unknown_fields: converter.has_unknown_fields,
    })
}

/// The descriptor of one of our own definitions.
pub(super) fn descriptor(name: &str) -> MessageDescriptor {
    descriptor_pool().get_message_by_name(name).expect("the definitions in proto/ have this message")
}

struct Converter<'a> {
    text: &'a str,
    binary: Vec<u8>,
    graphs: Vec<TextGraph>,
    has_unknown_fields: bool,
}

impl Converter<'_> {
    /// Appends the binary encoding of the message whose fields are at `body`.
    ///
    /// Fields on the way to the nodes are entered; all others are converted as they are. That they are appended one by
    /// one is what protobuf means by a message: repeated fields add up.
    fn message(
        &mut self,
        body: Range<usize>,
        message: &MessageDescriptor,
        path: &[&str],
    ) -> Result<(), SyntaxError> {
        if path.len() == 1 {
            self.graphs.push(TextGraph { body: body.clone(), nodes: Vec::new() });
        }
        for field in Scanner::within(self.text, body).fields() {
            let field = field?;
            if field.name(self.text) != path[0] {
                self.piece(field.span, message)?;
                continue;
            }
            match field.value {
                TextValue::Message(inner) => self.on_path(field.span, inner, message, path)?,
                // `node: [{ … }, { … }]` is another way to write several.
                TextValue::List(bodies) => {
                    for inner in bodies {
                        self.on_path(inner.start - 1..inner.end + 1, inner, message, path)?;
                    }
                }
                TextValue::Scalar => self.piece(field.span, message)?,
            }
        }
        Ok(())
    }

    /// Appends a field on the way to the nodes, or a node: what stands at `span` with its fields at `inner`.
    fn on_path(
        &mut self,
        span: Range<usize>,
        inner: Range<usize>,
        message: &MessageDescriptor,
        path: &[&str],
    ) -> Result<(), SyntaxError> {
        let field = message.get_field_by_name(path[0]);
        let kind = field.as_ref().map(|field| (field.number(), field.kind()));
        let Some((number, Kind::Message(inner_message))) = kind else { return self.piece(span, message) };
        let start = self.binary.len();
        if path.len() == 1 {
            if let Some(graph) = self.graphs.last_mut() {
                graph.nodes.push(span);
            }
            self.piece(inner, &inner_message)?;
        } else {
            self.message(inner, &inner_message, &path[1..])?;
        }
        self.enclose(start, number);
        Ok(())
    }

    /// Puts a key and length before what was appended since `start`.
    fn enclose(&mut self, start: usize, number: u32) {
        let mut header = Vec::with_capacity(8);
        put_length_delimited_header(number, (self.binary.len() - start) as u64, &mut header);
        self.binary.splice(start..start, header);
    }

    /// Appends the binary encoding of the fields at `range`, which are fields of `message`.
    fn piece(&mut self, range: Range<usize>, message: &MessageDescriptor) -> Result<(), SyntaxError> {
        let text = &self.text[range.clone()];
        let parsed = match parse(message, text) {
            Ok(parsed) => parsed,
            Err(error) => {
                let Some(known_only) = blank_unknown_fields(text, message)? else {
                    return Err(error.at(range.start));
                };
                self.has_unknown_fields = true;
                parse(message, &known_only).map_err(|error| error.at(range.start))?
            }
        };
        self.binary.extend(in_order(message.name(), parsed.encode_to_vec()));
        Ok(())
    }
}

/// The same message with its maps sorted. The parser keeps them in no order, and two runs must give the same bytes.
fn in_order(message: &str, encoded: Vec<u8>) -> Vec<u8> {
    fn sorted<M: Message + Default>(encoded: &[u8]) -> Option<Vec<u8>> {
        M::decode(encoded).ok().map(|message| message.encode_to_vec())
    }
    let sorted = match message {
        "NodeDef" => sorted::<NodeDef>(&encoded),
        "GraphDef" => sorted::<GraphDef>(&encoded),
        "MetaGraphDef" => sorted::<MetaGraphDef>(&encoded),
        "SavedModel" => sorted::<SavedModel>(&encoded),
        _ => None,
    };
    // What was just encoded decodes.
    sorted.unwrap_or(encoded)
}

/// Parses the fields of a message.
#[cfg(feature = "text")]
fn parse(message: &MessageDescriptor, text: &str) -> Result<DynamicMessage, SyntaxError> {
    DynamicMessage::parse_text_format(message.clone(), text).map_err(|error| {
        let offset = error.labels().and_then(|mut labels| labels.next()).map_or(0, |label| label.offset());
        // The library's message ends in the reason alone.
        let reason = std::error::Error::source(&error).map_or_else(|| error.to_string(), ToString::to_string);
        SyntaxError { offset, message: reason }
    })
}

/// The same where this was built without the feature `text`.
#[cfg(not(feature = "text"))]
fn parse(_: &MessageDescriptor, _: &str) -> Result<DynamicMessage, SyntaxError> {
    let message = "the text format takes the feature `text`, which this was built without".to_string();
    Err(SyntaxError { offset: 0, message })
}

/// Reads one message in the text format; the error says where it is wrong.
pub(crate) fn parse_message(name: &str, text: &str) -> Result<DynamicMessage, String> {
    parse(&descriptor(name), text).map_err(|error| {
        let (line, column) = error.position(text);
        format!("line {line}, column {column}: {}", error.message)
    })
}

/// The text with all unknown fields overwritten by spaces, or none if there are none.
fn blank_unknown_fields(text: &str, message: &MessageDescriptor) -> Result<Option<String>, SyntaxError> {
    let mut unknown = Vec::new();
    find_unknown_fields(text, 0..text.len(), message, &mut unknown)?;
    if unknown.is_empty() {
        return Ok(None);
    }
    let mut blanked = String::with_capacity(text.len());
    let mut position = 0;
    for span in unknown {
        blanked.push_str(&text[position..span.start]);
        // A space for each byte keeps the offsets of what follows.
        blanked.extend(std::iter::repeat_n(' ', span.len()));
        position = span.end;
    }
    blanked.push_str(&text[position..]);
    Ok(Some(blanked))
}

/// All fields of a text that has been converted that the definitions do not know.
pub(super) fn unknown_fields(text: &str, kind: super::Kind) -> Vec<&str> {
    let mut unknown = Vec::new();
    let message = descriptor(kind.message_name());
    // It was read before, so there are no errors.
    let _ = find_unknown_fields(text, 0..text.len(), &message, &mut unknown);
    unknown.into_iter().map(|span| &text[span]).collect()
}

fn find_unknown_fields(
    text: &str,
    body: Range<usize>,
    message: &MessageDescriptor,
    unknown: &mut Vec<Range<usize>>,
) -> Result<(), SyntaxError> {
    for field in Scanner::within(text, body).fields() {
        let field = field?;
        match known_field(text, &field, message) {
            None => unknown.push(field.span),
            Some(known) => {
                let kind = known.kind();
                let Some(inner) = kind.as_message() else { continue };
                match field.value {
                    TextValue::Message(body) => find_unknown_fields(text, body, inner, unknown)?,
                    TextValue::List(bodies) => {
                        for body in bodies {
                            find_unknown_fields(text, body, inner, unknown)?;
                        }
                    }
                    TextValue::Scalar => {}
                }
            }
        }
    }
    Ok(())
}

fn known_field(
    text: &str,
    field: &TextField,
    message: &MessageDescriptor,
) -> Option<prost_reflect::FieldDescriptor> {
    let name = field.name(text);
    // `[type.googleapis.com/…]` and extensions are the parser's business.
    message.get_field_by_name(name)
}
