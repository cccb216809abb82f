//! Running a graph.

use std::ffi::{CString, c_int};
use std::time::Duration;

use prost::Message;

use super::load::TensorFlow;
use super::raw::{DeviceInfo, Operation, RawSession, RawStep, RawTensor};
use super::server::Server;
use super::status::Status;
use super::tensor::{Tensor, TensorError};
use crate::proto::tensorflow::{ConfigProto, RunMetadata, RunOptions};

/// Why a graph does not run.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SessionError {
    /// No session for this graph with this configuration.
    #[error("TensorFlow cannot set up the graph: {0}")]
    Setup(Status),
    /// A step that failed.
    #[error("{0}")]
    Run(Status),
    /// A TensorFlow without servers.
    #[error("this build of TensorFlow has no servers, so it cannot train together with other processes")]
    NoServer,
    /// No operation of this name.
    #[error("the graph has no operation {name:?}")]
    NoSuchOperation {
        /// The name.
        name: String,
    },
    /// No output of this name.
    #[error("the graph has no tensor {name:?}: that operation has {outputs} outputs")]
    NoSuchOutput {
        /// The name.
        name: String,
        /// How many outputs the operation has.
        outputs: usize,
    },
    /// As many tensors as there are feeds must be fed.
    #[error("the step has {expected} feeds, and {given} tensors were given")]
    FeedCount {
        /// How many the step has.
        expected: usize,
        /// How many were given.
        given: usize,
    },
    /// A tensor that cannot be fed.
    #[error(transparent)]
    Tensor(#[from] TensorError),
    /// Metadata that do not decode.
    #[error("cannot decode what TensorFlow recorded of the step: {0}")]
    Metadata(#[from] prost::DecodeError),
}

impl SessionError {
    /// What TensorFlow said, if it was TensorFlow that failed.
    pub fn status(&self) -> Option<&Status> {
        match self {
            SessionError::Setup(status) | SessionError::Run(status) => Some(status),
            _ => None,
        }
    }

    /// Whether memory ran out, on a device or on the host.
    pub fn is_out_of_memory(&self) -> bool {
        self.status().is_some_and(Status::is_out_of_memory)
    }
}

/// A session: a graph, the devices it runs on, and the values of its variables.
#[derive(Debug)]
pub struct Session {
    tensorflow: &'static TensorFlow,
    raw: RawSession,
}

impl Session {
    /// A session for a GraphDef in the binary encoding.
    ///
    /// # Errors
    ///
    /// If TensorFlow refuses the graph or the configuration.
    pub fn new(
        tensorflow: &'static TensorFlow,
        graph_def: &[u8],
        config: &ConfigProto,
    ) -> Result<Session, SessionError> {
        let raw = RawSession::new(tensorflow, graph_def, &config.encode_to_vec(), None);
        Ok(Session { tensorflow, raw: raw.map_err(SessionError::Setup)? })
    }

    /// As [`Session::new`], on a server.
    ///
    /// # Errors
    ///
    /// If TensorFlow or the server refuses the graph or the configuration.
    pub fn on(
        server: &Server,
        tensorflow: &'static TensorFlow,
        graph_def: &[u8],
        config: &ConfigProto,
    ) -> Result<Session, SessionError> {
        let target = CString::new(server.target()).unwrap_or_default();
        let raw = RawSession::new(tensorflow, graph_def, &config.encode_to_vec(), Some(&target));
        Ok(Session { tensorflow, raw: raw.map_err(SessionError::Setup)? })
    }

    /// The devices that the graph can run on.
    ///
    /// # Errors
    ///
    /// If TensorFlow cannot list them.
    pub fn devices(&self) -> Result<Vec<DeviceInfo>, SessionError> {
        self.raw.devices().map_err(SessionError::Setup)
    }

    /// A step that can be run many times: what to feed and fetch, as tensor names (`node` or `node:output`), and what
    /// operations to run beside.
    ///
    /// # Errors
    ///
    /// If a name is not in the graph.
    pub fn step(&self, feeds: &[&str], fetches: &[&str], targets: &[&str]) -> Result<Step<'_>, SessionError> {
        let outputs =
            |names: &[&str]| -> Result<Vec<_>, _> { names.iter().map(|name| self.output(name)).collect() };
        let targets: Result<_, _> = targets.iter().map(|name| self.operation(name, name)).collect();
        let raw = RawStep { feeds: outputs(feeds)?, fetches: outputs(fetches)?, targets: targets? };
        Ok(Step { session: self, raw })
    }

    /// Runs one step: see [`Session::step`].
    ///
    /// # Errors
    ///
    /// If a name is not in the graph, a tensor cannot be fed, or the step fails.
    pub fn run(
        &self,
        feeds: &[(&str, &Tensor)],
        fetches: &[&str],
        targets: &[&str],
    ) -> Result<Vec<Tensor>, SessionError> {
        let names: Vec<_> = feeds.iter().map(|(name, _)| *name).collect();
        let tensors: Result<Vec<_>, _> = feeds.iter().map(|(_, tensor)| self.feed(tensor)).collect();
        let tensors = tensors?;
        self.step(&names, fetches, targets)?.run(&tensors.iter().collect::<Vec<_>>())
    }

    /// Copies a tensor to where steps can read it, as often as they like.
    ///
    /// # Errors
    ///
    /// If the tensor cannot be fed.
    pub fn feed(&self, tensor: &Tensor) -> Result<Feed, SessionError> {
        Ok(Feed { raw: RawTensor::of(self.tensorflow.functions(), tensor)? })
    }

    fn operation(&self, operation: &str, name: &str) -> Result<Operation, SessionError> {
        let found = self.raw.graph().operation(operation);
        found.ok_or_else(|| SessionError::NoSuchOperation { name: name.to_string() })
    }

    fn output(&self, name: &str) -> Result<(Operation, c_int), SessionError> {
        let (operation, index) = match name.rsplit_once(':') {
            Some((operation, index)) => (operation, index.parse().ok()),
            None => (name, Some(0)),
        };
        let operation = self.operation(operation, name)?;
        let outputs = self.raw.graph().outputs(operation);
        match index {
            Some(index) if (0..outputs).contains(&index) => Ok((operation, index)),
            _ => Err(SessionError::NoSuchOutput { name: name.to_string(), outputs: outputs.max(0) as usize }),
        }
    }
}

