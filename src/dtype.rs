//! The data types of tensors.

use std::fmt;

use crate::proto::tensorflow;

/// The distance from a data type's number to the number of its ref type.
const REF_OFFSET: i32 = 100;

/// A data type, by TensorFlow's number for it.
///
/// Every number can be held: a graph from a newer TensorFlow may have types that are not listed
/// here. Such a type has neither a name nor a size.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct DataType(i32);

/// Declares the constants and the tables from one list of `constant = number, name, size`.
/// The numbers must count up from 0: they are the places in the tables.
macro_rules! data_types {
    ($($constant:ident = $number:literal, $name:literal, $size:expr;)*) => {
        impl DataType {
            $(
                #[doc = concat!("`", $name, "`, number ", stringify!($number), ".")]
                pub const $constant: Self = Self($number);
            )*
        }

        /// Name and size in bytes of each data type that is not a ref, by its number.
        const KNOWN: &[(&str, Option<u64>)] = &[$(($name, $size)),*];
    };
}

// Types narrower than a byte are listed with the byte per element that they take in memory.
data_types! {
    INVALID = 0, "invalid", None;
    FLOAT = 1, "float32", Some(4);
    DOUBLE = 2, "float64", Some(8);
    INT32 = 3, "int32", Some(4);
    UINT8 = 4, "uint8", Some(1);
    INT16 = 5, "int16", Some(2);
    INT8 = 6, "int8", Some(1);
    STRING = 7, "string", None;
    COMPLEX64 = 8, "complex64", Some(8);
    INT64 = 9, "int64", Some(8);
    BOOL = 10, "bool", Some(1);
    QINT8 = 11, "qint8", Some(1);
    QUINT8 = 12, "quint8", Some(1);
    QINT32 = 13, "qint32", Some(4);
    BFLOAT16 = 14, "bfloat16", Some(2);
    QINT16 = 15, "qint16", Some(2);
    QUINT16 = 16, "quint16", Some(2);
    UINT16 = 17, "uint16", Some(2);
    COMPLEX128 = 18, "complex128", Some(16);
    HALF = 19, "float16", Some(2);
    RESOURCE = 20, "resource", None;
    VARIANT = 21, "variant", None;
    UINT32 = 22, "uint32", Some(4);
    UINT64 = 23, "uint64", Some(8);
    FLOAT8_E5M2 = 24, "float8_e5m2", Some(1);
    FLOAT8_E4M3FN = 25, "float8_e4m3fn", Some(1);
    FLOAT8_E4M3FNUZ = 26, "float8_e4m3fnuz", Some(1);
    FLOAT8_E4M3B11FNUZ = 27, "float8_e4m3b11fnuz", Some(1);
    FLOAT8_E5M2FNUZ = 28, "float8_e5m2fnuz", Some(1);
    INT4 = 29, "int4", Some(1);
    UINT4 = 30, "uint4", Some(1);
    INT2 = 31, "int2", Some(1);
    UINT2 = 32, "uint2", Some(1);
    FLOAT4_E2M1FN = 33, "float4_e2m1fn", Some(1);
}

impl DataType {
    /// The data type with TensorFlow's number for it.
    pub const fn new(number: i32) -> Self {
        Self(number)
    }

    /// TensorFlow's number for it.
    pub const fn number(self) -> i32 {
        self.0
    }

    /// Whether this is a reference to a variable's buffer, as `VariableV2` gives.
    pub const fn is_ref(self) -> bool {
        self.0 > REF_OFFSET
    }

    /// The type of the values: a ref type without its ref, any other type itself.
    pub const fn base(self) -> Self {
        if self.is_ref() { Self(self.0 - REF_OFFSET) } else { self }
    }

    /// The name of the base type as TensorFlow prints it; none for an unknown number.
    pub fn name(self) -> Option<&'static str> {
        self.entry().map(|&(name, _)| name)
    }

    /// Bytes of one element in memory.
    ///
    /// None where the type alone does not say: strings, resources, variants, unknown numbers.
    pub fn size_in_bytes(self) -> Option<u64> {
        self.entry().and_then(|&(_, size)| size)
    }

    fn entry(self) -> Option<&'static (&'static str, Option<u64>)> {
        usize::try_from(self.base().0).ok().and_then(|number| KNOWN.get(number))
    }
}

impl From<tensorflow::DataType> for DataType {
    fn from(data_type: tensorflow::DataType) -> Self {
        Self(data_type.into())
    }
}

impl fmt::Display for DataType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.name() {
            Some(name) if self.is_ref() => write!(f, "{name}_ref"),
            Some(name) => f.write_str(name),
            None => write!(f, "data type {}", self.0),
        }
    }
}

impl fmt::Debug for DataType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_covers_just_the_numbers_of_the_protocol() {
        for number in 0..=2 * REF_OFFSET {
            let listed = tensorflow::DataType::try_from(number).is_ok();
            // 100 would be the ref of INVALID: neither side has it.
            assert_eq!(DataType::new(number).name().is_some(), listed, "number {number}");
        }
    }

    #[test]
    fn constants_agree_with_the_protocol() {
        assert_eq!(DataType::from(tensorflow::DataType::DtHalf), DataType::HALF);
        assert_eq!(DataType::from(tensorflow::DataType::DtBfloat16), DataType::BFLOAT16);
        assert_eq!(DataType::from(tensorflow::DataType::DtFloat4E2m1fn), DataType::FLOAT4_E2M1FN);
    }

    #[test]
    fn a_ref_has_its_base_type_and_size() {
        let reference = DataType::from(tensorflow::DataType::DtDoubleRef);
        assert!(reference.is_ref());
        assert_eq!(reference.base(), DataType::DOUBLE);
        assert_eq!(reference.size_in_bytes(), Some(8));
        assert_eq!(reference.to_string(), "float64_ref");
    }

    #[test]
    fn what_has_no_fixed_size_says_so() {
        for data_type in [DataType::STRING, DataType::RESOURCE, DataType::VARIANT, DataType::INVALID] {
            assert_eq!(data_type.size_in_bytes(), None, "{data_type}");
        }
    }

    #[test]
    fn any_number_can_be_held_and_printed() {
        for number in [i32::MIN, -1, 99, 100, i32::MAX] {
            let data_type = DataType::new(number);
            assert_eq!((data_type.name(), data_type.size_in_bytes()), (None, None));
            assert_eq!(data_type.to_string(), format!("data type {number}"));
        }
    }
}
