//! The functions of the C interface that `interface` documents.

use crate::device::{self, Device};
use crate::interface::{Counters, INTERFACE_VERSION};
use crate::status::{Fault, catch};
use crate::{platform, trace};
use std::cell::RefCell;
use std::ffi::{CStr, CString, OsStr, c_char};
use std::fs::File;
use std::io::{BufWriter, Write};
use std::os::unix::ffi::OsStrExt;

thread_local! {
    static LAST_ERROR: RefCell<CString> = RefCell::default();
}

fn answer(work: impl FnOnce() -> Result<(), Fault>) -> i32 {
    match catch(work) {
        Ok(()) => 0,
        Err(fault) => {
            let text = CString::new(fault.message.replace('\0', "?")).unwrap_or_default();
            LAST_ERROR.with(|last| last.replace(text));
            -1
        }
    }
}

/// The version of the interface.
#[unsafe(no_mangle)]
pub extern "C" fn softgpu_interface_version() -> u32 {
    INTERFACE_VERSION
}

/// Will the plug-in accept this TensorFlow and these settings?
#[unsafe(no_mangle)]
pub extern "C" fn softgpu_check() -> i32 {
    answer(|| platform::accept().map(|_| ()))
}

/// How many devices there are; 0 before TensorFlow loaded the plug-in.
#[unsafe(no_mangle)]
pub extern "C" fn softgpu_device_count() -> i32 {
    device::machine().map_or(0, |machine| machine.devices.len() as i32)
}

/// Reads a device's counters.
///
/// # Safety
///
/// `out` points to a structure whose first eight bytes say its size.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn softgpu_counters(device: i32, out: *mut Counters) -> i32 {
    answer(|| {
        if out.is_null() {
            return Err(Fault::new("softgpu_counters: out is null"));
        }
        // SAFETY: by the caller's promise; an older caller's structure may be the shorter one.
        let room = unsafe { out.cast::<u64>().read_unaligned() };
        let size = room.min(size_of::<Counters>() as u64);
        if size < 8 {
            return Err(Fault::new("softgpu_counters: set struct_size before the call"));
        }
        let counters = Counters { struct_size: size, ..device::device(device)?.counters() };
        // SAFETY: `size` is within both structures.
        unsafe {
            std::ptr::copy_nonoverlapping(
                (&raw const counters).cast::<u8>(),
                out.cast::<u8>(),
                size as usize,
            );
        }
        Ok(())
    })
}

/// Sets a device's sums to zero; those of all devices for -1.
#[unsafe(no_mangle)]
pub extern "C" fn softgpu_reset(device: i32) -> i32 {
    answer(|| {
        if device == -1 {
            device::machine().iter().flat_map(|machine| &machine.devices).for_each(Device::reset);
            return Ok(());
        }
        device::device(device).map(Device::reset)
    })
}

/// Starts the trace from nothing, or stops it.
#[unsafe(no_mangle)]
pub extern "C" fn softgpu_trace(on: i32) -> i32 {
    answer(|| {
        trace::switch(on != 0);
        Ok(())
    })
}

/// Writes the trace to a file.
///
/// # Safety
///
/// `path` is a C string.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn softgpu_write_trace(path: *const c_char) -> i32 {
    answer(|| {
        if path.is_null() {
            return Err(Fault::new("softgpu_write_trace: path is null"));
        }
        // SAFETY: by the caller's promise.
        let path = OsStr::from_bytes(unsafe { CStr::from_ptr(path) }.to_bytes());
        let write = || {
            let mut out = BufWriter::new(File::create(path)?);
            trace::write(&mut out)?;
            out.flush()
        };
        write().map_err(|e: std::io::Error| Fault::new(format!("{}: {e}", path.display())))
    })
}

/// Why this thread's last call failed.
#[unsafe(no_mangle)]
pub extern "C" fn softgpu_last_error() -> *const c_char {
    LAST_ERROR.with(|last| last.borrow().as_ptr())
}
