//! What a part of a plan is there for: the plan without it, and what that changes.
//!
//! [`without_tensor`](crate::plan::without_tensor) and [`without_edges`] take something out of a plan so that what is left is a
//! plan, [`Difference`] holds the simulated steps of both against each other.

mod difference;
mod edges;

pub use difference::{Change, Difference};
pub use edges::{Edge, EdgeExplanation, EdgeReason, edges, explain_edges, without_edges};
