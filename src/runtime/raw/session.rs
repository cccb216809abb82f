//! Sessions: steps with feeds and fetches of any type.

use std::ffi::{CStr, c_int};
use std::ptr::{self, NonNull};

use tensorflow_sys_runtime as sys;

use super::super::load::TensorFlow;
use super::super::status::Status;
use super::super::tensor::Tensor;
use super::{CallStatus, Functions, Operation, OwnedBuffer, RawGraph, RawTensor, lend};

/// A device that sessions can use.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeviceInfo {
    /// Its full name, such as `/job:localhost/replica:0/task:0/device:GPU:0`.
    pub name: String,
    /// Its type, such as `GPU`.
    pub device_type: String,
    /// How much memory TensorFlow may use on it.
    pub memory_bytes: i64,
}

/// A session, with its graph.
#[derive(Debug)]
pub(in crate::runtime) struct RawSession {
    graph: RawGraph,
    session: *mut sys::TF_Session,
}

// SAFETY: TensorFlow's sessions lock themselves.
unsafe impl Send for RawSession {}
// SAFETY: as above.
unsafe impl Sync for RawSession {}

/// What a step feeds, fetches and runs: operations of one session.
#[derive(Debug, Clone, Default)]
pub(in crate::runtime) struct RawStep {
    pub feeds: Vec<(Operation, c_int)>,
    pub fetches: Vec<(Operation, c_int)>,
    pub targets: Vec<Operation>,
}

impl RawSession {
    /// `config` is an encoded ConfigProto; `target` is the server that runs the graph, if it is not this process alone.
    pub fn new(
        tensorflow: &TensorFlow,
        graph_def: &[u8],
        config: &[u8],
        target: Option<&CStr>,
    ) -> Result<RawSession, Status> {
        let status = CallStatus::new();
        let graph = RawGraph::import(tensorflow, graph_def)?;
        // SAFETY: the options are ours until they are deleted; what the calls are given outlives them, and they copy it.
        unsafe {
            let options = sys::TF_NewSessionOptions();
            sys::TF_SetConfig(options, config.as_ptr().cast(), config.len(), status.0);
            if let Some(target) = target {
                sys::TF_SetTarget(options, target.as_ptr());
            }
            let mut session = status.result().map(|()| ptr::null_mut());
            if session.is_ok() {
                let made = sys::TF_NewSession(graph.0, options, status.0);
                session = status.result().map(|()| made);
            }
            sys::TF_DeleteSessionOptions(options);
            Ok(RawSession { session: session?, graph })
        }
    }

    /// What the session runs.
    pub fn graph(&self) -> &RawGraph {
        &self.graph
    }

    /// The devices of the session.
    pub fn devices(&self) -> Result<Vec<DeviceInfo>, Status> {
        let status = CallStatus::new();
        // SAFETY: the list is ours until it is deleted, and strings in it are copied before.
        unsafe {
            let list = sys::TF_SessionListDevices(self.session, status.0);
            status.result()?;
            let text = |text| CStr::from_ptr(text).to_string_lossy().into_owned();
            let device = |index| {
                let name = sys::TF_DeviceListName(list, index, status.0);
                status.result()?;
                let name = text(name);
                let device_type = sys::TF_DeviceListType(list, index, status.0);
                status.result()?;
                let device_type = text(device_type);
                let memory_bytes = sys::TF_DeviceListMemoryBytes(list, index, status.0);
                status.result()?;
                Ok(DeviceInfo { name, device_type, memory_bytes })
            };
            let devices = (0..sys::TF_DeviceListCount(list)).map(device).collect();
            sys::TF_DeleteDeviceList(list);
            devices
        }
    }

    /// Runs a step, whose operations must be this session's, with as many tensors as it has feeds.
    ///
    /// `options` is an encoded RunOptions. If the run is to be recorded, metadata come back, encoded.
    pub fn run(
        &self,
        functions: Functions,
        step: &RawStep,
        feeds: &[&RawTensor],
        options: Option<&[u8]>,
        recorded: bool,
    ) -> Result<(Vec<Tensor>, Vec<u8>), Status> {
        assert_eq!(feeds.len(), step.feeds.len(), "a tensor for each feed");
        let port =
            |&(operation, index): &(Operation, c_int)| sys::TF_Output { oper: operation.0.as_ptr(), index };
        let inputs: Vec<_> = step.feeds.iter().map(port).collect();
        let values: Vec<_> = feeds.iter().map(|tensor| tensor.pointer.as_ptr()).collect();
        let outputs: Vec<_> = step.fetches.iter().map(port).collect();
        let targets: Vec<_> = step.targets.iter().map(|target| target.0.as_ptr().cast_const()).collect();
        let mut fetched = vec![ptr::null_mut(); outputs.len()];
        let lent_options = options.map(lend);
        let metadata = recorded.then(OwnedBuffer::new);
        let status = CallStatus::new();
        // SAFETY: the arrays are as long as the numbers say, and with all that they point to they outlive the call. TensorFlow keeps its
        // own references to the tensors that are fed and does not write to them.
        unsafe {
            sys::TF_SessionRun(
                self.session,
                lent_options.as_ref().map_or(ptr::null(), ptr::from_ref),
                inputs.as_ptr(),
                values.as_ptr(),
                inputs.len() as c_int,
                outputs.as_ptr(),
                fetched.as_mut_ptr(),
                outputs.len() as c_int,
                targets.as_ptr(),
                targets.len() as c_int,
                metadata.as_ref().map_or(ptr::null_mut(), |buffer| buffer.0),
                status.0,
            );
        }
        // Owned first, so that nothing is lost if there was an error.
        let fetched = fetched.into_iter().filter_map(NonNull::new).map(|pointer| RawTensor { pointer });
        let fetched: Vec<RawTensor> = fetched.collect();
        status.result()?;
        let tensors = fetched.iter().map(|tensor| tensor.to_host(functions)).collect();
        Ok((tensors, metadata.map(|buffer| buffer.bytes().to_vec()).unwrap_or_default()))
    }
}

impl Drop for RawSession {
    fn drop(&mut self) {
        let status = CallStatus::new();
        // SAFETY: the session is ours and used no more. Deleting closes it; its graph goes after it.
        unsafe { sys::TF_DeleteSession(self.session, status.0) }
    }
}
