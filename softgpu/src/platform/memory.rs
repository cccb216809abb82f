//! A device's memory, and what fills and copies it.

use std::ptr::null_mut;

use crate::abi::*;
use crate::copies::{self, Copy};
use crate::engines::Engine;
use crate::memory::free_to_report;
use crate::status::{Fault, guard, guard_or, required};
use crate::streams::Stream;

use super::of;

pub(super) extern "C" fn allocate(
    sp: Option<&SpDevice>,
    size: u64,
    _space: i64,
    out: Option<&mut DeviceMemory>,
) {
    guard_or((), || {
        let out = required(out, "memory")?;
        let opaque = of(sp)?.memory.allocate(size);
        let size = if opaque.is_null() { 0 } else { size };
        *out = DeviceMemory {
            struct_size: size_of::<DeviceMemory>(),
            ext: null_mut(),
            opaque,
            size,
            payload: 0,
        };
        Ok(())
    });
}

pub(super) extern "C" fn deallocate(sp: Option<&SpDevice>, memory: Option<&mut DeviceMemory>) {
    guard_or((), || {
        let memory = required(memory, "memory")?;
        of(sp)?.memory.free(memory.opaque).map_err(Fault::new)?;
        (memory.opaque, memory.size) = (null_mut(), 0);
        Ok(())
    });
}

pub(super) extern "C" fn host_memory_allocate(sp: Option<&SpDevice>, size: u64) -> Ptr {
    guard_or(null_mut(), || Ok(of(sp)?.host_memory.allocate(size)))
}

pub(super) extern "C" fn host_memory_deallocate(sp: Option<&SpDevice>, memory: Ptr) {
    guard_or((), || of(sp)?.host_memory.free(memory).map_err(Fault::new));
}

pub(super) extern "C" fn get_allocator_stats(sp: Option<&SpDevice>, out: Option<&mut AllocatorStats>) -> u8 {
    guard_or(0, || {
        let memory = &of(sp)?.memory;
        let usage = memory.usage();
        *required(out, "allocator statistics")? = AllocatorStats {
            struct_size: size_of::<AllocatorStats>(),
            num_allocs: usage.allocations as i64,
            bytes_in_use: usage.live as i64,
            peak_bytes_in_use: usage.peak as i64,
            largest_alloc_size: usage.largest as i64,
            has_bytes_limit: 1,
            bytes_limit: memory.limit() as i64,
            bytes_reserved: 0,
            peak_bytes_reserved: 0,
            has_bytes_reservable_limit: 0,
            bytes_reservable_limit: 0,
            largest_free_block_bytes: 0,
        };
        Ok(1)
    })
}

/// Whatever is in use now: a session that is made later gets the same allocator, with the same limit.
pub(super) extern "C" fn device_memory_usage(
    sp: Option<&SpDevice>,
    free: Option<&mut i64>,
    total: Option<&mut i64>,
) -> u8 {
    guard_or(0, || {
        let limit = of(sp)?.memory.limit();
        *required(free, "place for the free memory")? = free_to_report(limit);
        *required(total, "place for the total memory")? = limit as i64;
        Ok(1)
    })
}

fn address(memory: Option<&DeviceMemory>) -> Result<usize, Fault> {
    Ok(required(memory, "memory")?.opaque as usize)
}

fn enqueue(
    stream: Option<&Stream>,
    direction: Engine,
    to: usize,
    from: usize,
    bytes: u64,
) -> Result<(), Fault> {
    let stream = required(stream, "stream")?;
    let device = stream.device();
    stream.push(move || {
        // SAFETY: TensorFlow keeps both ends allocated until the stream has passed this job.
        unsafe { copies::run(device, direction, Copy { to, from, bytes }) };
        Ok(())
    });
    Ok(())
}

fn copy_now(
    sp: Option<&SpDevice>,
    direction: Engine,
    to: usize,
    from: usize,
    bytes: u64,
) -> Result<(), Fault> {
    // SAFETY: TensorFlow keeps both ends allocated for the length of the call.
    unsafe { copies::run(of(sp)?, direction, Copy { to, from, bytes }) };
    Ok(())
}

