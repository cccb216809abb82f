//! Graphs.

use std::ffi::{CString, c_int};
use std::ptr::NonNull;

use tensorflow_sys_runtime as sys;

use super::super::load::TensorFlow;
use super::super::status::Status;
use super::{CallStatus, OwnedBuffer, lend};

/// An operation of a graph.
#[derive(Debug, Clone, Copy)]
pub(in crate::runtime) struct Operation(pub(super) NonNull<sys::TF_Operation>);

/// A graph as TensorFlow holds it.
#[derive(Debug)]
pub(in crate::runtime) struct RawGraph(pub(super) *mut sys::TF_Graph);

// SAFETY: TensorFlow's graphs lock themselves.
unsafe impl Send for RawGraph {}
// SAFETY: as above.
unsafe impl Sync for RawGraph {}

impl RawGraph {
    /// A graph without nodes.
    pub fn new(_: &TensorFlow) -> RawGraph {
        // SAFETY: no arguments; the object is ours.
        RawGraph(unsafe { sys::TF_NewGraph() })
    }

    /// The graph of an encoded GraphDef.
    pub fn import(tensorflow: &TensorFlow, graph_def: &[u8]) -> Result<RawGraph, Status> {
        let graph = RawGraph::new(tensorflow);
        let status = CallStatus::new();
        // SAFETY: the options are ours until they are deleted; the bytes outlive the call, which copies them.
        unsafe {
            let options = sys::TF_NewImportGraphDefOptions();
            sys::TF_GraphImportGraphDef(graph.0, &lend(graph_def), options, status.0);
            sys::TF_DeleteImportGraphDefOptions(options);
        }
        status.result().map(|()| graph)
    }

    /// The operation of this name.
    pub fn operation(&self, name: &str) -> Option<Operation> {
        let name = CString::new(name).ok()?;
        // SAFETY: the name is a C string, and the graph lives.
        NonNull::new(unsafe { sys::TF_GraphOperationByName(self.0, name.as_ptr()) }).map(Operation)
    }

    /// How many outputs an operation of this graph has.
    pub fn outputs(&self, operation: Operation) -> c_int {
        // SAFETY: operations live as long as their graph.
        unsafe { sys::TF_OperationNumOutputs(operation.0.as_ptr()) }
    }

    /// The shape of an output of an operation of this graph, −1 where a size is not known; none if not even the rank is.
    pub fn shape(&self, operation: Operation, index: c_int) -> Result<Option<Box<[i64]>>, Status> {
        let output = sys::TF_Output { oper: operation.0.as_ptr(), index };
        let status = CallStatus::new();
        // SAFETY: the operation lives as long as the graph; the sizes are written to as many places as there are. Of an output that the
        // operation does not have, both calls say so.
        unsafe {
            let rank = sys::TF_GraphGetTensorNumDims(self.0, output, status.0);
            status.result()?;
            let Ok(places) = usize::try_from(rank) else { return Ok(None) };
            let mut sizes = vec![-1; places];
            sys::TF_GraphGetTensorShape(self.0, output, sizes.as_mut_ptr(), rank, status.0);
            status.result().map(|()| Some(sizes.into()))
        }
    }

    /// Whether TensorFlow, or a function of this graph, has an op of this name.
    pub fn knows_op(&self, op: &str) -> bool {
        let Ok(op) = CString::new(op) else { return false };
        let (status, definition) = (CallStatus::new(), OwnedBuffer::new());
        // SAFETY: the name is a C string, and the buffer is ours and empty.
        unsafe { sys::TF_GraphGetOpDef(self.0, op.as_ptr(), definition.0, status.0) };
        status.result().is_ok()
    }
}

impl Drop for RawGraph {
    fn drop(&mut self) {
        // SAFETY: the graph is ours and used no more.
        unsafe { sys::TF_DeleteGraph(self.0) }
    }
}
