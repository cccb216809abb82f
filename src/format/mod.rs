//! Files: GraphDef, MetaGraphDef and SavedModel, binary and text.
//!
//! Reading keeps the file's bytes and finds out where the nodes lie in them ([`Model`]). Writing copies these bytes but
//! for the nodes that [`Edits`] names. So whatever this library does not know or touch comes back as it was, to
//! the byte, and a file of 2 GiB needs little more than 2 GiB of memory.

mod collections;
mod edit;
mod edit_node;
mod error;
mod files;
mod model;
mod nodes;
mod print;
mod rope;
mod scan;
mod text;
pub(crate) mod wire;

use std::fmt;

pub use collections::{collected_ops, collected_variables, op_name};
pub use edit::Edits;
pub use edit_node::AttrEdit;
pub use error::FormatError;
pub use files::{Destination, Source, Written, write_file};
pub use model::{Function, Model, ReadOptions};
pub use nodes::{NodeList, Nodes};
pub use rope::Rope;
pub(crate) use text::parse_message;
pub use wire::WireError;

/// Which message a file holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// A graph alone, usually `.pb`.
    GraphDef,
    /// A graph with its collections, signatures and saver, usually `.meta`.
    MetaGraphDef,
    /// One or more MetaGraphDefs, usually in a directory with the variables' values.
    SavedModel,
}

impl Kind {
    /// The name of the protobuf message.
    pub fn message_name(self) -> &'static str {
        match self {
            Kind::GraphDef => "tensorflow.GraphDef",
            Kind::MetaGraphDef => "tensorflow.MetaGraphDef",
            Kind::SavedModel => "tensorflow.SavedModel",
        }
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Kind::GraphDef => "GraphDef",
            Kind::MetaGraphDef => "MetaGraphDef",
            Kind::SavedModel => "SavedModel",
        })
    }
}

/// How a message is written down.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Encoding {
    /// The protobuf wire format.
    Binary,
    /// The protobuf text format, usually `.pbtxt`.
    Text,
}

impl fmt::Display for Encoding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Encoding::Binary => "binary",
            Encoding::Text => "text",
        })
    }
}
