//! `lms-rewrite` and `lms-tune` as their users meet them. (`lms-train` needs TensorFlow: `tests/train`.)

mod command_line;
#[cfg(feature = "tune")]
mod explain;
mod reports;
#[cfg(feature = "tune")]
mod run;
mod tensorflow;
#[cfg(feature = "tune")]
mod tune;
#[cfg(feature = "tune")]
mod weights;
