//! How far off predictions may be, as a part of what is predicted: no error in the table of `docs/accuracy.md` is larger, but for
//! those that it names, of plans that need more or less from run to run.

/// Of the peak of live memory.
pub const PEAK_ERROR: f64 = 0.05;

/// Of the least memory in which a step runs, for graphs of some size.
pub const LIMIT_ERROR: f64 = 0.08;

/// The same in bytes, for small graphs: where variables lie in the pool is not known to the last tensor, and in a small pool one
/// that lies in the way is a large part.
pub const LIMIT_ERROR_BYTES: u64 = 13 << 20;

/// The most that this is as a part: in a pool of few MiB nothing lies in the way that is larger than what is in it.
pub const SMALL_LIMIT_ERROR: f64 = 0.25;

/// What a plan may count on of a GPU's memory, so that a limit which was predicted too low by the larger of both errors still
/// suffices.
pub fn safe_bytes(memory_bytes: u64) -> u64 {
    let part = (memory_bytes as f64 / (1.0 + LIMIT_ERROR)) as u64;
    let small = (memory_bytes as f64 / (1.0 + SMALL_LIMIT_ERROR)) as u64;
    part.min(memory_bytes.saturating_sub(LIMIT_ERROR_BYTES).max(small))
}

/// The least memory of which a plan may count on so many bytes.
pub fn memory_for(bytes: u64) -> u64 {
    let whole = (bytes as f64 * (1.0 + LIMIT_ERROR)).ceil() as u64 + 1;
    let small = (bytes as f64 * (1.0 + SMALL_LIMIT_ERROR)).ceil() as u64 + 1;
    whole.max(bytes.saturating_add(LIMIT_ERROR_BYTES).min(small))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_memory_for_safe_bytes_has_them() {
        for bytes in [1 << 18, 1 << 20, 52 << 20, 53 << 20, 100 << 20, 163 << 20, 1 << 30, 16 << 30] {
            assert!(safe_bytes(memory_for(bytes)) >= bytes);
            assert!(safe_bytes(memory_for(bytes)) < bytes + bytes / 1000 + 8);
        }
        // Of little memory most is of use all the same.
        assert!(safe_bytes(1 << 20) > 3 << 18);
    }
}
