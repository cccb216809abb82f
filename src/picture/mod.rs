//! What is to be seen of a simulated step.
//!
//! A [`Recorder`] watches one run of the simulator and makes a [`Recording`]: each change of each memory, and each span of
//! work. All else is read from recordings: memory as a chart, a timeline for Perfetto, and what is alive at a peak.

mod alive;
mod memory;
mod names;
mod recorder;
mod recording;
mod timeline;

#[cfg(test)]
mod tests;

pub use names::Names;
pub use recorder::Recorder;
pub use recording::Recording;
