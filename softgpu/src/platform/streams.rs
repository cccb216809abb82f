//! Streams, events and timers.

use std::ffi::c_int;
use std::sync::Arc;

use crate::abi::*;
use crate::status::{Fault, Status, guard, guard_or, required};
use crate::streams::{Event, Stream, Timer};
use crate::sync::lock;

use super::of;

pub(super) extern "C" fn create_stream(
    sp: Option<&SpDevice>,
    out: Option<&mut *const Stream>,
    status: Option<&TfStatus>,
) {
    guard(status, || {
        let device = of(sp)?;
        let stream = Stream::start(device)?;
        *required(out, "place for the stream")? = Arc::as_ptr(&stream);
        lock(&device.streams).push(stream);
        Ok(())
    });
}

pub(super) unsafe extern "C" fn destroy_stream(sp: Option<&SpDevice>, stream: *const Stream) {
    guard_or((), || {
        lock(&of(sp)?.streams).retain(|s| {
            let doomed = Arc::as_ptr(s) == stream;
            if doomed {
                s.stop();
            }
            !doomed
        });
        Ok(())
    });
}

pub(super) extern "C" fn create_stream_dependency(
    _: Option<&SpDevice>,
    dependent: Option<&Stream>,
    other: Option<&Stream>,
    status: Option<&TfStatus>,
) {
    guard(status, || {
        required(dependent, "stream")?.wait_for(required(other, "stream")?);
        Ok(())
    });
}

pub(super) extern "C" fn get_stream_status(
    _: Option<&SpDevice>,
    stream: Option<&Stream>,
    status: Option<&TfStatus>,
) {
    guard(status, || required(stream, "stream")?.status());
}

pub(super) extern "C" fn create_event(
    _: Option<&SpDevice>,
    out: Option<&mut *const Event>,
    status: Option<&TfStatus>,
) {
    guard(status, || {
        *required(out, "place for the event")? = Box::into_raw(Box::default());
        Ok(())
    });
}

pub(super) unsafe extern "C" fn destroy_event(_: Option<&SpDevice>, event: *const Event) {
    if !event.is_null() {
        // SAFETY: create_event boxed it, and TensorFlow destroys it once.
        drop(unsafe { Box::from_raw(event.cast_mut()) });
    }
}

pub(super) extern "C" fn get_event_status(_: Option<&SpDevice>, event: Option<&Event>) -> c_int {
    guard_or(EVENT_COMPLETE, || {
        Ok(if required(event, "event")?.is_complete() { EVENT_COMPLETE } else { EVENT_PENDING })
    })
}

pub(super) extern "C" fn record_event(
    _: Option<&SpDevice>,
    stream: Option<&Stream>,
    event: Option<&Event>,
    status: Option<&TfStatus>,
) {
    guard(status, || {
        required(event, "event")?.record(required(stream, "stream")?);
        Ok(())
    });
}

pub(super) extern "C" fn wait_for_event(
    _: Option<&SpDevice>,
    stream: Option<&Stream>,
    event: Option<&Event>,
    status: Option<&TfStatus>,
) {
    guard(status, || {
        required(event, "event")?.hold(required(stream, "stream")?);
        Ok(())
    });
}

pub(super) extern "C" fn block_host_for_event(
    _: Option<&SpDevice>,
    event: Option<&Event>,
    status: Option<&TfStatus>,
) {
    guard(status, || {
        required(event, "event")?.block();
        Ok(())
    });
}

pub(super) extern "C" fn block_host_until_done(
    _: Option<&SpDevice>,
    stream: Option<&Stream>,
    status: Option<&TfStatus>,
) {
    guard(status, || {
        let stream = required(stream, "stream")?;
        stream.drain();
        stream.status()
    });
}

pub(super) extern "C" fn synchronize_all_activity(sp: Option<&SpDevice>, status: Option<&TfStatus>) {
    guard(status, || {
        of(sp)?.drain();
        Ok(())
    });
}

pub(super) extern "C" fn create_timer(
    _: Option<&SpDevice>,
    out: Option<&mut *const Timer>,
    status: Option<&TfStatus>,
) {
    guard(status, || {
        *required(out, "place for the timer")? = Box::into_raw(Box::default());
        Ok(())
    });
}

pub(super) unsafe extern "C" fn destroy_timer(_: Option<&SpDevice>, timer: *const Timer) {
    if !timer.is_null() {
        // SAFETY: create_timer boxed it, and TensorFlow destroys it once.
        drop(unsafe { Box::from_raw(timer.cast_mut()) });
    }
}

pub(super) extern "C" fn start_timer(
    _: Option<&SpDevice>,
    stream: Option<&Stream>,
    timer: Option<&Timer>,
    status: Option<&TfStatus>,
) {
    guard(status, || {
        required(timer, "timer")?.start(required(stream, "stream")?);
        Ok(())
    });
}

pub(super) extern "C" fn stop_timer(
    _: Option<&SpDevice>,
    stream: Option<&Stream>,
    timer: Option<&Timer>,
    status: Option<&TfStatus>,
) {
    guard(status, || {
        required(timer, "timer")?.stop(required(stream, "stream")?);
        Ok(())
    });
}

pub(super) extern "C" fn timer_nanoseconds(timer: Option<&Timer>) -> u64 {
    timer.map_or(0, Timer::nanoseconds)
}

pub(super) extern "C" fn host_callback(
    _: Option<&SpDevice>,
    stream: Option<&Stream>,
    callback: HostCallback,
    argument: Ptr,
) -> u8 {
    guard_or(0, || {
        let argument = argument as usize;
        required(stream, "stream")?.push(move || {
            let status = Status::new();
            // SAFETY: TensorFlow gave the function and its argument for exactly one call.
            unsafe { callback(argument as Ptr, status.as_ptr()) };
            status.check().map_err(|_| Fault::new(status.message()))
        });
        Ok(1)
    })
}
