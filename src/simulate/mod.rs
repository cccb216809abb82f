//! A training step without TensorFlow: how much memory it takes, how long, and what moves.
//!
//! An [`Outline`] is what a step of a graph runs, a [`Program`] the same with a plan, and [`simulate`] goes through it as
//! TensorFlow's executor would. Memory and time come from one run: when memory is free depends on when copies are done.

mod builder;
mod by_levels;
mod constants;
mod exchanges;
mod executor;
mod floors;
mod initial;
mod late;
mod liveness;
mod loops;
mod outcome;
mod outline;
mod persistent;
mod pool;
mod program;

pub use by_levels::{LevelModel, LevelPeak, peak_by_levels, usable_bytes};
pub use executor::simulate;
pub use floors::{Floors, floors};
pub use liveness::Liveness;
pub use loops::{LoopTimes, UnknownIterations};
pub use outcome::{GpuOutcome, Holder, NoObserver, Observer, OutOfMemory, Outcome, Piece};
pub use outline::{OpCost, Outline, UnknownSizes, Unpredictable};
pub use pool::{CHUNK_BYTES, Chunk, Pool, in_chunks};
pub use program::{Buffer, Origin, Program};

use std::borrow::Cow;

use crate::cost::DeviceProfile;
use initial::Holes;

/// What a step runs on.
#[derive(Debug, Clone, PartialEq)]
pub struct Machine {
    /// The memory of each GPU in bytes, the last for all further ones; without any, memory has no end and is only counted.
    pub memory: Vec<u64>,
    /// What the GPUs really have, if `memory` is only what a plan may count on; else the same.
    pub whole_memory: Vec<u64>,
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
    /// By what chance each copy is faster or slower than it should be, up to four times, ops that become ready together
    /// run in another order, and one of several GPUs is behind the others; none: all as predicted.
    pub chance: Option<u64>,
}

/// How many times longer or shorter an uneven copy takes, at most.
const UNEVENNESS: f64 = 4.0;

/// Of more than so many ops that become ready by the end of one nobody knows the order: TensorFlow keeps a node's edges in an array of
/// eight, and more in a table by address, which is another one in each process (`EdgeSet`). So it is with what a step begins
/// with, all of which hangs on one node: of six processes with the same plan for a `DeepLabv3+`, four copied the labels before the images,
/// and ran out of memory.
const MOST_IN_ORDER: usize = 8;

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
            chance: None,
        }
    }

    /// A machine on which nothing takes any time.
    fn idle() -> Machine {
        Machine {
            memory: Vec::new(),
            whole_memory: Vec::new(),
            host_op_seconds: 0.0,
            out_bytes_per_second: f64::INFINITY,
            in_bytes_per_second: f64::INFINITY,
            link_latency_seconds: 0.0,
            notice_seconds: 0.0,
            one_thread: true,
            synchronous: true,
            chance: None,
        }
    }

    /// The same with another memory.
    pub fn with_memory(&self, memory: Vec<u64>) -> Machine {
        Machine { whole_memory: memory.clone(), memory, ..self.clone() }
    }

    /// The same if the GPUs have more than a plan may count on.
    pub fn with_whole_memory(self, whole_memory: Vec<u64>) -> Machine {
        Machine { whole_memory, ..self }
    }

    /// The same with a part of what its GPUs have beyond what a plan may count on.
    pub fn with_part_of_the_rest(&self, part: f64) -> Machine {
        let rest = |(&memory, &whole): (&u64, &u64)| whole.saturating_sub(memory);
        let rests = self.memory.iter().zip(&self.whole_memory).map(rest);
        let memory =
            self.memory.iter().zip(rests).map(|(&memory, rest)| memory + (rest as f64 * part) as u64);
        self.with_memory(memory.collect())
    }

    /// The same with a part of the memory less.
    pub fn without_part(&self, part: f64) -> Machine {
        let less = |&memory: &u64| memory - (memory as f64 * part) as u64;
        self.with_memory(self.memory.iter().map(less).collect())
    }

    /// The same with copies that take so many times as long.
    pub fn with_slower_copies(&self, times: f64) -> Machine {
        Machine {
            out_bytes_per_second: self.out_bytes_per_second / times,
            in_bytes_per_second: self.in_bytes_per_second / times,
            link_latency_seconds: self.link_latency_seconds * times,
            notice_seconds: self.notice_seconds * times,
            ..self.clone()
        }
    }

    /// The same with a host that has one thread and never runs ahead of the GPUs.
    pub fn with_slow_host(&self) -> Machine {
        Machine { synchronous: true, one_thread: true, ..self.clone() }
    }

    /// The same where each copy takes longer or shorter than it should, ops become ready in another order, a GPU is behind, and variables
    /// lie elsewhere, by chance; the same ones for the same `seed`, none without one.
    pub fn with_chance(&self, seed: Option<u64>) -> Machine {
        Machine { chance: seed, ..self.clone() }
    }

    /// How many times as long as it should a copy takes.
    fn unevenness(&self, copy: u32) -> f64 {
        let Some(seed) = self.chance else { return 1.0 };
        let part = mixed(seed, copy, 0) as f64 / u64::MAX as f64;
        UNEVENNESS.powf(2.0 * part - 1.0)
    }

    /// Of several GPUs the one that does nothing as long as anything else can be done; none by one chance of as many and one. What the
    /// others send it is in its memory by then.
    fn gpu_behind(&self, gpus: usize) -> Option<u16> {
        let chosen = self.chance? % (gpus as u64 + 1);
        (gpus > 1 && chosen < gpus as u64).then_some(chosen as u16)
    }

    /// Where an initializer has left holes between the variables.
    fn holes(&self) -> Holes {
        match self.chance.map(|chance| chance % 3) {
            None | Some(0) => Holes::OfInitializer,
            Some(1) => Holes::None,
            Some(_) => Holes::Small,
        }
    }

    /// What a step begins with, in the order in which it does.
    fn shuffled<T: Copy>(&self, begin: Vec<T>) -> Vec<T> {
        match self.chance {
            Some(seed) => in_another_order(seed, u32::MAX, &begin),
            None => begin,
        }
    }

    /// What becomes ready by the end of an op, in the order in which it does.
    fn in_order<'a>(&self, op: u32, ready: &'a [u32]) -> Cow<'a, [u32]> {
        match self.chance {
            Some(seed) if ready.len() > MOST_IN_ORDER => Cow::Owned(in_another_order(seed, op, ready)),
            _ => Cow::Borrowed(ready),
        }
    }

    /// The memory of a GPU in bytes; none if it has no end.
    pub fn memory_bytes(&self, gpu: usize) -> Option<u64> {
        self.memory.get(gpu).or(self.memory.last()).copied()
    }
}

/// Things in another order.
fn in_another_order<T: Copy>(seed: u64, what: u32, things: &[T]) -> Vec<T> {
    let mut places: Vec<u32> = (0..things.len() as u32).collect();
    places.sort_unstable_by_key(|&place| mixed(seed, what, place + 1));
    places.iter().map(|&place| things[place as usize]).collect()
}

/// Bits that look like chance, the same for the same arguments: a round of SplitMix64 (Steele, Lea and Flood, 2014).
fn mixed(seed: u64, what: u32, place: u32) -> u64 {
    let mut bits =
        (seed << 32 ^ u64::from(place) << 16 ^ u64::from(what)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    bits = (bits ^ bits >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    bits = (bits ^ bits >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    bits ^ bits >> 31
}
