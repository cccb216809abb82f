//! Changes to a graph, written between the bytes that stay.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use prost::Message;
use prost_reflect::DynamicMessage;

use super::model::{LARGEST_MESSAGE, Model, TextSource, field};
use super::nodes::field as node_field;
use super::print::{has_unknown_fields, print_block, print_message, quote};
use super::rope::Rope;
use super::scan::{Scanner, TextField};
use super::text::descriptor;
use super::wire::{Fields, put_length_delimited_header, put_string};
use super::{Encoding, FormatError};
use crate::proto::tensorflow::NodeDef;

/// What is to change in a graph. Nodes are named by their index.
#[derive(Debug, Clone, Default)]
pub struct Edits {
    /// New inputs, all of them, data before control.
    pub inputs: BTreeMap<usize, Vec<String>>,
    /// Nodes to leave out.
    pub removed: BTreeSet<usize>,
    /// Nodes to append after the last one.
    pub added: Vec<NodeDef>,
}

impl Edits {
    /// Whether nothing is to change.
    pub fn is_empty(&self) -> bool {
        self.inputs.is_empty() && self.removed.is_empty() && self.added.is_empty()
    }
}

impl Model {
    /// The file with these changes, in the given encoding.
    ///
    /// What the changes do not name is what was read, byte for byte, as long as the encoding is the file's own.
    ///
    /// # Errors
    ///
    /// If the encoding is not the file's own and cannot hold all that the file holds, or the result is larger than
    /// protobuf allows.
    pub fn edited(&self, edits: &Edits, encoding: Encoding) -> Result<Rope<'_>, FormatError> {
        let rope = self.edited_as(edits, encoding)?;
        match encoding {
            Encoding::Binary if rope.len() > LARGEST_MESSAGE => {
                Err(FormatError::TooLarge { name: self.name().to_string(), bytes: rope.len() })
            }
            _ => Ok(rope),
        }
    }

    fn edited_as(&self, edits: &Edits, encoding: Encoding) -> Result<Rope<'_>, FormatError> {
        let lossy = |keep| FormatError::LossyConversion { name: self.name().to_string(), keep };
        match (&self.text, encoding) {
            (None, Encoding::Binary) => Ok(self.edited_binary(edits)),
            (Some(source), Encoding::Text) => Ok(edited_text(source, edits)),
            (Some(source), Encoding::Binary) if source.has_unknown_fields => Err(lossy(Encoding::Text)),
            (Some(_), Encoding::Binary) => Ok(self.edited_binary(edits)),
            (None, Encoding::Text) => {
                let text = self.as_text(&self.edited_binary(edits).to_vec())?;
                text.map(|text| Rope::of(text.into_bytes())).ok_or_else(|| lossy(Encoding::Binary))
            }
        }
    }

    fn edited_binary(&self, edits: &Edits) -> Rope<'_> {
        let mut whole = Rope::new(&self.bytes);
        if edits.is_empty() {
            whole.push_source(0..self.bytes.len());
            return whole;
        }
        let mut content = self.edited_graph(edits);
        // From the inside out: each message around the graph has a new length.
        for (level, enclosing) in self.enclosing.iter().enumerate().rev() {
            let around = match level {
                0 => 0..self.bytes.len(),
                _ => self.enclosing[level - 1].content.clone(),
            };
            let mut outer = Rope::new(&self.bytes);
            outer.push_source(around.start..enclosing.field.start);
            outer.push_rope(content.enclosed(enclosing.number));
            outer.push_source(enclosing.field.end..around.end);
            content = outer;
        }
        whole.push_rope(content);
        whole
    }

    fn edited_graph(&self, edits: &Edits) -> Rope<'_> {
        let mut added = Vec::new();
        for node in &edits.added {
            put_length_delimited_header(field::GRAPH_NODE, node.encoded_len() as u64, &mut added);
            added.extend(node.encode_to_vec());
        }
        let mut rope = Rope::new(&self.bytes);
        let last = self.nodes().len().checked_sub(1);
        if last.is_none() {
            rope.push_new(std::mem::take(&mut added));
        }
        let mut node = 0;
        for part in Fields::new(&self.bytes, self.graph.clone()).flatten() {
            let Some(content) = part.bytes(field::GRAPH_NODE) else {
                rope.push_source(part.span);
                continue;
            };
            if let Some(inputs) = edits.inputs.get(&node) {
                rope.push_rope(self.with_inputs(content, inputs).enclosed(field::GRAPH_NODE));
            } else if !edits.removed.contains(&node) {
                rope.push_source(part.span);
            }
            if Some(node) == last {
                rope.push_new(std::mem::take(&mut added));
            }
            node += 1;
        }
        rope
    }

    /// A node with other inputs: each in the place of the old one, further ones after the last, all else as it is.
    fn with_inputs(&self, content: Range<usize>, inputs: &[String]) -> Rope<'_> {
        let parts: Vec<_> = Fields::new(&self.bytes, content).flatten().collect();
        let rank =
            |number: u32| if number == node_field::INPUT { 2 } else { u8::from(number <= node_field::OP) };
        // New inputs go behind the last input, or behind name and op where there is none.
        let anchor = parts.iter().map(|part| rank(part.number)).max().unwrap_or(0);
        let anchor = parts.iter().rposition(|part| anchor > 0 && rank(part.number) == anchor);

        let mut rope = Rope::new(&self.bytes);
        let mut next = inputs.iter();
        let put = |rope: &mut Rope<'_>, input: &String| {
            let mut encoded = Vec::new();
            put_string(node_field::INPUT, input, &mut encoded);
            rope.push_new(encoded);
        };
        if anchor.is_none() {
            next.by_ref().for_each(|input| put(&mut rope, input));
        }
        for (index, part) in parts.into_iter().enumerate() {
            match part.bytes(node_field::INPUT) {
                None => rope.push_source(part.span),
                Some(old) => match next.next() {
                    Some(input) if input.as_bytes() == &self.bytes[old] => rope.push_source(part.span),
                    Some(input) => put(&mut rope, input),
                    None => {}
                },
            }
            if Some(index) == anchor {
                next.by_ref().for_each(|input| put(&mut rope, input));
            }
        }
        rope
    }

    /// A message of this model's kind as text; none if it has fields that the definitions do not know.
    fn as_text(&self, bytes: &[u8]) -> Result<Option<String>, FormatError> {
        let message =
            DynamicMessage::decode(descriptor(self.kind().message_name()), bytes).map_err(|source| {
                FormatError::Decode {
                    name: self.name().to_string(),
                    part: format!("the {}", self.kind()),
                    source,
                }
            })?;
        if has_unknown_fields(&message) {
            return Ok(None);
        }
        let mut text = String::new();
        print_message(&message, 0, &mut text);
        Ok(Some(text))
    }
}

