//! A training step without TensorFlow: how much memory it takes, how long, and what moves.
//!
//! An [`Outline`] is what a step of a graph runs, a [`Program`] the same with a plan, and [`simulate`] goes through it as
//! TensorFlow's executor would. Memory and time come from one run: when memory is free depends on when copies are done.

mod constants;
mod executor;
mod liveness;
mod outcome;
mod persistent;
mod pool;
mod program;

pub use executor::simulate;
pub use liveness::Liveness;
pub use outcome::{GpuOutcome, NoObserver, Observer, OutOfMemory, Outcome};
pub use pool::{CHUNK_BYTES, Chunk, Pool, in_chunks};
pub use program::{OpCost, Origin, Outline, Program, UnknownSizes};

/// What a step runs on.
#[derive(Debug, Clone, PartialEq)]
pub struct Machine {
    /// The memory of each GPU in bytes, the last for all further ones; without any, memory has no end and is only counted.
    pub memory: Vec<u64>,
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
    /// Whether the host computes itself, as with the software GPU, and so never runs ahead.
    pub synchronous: bool,
}

impl Machine {
    fn memory_bytes(&self, gpu: usize) -> Option<u64> {
        self.memory.get(gpu).or(self.memory.last()).copied()
    }
}
