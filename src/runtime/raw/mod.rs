//! Calls of the C API.
//!
//! This and loading are the places with unsafe code. Each type here owns one C object, and its methods
//! cannot be called with what would make the C API misbehave.

mod graph;
mod session;
mod tensor;

use std::ffi::{CStr, c_char, c_int, c_void};

use libloading::os::unix::Library;
use tensorflow_sys_runtime as sys;

use super::status::{Code, Status};

pub(super) use graph::{Operation, RawGraph};
pub use session::DeviceInfo;
pub(super) use session::{RawSession, RawStep};
pub(super) use tensor::RawTensor;

/// The functions that are called through `tensorflow-sys-runtime`, which panics where one is missing.
pub(super) const FUNCTIONS: [&str; 40] = [
    "TF_DeleteBuffer",
    "TF_DeleteDeviceList",
    "TF_DeleteGraph",
    "TF_DeleteImportGraphDefOptions",
    "TF_DeleteSession",
    "TF_DeleteSessionOptions",
    "TF_DeleteStatus",
    "TF_DeleteTensor",
    "TF_DeviceListCount",
    "TF_DeviceListMemoryBytes",
    "TF_DeviceListName",
    "TF_DeviceListType",
    "TF_Dim",
    "TF_GetCode",
    "TF_GraphGetOpDef",
    "TF_GraphGetTensorNumDims",
    "TF_GraphGetTensorShape",
    "TF_GraphImportGraphDef",
    "TF_GraphOperationByName",
    "TF_Message",
    "TF_NewBuffer",
    "TF_NewGraph",
    "TF_NewImportGraphDefOptions",
    "TF_NewSession",
    "TF_NewSessionOptions",
    "TF_NewStatus",
    "TF_NewTensor",
    "TF_NumDims",
    "TF_OperationNumOutputs",
    "TF_SessionListDevices",
    "TF_SessionRun",
    "TF_SetConfig",
    "TF_SetTarget",
    "TF_StringCopy",
    "TF_StringDealloc",
    "TF_StringGetDataPointer",
    "TF_StringGetSize",
    "TF_StringInit",
    "TF_TensorByteSize",
    "TF_TensorData",
];

/// Functions that the bindings lack, or that they give a Rust enum of data types: a number that a newer TensorFlow has and the
/// enum has not would be undefined behaviour.
#[derive(Debug, Clone, Copy)]
pub(super) struct Functions {
    tensor_type: unsafe extern "C" fn(*const sys::TF_Tensor) -> c_int,
    allocate_tensor: unsafe extern "C" fn(c_int, *const i64, c_int, usize) -> *mut sys::TF_Tensor,
    /// Older versions and some builds have no plug-ins.
    load_device_plugin: Option<unsafe extern "C" fn(*const c_char, *mut sys::TF_Status) -> *mut c_void>,
    /// Some builds have no servers: those that make one, start it, and tell its address.
    server: Option<ServerFunctions>,
}

/// What a server takes.
#[derive(Debug, Clone, Copy)]
struct ServerFunctions {
    new: unsafe extern "C" fn(*const c_void, usize, *mut sys::TF_Status) -> *mut c_void,
    start: unsafe extern "C" fn(*mut c_void, *mut sys::TF_Status),
    target: unsafe extern "C" fn(*mut c_void) -> *const c_char,
}

impl ServerFunctions {
    fn of(library: &'static Library) -> Option<ServerFunctions> {
        // SAFETY: the signatures are those of TensorFlow's headers, with pointers to a type that nobody looks into.
        unsafe {
            Some(ServerFunctions {
                new: *library.get("TF_NewServer").ok()?,
                start: *library.get("TF_ServerStart").ok()?,
                target: *library.get("TF_ServerTarget").ok()?,
            })
        }
    }
}

