//! What can go wrong with TensorFlow.

use std::fmt;
use std::io;
use std::path::PathBuf;

use super::status::Status;

/// How to get a TensorFlow, for messages.
const INSTALL: &str = "install it with `pip install tensorflow` (or `tensorflow-cpu`, smaller and without GPUs), or name \
                       the place of one with --tensorflow PATH or LMS_TENSORFLOW";

/// A place where TensorFlow was looked for, and what was there instead.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LookedAt {
    /// The place, as a user would call it.
    pub place: String,
    /// Why it is no TensorFlow.
    pub found: String,
}

impl fmt::Display for LookedAt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.place, self.found)
    }
}

/// Why TensorFlow cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RuntimeError {
    /// No TensorFlow anywhere.
    #[error("TensorFlow was not found: {INSTALL}; looked at:{}", list(looked_at))]
    Absent {
        /// All places that were tried.
        looked_at: Vec<LookedAt>,
    },
    /// The user named a place that has none.
    #[error("{}, named by {named_by}: {found} (expected a TensorFlow library, or a directory with one: a Python package or environment, or an unpacked libtensorflow archive)", path.display())]
    NotThere {
        /// The place.
        path: PathBuf,
        /// The flag or variable that named it.
        named_by: &'static str,
        /// What is there instead.
        found: String,
    },
    /// The dynamic linker refused the library.
    #[error("{}: cannot be loaded: {reason}", path.display())]
    NotLoadable {
        /// The library.
        path: PathBuf,
        /// The linker's reason.
        reason: String,
    },
    /// An older TensorFlow than this program can use.
    #[error("{}: is TensorFlow {version}, but {}.{} or newer is needed: {INSTALL}", path.display(), super::MINIMUM_VERSION.0, super::MINIMUM_VERSION.1)]
    TooOld {
        /// The library.
        path: PathBuf,
        /// Its version.
        version: String,
    },
    /// A library without a function that TensorFlow's C API has.
    #[error("{}: {} lacks the function {symbol}: {INSTALL}", path.display(), version.as_ref().map_or("it is not TensorFlow's C library, which it".to_string(), |version| format!("TensorFlow {version}")))]
    MissingSymbol {
        /// The library.
        path: PathBuf,
        /// Its version; none if it cannot even be asked for that.
        version: Option<String>,
        /// The function.
        symbol: &'static str,
    },
    /// A device plug-in that TensorFlow refused.
    #[error("{}: TensorFlow cannot use this plug-in: {status}", plugin.display())]
    Plugin {
        /// The plug-in.
        plugin: PathBuf,
        /// What TensorFlow says.
        status: Status,
    },
    /// The temporary link to the library could not be made.
    #[error("cannot link to TensorFlow from a temporary directory")]
    Link {
        /// The operating system's reason.
        source: io::Error,
    },
}

fn list(looked_at: &[LookedAt]) -> String {
    looked_at.iter().map(|place| format!("\n  {place}")).collect()
}
