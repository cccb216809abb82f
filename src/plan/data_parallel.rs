//! What makes a graph train on several workers: data, like the rest of a plan.

use std::str::FromStr;

use serde::{Deserialize, Serialize};

use super::GraphIdentity;

/// The placeholder that is fed the number of workers.
pub const WORKERS: &str = "lms/parallel/workers";
/// The placeholder that is fed a worker's number, from 0.
pub const RANK: &str = "lms/parallel/rank";
/// The op that gives all workers the variables of worker 0. To be run once, by all, after initialization.
pub const BROADCAST: &str = "lms/parallel/broadcast";
/// The op that ends when all workers run it.
pub const BARRIER: &str = "lms/parallel/barrier";
/// Where the step is a function: the variable with the number of workers that the function reads.
pub const COUNT: &str = "lms/parallel/count";
/// Where the step is a function: the op that sets this variable to what [`WORKERS`] is fed. To be run once, before the first step.
pub const SET_COUNT: &str = "lms/parallel/set_count";
/// The mean of all workers' losses, where the file names its loss; a function returns it in place of the worker's own.
pub const MEAN_LOSS: &str = "lms/parallel/loss";

/// Where a training reduces its gradients, and what it broadcasts.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct DataParallel {
    /// The graph without all that.
    pub graph: GraphIdentity,
    /// The device of all that is added and computes on the host.
    pub host_device: String,
    /// The reduces, in the order of which they are a total one within each step.
    pub collectives: Vec<Collective>,
    /// The variables that begin with worker 0's values. Where the step is a function, these are nodes of the file's top level.
    pub variables: Vec<String>,
    /// The tensor that is the loss, if the file names one; it is in one of the collectives.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub loss: Option<String>,
}

/// An op that all workers run together.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Collective {
    /// The collectives that come before it, by their places.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub after: Vec<usize>,
    /// The device that it runs on.
    pub device: String,
    /// What it does.
    #[serde(flatten)]
    pub what: Gathered,
}

/// What becomes of the workers' tensors.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Gathered {
    /// The mean of each tensor; several travel as one.
    Mean(Vec<Reduced>),
    /// All workers' rows, one after the other, and their indices: a sparse gradient.
    Rows {
        /// The rows, of which each is divided by the number of workers.
        values: Reduced,
        /// Where they belong.
        indices: Reduced,
    },
}

/// A tensor that is read as all workers' from there on.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Reduced {
    /// The tensor, `node:output`.
    pub tensor: String,
    /// Its shape, if it is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shape: Option<Vec<i64>>,
    /// Its bytes, if they are known.
    pub bytes: Option<u64>,
    /// The ops that read all workers'; others go on reading the worker's own.
    pub consumers: Vec<String>,
}

/// Where gradients are reduced.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ReduceOn {
    /// On the host.
    #[default]
    Host,
    /// On the GPU that makes the gradient.
    Gpu,
}

impl FromStr for ReduceOn {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<ReduceOn, &'static str> {
        match text {
            "host" => Ok(ReduceOn::Host),
            "gpu" => Ok(ReduceOn::Gpu),
            _ => Err("expected host or gpu"),
        }
    }
}

impl Collective {
    /// All tensors that it takes.
    pub fn tensors(&self) -> impl Iterator<Item = &Reduced> {
        let (mean, rows): (&[Reduced], _) = match &self.what {
            Gathered::Mean(tensors) => (tensors, None),
            Gathered::Rows { values, indices } => (&[], Some([values, indices])),
        };
        mean.iter().chain(rows.into_iter().flatten())
    }
}

impl DataParallel {
    /// The bytes that a worker gives in a step, as far as sizes are known.
    pub fn bytes(&self) -> u64 {
        self.collectives.iter().flat_map(Collective::tensors).filter_map(|tensor| tensor.bytes).sum()
    }

    /// How many tensors are reduced, the loss among them.
    pub fn tensors(&self) -> usize {
        self.collectives.iter().map(|collective| collective.tensors().count()).sum()
    }
}
