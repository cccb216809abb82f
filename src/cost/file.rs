//! Files of figures: JSON with a version.

use serde::de::DeserializeOwned;
use serde_json::Value;

/// The version of all of them.
pub(super) const SCHEMA: u32 = 1;

/// Why a file of figures cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CostFileError {
    /// It is no JSON, or its fields are not those of such a file.
    #[error("{name}: is no {what}")]
    Json {
        /// The file.
        name: String,
        /// What it should be.
        what: &'static str,
        /// What is wrong.
        source: serde_json::Error,
    },
    /// Another version, or none.
    #[error("{name}: field \"schema\" is {found}, expected {SCHEMA}")]
    Schema {
        /// The file.
        name: String,
        /// What it says.
        found: Value,
    },
    /// A value that no device has.
    #[error("{name}: field {field:?} is {value}, expected {expected}")]
    Field {
        /// The file.
        name: String,
        /// The field.
        field: &'static str,
        /// What it says.
        value: f64,
        /// What it may be.
        expected: &'static str,
    },
    /// A time that no op can take.
    #[error("{name}: op {op:?} took {microseconds} µs, expected a time that is not negative")]
    Duration {
        /// The file.
        name: String,
        /// The op.
        op: String,
        /// What it took.
        microseconds: f64,
    },
    /// Scratch memory that no GPU has.
    #[error("{name}: op {op:?} took {bytes} bytes of scratch memory, more than any GPU has")]
    Scratch {
        /// The file.
        name: String,
        /// The op.
        op: String,
        /// What it took.
        bytes: u64,
    },
}

/// Reads the fields beside the version. `name` is how errors call the file, `what` what they call its kind.
pub(super) fn read<T: DeserializeOwned>(
    name: &str,
    what: &'static str,
    json: &[u8],
) -> Result<T, CostFileError> {
    let malformed = |source| CostFileError::Json { name: name.to_string(), what, source };
    let mut value: Value = serde_json::from_slice(json).map_err(malformed)?;
    let schema = value.as_object_mut().and_then(|fields| fields.remove("schema")).unwrap_or(Value::Null);
    // What is no object at all is better explained by its missing fields than by its missing version.
    if value.is_object() && schema != SCHEMA {
        return Err(CostFileError::Schema { name: name.to_string(), found: schema });
    }
    serde_json::from_value(value).map_err(malformed)
}
