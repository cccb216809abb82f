//! Why nothing can be predicted of many workers.

/// What keeps a step of many workers from being predicted.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum ScaleError {
    /// A rate, a time or a number that no cluster has.
    #[error("{what}: {value} is none that a cluster can have: expected {expected}")]
    Value {
        /// What it is of.
        what: &'static str,
        /// What was given.
        value: f64,
        /// What would do.
        expected: &'static str,
    },
    /// A graph for several GPUs.
    #[error(
        "each worker has one GPU here, and the graph is for {gpus}: scaling is predicted for graphs of one"
    )]
    SeveralGpus {
        /// How many it is for.
        gpus: usize,
    },
    /// A file with several train ops.
    #[error("the file has {steps} train ops, which are run in turn: give one with --train-op")]
    SeveralSteps {
        /// How many.
        steps: usize,
    },
    /// A plan that says nothing of several workers.
    #[error("the plan is for one worker: have one made with lms-rewrite --data-parallel --plan-out")]
    PlanOfOneWorker,
    /// A bucket of which nobody knows the size.
    #[error(
        "{tensor}: its size is unknown, so nobody can say how long it takes to reduce it; give --shape or --batch-size"
    )]
    UnknownBytes {
        /// The tensor that is reduced.
        tensor: String,
    },
    /// A step of GPUs that share a link was asked for, and none was simulated.
    #[error("no step was simulated for {sharing} GPUs on one link")]
    NotSimulated {
        /// How many share it.
        sharing: u32,
    },
}
