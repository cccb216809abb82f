//! Training a graph: what to run and feed, and on which device.
//!
//! * [`Recipe`] finds the ops of a step, of initialization and of checkpoints in what a file says of its graph; [`CalledStep`] does so
//!   where the step is a function.
//! * [`FeedSpec`] and [`Feeds`] make the values of placeholders.
//! * [`DeviceChoice`] says where a graph runs, and [`SoftGpu`] is the software GPU of this project.
//! * [`GrapplerMemory`] has TensorFlow's own memory optimizer rewrite a graph.
//! * [`HostMemory`] is what the process holds of the host's memory.
//! * [`Link`] measures how fast a GPU and the host copy to each other.
//! * [`Cluster`] says which processes train together, [`for_worker`] makes a graph one for a worker, [`ask`] finds out who is there,
//!   a [`Beacon`] tells others where this one is, and [`newest`] is the checkpoint to go on from.
//! * [`Part`] gives a worker its part of the data that a graph reads by itself.
//! * [`OutOfMemory`] takes apart what TensorFlow says when memory runs out.

mod called;
mod checkpoints;
mod cluster;
mod device;
mod digest;
mod error;
mod feed;
mod feeds;
mod grappler;
mod host;
mod link;
mod npy;
mod oom;
mod own_data;
mod peers;
mod recipe;
mod softgpu;
mod stats;
mod unlisted;
mod whereabouts;
mod worker_graph;

pub use called::{CalledStep, with_configured_calls};
pub use checkpoints::{Checkpoint, checkpoint_at, newest, whole};
pub use cluster::{Cluster, ClusterError};
pub use device::{DeviceChoice, ParseDeviceError};
pub use digest::digest;
pub use error::TrainError;
pub use feed::{FeedSpec, ParseFeedError, Values};
pub use feeds::{Fed, Feeds, examples, points};
pub use grappler::{GrapplerMemory, only_what_trains};
pub use host::HostMemory;
pub use link::{Direction, Link, LinkError, Sample};
pub use oom::OutOfMemory;
pub use own_data::{Part, Share};
pub use peers::{Presence, ask};
pub use recipe::{Asked, CopyOps, Initial, Recipe, Saver, TrainRun, Variable};
pub use softgpu::{SoftGpu, SoftGpuError};
pub use softgpu_interface::{CopyCounters, Counters};
pub use stats::{Intervals, Percentiles};
pub use whereabouts::{Beacon, Phase, Whereabouts};
pub use worker_graph::{Timeouts, for_worker};
