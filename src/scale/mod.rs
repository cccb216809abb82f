//! How long a step of many data-parallel workers takes, before there are any.
//!
//! Each worker has one GPU and runs the same graph on its own part of a batch, which stays as large as it is: more workers see more
//! examples in a step. What they wait for is each other's gradients.
//!
//! * [`Step`] is one worker's step, from a simulation: when each bucket of gradients is ready, what lies behind its mean, and how long all of
//!   it takes if reducing itself takes no time. Gradients on their way to the host, and means on their way back, are copies in there: they
//!   compete with swaps for the link.
//! * [`Cluster`] is what the workers are joined by. It says how long a bucket is on its way.
//! * [`Scaling`] puts the two together: the step of any number of GPUs, what is left of one worker's rate, and what limits it.
//!
//! The formulas are those that everybody uses, with no cluster behind them on which they were measured.

mod cluster;
mod error;
mod network;
mod scaling;
mod step;
mod timeline;

pub use cluster::{AllReduce, Cluster, Layout};
pub use error::ScaleError;
pub use network::{Network, parse_rate};
pub use scaling::{Limit, MOST_GPUS, Prediction, Scaling, Situation, Without};
pub use step::{Bucket, Reduces, Step};
pub use timeline::{Together, together};

#[cfg(test)]
mod tests;
