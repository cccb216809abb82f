//! What TensorFlow says of a call that failed.

use std::fmt;

/// Declares the codes from one list of `Variant = number, name`.
macro_rules! codes {
    ($($variant:ident = $number:literal, $name:literal;)*) => {
        /// Why a call failed, as TensorFlow classes it.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        pub enum Code {
            $(
                #[doc = concat!("`", $name, "`, number ", stringify!($number), ".")]
                $variant,
            )*
            /// A number that has no name here.
            Other(u32),
        }

        impl Code {
            /// The code with TensorFlow's number for it.
            pub fn new(number: u32) -> Code {
                match number {
                    $($number => Code::$variant,)*
                    other => Code::Other(other),
                }
            }

            /// TensorFlow's name for it; none for an unknown number.
            pub fn name(self) -> Option<&'static str> {
                match self {
                    $(Code::$variant => Some($name),)*
                    Code::Other(_) => None,
                }
            }
        }
    };
}

codes! {
    Ok = 0, "OK";
    Cancelled = 1, "CANCELLED";
    Unknown = 2, "UNKNOWN";
    InvalidArgument = 3, "INVALID_ARGUMENT";
    DeadlineExceeded = 4, "DEADLINE_EXCEEDED";
    NotFound = 5, "NOT_FOUND";
    AlreadyExists = 6, "ALREADY_EXISTS";
    PermissionDenied = 7, "PERMISSION_DENIED";
    ResourceExhausted = 8, "RESOURCE_EXHAUSTED";
    FailedPrecondition = 9, "FAILED_PRECONDITION";
    Aborted = 10, "ABORTED";
    OutOfRange = 11, "OUT_OF_RANGE";
    Unimplemented = 12, "UNIMPLEMENTED";
    Internal = 13, "INTERNAL";
    Unavailable = 14, "UNAVAILABLE";
    DataLoss = 15, "DATA_LOSS";
    Unauthenticated = 16, "UNAUTHENTICATED";
}

impl fmt::Display for Code {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.name(), self) {
            (Some(name), _) => f.write_str(name),
            (None, Code::Other(number)) => write!(f, "error {number}"),
            (None, _) => f.write_str("error"),
        }
    }
}

/// What TensorFlow says of a call that failed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{code}: {message}")]
pub struct Status {
    /// The class of the error.
    pub code: Code,
    /// TensorFlow's own words.
    pub message: String,
}

impl Status {
    /// Whether memory ran out, on a device or on the host.
    pub fn is_out_of_memory(&self) -> bool {
        self.code == Code::ResourceExhausted
    }
}