/// A tensor where steps can read it.
#[derive(Debug)]
pub struct Feed {
    raw: RawTensor,
}

/// What a step returned.
#[derive(Debug, Clone, PartialEq)]
pub struct Outcome {
    /// The tensors that were fetched.
    pub fetched: Vec<Tensor>,
    /// What TensorFlow recorded, as far as the options asked for it.
    pub metadata: RunMetadata,
}

/// A step of a session: which names it feeds, fetches and runs has been found out.
#[derive(Debug)]
pub struct Step<'s> {
    session: &'s Session,
    raw: RawStep,
}

impl Step<'_> {
    /// Runs the step with a tensor for each feed; returns what it fetches.
    ///
    /// # Errors
    ///
    /// If the step fails.
    pub fn run(&self, feeds: &[&Feed]) -> Result<Vec<Tensor>, SessionError> {
        self.call(feeds, None, false).map(|(fetched, _)| fetched)
    }

    /// As [`Step::run`], and gives up after this time.
    ///
    /// # Errors
    ///
    /// If the step fails, or takes longer: [`Code::DeadlineExceeded`](super::Code::DeadlineExceeded).
    pub fn run_within(&self, feeds: &[&Feed], limit: Duration) -> Result<Vec<Tensor>, SessionError> {
        // No limit at all is 0 there.
        let timeout_in_ms = i64::try_from(limit.as_millis()).unwrap_or(i64::MAX).max(1);
        let options = RunOptions { timeout_in_ms, ..RunOptions::default() };
        self.call(feeds, Some(&options.encode_to_vec()), false).map(|(fetched, _)| fetched)
    }

    /// As [`Step::run`], and records what the options ask for: partition graphs, step statistics, ….
    ///
    /// # Errors
    ///
    /// If the step fails.
    pub fn run_with(&self, feeds: &[&Feed], options: &RunOptions) -> Result<Outcome, SessionError> {
        let (fetched, metadata) = self.call(feeds, Some(&options.encode_to_vec()), true)?;
        Ok(Outcome { fetched, metadata: RunMetadata::decode(metadata.as_slice())? })
    }

    fn call(
        &self,
        feeds: &[&Feed],
        options: Option<&[u8]>,
        recorded: bool,
    ) -> Result<(Vec<Tensor>, Vec<u8>), SessionError> {
        let (expected, given) = (self.raw.feeds.len(), feeds.len());
        if expected != given {
            return Err(SessionError::FeedCount { expected, given });
        }
        let feeds: Vec<_> = feeds.iter().map(|feed| &feed.raw).collect();
        let functions = self.session.tensorflow.functions();
        self.session.raw.run(functions, &self.raw, &feeds, options, recorded).map_err(SessionError::Run)
    }
}
