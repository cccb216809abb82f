//! Carrying out a plan, and undoing it.
//!
//! # The form of a rewritten graph
//!
//! Everything that is added has a name under `lms/`:
//!
//! - `lms/swap_in/NODE/OUTPUT_USE` on the host reads the tensor, waits for its triggers, and is read by the consumers in
//!   the tensor's place. TensorFlow's partitioner puts a copy to the host before it and a copy to the GPU behind it:
//!   this one op is a whole swap.
//! - `lms/swap_out/NODE/OUTPUT` on the host reads the tensor too. It is there only where other ops must wait until the
//!   tensor is out: they have it as a control input, and the swap-ins read it.
//! - `lms/order/NUMBER` is a `NoOp` between ops that must run one after the other, on the device that the second names.
//!
//! - `lms/recompute/NODE/NUMBER` is a copy of the op NODE that runs later, once its triggers have: with the same attributes and
//!   inputs, of which some may come from swap-ins and from other such copies. It has one attribute more, `_lms_recompute`,
//!   so that nothing that merges equal ops takes the two for one.
//!
//! - `lms/initial/NODE/OUTPUT_NUMBER` on the host reads a constant, and is read in its place by the op that gives it to a variable. So
//!   the variable gets a copy, and does not share the constant's memory.
//!
//! - `lms/parallel/workers` and `lms/parallel/rank` are placeholders, by which one file serves any number of workers.
//!   `lms/parallel/NUMBER/…` is one thing that all workers do together: `mean` a `CollectiveReduceV2` of the tensors that `in/…` read and
//!   `joined` puts together, which `split` and `out/…` give back, and `back/…` bring to where a `Switch` must be that reads them; or `rows` and `indices` two `CollectiveGatherV2`, of what `part` has
//!   divided by the number of workers, and of what says where it belongs. `lms/parallel/broadcast` gives all workers the variables of
//!   worker 0, and `lms/parallel/barrier` ends when all have come to it. What is swapped is swapped of the graph with all this.
//!   Where the step is a function, placeholders, broadcast and barrier are at the file's top level, and the function reads the number of
//!   workers from the variable `lms/parallel/count`, which `lms/parallel/set_count` sets.
//!
//! What keeps a weight, assigns it or passes it on may go to the host: such a node has another device, and the old one as the attribute
//! `_lms_device`. What had to be in the same place and computes something stays: its `_class` is called `_lms_class`. Swap-ins then bring
//! the weight to its readers, and nothing has to go out.
//!
//! The swap ops are `PreventGradient`: an identity that passes the buffer on without a copy, that Grappler neither
//! removes nor moves in any configuration, and that fails with its message where someone differentiates through a
//! swap. Two of them are never merged, since their messages differ.
//!
//! All control edges between original ops go through `lms/` ops. So whatever was added can be told from what was there,
//! and [`strip`] returns the original graph.

mod apply;
mod broadcast;
mod declare;
mod error;
mod names;
mod parallel;
mod strip;

pub use apply::{Rewritten, rewrite};
pub use error::RewriteError;
pub use names::is_added;
pub use parallel::{broadcast_of_function, parallelize, parallelize_function};
pub use strip::strip;
