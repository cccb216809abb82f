//! The structures of TensorFlow's plug-in interface (`stream_executor.h` and `grappler.h`, version 0.0.1) and of its
//! plain C API, as far as the plug-in meets them.
//!
//! The functions in the tables take references where the header has pointers: TensorFlow keeps each valid for the
//! length of the call, or passes null, which is `None`. What the plug-in hands out as a handle (streams, events,
//! timers) comes back as a reference to the same object.

use crate::streams::{Event, Stream, Timer};
use std::ffi::{c_char, c_int, c_void};

/// A pointer the plug-in only passes on.
pub type Ptr = *mut c_void;

/// `TF_Status`, only ever seen through a pointer.
#[repr(C)]
pub struct TfStatus {
    _opaque: [u8; 0],
}

/// `TF_Buffer`.
#[repr(C)]
pub struct Buffer {
    pub data: *const u8,
    pub length: usize,
    pub deallocator: Option<unsafe extern "C" fn(Ptr, usize)>,
}

#[repr(C)]
pub struct DeviceMemory {
    pub struct_size: usize,
    pub ext: Ptr,
    pub opaque: Ptr,
    pub size: u64,
    pub payload: u64,
}

#[repr(C)]
pub struct AllocatorStats {
    pub struct_size: usize,
    pub num_allocs: i64,
    pub bytes_in_use: i64,
    pub peak_bytes_in_use: i64,
    pub largest_alloc_size: i64,
    pub has_bytes_limit: i8,
    pub bytes_limit: i64,
    pub bytes_reserved: i64,
    pub peak_bytes_reserved: i64,
    pub has_bytes_reservable_limit: i8,
    pub bytes_reservable_limit: i64,
    pub largest_free_block_bytes: i64,
}

#[repr(C)]
pub struct SpDevice {
    pub struct_size: usize,
    pub ext: Ptr,
    pub ordinal: i32,
    pub handle: Ptr,
    pub hardware_name: *const c_char,
    pub vendor: *const c_char,
    pub pci_bus_id: *const c_char,
}

#[repr(C)]
pub struct CreateDeviceParams<'a> {
    pub struct_size: usize,
    pub ext: Ptr,
    pub ordinal: i32,
    pub device: Option<&'a mut SpDevice>,
}

#[repr(C)]
pub struct DeviceFns {
    pub struct_size: usize,
    pub ext: Ptr,
    pub numa_node: extern "C" fn(Option<&SpDevice>) -> i32,
    pub memory_bandwidth: extern "C" fn(Option<&SpDevice>) -> i64,
    pub gflops: extern "C" fn(Option<&SpDevice>) -> f64,
}

#[repr(C)]
pub struct CreateDeviceFnsParams<'a> {
    pub struct_size: usize,
    pub ext: Ptr,
    pub fns: Option<&'a mut DeviceFns>,
}

#[repr(C)]
pub struct TimerFns {
    pub struct_size: usize,
    pub ext: Ptr,
    pub nanoseconds: extern "C" fn(Option<&Timer>) -> u64,
}

/// `SE_StatusCallbackFn`.
pub type HostCallback = unsafe extern "C" fn(Ptr, *const TfStatus);
type D<'a> = Option<&'a SpDevice>;
type St<'a> = Option<&'a TfStatus>;
type Mem<'a> = Option<&'a mut DeviceMemory>;
type ConstMem<'a> = Option<&'a DeviceMemory>;
type Str<'a> = Option<&'a Stream>;

/// `SE_EventStatus`.
pub const EVENT_PENDING: c_int = 2;
pub const EVENT_COMPLETE: c_int = 3;