fn edited_text<'a>(source: &'a TextSource, edits: &Edits) -> Rope<'a> {
    let text = source.text.as_str();
    let mut rope = Rope::new(text.as_bytes());
    let mut position = 0;
    for (node, span) in source.graph.nodes.iter().enumerate() {
        if let Some(inputs) = edits.inputs.get(&node) {
            rope.push_source(position..span.start);
            text_with_inputs(text, span.clone(), inputs, &mut rope);
            position = span.end;
        } else if edits.removed.contains(&node) {
            let line = whole_lines(text, span.clone());
            rope.push_source(position..line.start);
            position = line.end;
        }
    }
    if !edits.added.is_empty() {
        let last = source.graph.nodes.last().map(|last| whole_lines(text, last.clone()));
        // Where nodes stand in a list, `node: [{ … }]`, the place for others is behind all fields.
        let in_list =
            source.graph.nodes.last().is_some_and(|last| text[last.start..].starts_with(['{', '<']));
        let behind = match last {
            Some(last) if !in_list => last.end,
            Some(_) => source.graph.body.end,
            None => source.graph.body.start,
        };
        let indent = source.graph.nodes.last().map_or(0, |last| indentation(text, last.start).len());
        rope.push_source(position..behind.max(position));
        position = behind.max(position);
        let mut added = String::new();
        if behind > 0 && !text[..behind].ends_with('\n') {
            added.push('\n');
        }
        for node in &edits.added {
            put_text_node(node, indent, &mut added);
        }
        rope.push_new(added.into_bytes());
    }
    rope.push_source(position..text.len());
    rope
}

/// Appends a node to a text.
fn put_text_node(node: &NodeDef, indent: usize, out: &mut String) {
    let mut message = DynamicMessage::new(descriptor("tensorflow.NodeDef"));
    // What we encoded ourselves decodes.
    if message.merge(node.encode_to_vec().as_slice()).is_ok() {
        print_block("node", indent, out, |indent, out| print_message(&message, indent, out));
    }
}

/// Appends the node at `span` with other inputs.
fn text_with_inputs(text: &str, span: Range<usize>, inputs: &[String], rope: &mut Rope<'_>) {
    let Some(open) = text[span.clone()].find(['{', '<']) else { return rope.push_source(span) };
    let close = text[span.clone()].rfind(['}', '>']).map_or(span.end, |close| span.start + close);
    let body = span.start + open + 1..close;
    let fields: Vec<TextField> = Scanner::within(text, body.clone()).fields().flatten().collect();
    let is_input = |field: &&TextField| field.name(text) == "input";

    let place = match fields.iter().find(is_input) {
        Some(first) => whole_lines(text, first.span.clone()).start,
        None => {
            let op = fields.iter().rfind(|field| field.name(text) == "op");
            op.map_or(body.start, |op| whole_lines(text, op.span.clone()).end)
        }
    };
    let own_lines = place == 0 || text[..place].ends_with('\n');
    let indent = fields.first().map_or("", |first| indentation(text, first.span.start));
    let mut new = String::new();
    for input in inputs {
        let quoted = quote(input.as_bytes());
        new += &if own_lines { format!("{indent}input: {quoted}\n") } else { format!(" input: {quoted} ") };
    }

    let mut position = span.start;
    rope.push_source(position..place);
    position = position.max(place);
    rope.push_new(new.into_bytes());
    for field in fields.iter().filter(is_input) {
        let line = whole_lines(text, field.span.clone());
        rope.push_source(position..line.start);
        position = line.end;
    }
    rope.push_source(position..span.end);
}

/// The lines that a field fills, if it shares none with another; else the field alone.
fn whole_lines(text: &str, span: Range<usize>) -> Range<usize> {
    let start = span.start - indentation(text, span.start).len();
    let starts_line = start == 0 || text[..start].ends_with('\n');
    let after = text[span.end..].trim_start_matches([' ', '\t', '\r']);
    match after.strip_prefix('\n') {
        Some(next) if starts_line => start..text.len() - next.len(),
        _ => span,
    }
}

/// The blanks before a position, back to the start of its line or to something else.
fn indentation(text: &str, position: usize) -> &str {
    let before = &text[..position];
    &before[before.trim_end_matches([' ', '\t']).len()..]
}
