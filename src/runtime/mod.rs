//! TensorFlow itself, found on the machine and run through its C API.
//!
//! Nothing here is needed to read, plan or write a graph. It is for what only TensorFlow can tell: shapes that a file does
//! not declare, and how a graph runs.
//!
//! * [`TensorFlow::open`] finds TensorFlow and loads it: no set-up by the user, no TensorFlow when building.
//! * [`infer_shapes`] asks it for the shape of every tensor of a graph.
//! * [`Session`] runs a graph that is in memory.
//!
//! A process has at most one TensorFlow, and keeps it to its end.

mod error;
mod find;
mod infer;
mod load;
mod raw;
mod server;
mod session;
mod status;
mod tensor;

pub use error::{LookedAt, RuntimeError};
pub use infer::{InferError, infer_shapes};
pub use load::{MINIMUM_VERSION, TensorFlow};
pub use raw::DeviceInfo;
pub use server::Server;
pub use session::{Feed, Outcome, Session, SessionError, Step};
pub use status::{Code, Status};
pub use tensor::{Element, Tensor, TensorError, Values};
