//! What can be wrong with a file.

use std::io;
use std::path::PathBuf;

use super::Kind;
use super::wire::WireError;

/// Why a model could not be read or written. Each message names the file and says what was found there; what made it so is its source.
#[derive(Debug, thiserror::Error)]
pub enum FormatError {
    /// The operating system refused to read the file.
    #[error("{name}: cannot be read")]
    Read {
        /// The file, as the user named it.
        name: String,
        /// The operating system's reason.
        source: io::Error,
    },
    /// The operating system refused to write the output.
    #[error("{}: cannot be written", path.display())]
    Write {
        /// The output.
        path: PathBuf,
        /// The operating system's reason.
        source: io::Error,
    },
    /// Nothing to read.
    #[error("{name}: the file is empty")]
    Empty {
        /// The file.
        name: String,
    },
    /// A directory without `saved_model.pb`.
    #[error("{name}: is a directory but no SavedModel: it holds no saved_model.pb and no saved_model.pbtxt")]
    NoSavedModel {
        /// The directory.
        name: String,
    },
    /// Neither of the formats.
    #[error(
        "{name}: is no TensorFlow graph: {why} (expected a GraphDef, MetaGraphDef or SavedModel, binary or text)"
    )]
    Unrecognized {
        /// The file.
        name: String,
        /// What spoke against it.
        why: String,
    },
    /// Recognized, but broken further on.
    #[error("{name}: the {kind} is damaged or cut off: {error}, while reading {part}")]
    Damaged {
        /// The file.
        name: String,
        /// What the file looked like.
        kind: Kind,
        /// Which part was being read.
        part: &'static str,
        /// Where and how it is broken.
        error: WireError,
    },
    /// A name that is no UTF-8.
    #[error("{name}: node {node}: its {field} is not UTF-8")]
    NotUtf8 {
        /// The file.
        name: String,
        /// Which node, counted from 0.
        node: usize,
        /// Which field of the node.
        field: &'static str,
    },
    /// A protobuf part other than a node that does not decode.
    #[error("{name}: cannot decode {part}")]
    Decode {
        /// The file.
        name: String,
        /// Which part.
        part: String,
        /// The decoder's reason.
        source: prost::DecodeError,
    },
    /// Text that is no protobuf text, or names what no graph has.
    #[error("{name}:{line}:{column}: {message}")]
    Syntax {
        /// The file.
        name: String,
        /// Line, counted from 1.
        line: usize,
        /// Column in characters, counted from 1.
        column: usize,
        /// What is wrong there.
        message: String,
    },
    /// No graph inside.
    #[error("{name}: the {kind} holds no graph")]
    NoGraph {
        /// The file.
        name: String,
        /// The file's kind.
        kind: Kind,
    },
    /// More than one graph inside and none chosen.
    #[error("{name}: the SavedModel holds {} graphs; choose one with --tags: {}", choices.len(), choices.join(" | "))]
    ChooseGraph {
        /// The file.
        name: String,
        /// The tag sets that there are.
        choices: Vec<String>,
    },
    /// More than protobuf can hold.
    #[error("{name}: {bytes} bytes are more than the 2 GiB that a protobuf message may have")]
    TooLarge {
        /// The file.
        name: String,
        /// Its size.
        bytes: u64,
    },
    /// A conversion that would lose something.
    #[error(
        "{name}: has fields that this version does not know, and converting it would lose them: write it as {keep}"
    )]
    LossyConversion {
        /// The file.
        name: String,
        /// The encoding that keeps them.
        keep: super::Encoding,
    },
}
