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

#[cfg(test)]
mod tests {
    use super::*;

    /// A file of four values as NumPy writes it.
    fn file(order: bool) -> Vec<u8> {
        let order = if order { "True" } else { "False" };
        let header = format!("{{'descr': '<f4', 'fortran_order': {order}, 'shape': (2, 2), }}");
        let header = format!("{header:<117}\n");
        let mut bytes = b"\x93NUMPY\x01\x00".to_vec();
        bytes.extend((header.len() as u16).to_le_bytes());
        bytes.extend(header.as_bytes());
        [1.5f32, -2.0, 0.0, 4.0].iter().for_each(|value| bytes.extend(value.to_le_bytes()));
        bytes
    }

    fn read_bytes(bytes: &[u8], dtype: DataType) -> Result<Tensor, String> {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("x.npy");
        std::fs::write(&path, bytes).unwrap();
        read(&path, dtype).map_err(|error| error.to_string())
    }

    #[test]
    fn arrays_are_read() {
        let tensor = read_bytes(&file(false), DataType::FLOAT).unwrap();
        assert_eq!(tensor.shape(), [2, 2]);
        assert_eq!(tensor.to_vec(), Some(vec![1.5f32, -2.0, 0.0, 4.0]));
    }

    #[test]
    fn what_is_wrong_with_a_file_is_said() {
        let whole = file(false);
        let cases = [
            (&whole[..whole.len() - 1], DataType::FLOAT, "ends before its last value"),
            (&whole[..20], DataType::FLOAT, "is no .npy file"),
            (&whole[..], DataType::INT32, "holds values of type float32"),
            (&file(true)[..], DataType::FLOAT, "is in Fortran order"),
        ];
        for (bytes, dtype, part) in cases {
            let error = read_bytes(bytes, dtype).unwrap_err();
            assert!(error.contains(part), "no {part:?} in {error}");
        }
    }
}
