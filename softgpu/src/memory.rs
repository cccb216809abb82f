//! Device memory: host memory behind a hard limit. And the little host memory that TensorFlow takes from the plug-in, which
//! has none.

use crate::sync::{lock, now_ns};
use crate::trace;
use std::alloc::{Layout, alloc, dealloc};
use std::collections::HashMap;
use std::ffi::c_void;
use std::sync::{Condvar, Mutex, PoisonError};
use std::time::Duration;

/// Memory is handed out in units of this size and aligned to it, as TensorFlow's BFC allocator does on a GPU.
pub const UNIT: u64 = 256;

/// The sums of a `Pool`.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Usage {
    pub live: u64,
    pub peak: u64,
    pub allocations: u64,
    pub failed: u64,
    pub largest: u64,
}

#[derive(Default)]
struct State {
    /// Size by address.
    blocks: HashMap<usize, u64>,
    usage: Usage,
}

/// Memory with a limit.
pub struct Pool {
    limit: u64,
    wait: Duration,
    /// The device whose memory curve the trace shows; `None` for host memory.
    traced: Option<usize>,
    state: Mutex<State>,
    freed: Condvar,
}

impl Pool {
    /// A device's memory. An allocation that does not fit waits up to `wait` for others to be freed: copies in flight
    /// hold memory that comes free without anybody's help.
    pub fn device(ordinal: usize, limit: u64, wait: Duration) -> Pool {
        Pool { limit, wait, traced: Some(ordinal), state: Mutex::default(), freed: Condvar::new() }
    }

    /// Host memory, without limit.
    pub fn host() -> Pool {
        let (limit, wait) = (u64::MAX, Duration::ZERO);
        Pool { limit, wait, traced: None, state: Mutex::default(), freed: Condvar::new() }
    }

    pub fn limit(&self) -> u64 {
        self.limit
    }

    pub fn usage(&self) -> Usage {
        lock(&self.state).usage
    }

    /// Sums to zero, the peak to what is live.
    pub fn reset(&self) {
        let usage = &mut lock(&self.state).usage;
        *usage = Usage { live: usage.live, peak: usage.live, ..Usage::default() };
    }

