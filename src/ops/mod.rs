//! What is known about ops: their arguments, where their tensors lie on a GPU, and how they treat memory.
//!
//! Two tables are embedded: the signatures of all ops of TensorFlow 2.21, and the kernels that its
//! CUDA build registers for nodes on a GPU. `scripts/make_op_tables.py` writes them. A third is written by hand: [`Facts`], all that
//! planning and simulating go by besides.
//!
//! ```
//! use std::collections::BTreeMap;
//! use tf_lms::dtype::DataType;
//! use tf_lms::ops::OpRegistry;
//! use tf_lms::proto::tensorflow::{AttrValue, attr_value::Value};
//!
//! let shape = OpRegistry::builtin().get("Shape").unwrap();
//! let half = AttrValue { value: Some(Value::Type(DataType::HALF.number())) };
//! let attrs = BTreeMap::from([("T".to_owned(), half)]);
//!
//! // The node does not say `out_type`: the op's default counts.
//! assert_eq!(shape.output_ports(&attrs)?[0].dtype, DataType::INT32);
//! // On a GPU the input is in its memory, the output in the host's.
//! let kernel = shape.gpu_kernel(&attrs).unwrap();
//! assert!(!kernel.host_memory_arg("input") && kernel.host_memory_arg("output"));
//! # Ok::<(), tf_lms::ops::OpError>(())
//! ```

mod attr;
mod error;
mod facts;
mod kernels;
mod op_info;
mod registry;
mod table;

#[cfg(test)]
mod tests;

pub use attr::{Attr, AttrLookup};
pub use error::OpError;
pub use facts::{Fact, Facts, Flow, Pass, ScratchRule, ShapeRule, Traffic, WorkKind};
pub use kernels::GpuKernel;
pub use op_info::{MAX_PORTS, OpInfo, Port};
pub use registry::{OpId, OpRegistry};
