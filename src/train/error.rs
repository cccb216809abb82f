//! Why a graph cannot be trained.

use std::path::PathBuf;

/// What a graph lacks for training, or what was given for it and does not fit.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum TrainError {
    /// An op or tensor that was named and is not there.
    #[error("has no {what} {name:?}, which {given_by} names{}", suggest(near))]
    NoSuchName {
        /// Op or tensor.
        what: &'static str,
        /// The name.
        name: String,
        /// The flag or collection that names it.
        given_by: String,
        /// Names that are like it.
        near: Vec<String>,
    },
    /// Nothing says what a step runs.
    #[error("names no train op: give --train-op NAME, or --loss TENSOR if fetching that trains")]
    NoTrainOp,
    /// What is no graph.
    #[error("is no GraphDef: {error}")]
    NoGraph {
        /// What is wrong with it.
        error: prost::DecodeError,
    },
    /// Data whose origin is not in the graph.
    #[error(
        "takes data from {iterator:?}, and nothing of the graph makes that iterator, so workers cannot share the data and who goes on \
         cannot skip what was read: give --share-data off if each worker's data are its own"
    )]
    HiddenData {
        /// The iterator.
        iterator: String,
    },
    /// A function that no op of the file's graph calls.
    #[error(
        "nothing in the file's graph calls the function {function:?}: give it a signature, as          tf.saved_model.save(…, signatures={{\"train\": step}}) does, and name that with --signature"
    )]
    NoCall {
        /// The function.
        function: String,
    },
    /// Variables that nothing initializes.
    #[error(
        "has {variables} variables, such as {example:?}, and names no way to initialize them: give --init-op NAME or \
         --restore CHECKPOINT"
    )]
    NoInit {
        /// How many.
        variables: usize,
        /// One of them.
        example: String,
    },
    /// A placeholder whose shape is open.
    #[error(
        "the shape of placeholder {name:?} is open ({shape}): give --batch-size N, --shape {name}=D1xD2x… (scalar for a single number), or --feed {name}=FILE.npy"
    )]
    OpenShape {
        /// The placeholder.
        name: String,
        /// What is known of the shape.
        shape: String,
    },
    /// A feed for what cannot be fed.
    #[error("--feed {name}: {why}")]
    Feed {
        /// The placeholder.
        name: String,
        /// What is wrong.
        why: String,
    },
    /// A file of values that cannot be used.
    #[error("{}: {why}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        why: String,
    },
    /// A graph that cannot save or restore.
    #[error(
        "has no saver, so --save and --restore cannot be used: a MetaGraphDef with a saver_def is needed"
    )]
    NoSaver,
}

fn suggest(near: &[String]) -> String {
    if near.is_empty() { String::new() } else { format!("; there is {}", near.join(", ")) }
}
