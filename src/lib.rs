//! Large Model Support for serialized TensorFlow graphs.
//!
//! A training graph that does not fit in GPU memory goes in, the same graph comes out with its activations swapped to host memory at
//! the right moments. What is here at the top is the way of a graph from a file to a checked file; `pipeline` puts it together from the
//! rooms beside it, each of which does one step.
//!
//! Rewrite a file as TFLMSv2 would. Only the checker makes a [`Checked`] model, and only that can be written:
//!
//! ```
//! use tf_lms::AnalysisOptions;
//! use tf_lms::plan::tflms::Parameters;
//!
//! let model = tf_lms::read("testdata/mnist_cnn.meta")?;
//! let graph = model.graph()?;
//! let analysis = model.analyse(&graph, &AnalysisOptions::default())?;
//! let plan = analysis.plan(&Parameters { swapout_threshold: 10, ..Parameters::default() })?;
//! let checked = model.rewrite(&graph, &plan)?.check(&[])?;
//! assert!(checked.verified().swap_ins > 0);
//!
//! let folder = tempfile::tempdir().expect("a folder for the example");
//! model.write(&checked, folder.path().join("mnist_lms.meta"))?;
//! # Ok::<(), tf_lms::Error>(())
//! ```
//!
//! The same from bytes to bytes, for a memory budget:
//!
//! ```
//! use tf_lms::{AnalysisOptions, Budget, Model, OpenOptions};
//!
//! let content = std::fs::read("testdata/mnist_cnn.meta").expect("test data");
//! let model = Model::from_bytes("mnist_cnn", content, &OpenOptions::default())?;
//! let graph = model.graph()?;
//! let analysis = model.analyse(&graph, &AnalysisOptions::default())?;
//! match analysis.fit(&Budget::new(2 << 30))?.plan {
//!     Some(plan) => {
//!         let bytes: Vec<u8> = model.rewrite(&graph, &plan)?.check(&[])?.to_bytes()?;
//!         assert!(!bytes.is_empty());
//!     }
//!     None => println!("no plan was found for 2 GiB"),
//! }
//! # Ok::<(), tf_lms::Error>(())
//! ```
//!
//! `examples/` has these as programs, and one with a strategy of its own.
//!
//! TensorFlow is opened only where it must be asked for shapes: where the file has none, or [`AnalysisOptions`] gives some. Without the
//! feature `tensorflow` that is an error that says so. `default-features = false` leaves that and the command line out; `Cargo.toml` says
//! what the features are for.

#[cfg(feature = "pictures")]
pub mod chart;
#[cfg(feature = "cli")]
pub mod cli;
pub mod cost;
pub mod dtype;
pub mod flatten;
pub mod format;
pub mod graph;
pub mod omit;
pub mod ops;
pub mod order;
pub mod parallel;
#[cfg(feature = "pictures")]
pub mod picture;
pub mod pipeline;
pub mod plan;
pub mod proto;
pub mod rewrite;
#[cfg(feature = "tensorflow")]
pub mod runtime;
pub mod scale;
pub mod shape;
pub mod simulate;
pub mod size;
#[cfg(feature = "train")]
pub mod train;
pub mod tune;
pub mod verify;

pub use pipeline::{
    AnalysisOptions, Budget, Checked, Error, Fit, Model, OpenOptions, Rewritten, StepFunction,
    StrategyChoice, read,
};
pub use plan::{Analysis, Plan};
