//! Kernels: for every kernel of the real GPU that is in the table, one that TensorFlow's CPU kernels do the work of.
//!
//! - `register` reads the table and says which kind each kernel is.
//! - `eager` runs an op through the eager C API. The CPU kernel reads device memory directly; its scratch stays on the
//!   host and its result is copied into device memory. `layout` turns channels-first ops, which the CPU does not
//!   have, into channels-last ones on the way, and `sizes` gives outputs the size that they have on a real GPU.
//! - `native` runs the CPU's `OpKernel` on the device's own context: for variables and other state.

mod eager;
mod forward;
mod layout;
mod native;
mod register;
mod sizes;
mod tensor;
mod transpose;

use crate::abi::Ptr;
use crate::capi::api;
use crate::device::{Device, device};
use crate::engines::Engine;
use crate::proto::NodeDef;
use crate::status::{Failed, Fault, Status, catch};
use crate::streams::Stream;
use crate::sync::{lock, now_ns};
use crate::trace;
use prost::Message;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

/// Which node a kernel is for.
struct Name {
    op: Arc<str>,
    node: Arc<str>,
}

impl Name {
    fn of(node: &NodeDef) -> Name {
        Name { op: node.op.as_str().into(), node: node.name.as_str().into() }
    }
}

/// The node that a kernel is being made for.
///
/// # Safety
///
/// `construction` is a valid `TF_OpKernelConstruction`.
unsafe fn node_def(construction: Ptr, status: &Status) -> Result<NodeDef, Failed> {
    // SAFETY: by the caller's promise; the buffer is the caller's to delete.
    let bytes = unsafe {
        let buffer = (api().get_node_def)(construction, status.as_ptr());
        status.check()?;
        crate::capi::take_buffer(buffer)
    };
    NodeDef::decode(&bytes[..]).map_err(|e| {
        status.set(Fault::new(format!("softgpu: node definition: {e}")));
        Failed
    })
}

/// The device a kernel runs on, once its compute stream is empty: kernels run on the calling thread, so that the
/// stream holds copies and fills only, and what it holds comes before this kernel.
///
/// # Safety
///
/// `context` is a valid `TF_OpKernelContext`.
unsafe fn enter(context: Ptr, status: &Status) -> Result<&'static Device, Fault> {
    // SAFETY: by the caller's promise; a stream is a `Stream` that create_stream made.
    let stream = unsafe { (api().get_stream)(context, status.as_ptr()).cast::<Stream>().as_ref() };
    status.clear();
    match stream {
        Some(stream) => {
            stream.drain();
            Ok(stream.device())
        }
        None => device(0),
    }
}

/// Runs `work` as the device's one kernel at a time, counted and traced.
fn compute<T>(device: &Device, name: &Name, work: impl FnOnce() -> T) -> T {
    struct Running<'a>(&'a Device, &'a Name, u64);
    impl Drop for Running<'_> {
        fn drop(&mut self) {
            let Running(device, name, start) = self;
            let end = now_ns();
            device.engines.stop(Engine::Kernel, end);
            device.kernels.fetch_add(1, Relaxed);
            trace::kernel(device.ordinal, &name.op, &name.node, *start, end);
        }
    }
    let _engine = lock(&device.compute);
    let start = now_ns();
    device.engines.start(Engine::Kernel, start);
    let _running = Running(device, name, start);
    work()
}

/// Runs the body of a kernel function; hands its failure, or panic, to TensorFlow through `fail`.
fn guarded<T>(
    context: Ptr,
    fail: unsafe extern "C" fn(Ptr, *const crate::abi::TfStatus),
    work: impl FnOnce(&Status) -> Result<T, Failed>,
) -> Option<T> {
    let status = Status::new();
    let outcome = catch(|| Ok(work(&status)));
    if let Err(fault) = &outcome {
        status.set(fault.clone());
    }
    match outcome {
        Ok(Ok(value)) => Some(value),
        _ => {
            // SAFETY: the context is the one that TensorFlow called with, and the status is valid.
            unsafe { fail(context, status.as_ptr()) };
            None
        }
    }
}

fn set(status: &Status) -> impl Fn(Fault) -> Failed + '_ {
    |fault| {
        status.set(fault);
        Failed
    }
}
