//! Kernels that run their op on the CPU through the eager C API.

use super::forward;
use super::layout::{self, Layout};
use super::tensor::{Handle, Tensor};
use super::{Name, compute, enter, guarded, node_def, set, sizes};
use crate::abi::Ptr;
use crate::capi::api;
use crate::device::{self, Device};
use crate::proto::ConfigProto;
use crate::status::{Failed, Fault, Status};
use prost::Message;
use std::collections::HashMap;
use std::ffi::{CString, c_int};
use std::ptr::null_mut;
use std::sync::OnceLock;
use std::sync::atomic::Ordering::Relaxed;

struct Kernel {
    op: CString,
    name: Name,
    attrs: Vec<(CString, Vec<u8>)>,
    forwards: bool,
    layout: Option<&'static Layout>,
}

/// Makes a kernel.
///
/// # Safety
///
/// `construction` is a valid `TF_OpKernelConstruction`.
pub unsafe extern "C" fn create(construction: Ptr) -> Ptr {
    guarded(construction, api().construction_failure, |status| {
        // SAFETY: by the caller's promise.
        let mut node = unsafe { node_def(construction, status) }?;
        let layout = layout::to_channels_last(&node.op, &mut node.attr).map_err(set(status))?;
        let known = super::register::ops().get(&node.op);
        let attrs = node
            .attr
            .iter()
            .filter(|(name, _)| known.is_some_and(|op| op.attr.iter().any(|attr| attr.name == **name)))
            .map(|(name, value)| (c_string(name), value.clone()))
            .collect();
        let forwards = forward::takes_over(&node.op);
        let kernel = Kernel { op: c_string(&node.op), name: Name::of(&node), attrs, forwards, layout };
        Ok(Box::into_raw(Box::new(kernel)).cast())
    })
    .unwrap_or(null_mut())
}

/// Deletes a kernel.
///
/// # Safety
///
/// `kernel` is null or came from `create`.
pub unsafe extern "C" fn delete(kernel: Ptr) {
    if !kernel.is_null() {
        // SAFETY: `create` boxed it, and TensorFlow deletes it once.
        drop(unsafe { Box::from_raw(kernel.cast::<Kernel>()) });
    }
}

/// Runs a kernel.
///
/// # Safety
///
/// `kernel` came from `create` and `context` is a valid `TF_OpKernelContext`.
pub unsafe extern "C" fn run(kernel: Ptr, context: Ptr) {
    guarded(context, api().context_failure, |status| {
        // SAFETY: by the caller's promise; null is a kernel whose making failed.
        let kernel = unsafe { kernel.cast::<Kernel>().as_ref() };
        let kernel = kernel.ok_or(Fault::new("softgpu: no kernel")).map_err(set(status))?;
        // SAFETY: by the caller's promise.
        let device = unsafe { enter(context, status) }.map_err(set(status))?;
        // SAFETY: the same.
        let inputs = unsafe { inputs(context, status) }?;
        // SAFETY: the same.
        let count = unsafe { (api().num_outputs)(context) };
        let results = compute(device, &kernel.name, || execute(kernel, &inputs, count, status))?;
        let spans: Vec<_> = inputs.iter().map(Tensor::span).collect();
        let types: Vec<_> = inputs.iter().map(Tensor::dtype).collect();
        // From here on only TensorFlow holds the inputs, so that one that dies here can be forwarded.
        drop(inputs);
        for (index, result) in results.into_iter().enumerate() {
            // SAFETY: the handle is valid; the tensor is ours.
            let result = unsafe { Tensor::own((api().resolve)(result.as_ptr(), status.as_ptr())) };
            status.check()?;
            let result = sizes::as_on_cuda(&kernel.name.op, index, result).map_err(set(status))?;
            let result_span = result.span();
            let shared = !result_span.is_empty()
                && spans.iter().any(|i| i.start <= result_span.start && result_span.end <= i.end);
            // SAFETY: as for the context.
            unsafe { put(kernel, device, context, index, result, shared, &types, status) }?;
        }
        Ok(())
    });
}

/// # Safety
///
/// `context` is a valid `TF_OpKernelContext`.
unsafe fn inputs(context: Ptr, status: &Status) -> Result<Vec<Tensor>, Failed> {
    // SAFETY: by the caller's promise; each tensor is handed over, and shares the device's memory.
    unsafe {
        (0..(api().num_inputs)(context))
            .map(|index| {
                let mut tensor = null_mut();
                (api().get_input)(context, index, &mut tensor, status.as_ptr());
                status.check()?;
                Ok(Tensor::own(tensor))
            })
            .collect()
    }
}

/// A `TFE_Op`.
struct Op(Ptr);

impl Drop for Op {
    fn drop(&mut self) {
        // SAFETY: `execute` made it, deleted once.
        unsafe { (api().delete_op)(self.0) }
    }
}

