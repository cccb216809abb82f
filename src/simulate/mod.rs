//! A training step without TensorFlow: how much memory it takes, how long, and what moves.
//!
//! An [`Outline`] is what a step of a graph runs, a [`Program`] the same with a plan, and [`simulate`] goes through it as
//! TensorFlow's executor would. Memory and time come from one run: when memory is free depends on when copies are done.

mod accumulations;
mod ahead;
mod balance;
mod buffers;
mod builder;
mod by_levels;
mod carried;
mod cases;
mod changed_variables;
mod choices;
mod constants;
mod copied_reads;
mod exchanges;
mod executor;
mod floors;
mod free_loops;
mod holders;
mod initial;
mod iterations;
mod late;
mod loops;
mod machine;
mod memory;
mod merged;
mod outcome;
mod outline;
mod parts;
mod persistent;
mod pool;
mod program;
mod runs;
mod scenario;

mod unknown_sizes;
mod wiring;

pub use accumulations::Accumulation;
pub use ahead::Ahead;
pub use buffers::{BufferTracker, Made, Outputs, Sharing};
pub use by_levels::{LevelModel, LevelPeak, peak_by_levels, usable_bytes};
pub use carried::Carried;
pub use executor::{simulate, simulate_in};
pub use floors::{Floors, floors};
pub use free_loops::FreeLoop;
pub use iterations::{LoopTimes, UnknownIterations, gives_zero, iterated};
pub use machine::Machine;
pub use memory::Allocator;
pub use outcome::{GpuOutcome, Holder, NoObserver, Observer, OutOfMemory, Outcome, Piece};
pub use outline::{OpCost, Outline, Unpredictable};
pub use pool::{CHUNK_BYTES, Chunk, Pool, in_chunks};
pub use program::{Buffer, Origin, Program};
pub use scenario::{Holes, Scenario};
pub use unknown_sizes::UnknownSizes;
