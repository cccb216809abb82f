//! What a simulated step says.

use crate::order::Place;

/// What came of a step.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Outcome {
    /// How long it took.
    pub step_seconds: f64,
    /// The most host memory that copies from GPUs took at a time.
    pub host_peak_bytes: u64,
    /// What each GPU saw.
    pub gpus: Vec<GpuOutcome>,
}

impl Outcome {
    /// The most memory in use at a time on any GPU.
    pub fn peak_bytes(&self) -> u64 {
        self.gpus.iter().map(|gpu| gpu.peak_bytes).max().unwrap_or(0)
    }
}

/// What one GPU saw of a step.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct GpuOutcome {
    /// Variables and constants.
    pub persistent_bytes: u64,
    /// The most memory in use at a time.
    pub peak_bytes: u64,
    /// The entry of the program that needed it; none if that is what is persistent.
    pub peak_op: Option<u32>,
    /// When, on the host's clock.
    pub peak_seconds: f64,
    /// Bytes copied to the host.
    pub out_bytes: u64,
    /// Bytes copied from the host.
    pub in_bytes: u64,
    /// How long the GPU computed.
    pub compute_seconds: f64,
    /// How long bytes went out.
    pub out_seconds: f64,
    /// How long bytes came in.
    pub in_seconds: f64,
    /// How long the host waited for memory that copies were to free.
    pub waited_seconds: f64,
}

/// Memory that runs out; or a step that never ends, as ops wait for one another, for which no memory is enough: then nothing was asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OutOfMemory {
    /// On which GPU.
    pub gpu: usize,
    /// The entry of the program that asked; none if what is persistent does not fit.
    pub op: Option<u32>,
    /// How much it asked for.
    pub wanted_bytes: u64,
    /// How much was in use.
    pub used_bytes: u64,
    /// The GPU's pool, in the order of addresses.
    pub pieces: Vec<Piece>,
}

/// A part of a pool that is free or was handed out at once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Piece {
    /// Its size.
    pub bytes: u64,
    /// What is there.
    pub holder: Holder,
}

/// What is in a part of a pool.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Holder {
    /// Nothing.
    Nobody,
    /// A tensor of the program; of those that were written to one buffer, the last.
    Tensor(u32),
    /// What is there in each step, or scratch memory.
    Other,
}

/// Watches a step as it is simulated. Entries and tensors are numbers of the program.
pub trait Observer {
    /// The host turns to an entry: to launch it or, if it is a copy, to end it. What memory does next is its doing.
    fn turns_to(&mut self, _op: u32) {}
    /// Launching an entry, or running it itself, keeps the host busy.
    fn launch(&mut self, _op: u32, _start_seconds: f64, _end_seconds: f64) {}
    /// So much memory is in use somewhere from now on.
    fn memory(&mut self, _seconds: f64, _place: Place, _bytes: u64) {}
    /// A tensor got a buffer of its own.
    fn allocated(&mut self, _tensor: u32, _place: Place, _bytes: u64) {}
    /// A tensor is written over the buffer that was made for another, which nobody else is to read any more.
    fn taken_over(&mut self, _seconds: f64, _tensor: u32, _buffer: u32) {}
    /// The buffer that a tensor got is free again.
    fn freed(&mut self, _tensor: u32) {}
    /// What a variable was, by its number, keeps memory of its own, since it was changed before all had read it.
    fn kept(&mut self, _variable: u32) {}
    /// All have read it.
    fn dropped(&mut self, _variable: u32) {}
    /// An entry keeps a GPU busy.
    fn compute(&mut self, _op: u32, _gpu: Place, _start_seconds: f64, _end_seconds: f64) {}
    /// An entry keeps the link busy, out or in.
    fn copy(&mut self, _op: u32, _gpu: Place, _is_out: bool, _start_seconds: f64, _end_seconds: f64) {}
}

/// Watches nothing.
#[derive(Debug, Clone, Copy, Default)]
pub struct NoObserver;

impl Observer for NoObserver {}
