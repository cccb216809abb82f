//! Nothing around the nodes changed: function library, versions, collections, signatures, saver, unknown fields.
//!
//! TensorFlow acts on all of these (a function's body is run, a collection names the train op, a signature the tensors
//! that are fed), so a rewrite that touches one of them is another program.

use prost::Message;
use prost_reflect::{DynamicMessage, Value};

use super::report::{Report, ViolationKind};
use crate::format::{Encoding, Model};
use crate::proto::descriptor_pool;
use crate::proto::tensorflow::{GraphDef, MetaGraphDef, NodeDef, SavedModel};

/// How bytes of the two files are compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Compare {
    /// Byte for byte.
    Bytes,
    /// By what they mean: reading text puts the entries of a map in no certain order.
    Meaning,
}

impl Compare {
    pub fn of(original: &Model, rewritten: &Model) -> Compare {
        match (original.encoding(), rewritten.encoding()) {
            (Encoding::Binary, Encoding::Binary) => Compare::Bytes,
            _ => Compare::Meaning,
        }
    }
}

/// Compares what is around the nodes.
pub(super) fn check(original: &Model, rewritten: &Model, report: &mut Report) {
    if original.kind() != rewritten.kind() {
        report.add(ViolationKind::FileKind, || {
            ([], format!("a {}", original.kind()), format!("a {}", rewritten.kind()))
        });
        return;
    }
    let compare = Compare::of(original, rewritten);
    let pairs = original.surroundings().into_iter().zip(rewritten.surroundings());
    for ((message, before), (_, after)) in pairs {
        let same = match compare {
            Compare::Bytes => before == after,
            Compare::Meaning => same_meaning(message, &before.concat(), &after.concat()),
        };
        if !same {
            report.add(ViolationKind::Surroundings, || {
                let length = |parts: &[&[u8]]| parts.iter().map(|part| part.len()).sum::<usize>();
                let (before, after) = (length(&before), length(&after));
                let short = message.trim_start_matches("tensorflow.");
                (
                    [],
                    format!("the {before} bytes around the nodes in the {short} as they were"),
                    format!("{after} bytes that differ"),
                )
            });
        }
    }
    // What the definitions do not know is in no binary encoding of a text.
    if compare == Compare::Meaning && original.unknown_text() != rewritten.unknown_text() {
        report.add(ViolationKind::Surroundings, || {
            let count = |model: &Model| format!("{} unknown fields of text", model.unknown_text().len());
            ([], format!("the {} as they were", count(original)), format!("{} that differ", count(rewritten)))
        });
    }
}

/// Whether two encodings of a message mean the same.
pub(super) fn same_meaning(message: &str, before: &[u8], after: &[u8]) -> bool {
    if before == after {
        return true;
    }
    if has_unknown_fields(message, before) || has_unknown_fields(message, after) {
        return false;
    }
    match message {
        "tensorflow.SavedModel" => same_encoded::<SavedModel>(before, after),
        "tensorflow.MetaGraphDef" => same_encoded::<MetaGraphDef>(before, after),
        "tensorflow.GraphDef" => same_encoded::<GraphDef>(before, after),
        _ => same_node(before, after),
    }
}

/// Our types order their maps, so equal messages have equal encodings.
fn same_encoded<M: Message + Default>(before: &[u8], after: &[u8]) -> bool {
    match (M::decode(before), M::decode(after)) {
        (Ok(before), Ok(after)) => before.encode_to_vec() == after.encode_to_vec(),
        _ => false,
    }
}

fn same_node(before: &[u8], after: &[u8]) -> bool {
    let decoded = |bytes| {
        let mut node = NodeDef::decode(bytes).ok()?;
        node.input.clear();
        Some(node.encode_to_vec())
    };
    decoded(before).is_some_and(|before| decoded(after) == Some(before))
}

/// Whether a message has fields that our types would drop; true also of what is no such message.
fn has_unknown_fields(message: &str, bytes: &[u8]) -> bool {
    let Some(descriptor) = descriptor_pool().get_message_by_name(message) else { return true };
    let Ok(decoded) = DynamicMessage::decode(descriptor, bytes) else { return true };
    holds_unknown_fields(&decoded)
}

fn holds_unknown_fields(message: &DynamicMessage) -> bool {
    let in_value = |value: &Value| value.as_message().is_some_and(holds_unknown_fields);
    let in_field = |value: &Value| match value {
        Value::List(elements) => elements.iter().any(in_value),
        Value::Map(entries) => entries.values().any(in_value),
        value => in_value(value),
    };
    message.unknown_fields().next().is_some() || message.fields().any(|(_, value)| in_field(value))
}
