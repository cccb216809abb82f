//! Loading TensorFlow, once in a process.
//!
//! The bindings find their library only by the name `libtensorflow.so`, which Python's package does not have. So
//! the library is loaded from where it is, and then they are given a link of that name to the same file: the dynamic
//! linker sees that it is loaded already.

use std::env;
use std::ffi::{CStr, CString, c_char};
use std::fs::OpenOptions;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};

use libloading::os::unix::{Library, RTLD_LAZY, RTLD_LOCAL, Symbol};

use super::error::{LookedAt, RuntimeError};
use super::find;
use super::raw::{self, Functions};
use super::status::{Code, Status};

/// The oldest TensorFlow that has all that is used here, as major and minor version.
pub const MINIMUM_VERSION: (u32, u32) = (2, 5);

/// The TensorFlow of this process.
#[derive(Debug)]
pub struct TensorFlow {
    path: PathBuf,
    version: String,
    functions: Functions,
}

/// What [`TensorFlow::open`] opened.
static OPENED: Mutex<Option<&'static TensorFlow>> = Mutex::new(None);

impl TensorFlow {
    /// Finds TensorFlow and loads it.
    ///
    /// `location` is a library or a directory with one, such as a Python package or environment or an unpacked C archive.
    /// Without it the variable `LMS_TENSORFLOW` names one. Without that the active virtual environment is looked
    /// at, a `.venv` in the working directory, the packages of `python3` and `python`, and the directories of the system.
    ///
    /// A process has one TensorFlow: after the first success, this returns that one whatever it is asked for.
    ///
    /// The first success sets the environment variables `TENSORFLOW_DIR` and, unless it is set, `TF_CPP_MIN_LOG_LEVEL`.
    /// Call it before other threads of the process use the environment through C.
    ///
    /// # Errors
    ///
    /// If there is none, or if it cannot be used: see [`RuntimeError`].
    pub fn open(location: Option<&Path>) -> Result<&'static TensorFlow, RuntimeError> {
        let mut opened = OPENED.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        if let Some(tensorflow) = *opened {
            return Ok(tensorflow);
        }
        let named = env::var_os(find::VARIABLE).filter(|value| !value.is_empty()).map(PathBuf::from);
        let found = match (location, named) {
            (Some(path), _) => named_library(path, "--tensorflow").and_then(|library| load(&library))?,
            (None, Some(path)) => named_library(&path, find::VARIABLE).and_then(|library| load(&library))?,
            (None, None) => search(find::places())?,
        };
        let tensorflow: &'static TensorFlow = Box::leak(Box::new(found));
        *opened = Some(tensorflow);
        Ok(tensorflow)
    }

    /// Lets TensorFlow say what it likes on standard error. Without it, and unless `TF_CPP_MIN_LOG_LEVEL` is set, it says nothing but why it ends the process.
    ///
    /// To be called before [`TensorFlow::open`]: a library that is loaded has its level.
    pub fn let_speak() {
        SPEAKS.store(true, Ordering::Relaxed);
    }

    /// The library that was loaded.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// TensorFlow's version, such as `2.21.0`.
    pub fn version(&self) -> &str {
        &self.version
    }

    /// Loads a plug-in for devices that TensorFlow does not have by itself, for the rest of the process.
    ///
    /// Sessions made before do not see its devices.
    ///
    /// # Errors
    ///
    /// If TensorFlow has no plug-ins or refuses this one.
    pub fn load_device_plugin(&self, plugin: &Path) -> Result<(), RuntimeError> {
        let refused = |status| RuntimeError::Plugin { plugin: plugin.to_path_buf(), status };
        let name = CString::new(plugin.as_os_str().as_bytes()).map_err(|_| {
            refused(Status { code: Code::NotFound, message: "the path contains a 0 byte".to_string() })
        })?;
        match self.functions.load_device_plugin(&name) {
            Some(result) => result.map_err(refused),
            None => Err(RuntimeError::MissingSymbol {
                path: self.path.clone(),
                version: Some(self.version.clone()),
                symbol: raw::LOAD_DEVICE_PLUGIN,
            }),
        }
    }

    pub(super) fn functions(&self) -> Functions {
        self.functions
    }
}

fn named_library(path: &Path, named_by: &'static str) -> Result<PathBuf, RuntimeError> {
    find::library_at(path).ok_or_else(|| RuntimeError::NotThere {
        path: path.to_path_buf(),
        named_by,
        found: find::what_is_at(path),
    })
}

/// Loads from the first place that has a TensorFlow which the linker accepts.
fn search(places: impl Iterator<Item = find::Place>) -> Result<TensorFlow, RuntimeError> {
    let mut looked_at = Vec::new();
    for place in places {
        let library = match place.library() {
            Ok(library) => library,
            Err(nothing) => {
                looked_at.push(nothing);
                continue;
            }
        };
        match load(&library) {
            // Nothing of it stays in the process, so another one may be tried.
            Err(error @ RuntimeError::NotLoadable { .. }) => {
                looked_at.push(LookedAt { place: place.name, found: error.to_string() });
            }
            result => return result,
        }
    }
    Err(RuntimeError::Absent { looked_at })
}