/// Runs the op on the CPU.
fn execute(
    kernel: &Kernel,
    inputs: &[Tensor],
    outputs: c_int,
    status: &Status,
) -> Result<Vec<Handle>, Failed> {
    let context = eager_context().map_err(set(status))?;
    // SAFETY: every pointer is valid for its call; TensorFlow copies names and attributes and shares handles.
    unsafe {
        let op = (api().new_op)(context, kernel.op.as_ptr(), status.as_ptr());
        status.check()?;
        let op = Op(op);
        (api().op_set_device)(
            op.0,
            c"/job:localhost/replica:0/task:0/device:CPU:0".as_ptr(),
            status.as_ptr(),
        );
        status.check()?;
        for (name, value) in &kernel.attrs {
            (api().op_set_attr)(op.0, name.as_ptr(), value.as_ptr(), value.len(), status.as_ptr());
            status.check()?;
        }
        for (index, input) in inputs.iter().enumerate() {
            let turned = match kernel.layout {
                Some(layout) if layout.images.contains(&index) => Some(layout::image(input)),
                Some(layout) if layout.vectors.contains(&index) => Some(layout::vector(input)),
                _ => None,
            };
            let turned = turned.transpose().map_err(set(status))?;
            let handle = Handle::new(turned.as_ref().unwrap_or(input), status);
            status.check()?;
            (api().op_add_input)(op.0, handle.as_ptr(), status.as_ptr());
            status.check()?;
        }
        let mut handles = vec![null_mut(); outputs.max(1) as usize];
        let mut count = outputs;
        (api().execute)(op.0, handles.as_mut_ptr(), &mut count, status.as_ptr());
        handles.truncate(count.max(0) as usize);
        let handles: Vec<_> = handles.into_iter().map(|handle| Handle::own(handle)).collect();
        status.check()?;
        Ok(handles)
    }
}

/// Makes a result the context's output number `index`.
///
/// # Safety
///
/// `context` is a valid `TF_OpKernelContext`.
#[allow(clippy::too_many_arguments)]
unsafe fn put(
    kernel: &Kernel,
    device: &Device,
    context: Ptr,
    index: usize,
    result: Tensor,
    shared: bool,
    input_types: &[c_int],
    status: &Status,
) -> Result<(), Failed> {
    let at = index as c_int;
    // SAFETY: by the caller's promise; the result is valid.
    unsafe {
        let on_host = (api().is_host_memory_output)(context, at, status.as_ptr());
        status.check()?;
        if on_host || shared {
            // A result that shares an input's memory (a reshape, a slice) is in device memory already.
            (api().set_output)(context, at, result.as_ptr(), status.as_ptr());
            return status.check();
        }
    }
    let turned = kernel.layout.is_some_and(|layout| layout.outputs.contains(&index));
    let dims = if turned { layout::channels_first(&result.dims()) } else { result.dims() };
    let (dtype, bytes) = (result.dtype(), result.bytes());
    let candidates: Vec<c_int> = match kernel.forwards {
        true => (0..).zip(input_types).filter(|(_, t)| **t == dtype).map(|(i, _)| i).collect(),
        false => Vec::new(),
    };
    let rank = dims.len() as c_int;
    // SAFETY: the dimensions and candidates are as many as said; the output is handed over.
    let mut output = unsafe {
        Tensor::own(if candidates.is_empty() {
            (api().allocate_output)(context, at, dtype, dims.as_ptr(), rank, bytes, status.as_ptr())
        } else {
            let mut taken = -1;
            let count = candidates.len() as c_int;
            let output = (api().forward_or_allocate)(
                context,
                candidates.as_ptr(),
                count,
                at,
                dims.as_ptr(),
                rank,
                &mut taken,
                status.as_ptr(),
            );
            device.forwarded.fetch_add(u64::from(taken >= 0), Relaxed);
            output
        })
    };
    status.check()?;
    if turned {
        layout::write(&dims, result.content(), output.content_mut());
    } else {
        output.content_mut().copy_from_slice(result.content());
    }
    Ok(())
}

fn c_string(text: &str) -> CString {
    CString::new(text.replace('\0', "?")).unwrap_or_default()
}

/// The context that the ops run in. It has the CPU only.
fn eager_context() -> Result<Ptr, Fault> {
    static CONTEXT: OnceLock<Result<usize, Fault>> = OnceLock::new();
    let made = CONTEXT.get_or_init(|| {
        let machine = device::machine().ok_or_else(|| Fault::new("softgpu: no devices"))?;
        let device_type = machine.settings.device_type.to_string_lossy().into_owned();
        // Neither ours nor, in a CUDA build, a real one.
        let device_count = HashMap::from([(device_type, 0), ("GPU".into(), 0)]);
        let config = ConfigProto { device_count }.encode_to_vec();
        let status = Status::new();
        // SAFETY: the options are made and deleted here; the context lives as long as the process.
        let context = unsafe {
            let options = (api().new_context_options)();
            (api().context_options_set_config)(options, config.as_ptr(), config.len(), status.as_ptr());
            let context =
                if status.is_ok() { (api().new_context)(options, status.as_ptr()) } else { null_mut() };
            (api().delete_context_options)(options);
            context
        };
        match status.is_ok() {
            true => Ok(context as usize),
            false => Err(Fault::new(format!("softgpu: eager context: {}", status.message()))),
        }
    });
    made.clone().map(|context| context as Ptr)
}
