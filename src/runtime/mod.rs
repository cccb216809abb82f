//! TensorFlow itself, found on the machine and run through its C API.
//!
//! Nothing here is needed to read, plan or write a graph. It is for what only TensorFlow can tell: shapes that a file does
//! not declare, and how a graph runs.
//!
//! * [`TensorFlow::open`] finds TensorFlow and loads it: no set-up by the user, no TensorFlow when building.
//! * [`infer_shapes`] asks it for the shape of every tensor of a graph.
//!
//! A process has at most one TensorFlow, and keeps it to its end.

mod error;
mod find;
mod infer;
mod load;
mod status;

pub use error::{LookedAt, RuntimeError};
pub use infer::{InferError, infer_shapes};
pub use load::{MINIMUM_VERSION, TensorFlow};
pub use status::{Code, Status};
