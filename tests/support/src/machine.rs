//! A machine of round numbers.

use tf_lms::simulate::{Allocator, Machine};

/// One with so much memory on each GPU, or without end of it.
pub fn machine(memory: Vec<u64>) -> Machine {
    Machine {
        whole_memory: memory.clone(),
        memory,
        host_op_seconds: 1e-6,
        out_bytes_per_second: 1e9,
        in_bytes_per_second: 1e9,
        link_latency_seconds: 1e-6,
        notice_seconds: 1e-5,
        one_thread: false,
        synchronous: false,
        allocator: Allocator::default(),
    }
}
