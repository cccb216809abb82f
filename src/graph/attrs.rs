//! A node's attributes, read where they stand.

use std::ops::Range;

use prost::Message;

use crate::dtype::DataType;
use crate::format::Nodes;
use crate::format::wire::{Field, Fields, Payload};
use crate::ops::{Attr, AttrLookup};
use crate::proto::tensorflow::AttrValue;
use crate::proto::tensorflow::attr_value::Value;

/// Field numbers of `AttrValue`.
mod field {
    pub const LIST: u32 = 1;
    pub const STRING: u32 = 2;
    pub const INT: u32 = 3;
    pub const BOOL: u32 = 5;
    pub const TYPE: u32 = 6;
    pub const SHAPE: u32 = 7;
}

/// The attributes of one node.
#[derive(Debug, Clone, Copy)]
pub struct NodeAttrs<'a> {
    nodes: Nodes<'a>,
    node: usize,
}

impl<'a> NodeAttrs<'a> {
    /// The attributes of the node at this place.
    pub fn new(nodes: Nodes<'a>, node: usize) -> NodeAttrs<'a> {
        NodeAttrs { nodes, node }
    }

    /// All names with their undecoded `AttrValue`, in the order of the file.
    pub fn all(&self) -> impl Iterator<Item = (&'a [u8], &'a [u8])> + use<'a> {
        self.nodes.attrs(self.node)
    }

    /// The undecoded `AttrValue` of this name. As in any protobuf map, the last entry counts.
    pub fn raw(&self, name: &str) -> Option<&'a [u8]> {
        self.nodes.attrs(self.node).filter(|(key, _)| *key == name.as_bytes()).last().map(|(_, value)| value)
    }

    /// A string attribute.
    pub fn string(&self, name: &str) -> Option<&'a [u8]> {
        let value = self.raw(name)?;
        let Payload::Bytes(range) = last_field(value, field::STRING)?.payload else { return None };
        Some(&value[range])
    }

    /// The ops that the node must be in the same place as: what `_class` names as `loc:@NAME`.
    pub fn colocated_with(&self) -> Vec<String> {
        let Some(value) = self.raw("_class").and_then(|value| AttrValue::decode(value).ok()) else {
            return Vec::new();
        };
        let Some(Value::List(list)) = value.value else { return Vec::new() };
        let names = list.s.iter().filter_map(|name| std::str::from_utf8(name).ok()?.strip_prefix("loc:@"));
        names.map(str::to_string).collect()
    }

    /// The name of the function that an attribute is.
    pub fn function(&self, name: &str) -> Option<String> {
        match AttrValue::decode(self.raw(name)?).ok()?.value? {
            Value::Func(function) => Some(function.name),
            _ => None,
        }
    }

    /// A shape attribute: a -1 for each unknown dimension, none if the rank is unknown.
    pub fn shape(&self, name: &str) -> Option<Vec<i64>> {
        let value = self.raw(name)?;
        dimensions(value, last_field(value, field::SHAPE)?.bytes(field::SHAPE)?)
    }
}

impl AttrLookup for NodeAttrs<'_> {
    fn attr(&self, name: &str) -> Option<Attr<'_>> {
        let value = self.raw(name)?;
        let Some(Ok(last)) = Fields::of(value).last() else { return Some(Attr::Other) };
        Some(match (last.number, last.payload) {
            (field::STRING, Payload::Bytes(range)) => Attr::Str(&value[range]),
            (field::INT, Payload::Varint(value)) => Attr::Int(value as i64),
            (field::BOOL, Payload::Varint(value)) => Attr::Bool(value != 0),
            (field::TYPE, Payload::Varint(value)) => Attr::Type(DataType::new(value as i32)),
            (field::LIST, Payload::Bytes(_)) => types(value),
            _ => Attr::Other,
        })
    }
}

/// A list attribute, which is rare enough to be decoded in full.
fn types(value: &[u8]) -> Attr<'static> {
    match AttrValue::decode(value) {
        Ok(decoded) => match Attr::from(&decoded) {
            Attr::Types(types) => Attr::Types(types),
            _ => Attr::Other,
        },
        Err(_) => Attr::Other,
    }
}

fn last_field(message: &[u8], number: u32) -> Option<Field> {
    Fields::of(message).flatten().filter(|field| field.number == number).last()
}

/// The shapes that the attribute `_output_shapes` lists, one for each output.
///
/// Each is none if the rank is unknown, and has a -1 for each unknown dimension.
pub fn output_shapes<'a>(attrs: &NodeAttrs<'a>) -> Option<impl Iterator<Item = Option<Vec<i64>>> + use<'a>> {
    const LIST_SHAPE: u32 = 7;
    let value = attrs.raw("_output_shapes")?;
    let list = last_field(value, field::LIST)?.bytes(field::LIST)?;
    let shapes = Fields::new(value, list).flatten().filter_map(|field| field.bytes(LIST_SHAPE));
    Some(shapes.map(move |shape| dimensions(value, shape)))
}

/// The dimensions of a `TensorShapeProto`.
fn dimensions(bytes: &[u8], shape: Range<usize>) -> Option<Vec<i64>> {
    const DIM: u32 = 2;
    const DIM_SIZE: u32 = 1;
    const UNKNOWN_RANK: u32 = 3;
    let mut dimensions = Vec::new();
    for field in Fields::new(bytes, shape).flatten() {
        match (field.number, field.payload) {
            (UNKNOWN_RANK, Payload::Varint(1)) => return None,
            (DIM, Payload::Bytes(dimension)) => {
                let mut size = 0;
                for part in Fields::new(bytes, dimension).flatten() {
                    if let (DIM_SIZE, Payload::Varint(value)) = (part.number, part.payload) {
                        size = value as i64;
                    }
                }
                dimensions.push(size.max(-1));
            }
            _ => {}
        }
    }
    Some(dimensions)
}
