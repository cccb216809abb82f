//! Messages as TensorFlow prints them: a line for each field, an element of a repeated field like a field of its own.

use std::fmt::Write;

use prost_reflect::{DynamicMessage, FieldDescriptor, Kind, MapKey, Value};

/// Appends the fields of a message, each line indented by so many blanks. Fields that the definitions do not know are left out.
pub(super) fn print_message(message: &DynamicMessage, indent: usize, out: &mut String) {
    for (field, value) in message.fields() {
        match value {
            Value::List(elements) => {
                for element in elements {
                    print_field(field.name(), &field.kind(), element, indent, out);
                }
            }
            Value::Map(entries) => print_map(&field, entries, indent, out),
            value => print_field(field.name(), &field.kind(), value, indent, out),
        }
    }
}

/// Appends `name { … }`.
pub(super) fn print_block(
    name: &str,
    indent: usize,
    out: &mut String,
    body: impl FnOnce(usize, &mut String),
) {
    let blank = " ".repeat(indent);
    out.push_str(&blank);
    out.push_str(name);
    out.push_str(" {\n");
    body(indent + 2, out);
    out.push_str(&blank);
    out.push_str("}\n");
}

/// Whether a message, or one in it, has fields that the definitions do not know.
pub(super) fn has_unknown_fields(message: &DynamicMessage) -> bool {
    fn in_value(value: &Value) -> bool {
        match value {
            Value::Message(message) => has_unknown_fields(message),
            Value::List(elements) => elements.iter().any(in_value),
            Value::Map(entries) => entries.values().any(in_value),
            _ => false,
        }
    }
    message.unknown_fields().next().is_some() || message.fields().any(|(_, value)| in_value(value))
}

fn print_map(
    field: &FieldDescriptor,
    entries: &std::collections::HashMap<MapKey, Value>,
    indent: usize,
    out: &mut String,
) {
    let Kind::Message(entry) = field.kind() else { return };
    let mut sorted: Vec<(&MapKey, &Value)> = entries.iter().collect();
    sorted.sort_by(|a, b| a.0.cmp(b.0));
    for (key, value) in sorted {
        print_block(field.name(), indent, out, |indent, out| {
            print_field("key", &entry.map_entry_key_field().kind(), &Value::from(key.clone()), indent, out);
            print_field("value", &entry.map_entry_value_field().kind(), value, indent, out);
        });
    }
}

fn print_field(name: &str, kind: &Kind, value: &Value, indent: usize, out: &mut String) {
    if let Value::Message(message) = value {
        return print_block(name, indent, out, |indent, out| print_message(message, indent, out));
    }
    out.push_str(&" ".repeat(indent));
    out.push_str(name);
    out.push_str(": ");
    print_scalar(kind, value, out);
    out.push('\n');
}

fn print_scalar(kind: &Kind, value: &Value, out: &mut String) {
    // Writing to a string does not fail.
    let _ = match value {
        Value::Bool(value) => write!(out, "{value}"),
        Value::I32(value) => write!(out, "{value}"),
        Value::I64(value) => write!(out, "{value}"),
        Value::U32(value) => write!(out, "{value}"),
        Value::U64(value) => write!(out, "{value}"),
        Value::F32(value) if value.is_nan() => write!(out, "nan"),
        Value::F32(value) => write!(out, "{value:?}"),
        Value::F64(value) if value.is_nan() => write!(out, "nan"),
        Value::F64(value) => write!(out, "{value:?}"),
        Value::String(value) => {
            out.push_str(&quote(value.as_bytes()));
            Ok(())
        }
        Value::Bytes(value) => {
            out.push_str(&quote(value));
            Ok(())
        }
        Value::EnumNumber(number) => match kind.as_enum().and_then(|kind| kind.get_value(*number)) {
            Some(value) => write!(out, "{}", value.name()),
            None => write!(out, "{number}"),
        },
        Value::Message(_) | Value::List(_) | Value::Map(_) => Ok(()),
    };
}

/// A string in quotes, with all that is no plain ASCII escaped.
pub(super) fn quote(value: &[u8]) -> String {
    let mut quoted = String::with_capacity(value.len() + 2);
    quoted.push('"');
    for &byte in value {
        match byte {
            b'\n' => quoted.push_str("\\n"),
            b'"' | b'\\' => quoted.extend(['\\', byte as char]),
            b' '..=b'~' => quoted.push(byte as char),
            _ => {
                let _ = write!(quoted, "\\{byte:03o}");
            }
        }
    }
    quoted.push('"');
    quoted
}
