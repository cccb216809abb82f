//! Values on the host: what is fed to a graph and what is fetched from it.

use crate::dtype::DataType;

/// Why values are no tensor.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TensorError {
    /// A dimension below 0, or more bytes than memory can have.
    #[error("no {dtype} tensor can have the shape {shape:?}")]
    Shape {
        /// The type.
        dtype: DataType,
        /// The dimensions.
        shape: Vec<i64>,
    },
    /// More or fewer values than the shape has.
    #[error("a {dtype} tensor of the shape {shape:?} takes {expected} {unit}, not {given}")]
    Length {
        /// The type.
        dtype: DataType,
        /// The dimensions.
        shape: Vec<i64>,
        /// How many the shape takes.
        expected: usize,
        /// How many there were.
        given: usize,
        /// What is counted: bytes or strings.
        unit: &'static str,
    },
    /// A type whose values are no plain bytes.
    #[error("a {0} tensor is not made of plain bytes")]
    NotPlain(DataType),
    /// TensorFlow has no memory for it.
    #[error("no memory for a {dtype} tensor of the shape {shape:?}")]
    NoMemory {
        /// The type.
        dtype: DataType,
        /// The dimensions.
        shape: Vec<i64>,
    },
}

/// The values of a tensor.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Values {
    /// Numbers or truth values, one after the other as the machine stores them.
    Plain(Vec<u8>),
    /// Strings, which need not be UTF-8.
    Strings(Vec<Vec<u8>>),
    /// Values that mean nothing outside TensorFlow: resources and variants.
    Opaque,
}

/// A tensor on the host.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tensor {
    dtype: DataType,
    shape: Vec<i64>,
    values: Values,
}

impl Tensor {
    /// A tensor of numbers or truth values from its bytes.
    ///
    /// # Errors
    ///
    /// If there are not as many bytes as type and shape take.
    pub fn new(dtype: DataType, shape: &[i64], bytes: Vec<u8>) -> Result<Tensor, TensorError> {
        let size = dtype.size_in_bytes().ok_or(TensorError::NotPlain(dtype))?;
        let expected = elements(dtype, shape, size)? * size as usize;
        check_length(dtype, shape, expected, bytes.len(), "bytes")?;
        Ok(Tensor { dtype, shape: shape.to_vec(), values: Values::Plain(bytes) })
    }

    /// A tensor of Rust values.
    ///
    /// # Errors
    ///
    /// If there are not as many values as the shape takes.
    pub fn of<T: Element>(shape: &[i64], values: &[T]) -> Result<Tensor, TensorError> {
        let mut bytes = Vec::with_capacity(size_of_val(values));
        values.iter().for_each(|&value| value.put(&mut bytes));
        Tensor::new(T::DTYPE, shape, bytes)
    }

    /// A tensor of strings.
    ///
    /// # Errors
    ///
    /// If there are not as many strings as the shape takes.
    pub fn strings(shape: &[i64], strings: Vec<Vec<u8>>) -> Result<Tensor, TensorError> {
        let expected = elements(DataType::STRING, shape, 1)?;
        check_length(DataType::STRING, shape, expected, strings.len(), "strings")?;
        Ok(Tensor { dtype: DataType::STRING, shape: shape.to_vec(), values: Values::Strings(strings) })
    }

    /// A single string.
    pub fn string(value: impl Into<Vec<u8>>) -> Tensor {
        Tensor { dtype: DataType::STRING, shape: Vec::new(), values: Values::Strings(vec![value.into()]) }
    }

    /// What TensorFlow returned.
    pub(super) fn fetched(dtype: DataType, shape: Vec<i64>, values: Values) -> Tensor {
        Tensor { dtype, shape, values }
    }

    /// The type of the values.
    pub fn dtype(&self) -> DataType {
        self.dtype
    }

    /// The dimensions.
    pub fn shape(&self) -> &[i64] {
        &self.shape
    }

    /// The values.
    pub fn values(&self) -> &Values {
        &self.values
    }

    /// The bytes of the values; none for strings, resources and variants.
    pub fn bytes(&self) -> Option<&[u8]> {
        match &self.values {
            Values::Plain(bytes) => Some(bytes),
            Values::Strings(_) | Values::Opaque => None,
        }
    }

    /// The values as a Rust type; none if the tensor is of another type.
    pub fn to_vec<T: Element>(&self) -> Option<Vec<T>> {
        let bytes = self.bytes().filter(|_| self.dtype == T::DTYPE)?;
        Some(bytes.chunks_exact(size_of::<T>()).map(T::take).collect())
    }

    /// The values as numbers of double precision; none if they are no real numbers.
    ///
    /// Only integers beyond 2⁵³ are rounded.
    pub fn to_f64(&self) -> Option<Vec<f64>> {
        macro_rules! widen {
            ($($element:ty),*) => {
                match self.dtype {
                    $(<$element as Element>::DTYPE => {
                        self.to_vec::<$element>().map(|all| all.into_iter().map(|value| value as f64).collect())
                    })*
                    DataType::BOOL => self.to_vec::<bool>().map(|all| all.into_iter().map(f64::from).collect()),
                    DataType::HALF => self.to_f64_by(half),
                    DataType::BFLOAT16 => self.to_f64_by(bfloat16),
                    _ => None,
                }
            };
        }
        widen!(f32, f64, i8, i16, i32, i64, u8, u16, u32, u64)
    }

    fn to_f64_by(&self, widen: fn(u16) -> f64) -> Option<Vec<f64>> {
        let bytes = self.bytes()?;
        Some(bytes.chunks_exact(2).map(|two| widen(u16::take(two))).collect())
    }
}

