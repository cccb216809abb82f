//! Copies: real, counted, and as slow as the link is set to be.

use crate::device::Device;
use crate::engines::Engine;
use crate::sync::{lock, now_ns};
use crate::trace;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

/// One direction of a device's copies: an engine that makes one copy at a time.
#[derive(Default)]
pub struct Link {
    engine: Mutex<()>,
    /// Bytes a second; `None`: as fast as memory is.
    rate: Option<u64>,
    bytes: AtomicU64,
    copies: AtomicU64,
}

impl Link {
    pub fn new(rate: Option<u64>) -> Link {
        Link { rate, ..Link::default() }
    }

    /// Bytes and copies since the last reset.
    pub fn sums(&self) -> (u64, u64) {
        (self.bytes.load(Relaxed), self.copies.load(Relaxed))
    }

    pub fn reset(&self) {
        self.bytes.store(0, Relaxed);
        self.copies.store(0, Relaxed);
    }
}

/// Where to and from: addresses, since a copy runs on a stream's thread.
#[derive(Clone, Copy)]
pub struct Copy {
    pub to: usize,
    pub from: usize,
    pub bytes: u64,
}

/// Makes the copy; returns when it is done.
///
/// # Safety
///
/// `copy.bytes` bytes can be read at `copy.from` and written at `copy.to`, and the two do not overlap.
pub unsafe fn run(device: &Device, direction: Engine, copy: Copy) {
    let link = device.link(direction);
    let engine = lock(&link.engine);
    let start = now_ns();
    device.engines.start(direction, start);
    // SAFETY: by the caller's promise.
    unsafe {
        std::ptr::copy_nonoverlapping(copy.from as *const u8, copy.to as *mut u8, copy.bytes as usize);
    }
    if let Some(rate) = link.rate {
        let due = start + nanoseconds(copy.bytes, rate);
        std::thread::sleep(Duration::from_nanos(due.saturating_sub(now_ns())));
    }
    let end = now_ns();
    device.engines.stop(direction, end);
    link.bytes.fetch_add(copy.bytes, Relaxed);
    link.copies.fetch_add(1, Relaxed);
    drop(engine);
    trace::copy(device.ordinal, direction, copy.bytes, start, end);
}

/// How long `bytes` take, rounded up.
fn nanoseconds(bytes: u64, rate: u64) -> u64 {
    (u128::from(bytes) * 1_000_000_000).div_ceil(u128::from(rate)).try_into().unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::nanoseconds;

    #[test]
    fn a_copy_takes_bytes_by_rate() {
        assert_eq!(nanoseconds(16_000_000_000, 16_000_000_000), 1_000_000_000);
        assert_eq!(nanoseconds(1, 3), 333_333_334);
        assert_eq!(nanoseconds(u64::MAX, 1), u64::MAX);
    }
}
