//! The software GPU: where its library is, how it is loaded, and what it counts.

use std::env;
use std::ffi::{CStr, CString, c_char};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use libloading::Library;
use softgpu_interface::{Counters, INTERFACE_VERSION};

use crate::runtime::{RuntimeError, TensorFlow};

/// The variable that names the library.
const VARIABLE: &str = "LMS_SOFTGPU";
/// The library.
const LIBRARY: &str = "libsoftgpu.so";

/// Why there is no software GPU.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SoftGpuError {
    /// No library.
    #[error("the software GPU's library {LIBRARY} was not found beside the program ({}): build it with `cargo build -p softgpu`, or name it with --softgpu PATH or {VARIABLE}", directory.display())]
    Absent {
        /// Where it was looked for.
        directory: PathBuf,
    },
    /// Not a library, or not this one.
    #[error("{}: is no library of the software GPU: {reason}", path.display())]
    NotLoadable {
        /// The file.
        path: PathBuf,
        /// Why.
        reason: String,
    },
    /// What the library says against its settings or TensorFlow.
    #[error("the software GPU: {0}")]
    Refused(String),
    /// TensorFlow's reason.
    #[error(transparent)]
    Runtime(#[from] RuntimeError),
}

/// The loaded software GPU.
#[derive(Debug, Clone, Copy)]
pub struct SoftGpu {
    device_count: unsafe extern "C" fn() -> i32,
    counters: unsafe extern "C" fn(i32, *mut Counters) -> i32,
    reset: unsafe extern "C" fn(i32) -> i32,
    trace: unsafe extern "C" fn(i32) -> i32,
    write_trace: unsafe extern "C" fn(*const c_char) -> i32,
    last_error: unsafe extern "C" fn() -> *const c_char,
}

impl SoftGpu {
    /// Sets the plug-in's settings, finds its library, has it check TensorFlow, and gives it to TensorFlow.
    ///
    /// A process has one software GPU with one limit. Call it before there are other threads that use the environment.
    ///
    /// # Errors
    ///
    /// If there is no library, or if it or TensorFlow refuses.
    pub fn load(
        tensorflow: &TensorFlow,
        path: Option<&Path>,
        settings: &[(&str, String)],
    ) -> Result<SoftGpu, SoftGpuError> {
        let path = find(path)?;
        for (name, value) in settings {
            // SAFETY: the caller sees to it that nothing else uses the environment.
            unsafe { env::set_var(name, value) };
        }
        let soft = SoftGpu::open(&path)?;
        tensorflow.load_device_plugin(&path)?;
        Ok(soft)
    }

    fn open(path: &Path) -> Result<SoftGpu, SoftGpuError> {
        let not = |error: libloading::Error| SoftGpuError::NotLoadable {
            path: path.into(),
            reason: error.to_string(),
        };
        // SAFETY: the library's initializers do nothing. It stays loaded for ever, as TensorFlow wants it.
        let library: &'static Library = Box::leak(Box::new(unsafe { Library::new(path) }.map_err(not)?));
        // SAFETY: the signatures are those that the plug-in documents, and the version says that it means these.
        unsafe {
            let version: unsafe extern "C" fn() -> u32 =
                *library.get(b"softgpu_interface_version\0").map_err(not)?;
            if version() != INTERFACE_VERSION {
                let reason = format!("its interface is version {}, not {INTERFACE_VERSION}", version());
                return Err(SoftGpuError::NotLoadable { path: path.into(), reason });
            }
            let check: unsafe extern "C" fn() -> i32 = *library.get(b"softgpu_check\0").map_err(not)?;
            let soft = SoftGpu {
                device_count: *library.get(b"softgpu_device_count\0").map_err(not)?,
                counters: *library.get(b"softgpu_counters\0").map_err(not)?,
                reset: *library.get(b"softgpu_reset\0").map_err(not)?,
                trace: *library.get(b"softgpu_trace\0").map_err(not)?,
                write_trace: *library.get(b"softgpu_write_trace\0").map_err(not)?,
                last_error: *library.get(b"softgpu_last_error\0").map_err(not)?,
            };
            soft.result(check())?;
            Ok(soft)
        }
    }

    /// What each device counted.
    ///
    /// # Errors
    ///
    /// If the plug-in refuses.
    pub fn counters(&self) -> Result<Vec<Counters>, SoftGpuError> {
        // SAFETY: it asks for nothing.
        let devices = unsafe { (self.device_count)() };
        let counters = |device: i32| {
            let mut counters = Counters { struct_size: size_of::<Counters>() as u64, ..Counters::default() };
            // SAFETY: the plug-in writes no more than the size that it is told.
            self.result(unsafe { (self.counters)(device, &mut counters) })?;
            Ok(counters)
        };
        (0..devices).map(counters).collect()
    }

    /// Has all devices count anew, and their peaks begin with what is live. Nothing may run meanwhile.
    ///
    /// # Errors
    ///
    /// If the plug-in refuses.
    pub fn reset(&self) -> Result<(), SoftGpuError> {
        const ALL: i32 = -1;
        // SAFETY: any number may be passed.
        self.result(unsafe { (self.reset)(ALL) })
    }

    /// Begins a trace, or ends it.
    ///
    /// # Errors
    ///
    /// If the plug-in refuses.
    pub fn trace(&self, on: bool) -> Result<(), SoftGpuError> {
        // SAFETY: any number may be passed.
        self.result(unsafe { (self.trace)(i32::from(on)) })
    }

    /// Writes the trace in Chrome's format.
    ///
    /// # Errors
    ///
    /// If it cannot be written.
    pub fn write_trace(&self, path: &Path) -> Result<(), SoftGpuError> {
        let name = CString::new(path.as_os_str().as_bytes())
            .map_err(|_| SoftGpuError::Refused("a path with a 0 byte".to_string()))?;
        // SAFETY: the path is a C string.
        self.result(unsafe { (self.write_trace)(name.as_ptr()) })
    }

    fn result(&self, code: i32) -> Result<(), SoftGpuError> {
        if code == 0 {
            return Ok(());
        }
        // SAFETY: a C string that is valid until this thread's next call.
        let message = unsafe { CStr::from_ptr((self.last_error)()) };
        Err(SoftGpuError::Refused(message.to_string_lossy().into_owned()))
    }
}

/// The library: the one that was named, or the one beside the program.
fn find(named: Option<&Path>) -> Result<PathBuf, SoftGpuError> {
    let variable = || env::var_os(VARIABLE).filter(|value| !value.is_empty()).map(PathBuf::from);
    if let Some(path) = named.map(Path::to_path_buf).or_else(variable) {
        return Ok(if path.is_dir() { path.join(LIBRARY) } else { path });
    }
    let program = env::current_exe().unwrap_or_default();
    let directory = program.parent().unwrap_or(Path::new(".")).to_path_buf();
    let places = ["", "deps", "../lib"].map(|place| directory.join(place).join(LIBRARY));
    places.into_iter().find(|place| place.is_file()).ok_or(SoftGpuError::Absent { directory })
}
