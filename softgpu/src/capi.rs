//! The TensorFlow functions that the plug-in calls.
//!
//! Nothing is linked: the functions are looked up in the TensorFlow that is loading the plug-in, so that the plug-in
//! builds without one and an absent function is an error with its name.

use crate::abi::{Buffer, Ptr, TfStatus};
use std::ffi::{CStr, c_char, c_int};
use std::sync::OnceLock;

/// Where a TensorFlow wheel or archive keeps the C API. Only a library that is already loaded is looked at.
const LIBRARIES: [&CStr; 3] =
    [c"libtensorflow_framework.so.2", c"libtensorflow_cc.so.2", c"libtensorflow.so.2"];

/// Handles of those that are loaded. They are never closed.
fn libraries() -> Vec<Ptr> {
    LIBRARIES
        .iter()
        // SAFETY: the name is a C string, and RTLD_NOLOAD runs no initializer.
        .map(|name| unsafe { libc::dlopen(name.as_ptr(), libc::RTLD_LAZY | libc::RTLD_NOLOAD) })
        .filter(|handle| !handle.is_null())
        .chain([libc::RTLD_DEFAULT])
        .collect()
}

fn find(libraries: &[Ptr], symbol: &CStr) -> Option<Ptr> {
    libraries
        .iter()
        // SAFETY: each handle came from dlopen or is RTLD_DEFAULT.
        .map(|&library| unsafe { libc::dlsym(library, symbol.as_ptr()) })
        .find(|address| !address.is_null())
}

macro_rules! functions {
    ($table:ident { $($name:ident = $symbol:literal : fn($($arg:ty),*) $(-> $ret:ty)?;)* }) => {
        #[allow(missing_docs)]
        pub struct $table { $(pub $name: unsafe extern "C" fn($($arg),*) $(-> $ret)?,)* }
        impl $table {
            fn find() -> Result<$table, &'static str> {
                let libraries = libraries();
                Ok($table { $($name: {
                    let address = find(&libraries, $symbol).ok_or(unpadded($symbol))?;
                    // SAFETY: the signature is the one of the header for this symbol.
                    unsafe { std::mem::transmute::<Ptr, unsafe extern "C" fn($($arg),*) $(-> $ret)?>(address) }
                },)* })
            }
        }
    };
}

