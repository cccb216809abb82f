//! Why a strategy cannot plan.

use crate::plan::tflms::TflmsError;

/// Why a strategy cannot plan for a graph at all, whatever the budget.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StrategyError {
    /// The parameters of TFLMS do not go with the graph.
    #[error(transparent)]
    Tflms(#[from] TflmsError),
    /// The strategy needs to know what a step runs.
    #[error("the file does not say which ops a step runs: give the op that trains with --train-op")]
    UnknownStep,
    /// What a strategy of someone else's says.
    #[error(transparent)]
    Other(Box<dyn std::error::Error + Send + Sync>),
}
