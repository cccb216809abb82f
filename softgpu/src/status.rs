//! Errors: TensorFlow's status objects, and the guard that keeps panics on this side of the C boundary.

use crate::abi::TfStatus;
use crate::capi;
use std::ffi::{CStr, CString, c_int};
use std::panic::{AssertUnwindSafe, catch_unwind};

/// `TF_INTERNAL`. Nothing a user does reaches a status of ours: settings are refused before there are any.
const INTERNAL: c_int = 13;

/// An error on its way to TensorFlow.
#[derive(Clone, Debug)]
pub struct Fault {
    pub message: String,
}

impl Fault {
    pub fn new(message: impl Into<String>) -> Fault {
        Fault { message: message.into() }
    }
}

/// A value that TensorFlow must pass.
pub fn required<T>(value: Option<T>, what: &str) -> Result<T, Fault> {
    value.ok_or_else(|| Fault::new(format!("softgpu: TensorFlow passed no {what}")))
}

/// Runs `work`; a panic becomes an error.
pub fn catch<T>(work: impl FnOnce() -> Result<T, Fault>) -> Result<T, Fault> {
    catch_unwind(AssertUnwindSafe(work)).unwrap_or_else(|panic| {
        let text = panic.downcast_ref::<String>().map(String::as_str);
        let text = text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("no message");
        Err(Fault::new(format!("softgpu: internal error: {text}")))
    })
}

/// Runs the body of a function that TensorFlow calls; its outcome, a panic included, goes into `status`.
pub fn guard(status: Option<&TfStatus>, work: impl FnOnce() -> Result<(), Fault>) {
    report(status, catch(work));
}

/// The same for a function that has no status: what went wrong goes to standard error.
pub fn guard_or<T>(fallback: T, work: impl FnOnce() -> Result<T, Fault>) -> T {
    catch(work).unwrap_or_else(|fault| {
        eprintln!("{}", fault.message);
        fallback
    })
}

fn report(status: Option<&TfStatus>, outcome: Result<(), Fault>) {
    let (Some(status), Ok(core)) = (status, capi::core()) else {
        if let Err(fault) = outcome {
            eprintln!("{}", fault.message);
        }
        return;
    };
    let (code, message) = match outcome {
        Ok(()) => (0, CString::default()),
        Err(fault) => (INTERNAL, CString::new(fault.message.replace('\0', "?")).unwrap_or_default()),
    };
    // SAFETY: `status` is TensorFlow's and the message a C string, which is copied.
    unsafe { (core.set_status)(status, code, message.as_ptr()) }
}

/// A status of our own to call TensorFlow with.
pub struct Status {
    status: *const TfStatus,
    core: &'static capi::Core,
}

impl Status {
    pub fn new() -> Status {
        let core = capi::core().expect("TensorFlow has the status functions: SE_InitPlugin used them");
        // SAFETY: no arguments; deleted in drop.
        Status { status: unsafe { (core.new_status)() }, core }
    }

    /// For a call.
    pub fn as_ptr(&self) -> *const TfStatus {
        self.status
    }

    pub fn is_ok(&self) -> bool {
        // SAFETY: the status is valid until drop.
        unsafe { (self.core.get_code)(self.status) == 0 }
    }

    pub fn message(&self) -> String {
        // SAFETY: the message is a C string, valid until the status changes; it is copied.
        unsafe { CStr::from_ptr((self.core.message)(self.status)) }.to_string_lossy().into_owned()
    }

    /// `Err` if the last call failed. The status keeps what TensorFlow said.
    pub fn check(&self) -> Result<(), Failed> {
        if self.is_ok() { Ok(()) } else { Err(Failed) }
    }

    pub fn set(&self, fault: Fault) {
        // SAFETY: the status is valid and not shared.
        report(unsafe { self.status.as_ref() }, Err(fault));
    }

    pub fn clear(&self) {
        // SAFETY: the same.
        report(unsafe { self.status.as_ref() }, Ok(()));
    }
}

/// A call to TensorFlow failed and the `Status` it was given says why.
#[derive(Debug)]
pub struct Failed;

impl Drop for Status {
    fn drop(&mut self) {
        // SAFETY: made by TF_NewStatus, deleted once.
        unsafe { (self.core.delete_status)(self.status) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_becomes_an_error() {
        let fault = catch::<()>(|| panic!("number {}", 7)).unwrap_err();
        assert!(fault.message.contains("number 7"), "{}", fault.message);
        assert_eq!(guard_or(5, || panic!("plain")), 5);
        assert!(required(None::<u8>, "stream").unwrap_err().message.contains("stream"));
    }
}
