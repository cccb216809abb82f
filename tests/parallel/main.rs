//! Training on several workers: real processes on the loopback device, TensorFlow's own servers and collectives.
//!
//! Skipped, with the reason printed, where no TensorFlow is found and `LMS_REQUIRE_TENSORFLOW` is unset.

mod faults;
mod functions;
mod late;
mod memory;
mod one_process;
mod records;
mod same;
mod table;
mod told;
mod whole_batch;
mod wide;
mod zoo;
