//! TensorFlow itself, found on the machine and run through its C API.
//!
//! Nothing here is needed to read, plan or write a graph. It is for what only TensorFlow can tell: shapes that a file does
//! not declare, and how a graph runs.
//!
//! * [`TensorFlow::open`] finds TensorFlow and loads it: no set-up by the user, no TensorFlow when building.
//!
//! A process has at most one TensorFlow, and keeps it to its end.

mod error;
mod find;
mod load;

pub use error::{LookedAt, RuntimeError};
pub use load::{MINIMUM_VERSION, TensorFlow};
