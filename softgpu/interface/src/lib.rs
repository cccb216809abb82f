//! What the host program may ask of the loaded plug-in: the C interface, and the structures that it passes.
//!
//! Look the functions up in `libsoftgpu.so` with `dlsym`:
//!
//! ```c
//! uint32_t    softgpu_interface_version(void);                        // INTERFACE_VERSION
//! int32_t     softgpu_check(void);                                    // see below
//! int32_t     softgpu_device_count(void);                             // 0 before the check, or if it failed
//! int32_t     softgpu_counters(int32_t device, softgpu_counters_t *out);
//! int32_t     softgpu_reset(int32_t device);                          // -1: all devices
//! int32_t     softgpu_trace(int32_t on);                              // 1: clear and record, 0: stop
//! int32_t     softgpu_write_trace(const char *path);
//! const char *softgpu_last_error(void);                               // of this thread; valid until its next call
//! ```
//!
//! Those that return `int32_t` return 0, or -1 when they failed and `softgpu_last_error` says why. All may be called
//! from any thread at any time. Set `struct_size` to the size of the structure
//! before you pass it: the plug-in writes no more than that, so that the structure may grow at its end.
//!
//! **Check** first: TensorFlow aborts the process when a plug-in reports a failure on load. So load TensorFlow, set the
//! environment (see the settings of `softgpu`), open `libsoftgpu.so`, and call `softgpu_check`: it reads the settings and looks at
//! TensorFlow's version. If it returns 0, hand the library to `TF_LoadPluggableDeviceLibrary`. A plug-in that is loaded
//! all the same says why it refused on standard error and has no devices.
//!
//! **Reset** makes all sums zero and the peak what is live now. Call it between steps, when no step runs.
//!
//! # The trace
//!
//! A JSON document in Chrome's trace format, which Perfetto opens. Times `ts` and `dur` are in microseconds with
//! three decimals, that is exact to the nanosecond, on the clock that is zero at `otherData.unix_ns_at_zero`. `pid` is
//! the device. Events:
//!
//! - `cat: "kernel"`, `tid` 1: one kernel; `name` is the node's, `args.op` the op's.
//! - `cat: "copy"`, `tid` 2 in (host to device), 3 out, 4 on the device; `name` is `in`, `out` or `on device`;
//!   `args.bytes`.
//! - `ph: "C"`, `name: "memory"`: a step of the memory curve; `args.live` is the live bytes from then on. With
//!   the BFC allocator it has the one step of TensorFlow's region: use the exact allocator to see tensors.
//!
//! At most 4 million events are kept; `otherData.dropped` says how many were not.

/// The version of this interface.
pub const INTERFACE_VERSION: u32 = 1;

/// What one direction of a device's copies came to.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CopyCounters {
    /// Bytes copied.
    pub bytes: u64,
    /// Copies made.
    pub copies: u64,
    /// Time that this direction's engine was busy.
    pub busy_ns: u64,
}

/// The counters of one device. All sums are since the last reset.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Set by the caller to `size_of::<Counters>()`, and by the plug-in to the bytes that it wrote.
    pub struct_size: u64,
    /// `INTERFACE_VERSION`, set by the plug-in.
    pub version: u32,
    /// The device.
    pub device: u32,
    /// The device's memory.
    pub limit_bytes: u64,
    /// Device memory in use now, in units of 256 bytes. With the BFC allocator: the region TensorFlow took.
    pub live_bytes: u64,
    /// The most device memory that was in use at once.
    pub peak_bytes: u64,
    /// Allocations that succeeded.
    pub allocations: u64,
    /// Allocations that failed.
    pub failed_allocations: u64,
    /// The largest allocation.
    pub largest_allocation: u64,
    /// Host to device.
    pub copies_in: CopyCounters,
    /// Device to host.
    pub copies_out: CopyCounters,
    /// On the device, or from one device to another (counted by the device whose stream made the copy).
    pub copies_on_device: CopyCounters,
    /// Kernels run.
    pub kernels: u64,
    /// Time that a kernel was running.
    pub kernel_busy_ns: u64,
    /// Time that a copy in, out or both were running.
    pub copy_busy_ns: u64,
    /// Time that a kernel and a copy in or out were running.
    pub overlap_ns: u64,
    /// Outputs that took over the memory of an input.
    pub forwarded_outputs: u64,
}

impl Counters {
    /// What was added to the sums since `earlier`. Live and peak bytes stay as they are.
    pub fn since(&self, earlier: &Counters) -> Counters {
        let copies = |now: CopyCounters, then: CopyCounters| CopyCounters {
            bytes: now.bytes.saturating_sub(then.bytes),
            copies: now.copies.saturating_sub(then.copies),
            busy_ns: now.busy_ns.saturating_sub(then.busy_ns),
        };
        Counters {
            copies_in: copies(self.copies_in, earlier.copies_in),
            copies_out: copies(self.copies_out, earlier.copies_out),
            copies_on_device: copies(self.copies_on_device, earlier.copies_on_device),
            kernels: self.kernels.saturating_sub(earlier.kernels),
            kernel_busy_ns: self.kernel_busy_ns.saturating_sub(earlier.kernel_busy_ns),
            copy_busy_ns: self.copy_busy_ns.saturating_sub(earlier.copy_busy_ns),
            overlap_ns: self.overlap_ns.saturating_sub(earlier.overlap_ns),
            ..*self
        }
    }
}
