//! Where a placeholder's values come from, and the values that are made up.

use std::path::PathBuf;
use std::str::FromStr;

use crate::dtype::DataType;
use crate::runtime::{Tensor, TensorError};

/// What a placeholder is fed with.
#[derive(Debug, Clone, PartialEq)]
pub enum Values {
    /// A normal distribution for floating point numbers, truth values at random, 0 or 1 for integers.
    Random,
    /// Zeros.
    Zeros,
    /// Whole numbers from the first up to, but without, the second.
    Integers(i64, i64),
    /// One number everywhere.
    Constant(f64),
    /// A file of NumPy's.
    File(PathBuf),
}

/// A `--feed`: a placeholder's name and what it is fed with.
#[derive(Debug, Clone, PartialEq)]
pub struct FeedSpec {
    /// The placeholder.
    pub name: String,
    /// Its values.
    pub values: Values,
}

/// What is no feed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("expected NAME=random, zeros, const:VALUE, randint:LO:HI with LO below HI, or FILE.npy")]
pub struct ParseFeedError;

impl FromStr for FeedSpec {
    type Err = ParseFeedError;

    fn from_str(text: &str) -> Result<FeedSpec, ParseFeedError> {
        let (name, values) = text.split_once('=').ok_or(ParseFeedError)?;
        let name = name.strip_suffix(":0").unwrap_or(name);
        if name.is_empty() {
            return Err(ParseFeedError);
        }
        let values = match values.split_once(':') {
            None if values == "random" => Values::Random,
            None if values == "zeros" => Values::Zeros,
            Some(("const", value)) => Values::Constant(value.parse().map_err(|_| ParseFeedError)?),
            Some(("randint", range)) => {
                let (low, high) = range.split_once(':').ok_or(ParseFeedError)?;
                let low: i64 = low.parse().map_err(|_| ParseFeedError)?;
                let high: i64 = high.parse().map_err(|_| ParseFeedError)?;
                if low >= high {
                    return Err(ParseFeedError);
                }
                Values::Integers(low, high)
            }
            _ if values.ends_with(".npy") => Values::File(PathBuf::from(values)),
            _ => return Err(ParseFeedError),
        };
        Ok(FeedSpec { name: name.to_string(), values })
    }
}

impl Values {
    /// What a placeholder of this type is fed with if nothing else is said; none if nothing makes sense.
    pub fn default_for(dtype: DataType) -> Option<Values> {
        match dtype {
            DataType::BOOL => Some(Values::Constant(1.0)),
            _ if is_number(dtype) => Some(Values::Random),
            _ => None,
        }
    }

    /// Makes a tensor; none for a file, and for types that are no real numbers.
    ///
    /// Value number `i` of placeholder number `k` depends on the seed, `k` and `i` only, in the way that
    /// `testdata/README.md` defines.
    pub fn make(
        &self,
        dtype: DataType,
        shape: &[i64],
        seed: u64,
        k: u64,
    ) -> Option<Result<Tensor, TensorError>> {
        if !is_number(dtype) && dtype != DataType::BOOL {
            return None;
        }
        let is_float =
            [DataType::HALF, DataType::BFLOAT16, DataType::FLOAT, DataType::DOUBLE].contains(&dtype);
        let value = |i: u64| -> Option<f64> {
            let bits = || bits(seed, k, i);
            Some(match self {
                Values::Random if is_float => normal(bits()),
                Values::Random => (bits() % 2) as f64,
                Values::Zeros => 0.0,
                Values::Integers(low, high) => (low + (bits() % high.abs_diff(*low)) as i64) as f64,
                Values::Constant(value) => *value,
                Values::File(_) => return None,
            })
        };
        value(0)?;
        let count =
            shape.iter().try_fold(1u64, |product, &size| product.checked_mul(u64::try_from(size).ok()?));
        let size = dtype.size_in_bytes()?;
        let Some(count) = count.filter(|count| count.checked_mul(size).is_some_and(|bytes| bytes < 1 << 46))
        else {
            return Some(Err(TensorError::Shape { dtype, shape: shape.to_vec() }));
        };
        let mut bytes = Vec::with_capacity((count * size) as usize);
        for i in 0..count {
            put(dtype, value(i)?, &mut bytes);
        }
        Some(Tensor::new(dtype, shape, bytes))
    }
}

