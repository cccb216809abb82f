//! Calls of the C API where the crate's own types are in the way: sessions whose feeds and fetches have any type.
//!
//! This and loading are the places with unsafe code. Each type here owns one C object, and its methods
//! cannot be called with what would make the C API misbehave.

use std::alloc::{self, Layout};
use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::ptr::{self, NonNull};

use libloading::os::unix::Library;
use tensorflow_sys_runtime as sys;

use super::load::TensorFlow;
use super::status::{Code, Status};
use super::tensor::{Tensor, TensorError, Values};
use crate::dtype::DataType;

/// The functions that this module calls through `tensorflow-sys-runtime`, which panics where one is missing.
pub(super) const FUNCTIONS: [&str; 37] = [
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

/// An operation of a session's graph.
#[derive(Debug, Clone, Copy)]
pub(super) struct Operation(NonNull<sys::TF_Operation>);

/// A graph and the session that runs it.
#[derive(Debug)]
pub(super) struct RawSession {
    graph: *mut sys::TF_Graph,
    session: *mut sys::TF_Session,
}

// SAFETY: TensorFlow's sessions and graphs lock themselves.
unsafe impl Send for RawSession {}
// SAFETY: as above.
unsafe impl Sync for RawSession {}

/// What a step feeds, fetches and runs: operations of one session.
#[derive(Debug, Clone, Default)]
pub(super) struct RawStep {
    pub feeds: Vec<(Operation, c_int)>,
    pub fetches: Vec<(Operation, c_int)>,
    pub targets: Vec<Operation>,
}

impl RawSession {
    /// `config` is an encoded ConfigProto; `target` is the server that runs the graph, if it is not this process alone.
    pub fn new(
        _: &TensorFlow,
        graph_def: &[u8],
        config: &[u8],
        target: Option<&CStr>,
    ) -> Result<RawSession, Status> {
        let status = CallStatus::new();
        // SAFETY: each object is made before it is used and deleted after; the bytes outlive the calls, which copy them.
        unsafe {
            let mut raw = RawSession { graph: sys::TF_NewGraph(), session: ptr::null_mut() };
            let import_options = sys::TF_NewImportGraphDefOptions();
            sys::TF_GraphImportGraphDef(raw.graph, &lend(graph_def), import_options, status.0);
            sys::TF_DeleteImportGraphDefOptions(import_options);
            status.result()?;

            let options = sys::TF_NewSessionOptions();
            sys::TF_SetConfig(options, config.as_ptr().cast(), config.len(), status.0);
            if let Some(target) = target {
                sys::TF_SetTarget(options, target.as_ptr());
            }
            let mut result = status.result();
            if result.is_ok() {
                raw.session = sys::TF_NewSession(raw.graph, options, status.0);
                result = status.result();
            }
            sys::TF_DeleteSessionOptions(options);
            result.map(|()| raw)
        }
    }

    /// The operation of this name.
    pub fn operation(&self, name: &str) -> Option<Operation> {
        let name = CString::new(name).ok()?;
        // SAFETY: the name is a C string, and the graph lives.
        NonNull::new(unsafe { sys::TF_GraphOperationByName(self.graph, name.as_ptr()) }).map(Operation)
    }

    /// How many outputs an operation of this session has.
    pub fn outputs(&self, operation: Operation) -> c_int {
        // SAFETY: operations live as long as their graph.
        unsafe { sys::TF_OperationNumOutputs(operation.0.as_ptr()) }
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
    /// `options` is an encoded RunOptions. With it metadata come back, encoded.
    pub fn run(
        &self,
        functions: Functions,
        step: &RawStep,
        feeds: &[&RawTensor],
        options: Option<&[u8]>,
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
        let metadata = options.map(|_| OwnedBuffer::new());
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
        // SAFETY: session and graph are ours and used no more. Deleting a session closes it.
        unsafe {
            if !self.session.is_null() {
                sys::TF_DeleteSession(self.session, status.0);
            }
            sys::TF_DeleteGraph(self.graph);
        }
    }
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

/// A tensor in TensorFlow's memory.
#[derive(Debug)]
pub(super) struct RawTensor {
    pointer: NonNull<sys::TF_Tensor>,
}

// SAFETY: nothing changes the tensor, and TensorFlow counts its references atomically.
unsafe impl Send for RawTensor {}
// SAFETY: as above.
unsafe impl Sync for RawTensor {}

impl RawTensor {
    /// A copy of a host tensor.
    pub fn of(functions: Functions, tensor: &Tensor) -> Result<RawTensor, TensorError> {
        let pointer = match tensor.values() {
            Values::Plain(bytes) => Self::of_bytes(functions, tensor, bytes),
            Values::Strings(strings) => Self::of_strings(tensor, strings),
            Values::Opaque => return Err(TensorError::NotPlain(tensor.dtype())),
        };
        let no_memory = || TensorError::NoMemory { dtype: tensor.dtype(), shape: tensor.shape().to_vec() };
        Ok(RawTensor { pointer: NonNull::new(pointer).ok_or_else(no_memory)? })
    }

    fn of_bytes(functions: Functions, tensor: &Tensor, bytes: &[u8]) -> *mut sys::TF_Tensor {
        let (shape, dtype) = (tensor.shape(), tensor.dtype().number());
        // SAFETY: the shape is copied, and a host tensor has just the bytes that its type and shape take, so that is the
        // size of the memory behind the data pointer.
        unsafe {
            let pointer =
                (functions.allocate_tensor)(dtype, shape.as_ptr(), shape.len() as c_int, bytes.len());
            if !pointer.is_null() && !bytes.is_empty() {
                let data: *mut u8 = sys::TF_TensorData(pointer).cast();
                ptr::copy_nonoverlapping(bytes.as_ptr(), data, bytes.len());
            }
            pointer
        }
    }

    fn of_strings(tensor: &Tensor, strings: &[Vec<u8>]) -> *mut sys::TF_Tensor {
        let shape = tensor.shape();
        let size = size_of::<sys::TF_TString>() * strings.len();
        let Some(layout) = string_layout(size) else { return ptr::null_mut() };
        // SAFETY: the memory has room for all strings, each of which is initialized before it is assigned. From
        // the last call on it is TensorFlow's, which gives it back to the deallocator with the same size.
        unsafe {
            let data = alloc::alloc(layout).cast::<sys::TF_TString>();
            if data.is_null() {
                return ptr::null_mut();
            }
            for (index, string) in strings.iter().enumerate() {
                let place = data.add(index);
                sys::TF_StringInit(place);
                sys::TF_StringCopy(place, string.as_ptr().cast(), string.len());
            }
            sys::TF_NewTensor(
                sys::TF_DataType::TF_STRING,
                shape.as_ptr(),
                shape.len() as c_int,
                data.cast(),
                size,
                Some(free_strings),
                ptr::null_mut(),
            )
        }
    }

    /// A copy on the host.
    ///
    /// A copy it must be: what is fetched from a ref variable is the variable's own memory, which the next step changes.
    fn to_host(&self, functions: Functions) -> Tensor {
        let pointer = self.pointer.as_ptr();
        // SAFETY: the tensor lives, its dimensions are as many as it says, and its data has the size that it says.
        unsafe {
            let dtype = DataType::new((functions.tensor_type)(pointer));
            let shape: Vec<i64> =
                (0..sys::TF_NumDims(pointer)).map(|axis| sys::TF_Dim(pointer, axis)).collect();
            let data = sys::TF_TensorData(pointer).cast_const();
            let size = sys::TF_TensorByteSize(pointer);
            let values = match dtype {
                DataType::STRING => {
                    let strings: &[sys::TF_TString] = slice(data.cast(), size / size_of::<sys::TF_TString>());
                    Values::Strings(strings.iter().map(|string| string_bytes(string)).collect())
                }
                _ if dtype.size_in_bytes().is_some() => {
                    Values::Plain(slice::<u8>(data.cast(), size).to_vec())
                }
                _ => Values::Opaque,
            };
            Tensor::fetched(dtype, shape, values)
        }
    }
}

impl Drop for RawTensor {
    fn drop(&mut self) {
        // SAFETY: our reference is used no more.
        unsafe { sys::TF_DeleteTensor(self.pointer.as_ptr()) }
    }
}

/// The content of a string.
///
/// # Safety
///
/// The string must be initialized.
unsafe fn string_bytes(string: &sys::TF_TString) -> Vec<u8> {
    // SAFETY: an initialized string has as many bytes as it says.
    unsafe {
        slice::<u8>(sys::TF_StringGetDataPointer(string).cast(), sys::TF_StringGetSize(string)).to_vec()
    }
}

/// How the memory of a string tensor is allocated; none for more than memory can be.
fn string_layout(size: usize) -> Option<Layout> {
    // TensorFlow likes its tensors aligned to a cache line. Nothing at all cannot be allocated.
    const ALIGNMENT: usize = 64;
    Layout::from_size_align(size.max(1), ALIGNMENT).ok()
}

/// Frees what `of_strings` allocated.
///
/// # Safety
///
/// `data` must come from there, and `size` must be what was allocated.
unsafe extern "C" fn free_strings(data: *mut c_void, size: usize, _: *mut c_void) {
    let strings = data.cast::<sys::TF_TString>();
    // SAFETY: all strings are initialized, and the memory was allocated with this layout.
    unsafe {
        for index in 0..size / size_of::<sys::TF_TString>() {
            sys::TF_StringDealloc(strings.add(index));
        }
        if let Some(layout) = string_layout(size) {
            alloc::dealloc(data.cast(), layout);
        }
    }
}
