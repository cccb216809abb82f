//! The devices: what each has of memory, links and engines.

use crate::copies::Link;
use crate::engines::{Engine, Engines};
use crate::interface::{CopyCounters, Counters, INTERFACE_VERSION};
use crate::memory::Pool;
use crate::settings::{Allocator, Settings};
use crate::status::Fault;
use crate::streams::Stream;
use crate::sync::{lock, now_ns};
use std::ffi::{CStr, CString};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;

/// A software GPU.
pub struct Device {
    pub ordinal: usize,
    pub pci_bus_id: CString,
    pub memory: Pool,
    pub host_memory: Pool,
    pub engines: Engines,
    /// Held while a kernel computes: there is one compute engine.
    pub compute: Mutex<()>,
    pub streams: Mutex<Vec<Arc<Stream>>>,
    pub kernels: AtomicU64,
    pub forwarded: AtomicU64,
    link_in: Link,
    link_out: Link,
    link_on_device: Link,
}

/// What TensorFlow loaded the plug-in with.
pub struct Machine {
    pub settings: Settings,
    pub devices: Vec<Device>,
}

static MACHINE: OnceLock<Machine> = OnceLock::new();

/// Makes the devices. A second call changes nothing.
pub fn create(settings: Settings) -> &'static Machine {
    MACHINE.get_or_init(|| {
        let devices = settings.memory.iter().enumerate().map(|(i, _)| Device::new(i, &settings)).collect();
        Machine { settings, devices }
    })
}

/// The devices' type; one that nothing asks for while there are none.
pub fn device_type() -> &'static CStr {
    machine().map_or(c"SOFTGPU_REFUSED", |machine| &machine.settings.device_type)
}

/// The devices, once the plug-in accepted TensorFlow and its settings.
pub fn machine() -> Option<&'static Machine> {
    MACHINE.get()
}

/// The device with this number.
pub fn device(ordinal: i32) -> Result<&'static Device, Fault> {
    usize::try_from(ordinal)
        .ok()
        .and_then(|ordinal| machine()?.devices.get(ordinal))
        .ok_or_else(|| Fault::new(format!("softgpu: there is no device {ordinal}")))
}

impl Device {
    fn new(ordinal: usize, settings: &Settings) -> Device {
        // The BFC allocator has its own wait, and asks for smaller regions when one does not fit.
        let wait = match settings.allocator {
            Allocator::Bfc => Duration::ZERO,
            Allocator::Exact => settings.alloc_wait,
        };
        Device {
            ordinal,
            pci_bus_id: CString::new(format!("0000:{ordinal:02x}:00.0")).unwrap_or_default(),
            memory: Pool::device(ordinal, settings.memory[ordinal], wait),
            host_memory: Pool::host(),
            engines: Engines::default(),
            compute: Mutex::new(()),
            streams: Mutex::default(),
            kernels: AtomicU64::new(0),
            forwarded: AtomicU64::new(0),
            link_in: Link::new(settings.rate_in),
            link_out: Link::new(settings.rate_out),
            link_on_device: Link::new(None),
        }
    }

    /// The link of a copy engine.
    pub fn link(&self, engine: Engine) -> &Link {
        match engine {
            Engine::CopyIn => &self.link_in,
            Engine::CopyOut => &self.link_out,
            Engine::CopyOnDevice | Engine::Kernel => &self.link_on_device,
        }
    }

    /// Waits for all streams.
    pub fn drain(&self) {
        let streams = lock(&self.streams).clone();
        for stream in streams {
            stream.drain();
        }
    }

    pub fn counters(&self) -> Counters {
        let memory = self.memory.usage();
        let busy = self.engines.busy(now_ns());
        let copies = |engine| {
            let (bytes, copies) = self.link(engine).sums();
            CopyCounters { bytes, copies, busy_ns: busy.ns[engine as usize] }
        };
        Counters {
            struct_size: size_of::<Counters>() as u64,
            version: INTERFACE_VERSION,
            device: self.ordinal as u32,
            limit_bytes: self.memory.limit(),
            live_bytes: memory.live,
            peak_bytes: memory.peak,
            allocations: memory.allocations,
            failed_allocations: memory.failed,
            largest_allocation: memory.largest,
            copies_in: copies(Engine::CopyIn),
            copies_out: copies(Engine::CopyOut),
            copies_on_device: copies(Engine::CopyOnDevice),
            kernels: self.kernels.load(Relaxed),
            kernel_busy_ns: busy.ns[Engine::Kernel as usize],
            copy_busy_ns: busy.link_ns,
            overlap_ns: busy.overlap_ns,
            forwarded_outputs: self.forwarded.load(Relaxed),
        }
    }

    /// All sums to zero, the peaks to what is live.
    pub fn reset(&self) {
        self.memory.reset();
        self.engines.reset(now_ns());
        for link in [&self.link_in, &self.link_out, &self.link_on_device] {
            link.reset();
        }
        self.kernels.store(0, Relaxed);
        self.forwarded.store(0, Relaxed);
    }
}