/// How many elements a shape has, if memory could hold that many of `size` bytes.
fn elements(dtype: DataType, shape: &[i64], size: u64) -> Result<usize, TensorError> {
    let product = shape.iter().try_fold(1u64, |product, &dimension| {
        u64::try_from(dimension).ok().and_then(|dimension| product.checked_mul(dimension))
    });
    product
        .filter(|product| product.checked_mul(size).is_some_and(|bytes| bytes <= isize::MAX as u64))
        .map(|product| product as usize)
        .ok_or_else(|| TensorError::Shape { dtype, shape: shape.to_vec() })
}

fn check_length(
    dtype: DataType,
    shape: &[i64],
    expected: usize,
    given: usize,
    unit: &'static str,
) -> Result<(), TensorError> {
    if expected == given {
        return Ok(());
    }
    Err(TensorError::Length { dtype, shape: shape.to_vec(), expected, given, unit })
}

fn bfloat16(bits: u16) -> f64 {
    f32::from_bits(u32::from(bits) << 16).into()
}

fn half(bits: u16) -> f64 {
    let sign = if bits >> 15 == 1 { -1.0 } else { 1.0 };
    let exponent = i32::from(bits >> 10 & 0x1f);
    let fraction = f64::from(bits & 0x3ff) / 1024.0;
    match exponent {
        0 => sign * fraction * 2f64.powi(-14),
        0x1f if fraction == 0.0 => sign * f64::INFINITY,
        0x1f => f64::NAN,
        _ => sign * (1.0 + fraction) * 2f64.powi(exponent - 15),
    }
}

/// A Rust type that is an element type of tensors.
pub trait Element: Copy {
    /// The data type.
    const DTYPE: DataType;

    /// Appends the value's bytes.
    fn put(self, out: &mut Vec<u8>);

    /// The value of these bytes, of which there must be as many as the type has.
    fn take(bytes: &[u8]) -> Self;
}

macro_rules! elements {
    ($($element:ty = $dtype:ident;)*) => {
        $(impl Element for $element {
            const DTYPE: DataType = DataType::$dtype;

            fn put(self, out: &mut Vec<u8>) {
                out.extend(self.to_ne_bytes());
            }

            fn take(bytes: &[u8]) -> Self {
                let mut own = [0; size_of::<Self>()];
                own.copy_from_slice(bytes);
                Self::from_ne_bytes(own)
            }
        })*
    };
}

elements! {
    f32 = FLOAT;
    f64 = DOUBLE;
    i8 = INT8;
    i16 = INT16;
    i32 = INT32;
    i64 = INT64;
    u8 = UINT8;
    u16 = UINT16;
    u32 = UINT32;
    u64 = UINT64;
}

impl Element for bool {
    const DTYPE: DataType = DataType::BOOL;

    fn put(self, out: &mut Vec<u8>) {
        out.push(self.into());
    }

    fn take(bytes: &[u8]) -> bool {
        bytes.iter().any(|&byte| byte != 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rust_values_come_back() {
        let tensor = Tensor::of(&[2, 2], &[1.5f32, -2.0, 0.0, f32::MAX]).unwrap();
        assert_eq!((tensor.dtype(), tensor.shape()), (DataType::FLOAT, &[2, 2][..]));
        assert_eq!(tensor.to_vec(), Some(vec![1.5f32, -2.0, 0.0, f32::MAX]));
        assert_eq!(tensor.to_vec::<i32>(), None);
        assert_eq!(tensor.to_f64().unwrap()[..3], [1.5, -2.0, 0.0]);
        let flags = Tensor::of(&[2], &[true, false]).unwrap();
        assert_eq!(flags.to_vec(), Some(vec![true, false]));
        assert_eq!(flags.to_f64(), Some(vec![1.0, 0.0]));
    }

    #[test]
    fn half_precision_is_widened_exactly() {
        let cases = [
            (0x3c00, 1.0),
            (0xc000, -2.0),
            (0x7bff, 65504.0),
            (0x0001, 2f64.powi(-24)),
            (0x7c00, f64::INFINITY),
            (0x8000, 0.0),
        ];
        for (bits, value) in cases {
            let bytes = u16::to_ne_bytes(bits).to_vec();
            let tensor = Tensor::new(DataType::HALF, &[], bytes).unwrap();
            assert_eq!(tensor.to_f64(), Some(vec![value]), "{bits:#06x}");
        }
        let not = Tensor::new(DataType::HALF, &[], u16::to_ne_bytes(0x7e00).to_vec()).unwrap();
        assert!(not.to_f64().unwrap()[0].is_nan());
        let one = Tensor::new(DataType::BFLOAT16, &[], u16::to_ne_bytes(0x3f80).to_vec()).unwrap();
        assert_eq!(one.to_f64(), Some(vec![1.0]));
    }

    #[test]
    fn what_does_not_fit_is_refused() {
        let short = Tensor::of(&[3], &[1i32]).unwrap_err();
        assert_eq!(short.to_string(), "a int32 tensor of the shape [3] takes 12 bytes, not 4");
        assert!(matches!(Tensor::of(&[-1], &[1i32]), Err(TensorError::Shape { .. })));
        assert!(matches!(Tensor::of(&[1 << 40, 1 << 40], &[1i32]), Err(TensorError::Shape { .. })));
        let resource = Tensor::new(DataType::RESOURCE, &[], Vec::new()).unwrap_err();
        assert_eq!(resource, TensorError::NotPlain(DataType::RESOURCE));
        assert!(Tensor::strings(&[2], vec![b"one".to_vec()]).is_err());
        assert_eq!(Tensor::of::<f32>(&[0, 5], &[]).unwrap().bytes(), Some(&[][..]));
    }
}
