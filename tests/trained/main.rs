//! Rewritten graphs and predictions, held against real TensorFlow.
//!
//! Skipped, with the reason printed, where no TensorFlow is found and `LMS_REQUIRE_TENSORFLOW` is unset.

mod any_graph;
mod prediction;
mod same_losses;
