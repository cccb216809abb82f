//! `SE_InitPlugin`: the platform, its devices, and the tables of functions that TensorFlow drives them with.

use crate::abi::*;
use crate::capi;
use crate::copies::{self, Copy};
use crate::device::{self, Device, Machine, device};
use crate::engines::Engine;
use crate::memory::free_to_report;
use crate::proto::KernelList;
use crate::settings::{Allocator, Settings};
use crate::status::{Fault, Status, guard, guard_or, required};
use crate::streams::{Event, Stream, Timer};
use crate::sync::lock;
use crate::{trace, version};
use prost::Message;
use std::ffi::c_int;
use std::ptr::null_mut;
use std::sync::Arc;

fn of(sp: Option<&SpDevice>) -> Result<&'static Device, Fault> {
    device(required(sp, "device")?.ordinal)
}

// Memory.

extern "C" fn allocate(sp: Option<&SpDevice>, size: u64, _space: i64, out: Option<&mut DeviceMemory>) {
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

extern "C" fn deallocate(sp: Option<&SpDevice>, memory: Option<&mut DeviceMemory>) {
    guard_or((), || {
        let memory = required(memory, "memory")?;
        of(sp)?.memory.free(memory.opaque).map_err(Fault::new)?;
        (memory.opaque, memory.size) = (null_mut(), 0);
        Ok(())
    });
}

extern "C" fn host_memory_allocate(sp: Option<&SpDevice>, size: u64) -> Ptr {
    guard_or(null_mut(), || Ok(of(sp)?.host_memory.allocate(size)))
}

extern "C" fn host_memory_deallocate(sp: Option<&SpDevice>, memory: Ptr) {
    guard_or((), || of(sp)?.host_memory.free(memory).map_err(Fault::new));
}

extern "C" fn get_allocator_stats(sp: Option<&SpDevice>, out: Option<&mut AllocatorStats>) -> u8 {
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
extern "C" fn device_memory_usage(
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

// Streams, events, timers.

extern "C" fn create_stream(
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

unsafe extern "C" fn destroy_stream(sp: Option<&SpDevice>, stream: *const Stream) {
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

extern "C" fn create_stream_dependency(
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

extern "C" fn get_stream_status(_: Option<&SpDevice>, stream: Option<&Stream>, status: Option<&TfStatus>) {
    guard(status, || required(stream, "stream")?.status());
}

extern "C" fn create_event(_: Option<&SpDevice>, out: Option<&mut *const Event>, status: Option<&TfStatus>) {
    guard(status, || {
        *required(out, "place for the event")? = Box::into_raw(Box::default());
        Ok(())
    });
}

unsafe extern "C" fn destroy_event(_: Option<&SpDevice>, event: *const Event) {
    if !event.is_null() {
        // SAFETY: create_event boxed it, and TensorFlow destroys it once.
        drop(unsafe { Box::from_raw(event.cast_mut()) });
    }
}

extern "C" fn get_event_status(_: Option<&SpDevice>, event: Option<&Event>) -> c_int {
    guard_or(EVENT_COMPLETE, || {
        Ok(if required(event, "event")?.is_complete() { EVENT_COMPLETE } else { EVENT_PENDING })
    })
}

extern "C" fn record_event(
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

extern "C" fn wait_for_event(
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

extern "C" fn block_host_for_event(_: Option<&SpDevice>, event: Option<&Event>, status: Option<&TfStatus>) {
    guard(status, || {
        required(event, "event")?.block();
        Ok(())
    });
}

extern "C" fn block_host_until_done(
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

extern "C" fn synchronize_all_activity(sp: Option<&SpDevice>, status: Option<&TfStatus>) {
    guard(status, || {
        of(sp)?.drain();
        Ok(())
    });
}

extern "C" fn create_timer(_: Option<&SpDevice>, out: Option<&mut *const Timer>, status: Option<&TfStatus>) {
    guard(status, || {
        *required(out, "place for the timer")? = Box::into_raw(Box::default());
        Ok(())
    });
}

unsafe extern "C" fn destroy_timer(_: Option<&SpDevice>, timer: *const Timer) {
    if !timer.is_null() {
        // SAFETY: create_timer boxed it, and TensorFlow destroys it once.
        drop(unsafe { Box::from_raw(timer.cast_mut()) });
    }
}

extern "C" fn start_timer(
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

extern "C" fn stop_timer(
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

extern "C" fn timer_nanoseconds(timer: Option<&Timer>) -> u64 {
    timer.map_or(0, Timer::nanoseconds)
}

extern "C" fn host_callback(
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

// Copies and fills.

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

extern "C" fn memcpy_dtoh(
    _: Option<&SpDevice>,
    stream: Option<&Stream>,
    to: Ptr,
    from: Option<&DeviceMemory>,
    bytes: u64,
    status: Option<&TfStatus>,
) {
    guard(status, || enqueue(stream, Engine::CopyOut, to as usize, address(from)?, bytes));
}

extern "C" fn memcpy_htod(
    _: Option<&SpDevice>,
    stream: Option<&Stream>,
    to: Option<&mut DeviceMemory>,
    from: Ptr,
    bytes: u64,
    status: Option<&TfStatus>,
) {
    guard(status, || enqueue(stream, Engine::CopyIn, address(to.as_deref())?, from as usize, bytes));
}

extern "C" fn memcpy_dtod(
    _: Option<&SpDevice>,
    stream: Option<&Stream>,
    to: Option<&mut DeviceMemory>,
    from: Option<&DeviceMemory>,
    bytes: u64,
    status: Option<&TfStatus>,
) {
    guard(status, || enqueue(stream, Engine::CopyOnDevice, address(to.as_deref())?, address(from)?, bytes));
}

extern "C" fn sync_memcpy_dtoh(
    sp: Option<&SpDevice>,
    to: Ptr,
    from: Option<&DeviceMemory>,
    bytes: u64,
    status: Option<&TfStatus>,
) {
    guard(status, || copy_now(sp, Engine::CopyOut, to as usize, address(from)?, bytes));
}

extern "C" fn sync_memcpy_htod(
    sp: Option<&SpDevice>,
    to: Option<&mut DeviceMemory>,
    from: Ptr,
    bytes: u64,
    status: Option<&TfStatus>,
) {
    guard(status, || copy_now(sp, Engine::CopyIn, address(to.as_deref())?, from as usize, bytes));
}

extern "C" fn sync_memcpy_dtod(
    sp: Option<&SpDevice>,
    to: Option<&mut DeviceMemory>,
    from: Option<&DeviceMemory>,
    bytes: u64,
    status: Option<&TfStatus>,
) {
    guard(status, || copy_now(sp, Engine::CopyOnDevice, address(to.as_deref())?, address(from)?, bytes));
}

extern "C" fn mem_zero(
    sp: Option<&SpDevice>,
    stream: Option<&Stream>,
    memory: Option<&mut DeviceMemory>,
    bytes: u64,
    status: Option<&TfStatus>,
) {
    memset(sp, stream, memory, 0, bytes, status);
}

extern "C" fn memset(
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
        Ok(())
    });
}

extern "C" fn memset32(
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
        Ok(())
    });
}

// The platform.

extern "C" fn get_device_count(_: Option<&Platform>, out: Option<&mut c_int>, status: Option<&TfStatus>) {
    guard(status, || {
        *required(out, "place for the number of devices")? =
            device::machine().map_or(0, |machine| machine.devices.len() as c_int);
        Ok(())
    });
}

extern "C" fn create_device(
    _: Option<&Platform>,
    params: Option<&mut CreateDeviceParams>,
    status: Option<&TfStatus>,
) {
    guard(status, || {
        let params = required(params, "device parameters")?;
        let device = device(params.ordinal)?;
        **required(params.device.as_mut(), "device")? = SpDevice {
            struct_size: size_of::<SpDevice>(),
            ext: null_mut(),
            ordinal: params.ordinal,
            handle: null_mut(),
            hardware_name: c"softgpu".as_ptr(),
            vendor: c"tf-lms".as_ptr(),
            pci_bus_id: device.pci_bus_id.as_ptr(),
        };
        Ok(())
    });
}

extern "C" fn numa_node(_: Option<&SpDevice>) -> i32 {
    0
}

extern "C" fn memory_bandwidth(_: Option<&SpDevice>) -> i64 {
    -1
}

extern "C" fn gflops(_: Option<&SpDevice>) -> f64 {
    -1.0
}

extern "C" fn create_device_fns(
    _: Option<&Platform>,
    params: Option<&mut CreateDeviceFnsParams>,
    status: Option<&TfStatus>,
) {
    guard(status, || {
        **required(required(params, "device functions")?.fns.as_mut(), "device functions")? = DeviceFns {
            struct_size: size_of::<DeviceFns>(),
            ext: null_mut(),
            numa_node,
            memory_bandwidth,
            gflops,
        };
        Ok(())
    });
}

extern "C" fn create_timer_fns(_: Option<&Platform>, out: Option<&mut TimerFns>, status: Option<&TfStatus>) {
    guard(status, || {
        let nanoseconds = timer_nanoseconds;
        *required(out, "timer functions")? =
            TimerFns { struct_size: size_of::<TimerFns>(), ext: null_mut(), nanoseconds };
        Ok(())
    });
}

extern "C" fn create_stream_executor(
    _: Option<&Platform>,
    params: Option<&mut CreateStreamExecutorParams>,
    status: Option<&TfStatus>,
) {
    guard(status, || {
        **required(required(params, "stream executor")?.executor.as_mut(), "stream executor")? =
            StreamExecutor {
                struct_size: size_of::<StreamExecutor>(),
                ext: null_mut(),
                allocate,
                deallocate,
                host_memory_allocate,
                host_memory_deallocate,
                unified_memory_allocate: None,
                unified_memory_deallocate: None,
                get_allocator_stats,
                device_memory_usage,
                create_stream,
                destroy_stream,
                create_stream_dependency,
                get_stream_status,
                create_event,
                destroy_event,
                get_event_status,
                record_event,
                wait_for_event,
                create_timer,
                destroy_timer,
                start_timer,
                stop_timer,
                memcpy_dtoh,
                memcpy_htod,
                memcpy_dtod,
                sync_memcpy_dtoh,
                sync_memcpy_htod,
                sync_memcpy_dtod,
                block_host_for_event,
                block_host_until_done,
                synchronize_all_activity,
                mem_zero,
                memset,
                memset32,
                host_callback,
            };
        Ok(())
    });
}

/// Nothing to give back: the tables and the devices live as long as the process.
extern "C" fn keep(_: Option<&Platform>, _: Ptr) {}

extern "C" fn keep_platform(_: Ptr) {}

/// Does TensorFlow have kernels of its own for this device type?
fn has_kernels_for(device_type: &str) -> Result<bool, Fault> {
    let status = Status::new();
    // SAFETY: the name is a C string and the buffer ours to delete.
    let bytes = unsafe {
        capi::take_buffer((capi::api().get_registered_kernels_for_op)(c"MatMul".as_ptr(), status.as_ptr()))
    };
    status.check().map_err(|_| Fault::new(status.message()))?;
    let kernels = KernelList::decode(&bytes[..]).map_err(|e| Fault::new(format!("softgpu: {e}")))?;
    Ok(kernels.kernel.iter().any(|kernel| kernel.device_type == device_type))
}

/// Accepts or refuses this TensorFlow and these settings; makes the devices.
pub fn accept() -> Result<&'static Machine, Fault> {
    if let Some(machine) = device::machine() {
        return Ok(machine);
    }
    let refuse = |message: String| Err(Fault::new(format!("softgpu: {message}")));
    let settings = match Settings::from_env() {
        Ok(settings) => settings,
        Err(message) => return refuse(message),
    };
    let version = match (&settings.pretend_version, capi::core()) {
        (_, Err(name)) => return refuse(format!("no TensorFlow is loaded: there is no function {name}")),
        (Some(version), _) => version.clone(),
        (None, Ok(core)) => capi::tensorflow_version(core),
    };
    if let Err(message) = version::check(&version) {
        return refuse(message);
    }
    if let Err(name) = capi::load() {
        return refuse(format!("TensorFlow has no function {name}"));
    }
    let device_type = settings.device_type.to_string_lossy();
    if has_kernels_for(&device_type)? {
        return refuse(format!(
            "this TensorFlow is a CUDA build, whose own kernels have the device type {device_type}: install \
             tensorflow-cpu, or set SOFTGPU_DEVICE_TYPE=SOFTGPU and place the graph on /device:SOFTGPU:0"
        ));
    }
    let trace = settings.trace;
    let machine = device::create(settings);
    trace::switch(trace);
    Ok(machine)
}

/// TensorFlow's entry point, called first.
///
/// TensorFlow aborts the process when a plug-in's entry point fails. So one that refuses says why on standard error, and
/// registers a platform that has no devices: a graph that wants one gets TensorFlow's own error.
#[unsafe(no_mangle)]
pub extern "C" fn SE_InitPlugin(params: Option<&mut PlatformRegistrationParams>, status: Option<&TfStatus>) {
    guard(status, || {
        let machine = accept();
        if let Err(fault) = &machine {
            eprintln!("{}", fault.message);
        }
        let params = required(params, "platform parameters")?;
        (params.major, params.minor, params.patch) = (0, 0, 1);
        params.destroy_platform = Some(keep_platform);
        params.destroy_platform_fns = Some(keep_platform);
        let allocator = machine.map_or(Allocator::Bfc, |machine| machine.settings.allocator);
        **required(params.platform.as_mut(), "platform")? = Platform {
            struct_size: PLATFORM_SIZE,
            ext: null_mut(),
            name: c"SOFTGPU".as_ptr(),
            device_type: device::device_type().as_ptr(),
            supports_unified_memory: 0,
            use_bfc_allocator: u8::from(allocator == Allocator::Bfc),
            force_memory_growth: 0,
        };
        **required(params.fns.as_mut(), "platform functions")? = PlatformFns {
            struct_size: size_of::<PlatformFns>(),
            ext: null_mut(),
            get_device_count,
            create_device,
            destroy_device: keep,
            create_device_fns,
            destroy_device_fns: keep,
            create_stream_executor,
            destroy_stream_executor: keep,
            create_timer_fns,
            destroy_timer_fns: keep,
        };
        Ok(())
    });
}
