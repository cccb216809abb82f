//! Locks that outlive a panic, and the clock.

use std::sync::{Condvar, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Instant, SystemTime, UNIX_EPOCH};

/// Locks. A panic under a lock was already turned into an error; what the lock protects is sums and queues that are
/// changed in one step.
pub fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Waits while `busy` holds.
pub fn wait_while<'a, T>(
    condition: &Condvar,
    guard: MutexGuard<'a, T>,
    busy: impl FnMut(&mut T) -> bool,
) -> MutexGuard<'a, T> {
    condition.wait_while(guard, busy).unwrap_or_else(PoisonError::into_inner)
}

fn zero() -> &'static (Instant, u64) {
    static ZERO: OnceLock<(Instant, u64)> = OnceLock::new();
    ZERO.get_or_init(|| {
        let unix = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        (Instant::now(), unix.as_nanos() as u64)
    })
}

/// Nanoseconds since the first call.
pub fn now_ns() -> u64 {
    zero().0.elapsed().as_nanos() as u64
}

/// The Unix time at which `now_ns` was zero.
pub fn unix_ns_at_zero() -> u64 {
    zero().1
}
