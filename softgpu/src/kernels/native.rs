//! Kernels that are the CPU's own C++ `OpKernel`, run on the device's context.
//!
//! Variables and other state live in C++ objects that no function of the C API reaches in this TensorFlow. The CPU's
//! kernel does what is wanted if it is given the device's context: it then allocates from the device's allocator and
//! keeps its state in the device's resource manager. To make and run one takes three facts of the C++ interface, which
//! is why `version` pins TensorFlow:
//!
//! - the layout of `OpKernelConstruction` up to the graph's version, of which the device type is checked;
//! - the symbol of `CreateOpKernel` (see `capi`);
//! - the order of `OpKernel`'s virtual functions: two for the destructor, then `Compute`.

use super::{Name, compute, enter, guarded, node_def, set};
use crate::abi::Ptr;
use crate::capi::api;
use crate::device;
use crate::status::{Failed, Fault};
use std::ffi::c_int;
use std::ptr::null_mut;

/// `std::string` of libstdc++.
#[repr(C)]
struct CxxString {
    data: *const u8,
    length: usize,
    short: [u8; 16],
}

/// `tensorflow::OpKernelConstruction`, up to what is used.
#[repr(C)]
struct Construction {
    device_type: CxxString,
    device: Ptr,
    allocator: Ptr,
    function_library: Ptr,
    resource_manager: Ptr,
    node_properties: [Ptr; 2],
    input_memory_types: [Ptr; 2],
    output_memory_types: [Ptr; 2],
    graph_def_version: c_int,
}

/// `absl::OkStatus()`.
const OK: usize = 1;
const DELETE: usize = 1;
const COMPUTE: usize = 2;

struct Kernel {
    name: Name,
    /// `tensorflow::OpKernel*`.
    kernel: Ptr,
}

impl Kernel {
    /// # Safety
    ///
    /// `F` is the type of the function in this slot.
    unsafe fn virtual_function<F: Copy>(&self, slot: usize) -> F {
        const { assert!(size_of::<F>() == size_of::<Ptr>()) };
        // SAFETY: the object begins with the pointer to its table; `F` by the caller's promise.
        unsafe {
            let table = *self.kernel.cast::<*const Ptr>();
            std::mem::transmute_copy::<Ptr, F>(&*table.add(slot))
        }
    }
}

/// Makes a kernel.
///
/// # Safety
///
/// `construction` is a valid `TF_OpKernelConstruction`.
pub unsafe extern "C" fn create(construction: Ptr) -> Ptr {
    guarded(construction, api().construction_failure, |status| {
        // SAFETY: by the caller's promise.
        let node = unsafe { node_def(construction, status) }?;
        // SAFETY: the C API's construction is the C++ object.
        let fields = unsafe { &*construction.cast::<Construction>() };
        let machine = device::machine().ok_or(Fault::new("softgpu: no devices")).map_err(set(status))?;
        let expected = machine.settings.device_type.to_bytes();
        // SAFETY: read only if the length is that of the name; a string holds that many bytes.
        let known = fields.device_type.length == expected.len()
            && !fields.device_type.data.is_null()
            && unsafe { std::slice::from_raw_parts(fields.device_type.data, expected.len()) } == expected;
        if !known {
            status.set(Fault::new("softgpu: OpKernelConstruction is laid out in another way than expected"));
            return Err(Failed);
        }
        let mut cpu = CxxString { data: null_mut(), length: 3, short: *b"CPU\0\0\0\0\0\0\0\0\0\0\0\0\0" };
        let cpu = &raw mut cpu;
        let (mut kernel, mut outcome) = (null_mut(), OK);
        // SAFETY: a short string points into itself, and TensorFlow reads it during the call only. The rest comes from
        // TensorFlow's own construction of a kernel for this node. A failure's status is handed on, not freed.
        unsafe {
            (*cpu).data = (&raw const (*cpu).short).cast();
            let properties = (&raw const fields.node_properties).cast_mut().cast();
            (api().create_op_kernel)(
                &mut kernel,
                cpu.cast(),
                fields.device,
                fields.allocator,
                properties,
                fields.graph_def_version,
                &mut outcome,
            );
            if outcome != OK {
                (api().construction_set_status)(construction, &outcome);
            }
        }
        if kernel.is_null() {
            return Ok(null_mut());
        }
        Ok(Box::into_raw(Box::new(Kernel { name: Name::of(&node), kernel })).cast())
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
        // SAFETY: `create` boxed it, and TensorFlow deletes it once; the slot is the deleting destructor.
        unsafe {
            let kernel = Box::from_raw(kernel.cast::<Kernel>());
            let delete: unsafe extern "C" fn(Ptr) = kernel.virtual_function(DELETE);
            delete(kernel.kernel);
        }
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
        // SAFETY: the slot is `void Compute(OpKernelContext*)`, and the C API's context is the C++ object.
        compute(device, &kernel.name, || unsafe {
            let compute: unsafe extern "C" fn(Ptr, Ptr) = kernel.virtual_function(COMPUTE);
            compute(kernel.kernel, context);
        });
        Ok(())
    });
}
