//! A server of TensorFlow's: what lets processes compute together.

use prost::Message;

use super::load::TensorFlow;
use super::session::SessionError;
use crate::proto::tensorflow::ServerDef;

/// A server that runs until the process ends.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Server {
    target: String,
}

impl Server {
    /// Starts the server of a task.
    ///
    /// It listens on all of the machine's addresses, whatever the task's is: the caller has to see to it that it does not, where it must
    /// not.
    ///
    /// # Errors
    ///
    /// If TensorFlow has no servers, or this one cannot listen.
    pub fn start(tensorflow: &TensorFlow, def: &ServerDef) -> Result<Server, SessionError> {
        match tensorflow.functions().start_server(&def.encode_to_vec()) {
            None => Err(SessionError::NoServer),
            Some(started) => Ok(Server { target: started.map_err(SessionError::Setup)? }),
        }
    }

    /// What sessions on it are given, such as `grpc://127.0.0.1:2222`.
    pub fn target(&self) -> &str {
        &self.target
    }
}
