//! Training on several workers: real processes on the loopback device, TensorFlow's own servers and collectives.
//!
//! Skipped, with the reason printed, where no TensorFlow is found and `LMS_REQUIRE_TENSORFLOW` is unset.

#[path = "../support/mod.rs"]
mod support;

#[path = "../train/program.rs"]
#[allow(dead_code)]
mod program;

mod faults;
mod memory;
mod one_process;
mod same;
mod zoo;
