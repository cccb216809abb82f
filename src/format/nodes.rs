//! The nodes of a graph, where they lie in the file.
//!
//! A [`NodeList`] holds positions only: 36 bytes a node and 8 an input, whatever the node's attributes weigh. [`Nodes`]
//! joins it with the bytes it points into.

use std::ops::Range;

use prost::Message;

use super::wire::{Field, Fields, Payload, WireError};
use crate::proto::tensorflow::{AttrValue, NodeDef};

/// Field numbers of `NodeDef`.
pub(super) mod field {
    pub const NAME: u32 = 1;
    pub const OP: u32 = 2;
    pub const INPUT: u32 = 3;
    pub const DEVICE: u32 = 4;
    pub const ATTR: u32 = 5;
}

/// A range of a buffer of less than 4 GiB.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Span {
    start: u32,
    length: u32,
}

impl Span {
    pub fn new(range: Range<usize>) -> Span {
        Span { start: range.start as u32, length: range.len() as u32 }
    }

    pub fn range(self) -> Range<usize> {
        self.start as usize..self.start as usize + self.length as usize
    }
}

#[derive(Debug, Clone, Copy)]
struct NodeRecord {
    content: Span,
    name: Span,
    op: Span,
    device: Span,
    first_input: u32,
}

/// Why a node could not be read.
#[derive(Debug)]
pub(super) enum NodeError {
    Wire(WireError),
    NotUtf8 { node: usize, field: &'static str },
}

impl From<WireError> for NodeError {
    fn from(error: WireError) -> NodeError {
        NodeError::Wire(error)
    }
}

/// Where the nodes of one graph or function body lie in a buffer.
#[derive(Debug, Clone, Default)]
pub struct NodeList {
    records: Vec<NodeRecord>,
    inputs: Vec<Span>,
}

impl NodeList {
    /// Reads the `NodeDef`s that are field `number` of the message at `range`.
    ///
    /// The buffer must be smaller than 4 GiB.
    pub(super) fn read(buffer: &[u8], range: Range<usize>, number: u32) -> Result<NodeList, NodeError> {
        let mut list = NodeList::default();
        for field in Fields::new(buffer, range) {
            if let Some(content) = field?.bytes(number) {
                list.push(buffer, content)?;
            }
        }
        Ok(list)
    }

    fn push(&mut self, buffer: &[u8], content: Range<usize>) -> Result<(), NodeError> {
        let node = self.records.len();
        let text =
            |range: Range<usize>, field: &'static str| match std::str::from_utf8(&buffer[range.clone()]) {
                Ok(_) => Ok(Span::new(range)),
                Err(_) => Err(NodeError::NotUtf8 { node, field }),
            };
        let mut record = NodeRecord {
            content: Span::new(content.clone()),
            name: Span::default(),
            op: Span::default(),
            device: Span::default(),
            first_input: self.inputs.len() as u32,
        };
        for field in Fields::new(buffer, content) {
            let field = field?;
            let Payload::Bytes(range) = field.payload else { continue };
            match field.number {
                field::NAME => record.name = text(range, "name")?,
                field::OP => record.op = text(range, "op")?,
                field::INPUT => self.inputs.push(text(range, "input")?),
                field::DEVICE => record.device = text(range, "device")?,
                _ => {}
            }
        }
        self.records.push(record);
        Ok(())
    }

    /// How many nodes there are.
    pub fn len(&self) -> usize {
        self.records.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.records.is_empty()
    }
}

/// Whether a field of a node is the attribute of this name.
pub(super) fn is_attr(buffer: &[u8], part: &Field, name: &str) -> bool {
    let Some(entry) = part.bytes(field::ATTR) else { return false };
    let key = Fields::new(buffer, entry).flatten().filter_map(|inner| inner.bytes(1)).last();
    key.is_some_and(|key| &buffer[key] == name.as_bytes())
}

/// A [`NodeList`] with the bytes it points into.
#[derive(Debug, Clone, Copy)]
pub struct Nodes<'a> {
    buffer: &'a [u8],
    list: &'a NodeList,
}

