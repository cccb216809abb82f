//! Numbers that are fed and decide sizes.

use std::collections::BTreeMap;
use std::str::FromStr;

use prost::Message;

use super::{GivenShapeError, declared_shape};
use crate::dtype::DataType;
use crate::graph::{Graph, NodeId};
use crate::ops::{Attr, AttrLookup as _};
use crate::proto::tensorflow::attr_value::Value;
use crate::proto::tensorflow::tensor_shape_proto::Dim;
use crate::proto::tensorflow::{AttrValue, NodeDef, TensorProto, TensorShapeProto};

/// What is fed to a placeholder of whole numbers, as `NAME=32` or `NAME=300,200` says it: a size, or several, that the program asks for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GivenValue {
    /// The placeholder's name.
    pub placeholder: String,
    /// The number, or the elements of a vector.
    pub numbers: Vec<i64>,
}

/// A value in text that is none.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is not NAME=N or NAME=N,N,… with whole numbers, such as batch=32")]
pub struct ParseValueError(String);

impl FromStr for GivenValue {
    type Err = ParseValueError;

    fn from_str(text: &str) -> Result<GivenValue, ParseValueError> {
        let error = || ParseValueError(text.to_string());
        let (name, numbers) = text.rsplit_once('=').filter(|(name, _)| !name.is_empty()).ok_or_else(error)?;
        let placeholder = name.strip_suffix(":0").unwrap_or(name).to_string();
        let numbers = numbers.split(',').map(str::parse).collect::<Result<_, _>>().map_err(|_| error())?;
        Ok(GivenValue { placeholder, numbers })
    }
}

/// What a placeholder is fed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FedValue {
    dtype: DataType,
    /// No dimension, or one.
    shape: Vec<i64>,
    numbers: Vec<i64>,
}

impl FedValue {
    /// Its dimensions: none, or one.
    pub fn shape(&self) -> &[i64] {
        &self.shape
    }

    /// Its numbers.
    pub fn numbers(&self) -> &[i64] {
        &self.numbers
    }

    /// Finds out whether a placeholder can be fed the numbers. `shape` is what was given for it.
    pub fn of(
        graph: &Graph,
        node: NodeId,
        shape: Option<&Vec<i64>>,
        numbers: &[i64],
    ) -> Result<FedValue, GivenShapeError> {
        let error = |why: String| GivenShapeError::Value { name: graph.name(node).to_string(), why };
        let dtype = match graph.attrs(node).attr("dtype") {
            Some(Attr::Type(dtype)) if matches!(dtype, DataType::INT32 | DataType::INT64) => dtype,
            _ => return Err(error("the placeholder takes no whole numbers of 32 or 64 bits".to_string())),
        };
        if dtype == DataType::INT32
            && let Some(number) = numbers.iter().find(|&&number| i32::try_from(number).is_err())
        {
            return Err(error(format!("{number} does not fit in 32 bits")));
        }
        let asked = shape.cloned().or_else(|| declared_shape(graph, node));
        let count = numbers.len() as i64;
        let shape = match (asked.as_deref(), numbers) {
            (None | Some([]), [_]) => Vec::new(),
            (None, _) => vec![count],
            (Some(&[size]), _) if size < 0 || size == count => vec![count],
            (Some(shape), _) => {
                return Err(error(format!("{count} numbers for a placeholder of the shape {shape:?}")));
            }
        };
        Ok(FedValue { dtype, shape, numbers: numbers.to_vec() })
    }

    /// The constant that stands for a placeholder, which is read from its bytes.
    pub(super) fn constant(&self, placeholder: &[u8]) -> Result<Vec<u8>, prost::DecodeError> {
        let NodeDef { name, device, .. } = NodeDef::decode(placeholder)?;
        let dim = self.shape.iter().map(|&size| Dim { size, name: String::new() }).collect();
        let mut tensor = TensorProto {
            dtype: self.dtype.number(),
            tensor_shape: Some(TensorShapeProto { dim, unknown_rank: false }),
            ..TensorProto::default()
        };
        match self.dtype {
            DataType::INT64 => tensor.int64_val.clone_from(&self.numbers),
            _ => tensor.int_val = self.numbers.iter().map(|&number| number as i32).collect(),
        }
        let attr = |value| AttrValue { value: Some(value) };
        let attr = BTreeMap::from([
            ("dtype".to_string(), attr(Value::Type(self.dtype.number()))),
            ("value".to_string(), attr(Value::Tensor(tensor))),
        ]);
        Ok(NodeDef { name, op: "Const".to_string(), device, attr, ..NodeDef::default() }.encode_to_vec())
    }
}
