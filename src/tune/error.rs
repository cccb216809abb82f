//! Why a strategy cannot plan.

use std::error::Error;
use std::fmt;

use super::Description;

/// Why a strategy cannot plan for a graph at all, whatever the budget: the strategy's own error, and whose it is.
///
/// Each strategy has an error type of its own. It becomes this one by [`StrategyError::new`], or by [`StrategyError::usage`] where
/// the user can do something about it by other flags.
#[derive(Debug)]
pub struct StrategyError {
    strategy: &'static str,
    is_usage: bool,
    error: Box<dyn Error + Send + Sync>,
}

/// The strategy needs to know what a step runs, and the file does not say.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the file does not say which ops a step runs: give the op that trains with --train-op")]
pub struct UnknownStep;

impl StrategyError {
    /// An error that comes of the graph.
    pub fn new(strategy: &Description, error: impl Into<Box<dyn Error + Send + Sync>>) -> StrategyError {
        StrategyError { strategy: strategy.name, is_usage: false, error: error.into() }
    }

    /// An error that other parameters, or more of them, would avoid.
    pub fn usage(strategy: &Description, error: impl Into<Box<dyn Error + Send + Sync>>) -> StrategyError {
        StrategyError { is_usage: true, ..StrategyError::new(strategy, error) }
    }

    /// The name of the strategy that cannot plan.
    pub fn strategy(&self) -> &'static str {
        self.strategy
    }

    /// Whether other parameters would help.
    pub fn is_usage(&self) -> bool {
        self.is_usage
    }

    /// The strategy's own error, if it is of this type.
    pub fn own<E: Error + 'static>(&self) -> Option<&E> {
        self.error.downcast_ref()
    }
}

impl fmt::Display for StrategyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.error.fmt(f)
    }
}

impl Error for StrategyError {
    // The message is the strategy's own, so the causes are its causes.
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        self.error.source()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tune::planned;

    #[test]
    fn a_strategys_own_error_is_kept_whole() {
        let error = StrategyError::usage(&planned::DESCRIPTION, UnknownStep);
        assert_eq!(error.to_string(), UnknownStep.to_string());
        assert_eq!((error.strategy(), error.is_usage()), ("planned", true));
        assert_eq!(error.own::<UnknownStep>(), Some(&UnknownStep));
        assert!(error.own::<fmt::Error>().is_none() && error.source().is_none());
        assert!(!StrategyError::new(&planned::DESCRIPTION, fmt::Error).is_usage());
    }
}