    /// Null if `size` bytes do not fit.
    pub fn allocate(&self, size: u64) -> *mut c_void {
        let Some(size) = size.max(1).checked_next_multiple_of(UNIT) else { return std::ptr::null_mut() };
        let fits = |state: &State| state.usage.live.checked_add(size).is_some_and(|sum| sum <= self.limit);
        let mut state = lock(&self.state);
        if size <= self.limit && !fits(&state) && !self.wait.is_zero() {
            let waited = self.freed.wait_timeout_while(state, self.wait, |state| !fits(state));
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
        let block = if fits(&state) { take(size) } else { std::ptr::null_mut() };
        if block.is_null() {
            state.usage.failed += 1;
            return std::ptr::null_mut();
        }
        state.blocks.insert(block as usize, size);
        let usage = &mut state.usage;
        usage.live += size;
        usage.allocations += 1;
        usage.peak = usage.peak.max(usage.live);
        usage.largest = usage.largest.max(size);
        self.record(usage.live);
        block.cast()
    }

    /// `Err` if no such block is live; null is none and no error.
    pub fn free(&self, block: *mut c_void) -> Result<(), String> {
        if block.is_null() {
            return Ok(());
        }
        let mut state = lock(&self.state);
        let Some(size) = state.blocks.remove(&(block as usize)) else {
            return Err(format!("softgpu: freed memory at {block:p} that was not allocated"));
        };
        state.usage.live -= size;
        self.record(state.usage.live);
        drop(state);
        give_back(block.cast(), size);
        self.freed.notify_all();
        Ok(())
    }

    /// Called with the lock held, so that the curve's steps are in order.
    fn record(&self, live: u64) {
        if let Some(device) = self.traced {
            trace::memory(device, now_ns(), live);
        }
    }
}

fn layout(size: u64) -> Option<Layout> {
    Layout::from_size_align(usize::try_from(size).ok()?, UNIT as usize).ok()
}

fn take(size: u64) -> *mut u8 {
    match layout(size) {
        // SAFETY: the size is at least one unit.
        Some(layout) => unsafe { alloc(layout) },
        None => std::ptr::null_mut(),
    }
}

fn give_back(block: *mut u8, size: u64) {
    if let Some(layout) = layout(size) {
        // SAFETY: `take` gave out the block for this size, and it was removed from the table of live blocks.
        unsafe { dealloc(block, layout) }
    }
}

/// The free memory to report to TensorFlow so that it ends up with `limit`, or with as little less as can be.
///
/// With no fraction in the session's configuration, TensorFlow keeps a part of what is free for the system. The limit is
/// what the user asked for, so add what will be taken off.
pub fn free_to_report(limit: u64) -> i64 {
    let limit = limit.min(1 << 53);
    let left = |free: u64| free - kept_back(free);
    let below = limit + kept_back(0);
    if below < SMALL {
        return below as i64;
    }
    // The most that leaves no more than the limit: what is left grows with what is free, but for single bytes.
    let (mut low, mut high) = (limit, limit + limit / 10 + SMALL);
    while low + 1 < high {
        let middle = low + (high - low) / 2;
        if left(middle) <= limit { low = middle } else { high = middle }
    }
    low as i64
}

const SMALL: u64 = 1 << 31;

/// TensorFlow's rule: 255 MiB of less than 2 GiB, else 6% but at least 300 MiB; computed in single precision.
fn kept_back(free: u64) -> u64 {
    if free < SMALL { 255 << 20 } else { (300 << 20).max((free as f32 * 0.06) as u64) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pool(limit: u64) -> Pool {
        Pool { traced: None, ..Pool::device(0, limit, Duration::ZERO) }
    }

    #[test]
    fn the_limit_is_hard_and_counts_units() {
        let pool = pool(1024);
        let a = pool.allocate(1);
        let b = pool.allocate(600);
        assert!(!a.is_null() && !b.is_null());
        assert_eq!(a as usize % 256, 0);
        assert!(pool.allocate(1).is_null());
        assert_eq!(pool.usage(), Usage { live: 1024, peak: 1024, allocations: 2, failed: 1, largest: 768 });
        pool.free(b).unwrap();
        pool.reset();
        assert_eq!(pool.usage(), Usage { live: 256, peak: 256, ..Usage::default() });
        pool.free(a).unwrap();
        assert_eq!(pool.usage().live, 0);
    }

    #[test]
    fn overflow_and_foreign_blocks_are_refused() {
        let pool = pool(1 << 20);
        assert!(pool.allocate(u64::MAX).is_null());
        assert!(pool.allocate(u64::MAX - 300).is_null());
        assert!(pool.free(8 as *mut c_void).is_err());
        assert!(pool.free(std::ptr::null_mut()).is_ok());
    }

    #[test]
    fn an_allocation_waits_for_a_free() {
        let pool = Pool { traced: None, ..Pool::device(0, 256, Duration::from_secs(60)) };
        let first = pool.allocate(256) as usize;
        std::thread::scope(|scope| {
            let waiting = scope.spawn(|| pool.allocate(256) as usize);
            pool.free(first as *mut c_void).unwrap();
            pool.free(waiting.join().unwrap() as *mut c_void).unwrap();
        });
        assert_eq!(pool.usage().failed, 0);
    }

    #[test]
    fn tensorflow_ends_up_with_the_limit() {
        for limit in [1 << 20, 512 << 20, (2 << 30) - (255 << 20) - 1, 16 << 30, 80_000_000_000, 12345678901]
        {
            let free = free_to_report(limit) as u64;
            let left = free - kept_back(free);
            assert!(left <= limit && left + 1024 > limit, "{limit}: {left}");
            assert!(left == limit || limit > 4 << 30, "{limit}: {left}");
        }
    }
}