#[repr(C)]
pub struct StreamExecutor {
    pub struct_size: usize,
    pub ext: Ptr,
    pub allocate: extern "C" fn(D, u64, i64, Mem),
    pub deallocate: extern "C" fn(D, Mem),
    pub host_memory_allocate: extern "C" fn(D, u64) -> Ptr,
    pub host_memory_deallocate: extern "C" fn(D, Ptr),
    pub unified_memory_allocate: Option<extern "C" fn(D, u64) -> Ptr>,
    pub unified_memory_deallocate: Option<extern "C" fn(D, Ptr)>,
    pub get_allocator_stats: extern "C" fn(D, Option<&mut AllocatorStats>) -> u8,
    pub device_memory_usage: extern "C" fn(D, Option<&mut i64>, Option<&mut i64>) -> u8,
    pub create_stream: extern "C" fn(D, Option<&mut *const Stream>, St),
    pub destroy_stream: unsafe extern "C" fn(D, *const Stream),
    pub create_stream_dependency: extern "C" fn(D, Str, Str, St),
    pub get_stream_status: extern "C" fn(D, Str, St),
    pub create_event: extern "C" fn(D, Option<&mut *const Event>, St),
    pub destroy_event: unsafe extern "C" fn(D, *const Event),
    pub get_event_status: extern "C" fn(D, Option<&Event>) -> c_int,
    pub record_event: extern "C" fn(D, Str, Option<&Event>, St),
    pub wait_for_event: extern "C" fn(D, Str, Option<&Event>, St),
    pub create_timer: extern "C" fn(D, Option<&mut *const Timer>, St),
    pub destroy_timer: unsafe extern "C" fn(D, *const Timer),
    pub start_timer: extern "C" fn(D, Str, Option<&Timer>, St),
    pub stop_timer: extern "C" fn(D, Str, Option<&Timer>, St),
    pub memcpy_dtoh: extern "C" fn(D, Str, Ptr, ConstMem, u64, St),
    pub memcpy_htod: extern "C" fn(D, Str, Mem, Ptr, u64, St),
    pub memcpy_dtod: extern "C" fn(D, Str, Mem, ConstMem, u64, St),
    pub sync_memcpy_dtoh: extern "C" fn(D, Ptr, ConstMem, u64, St),
    pub sync_memcpy_htod: extern "C" fn(D, Mem, Ptr, u64, St),
    pub sync_memcpy_dtod: extern "C" fn(D, Mem, ConstMem, u64, St),
    pub block_host_for_event: extern "C" fn(D, Option<&Event>, St),
    pub block_host_until_done: extern "C" fn(D, Str, St),
    pub synchronize_all_activity: extern "C" fn(D, St),
    pub mem_zero: extern "C" fn(D, Str, Mem, u64, St),
    pub memset: extern "C" fn(D, Str, Mem, u8, u64, St),
    pub memset32: extern "C" fn(D, Str, Mem, u32, u64, St),
    pub host_callback: extern "C" fn(D, Str, HostCallback, Ptr) -> u8,
}

#[repr(C)]
pub struct CreateStreamExecutorParams<'a> {
    pub struct_size: usize,
    pub ext: Ptr,
    pub executor: Option<&'a mut StreamExecutor>,
}

#[repr(C)]
pub struct Platform {
    pub struct_size: usize,
    pub ext: Ptr,
    pub name: *const c_char,
    pub device_type: *const c_char,
    pub supports_unified_memory: u8,
    pub use_bfc_allocator: u8,
    pub force_memory_growth: u8,
}

/// The header counts a structure's size to the end of its last member, without padding.
pub const PLATFORM_SIZE: usize = std::mem::offset_of!(Platform, force_memory_growth) + 1;

#[repr(C)]
pub struct PlatformFns {
    pub struct_size: usize,
    pub ext: Ptr,
    pub get_device_count: extern "C" fn(Option<&Platform>, Option<&mut c_int>, St),
    pub create_device: extern "C" fn(Option<&Platform>, Option<&mut CreateDeviceParams>, St),
    pub destroy_device: extern "C" fn(Option<&Platform>, Ptr),
    pub create_device_fns: extern "C" fn(Option<&Platform>, Option<&mut CreateDeviceFnsParams>, St),
    pub destroy_device_fns: extern "C" fn(Option<&Platform>, Ptr),
    pub create_stream_executor: extern "C" fn(Option<&Platform>, Option<&mut CreateStreamExecutorParams>, St),
    pub destroy_stream_executor: extern "C" fn(Option<&Platform>, Ptr),
    pub create_timer_fns: extern "C" fn(Option<&Platform>, Option<&mut TimerFns>, St),
    pub destroy_timer_fns: extern "C" fn(Option<&Platform>, Ptr),
}

#[repr(C)]
pub struct PlatformRegistrationParams<'a> {
    pub struct_size: usize,
    pub ext: Ptr,
    pub major: i32,
    pub minor: i32,
    pub patch: i32,
    pub platform: Option<&'a mut Platform>,
    pub fns: Option<&'a mut PlatformFns>,
    pub destroy_platform: Option<extern "C" fn(Ptr)>,
    pub destroy_platform_fns: Option<extern "C" fn(Ptr)>,
}

/// `TP_OptimizerConfigs`: a `TF_TriState` for each of Grappler's optimizers.
#[repr(C)]
pub struct OptimizerConfigs {
    pub struct_size: usize,
    pub ext: Ptr,
    pub toggles: [c_int; TOGGLES],
}

pub const TOGGLES: usize = 19;
pub const LAYOUT_OPTIMIZER: usize = 12;
pub const TOGGLE_OFF: c_int = 1;
pub const OPTIMIZER_CONFIGS_SIZE: usize =
    std::mem::offset_of!(OptimizerConfigs, toggles) + TOGGLES * size_of::<c_int>();

#[repr(C)]
pub struct Optimizer {
    pub struct_size: usize,
    pub ext: Ptr,
    pub create: Option<extern "C" fn() -> Ptr>,
    pub optimize: extern "C" fn(Ptr, Option<&Buffer>, Ptr, Option<&mut Buffer>, St),
    pub destroy: Option<extern "C" fn(Ptr)>,
}

#[repr(C)]
pub struct OptimizerRegistrationParams<'a> {
    pub struct_size: usize,
    pub ext: Ptr,
    pub major: i32,
    pub minor: i32,
    pub patch: i32,
    pub device_type: *const c_char,
    pub configs: Option<&'a mut OptimizerConfigs>,
    pub optimizer: Option<&'a mut Optimizer>,
}
