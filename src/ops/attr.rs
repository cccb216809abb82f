//! What an op's signature and its kernels ask of a node's attributes.

use std::collections::BTreeMap;

use crate::dtype::DataType;
use crate::proto::tensorflow::AttrValue;
use crate::proto::tensorflow::attr_value::Value;

/// The value of one attribute, as far as signatures and kernels depend on it.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Attr<'a> {
    /// An integer.
    Int(i64),
    /// A truth value.
    Bool(bool),
    /// A string, which need not be UTF-8.
    Str(&'a [u8]),
    /// A data type.
    Type(DataType),
    /// A list of data types; also an empty list of anything, which reads the same.
    Types(Vec<DataType>),
    /// A value of another kind, or a placeholder that the caller of a function fills in.
    Other,
}

/// Finds the attributes of a node.
pub trait AttrLookup {
    /// The attribute of this name, if the node itself has it. Defaults are not for the node to know.
    fn attr(&self, name: &str) -> Option<Attr<'_>>;
}

impl AttrLookup for BTreeMap<String, AttrValue> {
    fn attr(&self, name: &str) -> Option<Attr<'_>> {
        self.get(name).map(Attr::from)
    }
}

impl<'a> From<&'a AttrValue> for Attr<'a> {
    fn from(value: &'a AttrValue) -> Self {
        match &value.value {
            Some(Value::I(value)) => Self::Int(*value),
            Some(Value::B(value)) => Self::Bool(*value),
            Some(Value::S(value)) => Self::Str(value),
            Some(Value::Type(value)) => Self::Type(DataType::new(*value)),
            Some(Value::List(list)) if !list.r#type.is_empty() || *list == Default::default() => {
                Self::Types(list.r#type.iter().copied().map(DataType::new).collect())
            }
            _ => Self::Other,
        }
    }
}
