//! Flags for what a file does not say about its graph.

use std::path::PathBuf;
use std::str::FromStr;

use clap::Args;

use super::Failure;
use crate::graph::Graph;
use crate::pipeline::AnalysisOptions;
use crate::plan::Iterations;
use crate::shape::{Dimensions, DimensionsError, GivenShape, GivenShapes, GivenValue};

/// What a file does not say about its graph.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Graph")]
pub struct GraphArgs {
    /// Size of the first dimension of every placeholder that leaves it free
    #[arg(long, value_name = "N")]
    pub batch_size: Option<u64>,

    /// Shape of a placeholder, as images=1x2000x2000x3, or training=scalar; may be given several times
    #[arg(long = "shape", value_name = "NAME=SHAPE")]
    pub shapes: Vec<GivenShape>,

    /// Whole numbers that are fed to a placeholder and that sizes depend on, as batch=32 or noise_shape=300,200; may be given several times
    #[arg(long = "value", value_name = "NAME=N[,N…]")]
    pub values: Vec<GivenValue>,

    /// How often loops run where the graph does not tell: N for all, LOOP=N for one by the name of its frame; may be given several times
    #[arg(long, value_name = "N|LOOP=N")]
    pub iterations: Vec<GivenTimes>,

    /// TensorFlow's library, or a directory that holds it; asked for the sizes that the file leaves open [default: found
    /// in the active virtualenv, python3's packages, or where a C archive is installed]
    #[arg(long, value_name = "PATH")]
    pub tensorflow: Option<PathBuf>,

    /// Ops that a step is run for [default: the collection `train_op`]
    #[arg(long = "train-op", alias = "target", value_name = "NAME")]
    pub train_ops: Vec<String>,

    /// Definitions of ops that TensorFlow does not have: an OpList, binary or text
    #[arg(long, value_name = "FILE")]
    pub op_defs: Option<PathBuf>,
}

/// How often a loop runs, or all of them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GivenTimes {
    frame: Option<String>,
    times: u64,
}

impl FromStr for GivenTimes {
    type Err = String;

    fn from_str(text: &str) -> Result<GivenTimes, String> {
        let (frame, times) = match text.rsplit_once('=') {
            Some((frame, times)) => (Some(frame.to_string()).filter(|frame| !frame.is_empty()), times),
            None => (None, text),
        };
        let times = times.parse().ok().filter(|times| (1..=MOST_TIMES).contains(times));
        let times = times.ok_or_else(|| format!("expected N or LOOP=N, N from 1 to {MOST_TIMES}"))?;
        Ok(GivenTimes { frame, times })
    }
}

/// The most iterations that can be given.
const MOST_TIMES: u64 = 1 << 24;

impl GraphArgs {
    /// What is said of the graph.
    pub fn analysis(&self) -> AnalysisOptions {
        AnalysisOptions {
            shapes: self.given_shapes(),
            train_ops: self.train_ops.clone(),
            tensorflow: self.tensorflow.clone(),
            iterations: self.given_iterations(),
        }
    }

    /// The flags with a size put in for what is free. `flag` is how the user named that, for messages.
    ///
    /// # Errors
    ///
    /// As [`Dimensions::set`].
    pub fn with_size(
        &self,
        free: &Dimensions,
        size: u64,
        graph: &Graph,
        flag: &str,
    ) -> anyhow::Result<GraphArgs> {
        let mut given = self.given_shapes();
        free.set(size, graph, &mut given).map_err(|error| {
            let status = match error {
                DimensionsError::UnknownShape { .. } => Failure::Failed,
                _ => Failure::Usage,
            };
            status.error(format!("{flag}: {error}"))
        })?;
        Ok(GraphArgs { batch_size: given.batch_size, shapes: given.shapes, ..self.clone() })
    }

    /// How often loops run, as far as that was given.
    pub fn given_iterations(&self) -> Iterations {
        self.iterations.iter().map(|given| (given.frame.clone(), given.times)).collect()
    }

    /// The shapes that were given.
    pub fn given_shapes(&self) -> GivenShapes {
        GivenShapes { batch_size: self.batch_size, shapes: self.shapes.clone(), values: self.values.clone() }
    }
}
