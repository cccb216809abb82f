//! How a tool ends.

use std::process::ExitCode;

use crate::pipeline::Error;

/// The exit statuses besides 0, and 2 for wrong usage, which `clap` gives too.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Failure {
    /// Something failed.
    Failed,
    /// Wrong usage that only shows once the flags are looked at together.
    Usage,
    /// It does not fit, even with everything swapped.
    DoesNotFit,
    /// Another worker of a training on several failed, hangs, or never came.
    OtherWorker,
}

impl From<Failure> for ExitCode {
    fn from(failure: Failure) -> ExitCode {
        ExitCode::from(match failure {
            Failure::Failed => 1,
            Failure::Usage => 2,
            Failure::DoesNotFit => 3,
            Failure::OtherWorker => 4,
        })
    }
}

/// An error that ends in an exit status other than 1.
#[derive(Debug, thiserror::Error)]
#[error("{message}")]
struct WithStatus {
    failure: Failure,
    message: String,
}

impl Failure {
    /// The way in which [`run`] would end with an error.
    pub fn of(error: &anyhow::Error) -> Failure {
        match (error.downcast_ref::<WithStatus>(), error.downcast_ref::<Error>()) {
            (Some(error), _) => error.failure,
            (None, Some(error)) if is_usage(error) => Failure::Usage,
            _ => Failure::Failed,
        }
    }

    /// An error that makes [`run`] end with this status.
    pub fn error(self, message: impl Into<String>) -> anyhow::Error {
        WithStatus { failure: self, message: message.into() }.into()
    }
}

/// Runs a tool and reports its error on standard error, in one line.
pub fn run(tool: &str, main: impl FnOnce() -> anyhow::Result<()>) -> ExitCode {
    match main() {
        Ok(()) => ExitCode::SUCCESS,
        // The reader of a pipe that has seen enough is no failure.
        Err(error) if is_broken_pipe(&error) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{tool}: {error:#}");
            Failure::of(&error).into()
        }
    }
}

/// Whether other flags would help.
fn is_usage(error: &Error) -> bool {
    match error {
        Error::NoMemory | Error::WeightsStay => true,
        Error::Strategy(error) => error.is_usage(),
        _ => false,
    }
}

fn is_broken_pipe(error: &anyhow::Error) -> bool {
    let io = error.chain().find_map(|cause| cause.downcast_ref::<std::io::Error>());
    io.is_some_and(|io| io.kind() == std::io::ErrorKind::BrokenPipe)
}
