//! Flags for which function is the training step.

use clap::Args;

use crate::pipeline::StepFunction;

/// Which function of the file is the training step.
#[derive(Debug, Clone, Default, Args)]
#[command(next_help_heading = "Graph")]
pub struct StepArgs {
    /// Signature whose function is the training step [default: the one whose function updates variables]
    #[arg(long, value_name = "NAME", conflicts_with = "function")]
    pub signature: Option<String>,

    /// Function of the file's library that is the training step
    #[arg(long, value_name = "NAME")]
    pub function: Option<String>,
}

impl StepArgs {
    /// What was asked for.
    pub fn step(&self) -> StepFunction {
        match (&self.function, &self.signature) {
            (Some(function), _) => StepFunction::Function(function.clone()),
            (None, Some(signature)) => StepFunction::Signature(signature.clone()),
            (None, None) => StepFunction::Automatic,
        }
    }
}
