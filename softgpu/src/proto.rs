//! The few TensorFlow messages that the plug-in reads and writes, with the fields that it needs.

use prost::Message;
use std::collections::{BTreeMap, HashMap};

#[derive(Clone, PartialEq, Message)]
pub struct OpList {
    #[prost(message, repeated, tag = "1")]
    pub op: Vec<OpDef>,
}

#[derive(Clone, PartialEq, Message)]
pub struct OpDef {
    #[prost(string, tag = "1")]
    pub name: String,
    #[prost(message, repeated, tag = "2")]
    pub input_arg: Vec<ArgDef>,
    #[prost(message, repeated, tag = "3")]
    pub output_arg: Vec<ArgDef>,
    #[prost(message, repeated, tag = "4")]
    pub attr: Vec<AttrDef>,
    #[prost(bool, tag = "17")]
    pub is_stateful: bool,
}

#[derive(Clone, PartialEq, Message)]
pub struct ArgDef {
    #[prost(int32, tag = "3")]
    pub dtype: i32,
    #[prost(bool, tag = "16")]
    pub is_ref: bool,
}

#[derive(Clone, PartialEq, Message)]
pub struct AttrDef {
    #[prost(string, tag = "1")]
    pub name: String,
    #[prost(string, tag = "2")]
    pub kind: String,
}

#[derive(Clone, PartialEq, Message)]
pub struct KernelList {
    #[prost(message, repeated, tag = "1")]
    pub kernel: Vec<KernelDef>,
}

#[derive(Clone, PartialEq, Message)]
pub struct KernelDef {
    #[prost(string, tag = "1")]
    pub op: String,
    #[prost(string, tag = "2")]
    pub device_type: String,
    #[prost(message, repeated, tag = "3")]
    pub constraint: Vec<Constraint>,
    #[prost(string, repeated, tag = "4")]
    pub host_memory_arg: Vec<String>,
    #[prost(string, tag = "5")]
    pub label: String,
}

#[derive(Clone, PartialEq, Message)]
pub struct Constraint {
    #[prost(string, tag = "1")]
    pub name: String,
    #[prost(message, optional, tag = "2")]
    pub allowed_values: Option<AttrValue>,
}

impl Constraint {
    /// The types that the attribute may have.
    pub fn types(&self) -> &[i32] {
        self.allowed_values.as_ref().and_then(|v| v.list.as_ref()).map_or(&[], |list| &list.types)
    }
}

/// Only two of the kinds of value; one that is neither reads as empty.
#[derive(Clone, PartialEq, Message)]
pub struct AttrValue {
    #[prost(message, optional, tag = "1")]
    pub list: Option<ListValue>,
    #[prost(bytes = "vec", optional, tag = "2")]
    pub s: Option<Vec<u8>>,
}

#[derive(Clone, PartialEq, Message)]
pub struct ListValue {
    #[prost(int64, repeated, tag = "3")]
    pub i: Vec<i64>,
    #[prost(int32, repeated, tag = "6")]
    pub types: Vec<i32>,
}

/// The attributes stay encoded `AttrValue`s: they are passed on as they are.
#[derive(Clone, PartialEq, Message)]
pub struct NodeDef {
    #[prost(string, tag = "1")]
    pub name: String,
    #[prost(string, tag = "2")]
    pub op: String,
    #[prost(btree_map = "string, bytes", tag = "5")]
    pub attr: BTreeMap<String, Vec<u8>>,
}

#[derive(Clone, PartialEq, Message)]
pub struct ConfigProto {
    #[prost(map = "string, int32", tag = "1")]
    pub device_count: HashMap<String, i32>,
}