impl Functions {
    /// The functions of a library, or the name of one that it lacks.
    pub fn of(library: &'static Library) -> Result<Functions, &'static str> {
        // SAFETY: the signatures are those of TensorFlow's headers, and the library is never unloaded.
        unsafe {
            Ok(Functions {
                tensor_type: *library.get("TF_TensorType").map_err(|_| "TF_TensorType")?,
                allocate_tensor: *library.get("TF_AllocateTensor").map_err(|_| "TF_AllocateTensor")?,
                load_device_plugin: library.get(LOAD_DEVICE_PLUGIN).ok().map(|symbol| *symbol),
                server: ServerFunctions::of(library),
            })
        }
    }

    /// Starts a server for the rest of the process, and returns its target; none if TensorFlow has none. `def` is an encoded ServerDef.
    pub fn start_server(&self, def: &[u8]) -> Option<Result<String, Status>> {
        let functions = self.server?;
        let status = CallStatus::new();
        // SAFETY: the bytes outlive the call, which copies them. The server is never deleted: TensorFlow cannot stop one in good order.
        unsafe {
            let server = (functions.new)(def.as_ptr().cast(), def.len(), status.0);
            if let Err(error) = status.result() {
                return Some(Err(error));
            }
            (functions.start)(server, status.0);
            let target = || CStr::from_ptr((functions.target)(server)).to_string_lossy().into_owned();
            Some(status.result().map(|()| target()))
        }
    }

    /// Loads a pluggable device; none if TensorFlow cannot.
    pub fn load_device_plugin(&self, path: &CStr) -> Option<Result<(), Status>> {
        let load = self.load_device_plugin?;
        let status = CallStatus::new();
        // SAFETY: the path is a C string. The handle that comes back is not needed: a plug-in stays for ever.
        unsafe { load(path.as_ptr(), status.0) };
        Some(status.result())
    }
}

/// The function that loads pluggable devices.
pub(super) const LOAD_DEVICE_PLUGIN: &str = "TF_LoadPluggableDeviceLibrary";

/// The result of a C call.
struct CallStatus(*mut sys::TF_Status);

impl CallStatus {
    fn new() -> CallStatus {
        // SAFETY: no arguments; the object is ours.
        CallStatus(unsafe { sys::TF_NewStatus() })
    }

    fn result(&self) -> Result<(), Status> {
        // SAFETY: the object lives as long as self, and its message as long as it is not changed.
        unsafe {
            let code = Code::new(sys::TF_GetCode(self.0) as u32);
            if code == Code::Ok {
                return Ok(());
            }
            let message = CStr::from_ptr(sys::TF_Message(self.0)).to_string_lossy().into_owned();
            Err(Status { code, message })
        }
    }
}

impl Drop for CallStatus {
    fn drop(&mut self) {
        // SAFETY: it is ours and used no more.
        unsafe { sys::TF_DeleteStatus(self.0) }
    }
}

/// Bytes lent to C for one call, which does not keep them.
fn lend(bytes: &[u8]) -> sys::TF_Buffer {
    sys::TF_Buffer { data: bytes.as_ptr().cast(), length: bytes.len(), data_deallocator: None }
}

/// A buffer that TensorFlow fills.
struct OwnedBuffer(*mut sys::TF_Buffer);

impl OwnedBuffer {
    fn new() -> OwnedBuffer {
        // SAFETY: no arguments; the object is ours.
        OwnedBuffer(unsafe { sys::TF_NewBuffer() })
    }

    fn bytes(&self) -> &[u8] {
        // SAFETY: the object is ours, and its fields say what it holds.
        unsafe { slice((*self.0).data.cast(), (*self.0).length) }
    }
}

impl Drop for OwnedBuffer {
    fn drop(&mut self) {
        // SAFETY: it is ours and used no more.
        unsafe { sys::TF_DeleteBuffer(self.0) }
    }
}

/// A C array as a slice. An empty one may have any address.
///
/// # Safety
///
/// The array must have `length` elements, unchanged for as long as the slice is used.
unsafe fn slice<'a, T>(data: *const T, length: usize) -> &'a [T] {
    if length == 0 || data.is_null() {
        return &[];
    }
    // SAFETY: as the caller promises.
    unsafe { std::slice::from_raw_parts(data, length) }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::FUNCTIONS;

    #[test]
    fn every_function_that_is_called_is_looked_up_first() {
        let sources = [
            include_str!("mod.rs"),
            include_str!("graph.rs"),
            include_str!("session.rs"),
            include_str!("tensor.rs"),
        ];
        let called = |source: &'static str| {
            // Types are not called.
            let names = source.split("sys::TF_").skip(1).filter_map(|rest| Some(&rest[..rest.find('(')?]));
            names.filter(|name| name.chars().all(char::is_alphanumeric)).map(|name| format!("TF_{name}"))
        };
        let called: BTreeSet<String> = sources.into_iter().flat_map(called).collect();
        assert_eq!(called, FUNCTIONS.map(str::to_string).into());
    }
}
