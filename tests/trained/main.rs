//! Rewritten graphs and predictions, held against real TensorFlow.
//!
//! All of these open it by `lms_testing`, which has its kernels compute the same bits each time: TensorFlow asks about that once.
//!
//! Skipped, with the reason printed, where no TensorFlow is found and `LMS_REQUIRE_TENSORFLOW` is unset.

mod allocator;
mod any_graph;
mod prediction;
mod same_losses;
mod training;