fn unpadded(symbol: &'static CStr) -> &'static str {
    symbol.to_str().unwrap_or("?")
}

functions!(Core {
    version = c"TF_Version": fn() -> *const c_char;
    new_status = c"TF_NewStatus": fn() -> *const TfStatus;
    delete_status = c"TF_DeleteStatus": fn(*const TfStatus);
    get_code = c"TF_GetCode": fn(*const TfStatus) -> c_int;
    message = c"TF_Message": fn(*const TfStatus) -> *const c_char;
    set_status = c"TF_SetStatus": fn(*const TfStatus, c_int, *const c_char);
});

functions!(Api {
    delete_buffer = c"TF_DeleteBuffer": fn(*mut Buffer);
    get_all_op_list = c"TF_GetAllOpList": fn() -> *mut Buffer;
    get_registered_kernels_for_op = c"TF_GetRegisteredKernelsForOp": fn(*const c_char, *const TfStatus) -> *mut Buffer;
    get_all_registered_kernels = c"TF_GetAllRegisteredKernels": fn(*const TfStatus) -> *mut Buffer;
    new_kernel_builder = c"TF_NewKernelBuilder": fn(*const c_char, *const c_char, unsafe extern "C" fn(Ptr) -> Ptr, unsafe extern "C" fn(Ptr, Ptr), unsafe extern "C" fn(Ptr)) -> Ptr;
    delete_kernel_builder = c"TF_DeleteKernelBuilder": fn(Ptr);
    type_constraint = c"TF_KernelBuilder_TypeConstraint": fn(Ptr, *const c_char, c_int, *const TfStatus);
    host_memory = c"TF_KernelBuilder_HostMemory": fn(Ptr, *const c_char);
    register_kernel_builder = c"TF_RegisterKernelBuilder": fn(*const c_char, Ptr, *const TfStatus);
    get_node_def = c"TF_OpKernelConstruction_GetNodeDef": fn(Ptr, *const TfStatus) -> *mut Buffer;
    construction_failure = c"TF_OpKernelConstruction_Failure": fn(Ptr, *const TfStatus);
    context_failure = c"TF_OpKernelContext_Failure": fn(Ptr, *const TfStatus);
    num_inputs = c"TF_NumInputs": fn(Ptr) -> c_int;
    num_outputs = c"TF_NumOutputs": fn(Ptr) -> c_int;
    get_input = c"TF_GetInput": fn(Ptr, c_int, *mut Ptr, *const TfStatus);
    is_host_memory_output = c"TF_IsHostMemoryOutput": fn(Ptr, c_int, *const TfStatus) -> bool;
    set_output = c"TF_SetOutput": fn(Ptr, c_int, Ptr, *const TfStatus);
    allocate_output = c"TF_AllocateOutput": fn(Ptr, c_int, c_int, *const i64, c_int, usize, *const TfStatus) -> Ptr;
    forward_or_allocate = c"TF_ForwardInputOrAllocateOutput": fn(Ptr, *const c_int, c_int, c_int, *const i64, c_int, *mut c_int, *const TfStatus) -> Ptr;
    get_stream = c"TF_GetStream": fn(Ptr, *const TfStatus) -> Ptr;
    allocate_tensor = c"TF_AllocateTensor": fn(c_int, *const i64, c_int, usize) -> Ptr;
    delete_tensor = c"TF_DeleteTensor": fn(Ptr);
    tensor_data = c"TF_TensorData": fn(Ptr) -> Ptr;
    tensor_byte_size = c"TF_TensorByteSize": fn(Ptr) -> usize;
    tensor_type = c"TF_TensorType": fn(Ptr) -> c_int;
    num_dims = c"TF_NumDims": fn(Ptr) -> c_int;
    dim = c"TF_Dim": fn(Ptr, c_int) -> i64;
    new_context_options = c"TFE_NewContextOptions": fn() -> Ptr;
    delete_context_options = c"TFE_DeleteContextOptions": fn(Ptr);
    context_options_set_config = c"TFE_ContextOptionsSetConfig": fn(Ptr, *const u8, usize, *const TfStatus);
    new_context = c"TFE_NewContext": fn(Ptr, *const TfStatus) -> Ptr;
    new_tensor_handle = c"TFE_NewTensorHandle": fn(Ptr, *const TfStatus) -> Ptr;
    delete_tensor_handle = c"TFE_DeleteTensorHandle": fn(Ptr);
    resolve = c"TFE_TensorHandleResolve": fn(Ptr, *const TfStatus) -> Ptr;
    new_op = c"TFE_NewOp": fn(Ptr, *const c_char, *const TfStatus) -> Ptr;
    delete_op = c"TFE_DeleteOp": fn(Ptr);
    op_set_device = c"TFE_OpSetDevice": fn(Ptr, *const c_char, *const TfStatus);
    op_add_input = c"TFE_OpAddInput": fn(Ptr, Ptr, *const TfStatus);
    op_set_attr = c"TFE_OpSetAttrValueProto": fn(Ptr, *const c_char, *const u8, usize, *const TfStatus);
    execute = c"TFE_Execute": fn(Ptr, *mut Ptr, *mut c_int, *const TfStatus);
    // std::unique_ptr<OpKernel> CreateOpKernel(DeviceType, DeviceBase*, Allocator*,
    //     const std::shared_ptr<const NodeProperties>&, int, absl::Status*):
    // the result and the first argument go through pointers.
    create_op_kernel = c"_ZN10tensorflow14CreateOpKernelEN3tsl10DeviceTypeEPNS_10DeviceBaseEPNS0_9AllocatorERKSt10shared_ptrIKNS_14NodePropertiesEEiPN4absl12lts_202508146StatusE": fn(*mut Ptr, Ptr, Ptr, Ptr, Ptr, c_int, *mut usize) -> Ptr;
    // void OpKernelConstruction::SetStatus(const absl::Status&)
    construction_set_status = c"_ZN10tensorflow20OpKernelConstruction9SetStatusERKN4absl12lts_202508146StatusE": fn(Ptr, *const usize);
});

static CORE: OnceLock<Core> = OnceLock::new();
static API: OnceLock<Api> = OnceLock::new();

/// What is needed to answer with an error at all; the error is the name of the first function that is absent. Only a
/// success is remembered: TensorFlow may be loaded later.
pub fn core() -> Result<&'static Core, &'static str> {
    match CORE.get() {
        Some(core) => Ok(core),
        None => Core::find().map(|core| CORE.get_or_init(|| core)),
    }
}

/// Looks all functions up, in the same way.
pub fn load() -> Result<&'static Api, &'static str> {
    match API.get() {
        Some(api) => Ok(api),
        None => Api::find().map(|api| API.get_or_init(|| api)),
    }
}

/// The functions. `platform::accept` has called `load` before anything can get here.
pub fn api() -> &'static Api {
    load().unwrap_or_else(|name| panic!("softgpu: TensorFlow has no function {name}"))
}

/// The version that TensorFlow says it has.
pub fn tensorflow_version(core: &Core) -> String {
    // SAFETY: TF_Version returns a static C string.
    unsafe { CStr::from_ptr((core.version)()) }.to_string_lossy().into_owned()
}

/// The bytes of a buffer that TensorFlow made for the caller, which is deleted; empty for a null pointer.
///
/// # Safety
///
/// `buffer` is null or a `TF_Buffer` that nobody else uses.
pub unsafe fn take_buffer(buffer: *mut Buffer) -> Vec<u8> {
    // SAFETY: by the caller's promise the buffer is valid, and it is deleted once.
    unsafe {
        let Some(content) = buffer.as_ref() else { return Vec::new() };
        let bytes = if content.data.is_null() {
            Vec::new()
        } else {
            std::slice::from_raw_parts(content.data, content.length).to_vec()
        };
        (api().delete_buffer)(buffer);
        bytes
    }
}