impl<'a> Nodes<'a> {
    /// `list` must have been read from `buffer`.
    pub(super) fn new(buffer: &'a [u8], list: &'a NodeList) -> Nodes<'a> {
        Nodes { buffer, list }
    }

    fn text(&self, span: Span) -> &'a str {
        // Checked when the node was read.
        std::str::from_utf8(&self.buffer[span.range()]).unwrap_or_default()
    }

    /// How many nodes there are.
    pub fn len(&self) -> usize {
        self.list.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    /// The node's name.
    pub fn name(&self, node: usize) -> &'a str {
        self.text(self.list.records[node].name)
    }

    /// The node's op, such as `Conv2D`.
    pub fn op(&self, node: usize) -> &'a str {
        self.text(self.list.records[node].op)
    }

    /// The node's device string, empty if it has none.
    pub fn device(&self, node: usize) -> &'a str {
        self.text(self.list.records[node].device)
    }

    /// The node's inputs as written: `name`, `name:1`, `^name`.
    pub fn inputs(&self, node: usize) -> impl ExactSizeIterator<Item = &'a str> + use<'a> {
        let first = self.list.records[node].first_input as usize;
        let end =
            self.list.records.get(node + 1).map_or(self.list.inputs.len(), |next| next.first_input as usize);
        let nodes = *self;
        self.list.inputs[first..end].iter().map(move |&span| nodes.text(span))
    }

    /// How many inputs all nodes have together, control inputs counted.
    pub fn input_count(&self) -> usize {
        self.list.inputs.len()
    }

    /// The node as it stands in the buffer: the content of its `NodeDef`.
    pub fn raw(&self, node: usize) -> &'a [u8] {
        &self.buffer[self.content(node)]
    }

    /// The node as a message; none if it does not decode.
    pub fn decoded(&self, node: usize) -> Option<NodeDef> {
        NodeDef::decode(self.raw(node)).ok()
    }

    /// Where the content of the node's `NodeDef` lies in the buffer.
    pub(super) fn content(&self, node: usize) -> Range<usize> {
        self.list.records[node].content.range()
    }

    /// All fields of the node but its inputs, each with its key, as they stand in the buffer.
    pub fn fields_but_inputs(&self, node: usize) -> impl Iterator<Item = &'a [u8]> + use<'a> {
        let buffer = self.buffer;
        Fields::new(buffer, self.content(node))
            .flatten()
            .filter(|part| part.bytes(field::INPUT).is_none())
            .map(move |part| &buffer[part.span])
    }

    /// All fields of the node but its inputs, its device and the attributes of these names, each with its key, as they stand in the buffer.
    pub fn fields_beside_device<'n>(
        &self,
        node: usize,
        attrs: &'n [&'n str],
    ) -> impl Iterator<Item = &'a [u8]> + use<'a, 'n> {
        let buffer = self.buffer;
        Fields::new(buffer, self.content(node))
            .flatten()
            .filter(move |part| {
                part.bytes(field::INPUT).is_none()
                    && part.bytes(field::DEVICE).is_none()
                    && !attrs.iter().any(|name| is_attr(buffer, part, name))
            })
            .map(move |part| &buffer[part.span])
    }

    /// The attribute called `name`; none if the node has none, or one that does not decode.
    ///
    /// As in any protobuf map, the last entry of a name counts.
    pub fn attr(&self, node: usize, name: &str) -> Option<AttrValue> {
        let mut found = None;
        for (key, value) in self.attrs(node) {
            if key == name.as_bytes() {
                found = Some(value);
            }
        }
        AttrValue::decode(found?).ok()
    }

    /// The node's attributes, undecoded: name and `AttrValue`.
    pub fn attrs(&self, node: usize) -> impl Iterator<Item = (&'a [u8], &'a [u8])> + use<'a> {
        let buffer = self.buffer;
        Fields::new(buffer, self.content(node)).flatten().filter_map(move |field| {
            let (mut key, mut value) = (0..0, 0..0);
            for part in Fields::new(buffer, field.bytes(field::ATTR)?).flatten() {
                match part {
                    part if part.number == 1 => key = part.bytes(1)?,
                    part if part.number == 2 => value = part.bytes(2)?,
                    _ => {}
                }
            }
            Some((&buffer[key], &buffer[value]))
        })
    }
}
