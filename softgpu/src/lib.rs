//! A software GPU for TensorFlow, for machines that have none.
//!
//! `libsoftgpu.so` is a PluggableDevice plug-in: TensorFlow loads it with `TF_LoadPluggableDeviceLibrary` and then has a
//! `/device:GPU:0`. Its memory is host memory behind a hard limit, its copies are real, counted and as slow as they are set to
//! be, and its kernels are TensorFlow's own CPU kernels. The placer, Grappler, the partitioner, Send and Recv, the BFC
//! allocator and the out-of-memory errors are TensorFlow's: a graph that runs out of memory here does so as it would on
//! a GPU, and one that was rewritten to fit shows that it fits, with the same numbers.
//!
//! - [`settings`]: the environment variables: memory, rates, allocator, devices.
//! - [`interface`]: the counters and the trace, and how the host program loads the plug-in and reads them.
//!
//! # What it models
//!
//! - Device memory: a limit for each device; what TensorFlow allocates there, which inputs a kernel reads from host
//!   memory, which outputs stay on the host, which kernels write over an input that dies, which pass it on.
//! - Copies: each direction an engine of its own that makes one copy at a time, beside kernels.
//! - One compute engine for each device: one kernel at a time, in the order in which TensorFlow starts them.
//! - The kernels that a real GPU has, for the types that it has: an op that a GPU does not run is not run here.
//!
//! # What it does not model
//!
//! - **Workspace.** Convolutions and others take scratch memory on a GPU. Here a kernel's scratch is host memory and counts
//!   nothing, but for the kernels that keep state.
//! - **Running ahead.** Kernels run on the host's thread, so the host never gets ahead of the device; on a GPU it does, and
//!   memory that waits for a copy is then held longer. Peaks may differ for that.
//! - **The layout of images.** Grappler's layout optimizer is off, so a channels-last graph gets no transpositions; `SOFTGPU_LAYOUT=1` leaves it on.
//! - **Rates of kernels.** They are a CPU's; so is the share of time in which copies are hidden.
//! - **Numerics.** Sums are added in a CPU's order, in full precision: no tensor cores, no TF32.
//! - **Copies between devices** and on a device, which are counted but not slowed.
//!
//! # What it does not cover
//!
//! Ops on strings and variants (with them the tensor lists of TF2's loops), ops that call functions, datasets, sparse
//! matrices, cuDNN's recurrent nets, and float8 and int4, whose types the C API does not name. With soft placement they run on
//! the CPU; without, TensorFlow says that there is no kernel.
//!
//! # Traps
//!
//! - TensorFlow aborts the process if a plug-in reports a failure on load: see [`interface`] on checking first.
//! - A CUDA build of TensorFlow has kernels of its own for device type `GPU` and is refused; see `SOFTGPU_DEVICE_TYPE`.
//! - With the BFC allocator the plug-in sees one region of all the memory. For live and peak bytes use the exact
//!   allocator; for out-of-memory tests, BFC, whose rounding and fragmentation are a GPU's.
//! - A process has one allocator for each device, and so one limit: a sweep over limits takes a process each.
//! - Peaks depend on timing where copies are in flight: leave a margin in a test of a limit. With one thread
//!   (`inter_op_parallelism_threads = 1`) they repeat to within the scalars on their way.
//! - TensorFlow copies a constant to the device in the first step that uses it: count bytes from the second on.
//! - Grappler may drop or merge what it sees no use in: compare bytes moved with the plan's, never losses alone.

mod abi;
mod capi;
mod copies;
mod device;
mod engines;
mod exports;
mod grappler;
pub use softgpu_interface as interface;
mod kernels;
mod memory;
mod platform;
mod proto;
pub mod settings;
mod status;
mod streams;
mod sync;
mod trace;
mod units;
mod version;
