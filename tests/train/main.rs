//! `lms-train` on real TensorFlow with the software GPU.
//!
//! Skipped, with the reason printed, where no TensorFlow is found and `LMS_REQUIRE_TENSORFLOW` is unset.

mod branches;
mod calls;
mod checkpoints;
mod comparison;
mod data;
mod errors;
mod functions;
mod grappler;
mod host;
mod link;
mod loops;
mod made_graphs;
mod odd;
mod plans;
mod reports;
mod signatures;
mod sweep;
mod updates;
mod weights;
mod while_loops;
