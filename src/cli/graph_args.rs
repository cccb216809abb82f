//! Flags for what a file does not say about its graph.

use std::path::PathBuf;

use clap::Args;

use crate::shape::{GivenShape, GivenShapes};

/// What a file does not say about its graph.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Graph")]
pub struct GraphArgs {
    /// Size of the first dimension of every placeholder that leaves it free
    #[arg(long, value_name = "N")]
    pub batch_size: Option<u64>,

    /// Shape of a placeholder, as images=1x2000x2000x3; may be given several times
    #[arg(long = "shape", value_name = "NAME=SHAPE")]
    pub shapes: Vec<GivenShape>,

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

impl GraphArgs {
    /// The shapes that were given.
    pub fn given_shapes(&self) -> GivenShapes {
        GivenShapes { batch_size: self.batch_size, shapes: self.shapes.clone() }
    }
}