pub(super) extern "C" fn memcpy_dtoh(
    _: Option<&SpDevice>,
    stream: Option<&Stream>,
    to: Ptr,
    from: Option<&DeviceMemory>,
    bytes: u64,
    status: Option<&TfStatus>,
) {
    guard(status, || enqueue(stream, Engine::CopyOut, to as usize, address(from)?, bytes));
}

pub(super) extern "C" fn memcpy_htod(
    _: Option<&SpDevice>,
    stream: Option<&Stream>,
    to: Option<&mut DeviceMemory>,
    from: Ptr,
    bytes: u64,
    status: Option<&TfStatus>,
) {
    guard(status, || enqueue(stream, Engine::CopyIn, address(to.as_deref())?, from as usize, bytes));
}

pub(super) extern "C" fn memcpy_dtod(
    _: Option<&SpDevice>,
    stream: Option<&Stream>,
    to: Option<&mut DeviceMemory>,
    from: Option<&DeviceMemory>,
    bytes: u64,
    status: Option<&TfStatus>,
) {
    guard(status, || {
        enqueue(stream, Engine::CopyOnDevice, address(to.as_deref())?, address(from)?, bytes)?;
        finish(stream)
    });
}

/// Waits for what a stream was just given to do within the device.
///
/// TensorFlow's kernels for any device (those of `TensorList…` are such) fill tensors from the host without a look at the stream. On it
/// a copy may still be waiting to read memory that has been freed in the meantime and is filled anew: kernels of a real GPU would
/// be in line behind it. Ours run when they are called, so these copies and fills do too.
fn finish(stream: Option<&Stream>) -> Result<(), Fault> {
    required(stream, "stream")?.drain();
    Ok(())
}

pub(super) extern "C" fn sync_memcpy_dtoh(
    sp: Option<&SpDevice>,
    to: Ptr,
    from: Option<&DeviceMemory>,
    bytes: u64,
    status: Option<&TfStatus>,
) {
    guard(status, || copy_now(sp, Engine::CopyOut, to as usize, address(from)?, bytes));
}

pub(super) extern "C" fn sync_memcpy_htod(
    sp: Option<&SpDevice>,
    to: Option<&mut DeviceMemory>,
    from: Ptr,
    bytes: u64,
    status: Option<&TfStatus>,
) {
    guard(status, || copy_now(sp, Engine::CopyIn, address(to.as_deref())?, from as usize, bytes));
}

pub(super) extern "C" fn sync_memcpy_dtod(
    sp: Option<&SpDevice>,
    to: Option<&mut DeviceMemory>,
    from: Option<&DeviceMemory>,
    bytes: u64,
    status: Option<&TfStatus>,
) {
    guard(status, || copy_now(sp, Engine::CopyOnDevice, address(to.as_deref())?, address(from)?, bytes));
}

pub(super) extern "C" fn mem_zero(
    sp: Option<&SpDevice>,
    stream: Option<&Stream>,
    memory: Option<&mut DeviceMemory>,
    bytes: u64,
    status: Option<&TfStatus>,
) {
    memset(sp, stream, memory, 0, bytes, status);
}

pub(super) extern "C" fn memset(
    _: Option<&SpDevice>,
    stream: Option<&Stream>,
    memory: Option<&mut DeviceMemory>,
    value: u8,
    bytes: u64,
    status: Option<&TfStatus>,
) {
    guard(status, || {
        let to = address(memory.as_deref())?;
        required(stream, "stream")?.push(move || {
            // SAFETY: TensorFlow keeps the memory allocated until the stream has passed this job.
            unsafe { std::ptr::write_bytes(to as *mut u8, value, bytes as usize) };
            Ok(())
        });
        finish(stream)
    });
}

pub(super) extern "C" fn memset32(
    _: Option<&SpDevice>,
    stream: Option<&Stream>,
    memory: Option<&mut DeviceMemory>,
    value: u32,
    bytes: u64,
    status: Option<&TfStatus>,
) {
    guard(status, || {
        let to = address(memory.as_deref())?;
        required(stream, "stream")?.push(move || {
            // SAFETY: the same, and allocations are aligned to 256 bytes.
            unsafe { std::slice::from_raw_parts_mut(to as *mut u32, bytes as usize / 4) }.fill(value);
            Ok(())
        });
        finish(stream)
    });
}