fn is_number(dtype: DataType) -> bool {
    [
        DataType::HALF,
        DataType::BFLOAT16,
        DataType::FLOAT,
        DataType::DOUBLE,
        DataType::INT8,
        DataType::INT16,
        DataType::INT32,
        DataType::INT64,
        DataType::UINT8,
        DataType::UINT16,
        DataType::UINT32,
        DataType::UINT64,
    ]
    .contains(&dtype)
}

/// Appends a value, converted as `as` does.
fn put(dtype: DataType, value: f64, bytes: &mut Vec<u8>) {
    match dtype {
        DataType::HALF => bytes.extend(half::f16::from_f64(value).to_ne_bytes()),
        DataType::BFLOAT16 => bytes.extend(half::bf16::from_f64(value).to_ne_bytes()),
        DataType::FLOAT => bytes.extend((value as f32).to_ne_bytes()),
        DataType::DOUBLE => bytes.extend(value.to_ne_bytes()),
        DataType::INT8 => bytes.extend((value as i8).to_ne_bytes()),
        DataType::INT16 => bytes.extend((value as i16).to_ne_bytes()),
        DataType::INT32 => bytes.extend((value as i32).to_ne_bytes()),
        DataType::INT64 => bytes.extend((value as i64).to_ne_bytes()),
        DataType::UINT8 => bytes.push(value as u8),
        DataType::UINT16 => bytes.extend((value as u16).to_ne_bytes()),
        DataType::UINT32 => bytes.extend((value as u32).to_ne_bytes()),
        DataType::UINT64 => bytes.extend((value as u64).to_ne_bytes()),
        _ => bytes.push(u8::from(value != 0.0)),
    }
}

/// 64 bits that depend on all three.
fn bits(seed: u64, k: u64, i: u64) -> u64 {
    mix(mix(mix(seed).wrapping_add(k)).wrapping_add(i))
}

/// The generator known as splitmix64.
fn mix(z: u64) -> u64 {
    let z = z.wrapping_add(0x9E37_79B9_7F4A_7C15);
    let z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    let z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    z ^ (z >> 31)
}

/// Mean 0, variance 1, nearly normal.
fn normal(bits: u64) -> f64 {
    let quarters = (bits & 0xFFFF) + (bits >> 16 & 0xFFFF) + (bits >> 32 & 0xFFFF) + (bits >> 48);
    (quarters as f64 - 131_070.0) / 37_837.0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_those_of_the_test_data() {
        assert_eq!(bits(1, 0, 0), 0xb18a_02f4_6d8d_86c3);
        let images = Values::Random.make(DataType::FLOAT, &[3], 1, 0).unwrap().unwrap();
        assert_eq!(images.to_vec::<f32>().unwrap(), [-0.589_898_77, -0.354_150_7, 0.713_270_07]);
        let labels = Values::Integers(0, 10).make(DataType::INT32, &[3], 1, 0).unwrap().unwrap();
        assert_eq!(labels.to_vec::<i32>().unwrap(), [5, 5, 3]);
    }

    #[test]
    fn feeds_are_read() {
        let read = |text: &str| text.parse::<FeedSpec>().map(|feed| (feed.name, feed.values));
        assert_eq!(read("x:0=random"), Ok(("x".to_string(), Values::Random)));
        assert_eq!(read("x=randint:-1:5"), Ok(("x".to_string(), Values::Integers(-1, 5))));
        assert_eq!(read("x=const:0.5"), Ok(("x".to_string(), Values::Constant(0.5))));
        assert_eq!(read("x=a/b.npy"), Ok(("x".to_string(), Values::File("a/b.npy".into()))));
        for wrong in ["", "x", "=random", "x=rand", "x=randint:5:5", "x=randint:1", "x=const:", "x=a.txt"] {
            assert!(read(wrong).is_err(), "{wrong}");
        }
    }
}
