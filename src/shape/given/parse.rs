//! Shapes as users write them.

use std::fmt;
use std::str::FromStr;

/// How the shape of a single number is written.
const SCALAR: &str = "scalar";

/// A shape in text that is none.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ParseShapeError {
    /// No `=`.
    #[error("{0:?} is not NAME=SHAPE, such as images=8x224x224x3")]
    NoName(String),
    /// A dimension that is no number.
    #[error(
        "the dimension {dimension:?} of {shape:?} is neither a number nor ? (a shape is written as 8x224x224x3, that of a single number as {SCALAR})"
    )]
    NotANumber {
        /// The shape.
        shape: String,
        /// The dimension.
        dimension: String,
    },
    /// A dimension of 0 or less, -1 aside.
    #[error(
        "the dimension {dimension} of {shape:?} is not at least 1 (one that is unknown is written as ? or -1)"
    )]
    NotPositive {
        /// The shape.
        shape: String,
        /// The dimension.
        dimension: String,
    },
    /// More elements than can be counted.
    #[error("the shape {0:?} has more elements than fit in 63 bits")]
    Overflow(String),
}

/// The shape of one placeholder, as `NAME=1x2000x2000x3` says it. `?` and `-1` leave a dimension open; `scalar` has none.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GivenShape {
    /// The placeholder's name.
    pub placeholder: String,
    /// Its dimensions, -1 for each unknown one; none of a single number.
    pub dimensions: Vec<i64>,
}

impl FromStr for GivenShape {
    type Err = ParseShapeError;

    fn from_str(text: &str) -> Result<GivenShape, ParseShapeError> {
        let (name, shape) = text
            .split_once('=')
            .filter(|(name, _)| !name.is_empty())
            .ok_or_else(|| ParseShapeError::NoName(text.to_string()))?;
        let name = name.strip_suffix(":0").unwrap_or(name);
        Ok(GivenShape { placeholder: name.to_string(), dimensions: dimensions(shape)? })
    }
}

/// As it is read.
impl fmt::Display for GivenShape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.dimensions.is_empty() {
            return write!(f, "{}={SCALAR}", self.placeholder);
        }
        let size = |&size: &i64| if size < 0 { "?".to_string() } else { size.to_string() };
        let sizes: Vec<String> = self.dimensions.iter().map(size).collect();
        write!(f, "{}={}", self.placeholder, sizes.join("x"))
    }
}

fn dimensions(shape: &str) -> Result<Vec<i64>, ParseShapeError> {
    if shape == SCALAR {
        return Ok(Vec::new());
    }
    let mut dimensions = Vec::new();
    let mut elements = 1i64;
    for dimension in shape.split(['x', 'X']) {
        let digits = dimension.strip_prefix('-').unwrap_or(dimension);
        let is_number = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
        let size = match dimension {
            "?" | "-1" => -1,
            _ if !is_number => {
                return Err(ParseShapeError::NotANumber {
                    shape: shape.to_string(),
                    dimension: dimension.to_string(),
                });
            }
            _ if digits.len() < dimension.len() || digits.bytes().all(|digit| digit == b'0') => {
                return Err(ParseShapeError::NotPositive {
                    shape: shape.to_string(),
                    dimension: dimension.to_string(),
                });
            }
            // Only a number that is too large does not parse here.
            _ => digits.parse().map_err(|_| ParseShapeError::Overflow(shape.to_string()))?,
        };
        elements =
            elements.checked_mul(size.max(1)).ok_or_else(|| ParseShapeError::Overflow(shape.to_string()))?;
        dimensions.push(size);
    }
    Ok(dimensions)
}