/// Loads a library and gives it to the bindings.
fn load(path: &Path) -> Result<TensorFlow, RuntimeError> {
    let path = path.canonicalize().unwrap_or_else(|_| path.to_path_buf());
    let link_directory = tempfile::Builder::new().prefix("tf-lms-").tempdir();
    let link_directory = link_directory.map_err(|source| RuntimeError::Link { source })?;
    let link = link_directory.path().join(format!("libtensorflow{}", env::consts::DLL_SUFFIX));
    std::os::unix::fs::symlink(&path, link).map_err(|source| RuntimeError::Link { source })?;
    let speaks = SPEAKS.load(Ordering::Relaxed);
    prepare_environment(link_directory.path(), speaks);

    let library = match speaks {
        true => dynamic_library(&path)?,
        // What its initializers say no log level holds back.
        false => without_stderr(|| dynamic_library(&path))?,
    };
    let (version, functions) = check(&path, library)?;
    tensorflow_sys_runtime::load()
        .map_err(|reason| RuntimeError::NotLoadable { path: path.clone(), reason })?;
    Ok(TensorFlow { path, version, functions })
}

/// Whether TensorFlow may say more than errors.
static SPEAKS: AtomicBool = AtomicBool::new(false);

/// Calls with standard error going nowhere.
fn without_stderr<T>(call: impl FnOnce() -> T) -> T {
    let kept = rustix::io::dup(std::io::stderr()).ok();
    let nowhere = kept.as_ref().and_then(|_| OpenOptions::new().write(true).open("/dev/null").ok());
    let is_silent = nowhere.is_some_and(|nowhere| rustix::stdio::dup2_stderr(nowhere).is_ok());
    let result = call();
    if let Some(kept) = kept.filter(|_| is_silent) {
        // If that fails, nobody can be told.
        let _ = rustix::stdio::dup2_stderr(kept);
    }
    result
}

/// Tells the bindings where their link is, and TensorFlow to keep its chatter to itself.
fn prepare_environment(link_directory: &Path, speaks: bool) {
    const LOG_LEVEL: &str = "TF_CPP_MIN_LOG_LEVEL";
    const EVERYTHING: &str = "0";
    // What goes wrong comes back as an error anyway.
    const NOTHING: &str = "3";
    // SAFETY: Rust's own readers of the environment are locked out while it changes. No TensorFlow runs yet, and `open`
    // asks its caller for no other reader in C.
    unsafe {
        env::set_var("TENSORFLOW_DIR", link_directory);
        if env::var_os(LOG_LEVEL).is_none() {
            env::set_var(LOG_LEVEL, if speaks { EVERYTHING } else { NOTHING });
        }
    }
}

/// Loads a library for the rest of the process: TensorFlow cannot be unloaded, not even one that turns out to be too old.
fn dynamic_library(path: &Path) -> Result<&'static Library, RuntimeError> {
    // Resolving each of the library's many functions only when it is first called saves a third of the time.
    // SAFETY: its initializers are those that every Python program with TensorFlow runs.
    unsafe { Library::open(Some(path), RTLD_LAZY | RTLD_LOCAL) }
        .map(|library| &*Box::leak(Box::new(library)))
        .map_err(|error| RuntimeError::NotLoadable { path: path.to_path_buf(), reason: reason(&error) })
}

/// An error with its cause, which has the linker's own words.
fn reason(error: &libloading::Error) -> String {
    let cause = std::error::Error::source(error).map(ToString::to_string);
    cause.unwrap_or_else(|| error.to_string())
}

/// Checks that a library is a TensorFlow that can be used; returns its version and functions.
fn check(path: &Path, library: &'static Library) -> Result<(String, Functions), RuntimeError> {
    let missing = |symbol, version: Option<&String>| RuntimeError::MissingSymbol {
        path: path.to_path_buf(),
        version: version.cloned(),
        symbol,
    };
    // SAFETY: the signature is that of TensorFlow's header.
    let version: Result<Symbol<unsafe extern "C" fn() -> *const c_char>, _> =
        unsafe { library.get("TF_Version") };
    let version = version.map_err(|_| missing("TF_Version", None))?;
    // SAFETY: it returns a string constant.
    let version = unsafe { CStr::from_ptr(version()) }.to_string_lossy().into_owned();
    if release(&version).is_some_and(|release| release < MINIMUM_VERSION) {
        return Err(RuntimeError::TooOld { path: path.to_path_buf(), version });
    }
    for symbol in raw::FUNCTIONS {
        // SAFETY: it is only looked for, not called.
        let found: Result<Symbol<unsafe extern "C" fn()>, _> = unsafe { library.get(symbol) };
        found.map_err(|_| missing(symbol, Some(&version)))?;
    }
    let functions = Functions::of(library).map_err(|symbol| missing(symbol, Some(&version)))?;
    Ok((version, functions))
}

/// Major and minor version; none where a development build calls itself something else.
fn release(version: &str) -> Option<(u32, u32)> {
    let mut parts = version.split('.');
    Some((parts.next()?.parse().ok()?, parts.next()?.parse().ok()?))
}
