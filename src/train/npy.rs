//! NumPy's `.npy` files.

use std::fs::File;
use std::io::{BufReader, ErrorKind};
use std::path::Path;

use npyz::{NpyFile, Order, TypeChar};

use super::TrainError;
use crate::dtype::DataType;
use crate::runtime::Tensor;

/// Reads a file as a tensor of type `dtype`, which its values must have.
pub fn read(path: &Path, dtype: DataType) -> Result<Tensor, TrainError> {
    let wrong = |why: String| TrainError::File { path: path.to_path_buf(), why };
    let file = File::open(path).map_err(|error| wrong(error.to_string()))?;
    let file =
        NpyFile::new(BufReader::new(file)).map_err(|error| wrong(format!("is no .npy file: {error}")))?;
    let header = file.header();
    let npyz::DType::Plain(kind) = header.dtype() else {
        return Err(wrong("holds records, not numbers".to_string()));
    };
    let found = type_of(&kind);
    if found != Some(dtype) {
        let found = found.map_or_else(|| kind.to_string(), |found| found.to_string());
        return Err(wrong(format!("holds values of type {found}, but the placeholder takes {dtype}")));
    }
    if header.order() != Order::C {
        return Err(wrong("is in Fortran order: save it with numpy.ascontiguousarray".to_string()));
    }
    let shape: Vec<i64> = header.shape().iter().map(|&size| size as i64).collect();
    let bytes = bytes(file, dtype).map_err(|error| match error.kind() {
        ErrorKind::UnexpectedEof => wrong("ends before its last value".to_string()),
        _ => wrong(error.to_string()),
    })?;
    Tensor::new(dtype, &shape, bytes).map_err(|error| wrong(error.to_string()))
}

/// The data type of an array's elements.
fn type_of(kind: &npyz::TypeStr) -> Option<DataType> {
    Some(match (kind.type_char(), kind.num_bytes()?) {
        (TypeChar::Float, 2) => DataType::HALF,
        (TypeChar::Float, 4) => DataType::FLOAT,
        (TypeChar::Float, 8) => DataType::DOUBLE,
        (TypeChar::Int, 1) => DataType::INT8,
        (TypeChar::Int, 2) => DataType::INT16,
        (TypeChar::Int, 4) => DataType::INT32,
        (TypeChar::Int, 8) => DataType::INT64,
        (TypeChar::Uint, 1) => DataType::UINT8,
        (TypeChar::Uint, 2) => DataType::UINT16,
        (TypeChar::Uint, 4) => DataType::UINT32,
        (TypeChar::Uint, 8) => DataType::UINT64,
        (TypeChar::Bool, 1) => DataType::BOOL,
        _ => return None,
    })
}

/// The values in the machine's byte order.
fn bytes(file: NpyFile<BufReader<File>>, dtype: DataType) -> std::io::Result<Vec<u8>> {
    macro_rules! values {
        ($element:ty) => {
            file.into_vec::<$element>()?.into_iter().flat_map(|value| value.to_ne_bytes()).collect()
        };
    }
    Ok(match dtype {
        DataType::HALF => values!(half::f16),
        DataType::FLOAT => values!(f32),
        DataType::DOUBLE => values!(f64),
        DataType::INT8 => values!(i8),
        DataType::INT16 => values!(i16),
        DataType::INT32 => values!(i32),
        DataType::INT64 => values!(i64),
        DataType::UINT8 => values!(u8),
        DataType::UINT16 => values!(u16),
        DataType::UINT32 => values!(u32),
        DataType::UINT64 => values!(u64),
        _ => file.into_vec::<bool>()?.into_iter().map(u8::from).collect(),
    })
}
