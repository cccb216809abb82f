//! What a step runs on.

use super::Allocator;
use crate::cost::DeviceProfile;

/// A host with GPUs, as it is predicted to be; what may be otherwise in one run is a [`Scenario`](super::Scenario).
#[derive(Debug, Clone, PartialEq)]
pub struct Machine {
    /// The memory of each GPU in bytes, the last for all further ones; without any, memory has no end and is only counted.
    pub memory: Vec<u64>,
    /// What the GPUs really have, if `memory` is only what a plan may count on; else the same.
    pub whole_memory: Vec<u64>,
    /// Who hands it out.
    pub allocator: Allocator,
    /// What the host needs to launch an op.
    pub host_op_seconds: f64,
    /// Rate of copies to the host.
    pub out_bytes_per_second: f64,
    /// Rate of copies from the host.
    pub in_bytes_per_second: f64,
    /// What a copy takes beside its bytes.
    pub link_latency_seconds: f64,
    /// How long it takes the host to notice the end of a copy.
    pub notice_seconds: f64,
    /// Whether the host has one thread for all, so that it expects what comes from a GPU only after all that the GPU can begin
    /// with is launched.
    pub one_thread: bool,
    /// Whether the host computes itself, as with the software GPU, and so never runs ahead.
    pub synchronous: bool,
}

/// How long a host takes to notice the end of a copy. TensorFlow asks its events in turns; between the copy and the op that it lets
/// run, some 0.1 ms were seen on the software GPU.
const NOTICE_SECONDS: f64 = 1e-4;

/// What the host needs to pass over an op that computes nothing.
const HOST_OP_SECONDS: f64 = 1e-6;

impl Machine {
    /// A host with GPUs of a profile, and the memory of each in bytes (empty: without end).
    ///
    /// GPUs that share a link get equal parts of its rates: all of a step's GPUs are busy at the same time.
    pub fn new(profile: &DeviceProfile, gpus: usize, memory: Vec<u64>) -> Machine {
        let sharing = gpus.clamp(1, profile.gpus_per_link.max(1) as usize) as f64;
        Machine {
            whole_memory: memory.clone(),
            memory,
            allocator: Allocator::default(),
            host_op_seconds: if profile.synchronous_kernels {
                HOST_OP_SECONDS
            } else {
                profile.host_op_seconds
            },
            out_bytes_per_second: profile.link_out_bytes_per_second / sharing,
            in_bytes_per_second: profile.link_in_bytes_per_second / sharing,
            link_latency_seconds: profile.link_latency_seconds,
            notice_seconds: NOTICE_SECONDS,
            // The software GPU's figures are those of one thread, as only these repeat.
            one_thread: profile.synchronous_kernels,
            synchronous: profile.synchronous_kernels,
        }
    }

    /// A machine on which nothing takes any time.
    pub(super) fn idle() -> Machine {
        Machine {
            memory: Vec::new(),
            whole_memory: Vec::new(),
            allocator: Allocator::default(),
            host_op_seconds: 0.0,
            out_bytes_per_second: f64::INFINITY,
            in_bytes_per_second: f64::INFINITY,
            link_latency_seconds: 0.0,
            notice_seconds: 0.0,
            one_thread: true,
            synchronous: true,
        }
    }

    /// The same with another memory.
    pub fn with_memory(&self, memory: Vec<u64>) -> Machine {
        Machine { whole_memory: memory.clone(), memory, ..self.clone() }
    }

    /// The same with this part of the memory.
    pub fn with_part_of_memory(&self, part: f64) -> Machine {
        let part_of = |memory: &[u64]| memory.iter().map(|&bytes| (bytes as f64 * part) as u64).collect();
        Machine { memory: part_of(&self.memory), whole_memory: part_of(&self.whole_memory), ..self.clone() }
    }

    /// The same with memory that another allocator hands out.
    pub fn with_allocator(self, allocator: Allocator) -> Machine {
        Machine { allocator, ..self }
    }

    /// The same if the GPUs have more than a plan may count on.
    pub fn with_whole_memory(self, whole_memory: Vec<u64>) -> Machine {
        Machine { whole_memory, ..self }
    }

    /// The same if a plan may count on all of the memory.
    pub fn counting_on_all(&self) -> Machine {
        self.with_memory(self.whole_memory.clone())
    }

    /// Whether a plan may count on all of the memory.
    pub fn counts_on_all(&self) -> bool {
        self.whole_memory == self.memory
    }

    /// The memory of a GPU in bytes; none if it has no end.
    pub fn memory_bytes(&self, gpu: usize) -> Option<u64> {
        self.memory.get(gpu).or(self.memory.last()).copied()
    }
}
