//! Changes to a graph, written between the bytes that stay.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use prost::Message;
use prost_reflect::DynamicMessage;

use super::edit_node::{AttrEdit, NodeEdit, indentation, whole_lines};
use super::model::{LARGEST_MESSAGE, Model, ReadOptions, TextSource, field};
use super::print::{has_unknown_fields, print_block, print_message};
use super::rope::Rope;
use super::text::descriptor;
use super::wire::{Fields, put_length_delimited_header};
use super::{Encoding, FormatError};
use crate::proto::tensorflow::NodeDef;

/// What is to change in a graph. Nodes are named by their index.
#[derive(Debug, Clone, Default)]
pub struct Edits {
    /// New inputs, all of them, data before control.
    pub inputs: BTreeMap<usize, Vec<String>>,
    /// Other devices; none for none.
    pub devices: BTreeMap<usize, Option<String>>,
    /// Changes to attributes, each of another one.
    pub attrs: BTreeMap<usize, Vec<AttrEdit>>,
    /// Nodes to leave out.
    pub removed: BTreeSet<usize>,
    /// Nodes to append after the last one.
    pub added: Vec<NodeDef>,
    /// Nodes in the place of all that there are, as a GraphDef has them. What is said of single nodes then says nothing.
    pub nodes: Option<Vec<u8>>,
    /// New contents of functions of the library, named by their index, or none for those to leave out.
    pub functions: BTreeMap<usize, Option<Vec<u8>>>,
    /// Contents of functions to append to the library, which must have one already.
    pub added_functions: Vec<Vec<u8>>,
}

impl Edits {
    /// Whether nothing is to change.
    pub fn is_empty(&self) -> bool {
        self.inputs.is_empty()
            && self.devices.is_empty()
            && self.attrs.is_empty()
            && self.removed.is_empty()
            && self.added.is_empty()
            && self.nodes.is_none()
            && !self.has_functions()
    }

    /// Whether functions are to change.
    fn has_functions(&self) -> bool {
        !self.functions.is_empty() || !self.added_functions.is_empty()
    }

    /// What changes in a node that stays; none if nothing does.
    fn of_node(&self, node: usize) -> Option<NodeEdit<'_>> {
        let inputs = self.inputs.get(&node).map(Vec::as_slice);
        let device = self.devices.get(&node).map(Option::as_deref);
        let attrs = self.attrs.get(&node).map_or(&[][..], Vec::as_slice);
        let is_changed = inputs.is_some() || device.is_some() || !attrs.is_empty();
        is_changed.then_some(NodeEdit { inputs, device, attrs })
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

    /// The file with these changes, read again.
    ///
    /// # Errors
    ///
    /// As [`Model::edited`], or if it is no model any more.
    pub fn changed(&self, edits: &Edits, encoding: Encoding) -> Result<Model, FormatError> {
        let content = self.edited(edits, encoding)?.to_vec();
        let info = self.meta_graph()?.and_then(|meta_graph| meta_graph.meta_info_def);
        Model::from_bytes(self.name(), content, &ReadOptions { tags: info.map(|info| info.tags) })
    }

    fn edited_as(&self, edits: &Edits, encoding: Encoding) -> Result<Rope<'_>, FormatError> {
        let lossy = |keep| FormatError::LossyConversion { name: self.name().to_string(), keep };
        match (&self.text, encoding) {
            (None, Encoding::Binary) => Ok(self.edited_binary(edits)),
            // Functions are printed anew, and the whole file with them; so are nodes in the place of all.
            (Some(_), Encoding::Text) if edits.has_functions() || edits.nodes.is_some() => {
                let text = self.as_text(&self.edited_binary(edits).to_vec())?;
                text.map(|text| Rope::of(text.into_bytes())).ok_or_else(|| lossy(Encoding::Text))
            }
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
        if let Some(nodes) = &edits.nodes {
            added.clone_from(nodes);
        }
        if last.is_none() {
            rope.push_new(std::mem::take(&mut added));
        }
        let parts = Fields::new(&self.bytes, self.graph.clone()).flatten();
        let mut libraries_left = parts.filter(|part| part.bytes(field::GRAPH_LIBRARY).is_some()).count();
        let (mut node, mut function) = (0, 0);
        for part in Fields::new(&self.bytes, self.graph.clone()).flatten() {
            if let Some(library) = part.bytes(field::GRAPH_LIBRARY)
                && edits.has_functions()
            {
                libraries_left -= 1;
                let content = self.edited_library(edits, library, &mut function, libraries_left == 0);
                rope.push_rope(content.enclosed(field::GRAPH_LIBRARY));
                continue;
            }
            let Some(content) = part.bytes(field::GRAPH_NODE) else {
                rope.push_source(part.span);
                continue;
            };
            if edits.nodes.is_some() {
                // They come where the last one was.
            } else if let Some(edit) = edits.of_node(node) {
                rope.push_rope(edit.of_binary(&self.bytes, content).enclosed(field::GRAPH_NODE));
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

    /// A part of the function library; `function` counts the functions, those of earlier parts included.
    fn edited_library(
        &self,
        edits: &Edits,
        library: Range<usize>,
        function: &mut usize,
        is_last: bool,
    ) -> Rope<'_> {
        let mut rope = Rope::new(&self.bytes);
        let put = |rope: &mut Rope<'_>, content: &[u8]| {
            let mut encoded = Vec::with_capacity(content.len() + 8);
            put_length_delimited_header(field::LIBRARY_FUNCTION, content.len() as u64, &mut encoded);
            encoded.extend_from_slice(content);
            rope.push_new(encoded);
        };
        for part in Fields::new(&self.bytes, library).flatten() {
            if part.bytes(field::LIBRARY_FUNCTION).is_none() {
                rope.push_source(part.span);
                continue;
            }
            match edits.functions.get(function) {
                None => rope.push_source(part.span),
                Some(None) => {}
                Some(Some(content)) => put(&mut rope, content),
            }
            *function += 1;
        }
        if is_last {
            edits.added_functions.iter().for_each(|content| put(&mut rope, content));
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
        if let Some(edit) = edits.of_node(node) {
            rope.push_source(position..span.start);
            edit.of_text(text, span.clone(), &mut rope);
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
