//! All that can go wrong on the way.

use std::fmt;
use std::io;

use crate::cost::CostFileError;
use crate::flatten::FlattenError;
use crate::format::FormatError;
use crate::graph::{DeviceError, GraphError};
use crate::parallel::ParallelError;
use crate::plan::{PlanError, UnknownName};
use crate::rewrite::RewriteError;
#[cfg(feature = "tensorflow")]
use crate::runtime::{InferError, RuntimeError};
use crate::scale::ScaleError;
use crate::shape::SizeOverflow;
use crate::simulate::Unpredictable;
use crate::tune::{StrategyError, able};
use crate::verify::VerifyError;

/// An error with the name of the file that it is about: `model.meta: what is wrong`.
#[derive(Debug)]
pub struct About<E> {
    /// What messages call the file.
    pub name: String,
    /// What is wrong.
    pub error: E,
}

impl<E: fmt::Display> fmt::Display for About<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.name, self.error)
    }
}

impl<E: std::error::Error + 'static> std::error::Error for About<E> {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.error.source()
    }
}

/// Puts a file's name to an error.
pub(super) trait OfFile<T, E> {
    fn of(self, name: &str) -> Result<T, About<E>>;
}

impl<T, E> OfFile<T, E> for Result<T, E> {
    fn of(self, name: &str) -> Result<T, About<E>> {
        self.map_err(|error| About { name: name.to_string(), error })
    }
}

/// Why something could not be done. Each message is one sentence that says what to do, as far as that is known.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The file cannot be read or written, or is no model.
    #[error(transparent)]
    Format(#[from] FormatError),
    /// Definitions of ops that are none.
    #[error("{name}: is no OpList: {why}")]
    OpDefs {
        /// The file.
        name: String,
        /// What is wrong with it.
        why: String,
    },
    /// A file beside the model that the operating system refuses to read.
    #[error("{name}: cannot be read")]
    Read {
        /// The file.
        name: String,
        /// The operating system's reason.
        source: io::Error,
    },
    /// The model's nodes are no graph.
    #[error(transparent)]
    Graph(#[from] About<GraphError>),
    /// The training step is a function that cannot be made a graph of its own, or not be written back.
    #[error(transparent)]
    Function(Box<About<FlattenError>>),
    /// A step runs functions whose bodies are not looked into, so nobody knows what they need.
    #[error(
        "a step runs functions that are not looked into, so what it needs is not known: {} (op {op}){}{}; make them part of the graph, \
         or choose another step with --signature or --function",
        node,
        if *count > 1 { format!(" and {} more", count - 1) } else { String::new() },
        why.as_ref().map(|why| format!(" (cannot be made flat: {why})")).unwrap_or_default()
    )]
    UnknownBodies {
        /// The first op that runs one.
        node: String,
        /// What it is.
        op: String,
        /// How many there are.
        count: usize,
        /// Why they could not be made part of the graph, where that is known.
        why: Option<String>,
    },
    /// An op that trains was named, and is not there.
    #[error("{name}: has no op {op:?} (given as --train-op)")]
    NoSuchTrainOp {
        /// The file.
        name: String,
        /// The op.
        op: String,
    },
    /// A tensor of a size that no memory has.
    #[error(transparent)]
    Sizes(#[from] About<SizeOverflow>),
    /// TensorFlow must be asked for shapes, and this was built without.
    #[error("{name}: {why}, which takes TensorFlow, and this was built without the feature `tensorflow`")]
    WithoutTensorFlow {
        /// The file.
        name: String,
        /// What it must be asked for.
        why: &'static str,
    },
    /// TensorFlow must be asked for shapes, and cannot be.
    #[cfg(feature = "tensorflow")]
    #[error("{name}: {why}, which takes TensorFlow")]
    TensorFlow {
        /// The file.
        name: String,
        /// What it must be asked for.
        why: &'static str,
        /// Why it cannot be asked.
        source: RuntimeError,
    },
    /// TensorFlow was asked for shapes, and there are none.
    #[cfg(feature = "tensorflow")]
    #[error(transparent)]
    Shapes(#[from] About<InferError>),
    /// The sizes of tensors that decide are unknown, or how often loops run.
    #[error(transparent)]
    Unpredictable(#[from] Unpredictable),
    /// A plan that is none.
    #[error(transparent)]
    Plan(#[from] PlanError),
    /// A plan for another graph.
    #[error(transparent)]
    OtherGraph(#[from] UnknownName),
    /// A device's profile that is none.
    #[error("{name} is none of {}, and no file that can be read", known.join(", "))]
    NoSuchProfile {
        /// What was asked for.
        name: String,
        /// The profiles that there are.
        known: Vec<&'static str>,
        /// Why it cannot be read as a file.
        source: io::Error,
    },
    /// A profile or measured times that cannot be used.
    #[error(transparent)]
    Costs(#[from] CostFileError),
    /// Measured times of which none is of an op of the graph.
    #[error("{name}: has no time of any op of the graph: it is another graph's")]
    OtherTimes {
        /// The file.
        name: String,
    },
    /// A budget without memory.
    #[error("a GPU without memory runs nothing; give a size such as 16GiB")]
    NoMemory,
    /// A host device that is none.
    #[error("the device for what leaves: {0}")]
    HostDevice(DeviceError),
    /// A strategy that cannot plan for the graph.
    #[error(transparent)]
    Strategy(#[from] StrategyError),
    /// Weights were to go to the host, and the strategy does not do that.
    #[error("swapping weights: only --strategy {} does that", able(|known| known.can.swaps_weights))]
    WeightsStay,
    /// The model cannot be made to train on several workers.
    #[error(transparent)]
    Parallel(#[from] About<ParallelError>),
    /// Nothing can be predicted of many workers.
    #[error(transparent)]
    Scale(#[from] About<ScaleError>),
    /// The plan cannot be carried out, or what was added not be taken out.
    #[error(transparent)]
    Rewrite(#[from] About<RewriteError>),
    /// It is not proved that the rewritten graph computes the same: because it is not so, or because the checker cannot see that it is.
    #[error(transparent)]
    Unproved(#[from] About<VerifyError>),
}

impl From<About<FlattenError>> for Error {
    fn from(error: About<FlattenError>) -> Error {
        Error::Function(Box::new(error))
    }
}
