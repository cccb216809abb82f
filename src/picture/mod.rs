//! What is to be seen of a simulated step.
//!
//! A [`Recorder`] watches one run of the simulator and makes a [`Recording`]: each change of each memory, and each span of
//! work. All else is read from recordings: memory as a chart, a timeline for Perfetto, what is alive at a peak, and
//! the [`Explanation`] of one tensor.

mod alive;
mod explain;
mod explanation;
mod memory;
mod names;
mod recorder;
mod recording;
mod show;
mod stay;
mod timeline;

#[cfg(test)]
mod tests;

pub use explain::{Explained, explain};
pub use explanation::{
    BufferKind, Consumer, Explanation, Fate, FilteredOps, Interval, Residence, Return, SecondRun, StayReason,
    SwapLife, Trigger,
};
pub use names::Names;
pub use recorder::Recorder;
pub use recording::Recording;
