//! Flags for training on several workers.

use clap::Args;

use super::parse_size;
use crate::graph::Graph;
use crate::parallel::{BUCKET_BYTES, ParallelOptions};
use crate::plan::{DataParallel, Plan, ReduceOn};
use crate::{AnalysisOptions, Error, Model};

/// How gradients of several workers become one.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Several workers")]
pub struct ParallelArgs {
    /// Have the graph train on any number of workers: gradients are reduced where the result is that of one process with the
    /// whole batch
    #[arg(long)]
    pub data_parallel: bool,

    /// Where gradients are reduced: host, or gpu
    #[arg(long, value_name = "WHERE", default_value = "host")]
    pub reduce: ReduceOn,

    /// Gradients travel together until they have so many bytes [default: 4MiB]
    #[arg(long, value_name = "SIZE", value_parser = parse_size)]
    pub bucket: Option<u64>,
}

impl ParallelArgs {
    /// What they come to; `loss` is the tensor whose mean can be fetched.
    pub fn options(&self, loss: Option<String>) -> ParallelOptions {
        ParallelOptions { reduce: self.reduce, bucket_bytes: self.bucket.unwrap_or(BUCKET_BYTES), loss }
    }

    /// The model made to train on several workers, and how; none if that is not asked for, by flag or plan.
    ///
    /// # Errors
    ///
    /// If that cannot be.
    pub fn parallelize(
        &self,
        is_asked: bool,
        model: &Model,
        plan: Option<&Plan>,
        options: &AnalysisOptions,
        loss: Option<String>,
    ) -> Result<Option<(Model, DataParallel)>, Error> {
        let planned = plan.and_then(|plan| plan.data_parallel.clone());
        if planned.is_none() && (plan.is_some() || !is_asked) {
            return Ok(None);
        }
        let graph: Graph = model.graph()?;
        let parallel = match planned {
            Some(planned) => planned,
            None => {
                let analysis = model.analyse(&graph, options)?;
                model.data_parallel(&analysis, &self.options(loss))?
            }
        };
        Ok(Some((model.parallelized(&graph, &parallel)?, parallel)))
    }
}
