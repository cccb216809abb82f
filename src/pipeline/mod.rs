//! The whole way of a graph, from a file to a checked file: what a program that uses this library calls.
//!
//! The rooms beside this one do one step each. Here they are put together, in the same way for all tools: [`Model`] is a file with
//! what is known about it, [`Budget`] how much memory there is and how to plan for it, [`Fit`] what came of that, and [`Checked`] a
//! rewritten model of which it is proved that it computes the same. Nothing here knows a command line, prints, or ends the
//! process; every error is an [`Error`].

mod analysis;
mod branches;
mod budget;
mod copied;
mod error;
mod fit;
mod for_workers;
mod image_order;
mod in_no_pieces;
mod in_turn;
mod kept_zeros;
mod loop_notes;
mod model;
mod op_defs;
mod rewritten;
mod scaled;
mod scratch_note;
mod simulated;
mod summary;
mod uncounted;

pub use analysis::AnalysisOptions;
pub use branches::branches_note;
pub use budget::{Budget, DEFAULT_PROFILE, StrategyChoice, host_device, measured_ops, profile};
pub use copied::copied;
pub use error::{About, Error};
pub use fit::Fit;
pub use image_order::image_order_note;
pub use in_turn::StepFit;
pub use kept_zeros::kept_zeros_note;
pub use loop_notes::loop_notes;
pub use model::{Model, OpenOptions, StepFunction, read};
pub use op_defs::read_op_list;
pub use rewritten::Rewritten;
pub use scaled::Scaled;
pub use scratch_note::scratch_note;
pub use simulated::Simulated;
pub use summary::{DeviceSummary, Summary, SummaryVerdict};
pub use uncounted::uncounted_note;

pub use crate::verify::Checked;
