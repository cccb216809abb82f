//! The sizes that are swept, with what each means for the graph.

use std::collections::BTreeMap;

use anyhow::Context;
use tf_lms::cli::{Failure, GraphArgs, SweepSpec};
use tf_lms::graph::Graph;

use super::work::{Unit, Work};
use crate::args::Args;

/// The sizes with what follows from each.
pub struct Sizes {
    /// The flags that describe the graph, and what a step takes in.
    of: BTreeMap<u64, (GraphArgs, f64)>,
    pub unit: Unit,
}

impl Sizes {
    /// Looks at all sizes, so that what the graph cannot have is known before the first point.
    ///
    /// # Errors
    ///
    /// If the graph cannot have such sizes.
    pub fn of(args: &Args, spec: &SweepSpec, graph: &Graph) -> anyhow::Result<Sizes> {
        let mut sizes = Sizes { of: BTreeMap::new(), unit: Unit::Examples };
        for size in spec.sizes() {
            let sized = spec.graph_args(size, graph, &args.graph)?;
            let shapes = sized.given_shapes().resolve(graph);
            let shapes = shapes.map_err(|error| Failure::Usage.error(format!("--sweep {spec}: {error}")))?;
            let Work { amount, unit } = Work::of(spec, size, graph, &shapes);
            sizes.unit = unit;
            sizes.of.insert(size, (sized, amount));
        }
        Ok(sizes)
    }

    /// The flags that describe the graph at a size.
    pub fn args(&self, size: u64) -> anyhow::Result<&GraphArgs> {
        self.of.get(&size).map(|(args, _)| args).context("a size that is not swept")
    }

    /// What a step takes in at a size, in `unit`.
    pub fn amount(&self, size: u64) -> f64 {
        self.of.get(&size).map_or(0.0, |&(_, amount)| amount)
    }
}
