//! Changes to one node, written between the bytes that stay.

use std::ops::Range;

use prost::Message;
use prost_reflect::DynamicMessage;

use super::nodes::{field, is_attr};
use super::print::{print_message, quote};
use super::rope::Rope;
use super::scan::{Scanner, TextField, TextValue};
use super::text::descriptor;
use super::wire::{Field, Fields, put_string};
use crate::proto::tensorflow::attr_value::Value;
use crate::proto::tensorflow::{AttrValue, NodeDef};

/// What happens to one attribute of a node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AttrEdit {
    /// A string of this name is added, behind all others.
    Add(&'static str, String),
    /// The one of this name goes.
    Remove(&'static str),
    /// The one of the first name has the second one from now on.
    Rename(&'static str, &'static str),
}

/// All that changes in a node that stays.
#[derive(Debug, Clone, Copy)]
pub(super) struct NodeEdit<'e> {
    /// Its new inputs, all of them.
    pub inputs: Option<&'e [String]>,
    /// Its new device; none within for none.
    pub device: Option<Option<&'e str>>,
    pub attrs: &'e [AttrEdit],
}

impl NodeEdit<'_> {
    /// The attributes that are added, each as a node's only field.
    fn added_attrs(&self) -> impl Iterator<Item = NodeDef> {
        self.attrs.iter().filter_map(|edit| {
            let AttrEdit::Add(name, value) = edit else { return None };
            let value = AttrValue { value: Some(Value::S(value.clone().into_bytes())) };
            Some(NodeDef { attr: [(name.to_string(), value)].into(), ..NodeDef::default() })
        })
    }

    /// The attributes that are there and change, each with its new name, if it stays.
    fn changed_attrs(&self) -> impl Iterator<Item = (&'static str, Option<&'static str>)> {
        self.attrs.iter().filter_map(|edit| match edit {
            AttrEdit::Add(..) => None,
            AttrEdit::Remove(name) => Some((*name, None)),
            AttrEdit::Rename(old, new) => Some((*old, Some(*new))),
        })
    }

    /// The content of a `NodeDef` in `bytes` with these changes: each input in the place of the old one, further ones after the last, the
    /// device in the place of the old one or behind the inputs, all else as it is.
    pub fn of_binary<'a>(&self, bytes: &'a [u8], content: Range<usize>) -> Rope<'a> {
        let parts: Vec<_> = Fields::new(bytes, content).flatten().collect();
        let rank = |number: u32| if number == field::INPUT { 2 } else { u8::from(number <= field::OP) };
        // What is new goes behind the last input, or behind name and op where there is none.
        let anchor = parts.iter().map(|part| rank(part.number)).max().unwrap_or(0);
        let anchor = parts.iter().rposition(|part| anchor > 0 && rank(part.number) == anchor);
        let mut new_device = self.device;
        let has_device = parts.iter().any(|part| part.number == field::DEVICE);

        let mut rope = Rope::new(bytes);
        let mut next = self.inputs.unwrap_or_default().iter();
        let put = |rope: &mut Rope<'_>, number: u32, value: &str| {
            let mut encoded = Vec::new();
            put_string(number, value, &mut encoded);
            rope.push_new(encoded);
        };
        let mut put_device = |rope: &mut Rope<'_>| {
            if let Some(device) = new_device.take().flatten() {
                put(rope, field::DEVICE, device);
            }
        };
        if anchor.is_none() {
            next.by_ref().for_each(|input| put(&mut rope, field::INPUT, input));
            put_device(&mut rope);
        }
        for (index, part) in parts.into_iter().enumerate() {
            match part.number {
                field::INPUT if self.inputs.is_some() => {
                    let old = part.bytes(field::INPUT).map(|old| &bytes[old]);
                    match next.next() {
                        Some(input) if old == Some(input.as_bytes()) => rope.push_source(part.span),
                        Some(input) => put(&mut rope, field::INPUT, input),
                        None => {}
                    }
                }
                field::DEVICE if self.device.is_some() => put_device(&mut rope),
                field::ATTR => match self.changed_attrs().find(|(name, _)| is_attr(bytes, &part, name)) {
                    Some((_, Some(new))) => rope.push_rope(with_key(bytes, &part, new)),
                    Some((_, None)) => {}
                    None => rope.push_source(part.span),
                },
                _ => rope.push_source(part.span),
            }
            if Some(index) == anchor {
                next.by_ref().for_each(|input| put(&mut rope, field::INPUT, input));
                if !has_device {
                    put_device(&mut rope);
                }
            }
        }
        self.added_attrs().for_each(|attr| rope.push_new(attr.encode_to_vec()));
        rope
    }

    /// Appends the node at `span` of a text with these changes.
    pub fn of_text(&self, text: &str, span: Range<usize>, rope: &mut Rope<'_>) {
        let Some(open) = text[span.clone()].find(['{', '<']) else { return rope.push_source(span) };
        let close = text[span.clone()].rfind(['}', '>']).map_or(span.end, |close| span.start + close);
        let body = span.start + open + 1..close;
        let fields: Vec<TextField> = Scanner::within(text, body.clone()).fields().flatten().collect();
        let indent = fields.first().map_or("", |first| indentation(text, first.span.start));
        let begins_line = |place: usize| place == 0 || text[..place].ends_with('\n');
        let line = |place: usize, name: &str, value: &str| {
            let quoted = quote(value.as_bytes());
            match begins_line(place) {
                true => format!("{indent}{name}: {quoted}\n"),
                false => format!(" {name}: {quoted} "),
            }
        };
        let named = |name: &'static str| fields.iter().filter(move |field| field.name(text) == name);
        let behind = |name: &'static str| {
            named(name).next_back().map(|field| whole_lines(text, field.span.clone()).end)
        };
        let behind_op = behind("op").unwrap_or(body.start);

        // What takes whose place, in the order of the text.
        let mut changes: Vec<(Range<usize>, String)> = Vec::new();
        if let Some(inputs) = self.inputs {
            let first = named("input").next().map(|first| whole_lines(text, first.span.clone()).start);
            let place = first.unwrap_or(behind_op);
            let new = inputs.iter().map(|input| line(place, "input", input)).collect();
            changes.push((place..place, new));
            changes
                .extend(named("input").map(|field| (whole_lines(text, field.span.clone()), String::new())));
        }
        if let Some(device) = self.device {
            let place = behind("input").unwrap_or(behind_op);
            let mut old = named("device");
            changes.extend(match (old.next().map(|first| &first.span), device) {
                (None, device) => device.map(|device| (place..place, line(place, "device", device))),
                (Some(old), Some(device)) => Some((value(text, old), quote(device.as_bytes()))),
                (Some(old), None) => Some((whole_lines(text, old.clone()), String::new())),
            });
            changes.extend(old.map(|more| (whole_lines(text, more.span.clone()), String::new())));
        }
        for (old, new) in self.changed_attrs() {
            let keys = named("attr").filter_map(|field| Some((field, attr_key(text, field)?)));
            changes.extend(keys.filter(|(_, key)| &text[key.clone()] == old).map(|(field, key)| match new {
                Some(new) => (key, new.to_string()),
                None => (whole_lines(text, field.span.clone()), String::new()),
            }));
        }
        for attr in self.added_attrs() {
            let place = fields.last().map_or(body.end, |last| whole_lines(text, last.span.clone()).end);
            let mut new = String::new();
            let mut message = DynamicMessage::new(descriptor("tensorflow.NodeDef"));
            // What we encoded ourselves decodes.
            if message.merge(attr.encode_to_vec().as_slice()).is_ok() {
                print_message(&message, indent.len(), &mut new);
            }
            if !begins_line(place) {
                new = format!(" {} ", new.trim());
            }
            changes.push((place..place, new));
        }
        changes.sort_by_key(|(place, _)| (place.start, place.end));

        let mut position = span.start;
        for (place, new) in changes {
            rope.push_source(position..place.start);
            position = place.end;
            rope.push_new(new.into_bytes());
        }
        rope.push_source(position..span.end);
    }
}

/// An entry of a node's attributes under another name, all else as it is.
fn with_key<'a>(bytes: &'a [u8], part: &Field, name: &str) -> Rope<'a> {
    let mut rope = Rope::new(bytes);
    for inner in part.bytes(field::ATTR).into_iter().flat_map(|entry| Fields::new(bytes, entry).flatten()) {
        match inner.number {
            1 => {
                let mut key = Vec::new();
                put_string(1, name, &mut key);
                rope.push_new(key);
            }
            _ => rope.push_source(inner.span),
        }
    }
    rope.enclosed(field::ATTR)
}

/// Where the value of the field at `span` of a text stands.
fn value(text: &str, span: &Range<usize>) -> Range<usize> {
    let field = &text[span.clone()];
    let start = field.find(':').map_or(0, |colon| colon + 1);
    let start = start + field[start..].len() - field[start..].trim_start().len();
    span.start + start..span.start + field.trim_end_matches([',', ';', ' ']).len()
}

/// Where the name of an attribute stands in a text, without its quotes; names of attributes need no escapes.
fn attr_key(text: &str, field: &TextField) -> Option<Range<usize>> {
    let TextValue::Message(entry) = &field.value else { return None };
    let key =
        Scanner::within(text, entry.clone()).fields().flatten().find(|part| part.name(text) == "key")?;
    let start = key.span.start + text[key.span.clone()].find(['"', '\''])? + 1;
    let end = start + text[start..key.span.end].find(['"', '\''])?;
    Some(start..end)
}

/// The lines that a field fills, if it shares none with another; else the field alone.
pub(super) fn whole_lines(text: &str, span: Range<usize>) -> Range<usize> {
    let start = span.start - indentation(text, span.start).len();
    let starts_line = start == 0 || text[..start].ends_with('\n');
    let after = text[span.end..].trim_start_matches([' ', '\t', '\r']);
    match after.strip_prefix('\n') {
        Some(next) if starts_line => start..text.len() - next.len(),
        _ => span,
    }
}

/// The blanks before a position, back to the start of its line or to something else.
pub(super) fn indentation(text: &str, position: usize) -> &str {
    let before = &text[..position];
    &before[before.trim_end_matches([' ', '\t']).len()..]
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::format::{Edits, Encoding, Model, ReadOptions};

    const TEXT: &str = r#"node {
  name: "plain"
  op: "Const"
}
# Comments stay where they are.
node {
  name: "placed"
  op: "Identity"
  input: "plain"
  device: "/device:GPU:1"  # so do these
  attr {
    key: "_class"
    value { list { s: "loc:@plain" } }
  }
  attr { key: 'T' value { type: DT_FLOAT } }
}
"#;

    /// Moves both nodes, and renames an attribute of the second.
    fn there(attr: AttrEdit) -> Edits {
        Edits {
            devices: [(0, Some("/cpu:0".to_string())), (1, Some("/cpu:1".to_string()))].into(),
            attrs: [(0, vec![AttrEdit::Add("_old", "somewhere".to_string())]), (1, vec![attr])].into(),
            ..Edits::default()
        }
    }

    fn back(attr: AttrEdit) -> Edits {
        Edits {
            devices: [(0, None), (1, Some("/device:GPU:1".to_string()))].into(),
            attrs: [(0, vec![AttrEdit::Remove("_old")]), (1, vec![attr])].into(),
            ..Edits::default()
        }
    }

    fn edited(model: &Model, edits: &Edits) -> Model {
        let content = model.edited(edits, model.encoding()).unwrap().to_vec();
        Model::from_bytes("edited", content, &ReadOptions::default()).unwrap()
    }

    fn both_encodings() -> [Model; 2] {
        let read = |content: Vec<u8>| Model::from_bytes("test", content, &ReadOptions::default()).unwrap();
        let text = read(TEXT.as_bytes().to_vec());
        let binary = read(text.edited(&Edits::default(), Encoding::Binary).unwrap().to_vec());
        [text, binary]
    }

    #[test]
    fn devices_and_attributes_change_and_nothing_else() {
        for model in both_encodings() {
            let changed = edited(&model, &there(AttrEdit::Rename("_class", "_old_class")));
            let nodes = changed.nodes();
            assert_eq!([nodes.device(0), nodes.device(1)], ["/cpu:0", "/cpu:1"]);
            assert_eq!(nodes.attr(1, "_old_class"), model.nodes().attr(1, "_class"));
            assert!(nodes.attr(1, "_class").is_none() && nodes.attr(1, "T").is_some());
            let old = nodes.attr(0, "_old").unwrap();
            assert_eq!(old.value, Some(Value::S(b"somewhere".to_vec())));
            assert_eq!(nodes.inputs(1).collect::<Vec<_>>(), ["plain"]);
        }
    }

    #[test]
    fn changes_can_be_undone_to_the_byte() {
        for model in both_encodings() {
            let bytes = |model: &Model| model.edited(&Edits::default(), model.encoding()).unwrap().to_vec();
            let changed = edited(&model, &there(AttrEdit::Rename("_class", "_old_class")));
            assert_ne!(bytes(&changed), bytes(&model));
            let undone = edited(&changed, &back(AttrEdit::Rename("_old_class", "_class")));
            assert_eq!(bytes(&undone), bytes(&model));
            // With inputs beside them.
            let inputs = |names: &[&str]| -> BTreeMap<usize, Vec<String>> {
                [(1, names.iter().map(ToString::to_string).collect())].into()
            };
            let both = Edits {
                inputs: inputs(&["plain", "^plain"]),
                ..there(AttrEdit::Rename("_class", "_old_class"))
            };
            let changed = edited(&model, &both);
            assert_eq!(changed.nodes().inputs(1).collect::<Vec<_>>(), ["plain", "^plain"]);
            let both = Edits { inputs: inputs(&["plain"]), ..back(AttrEdit::Rename("_old_class", "_class")) };
            assert_eq!(bytes(&edited(&changed, &both)), bytes(&model));
        }
    }

    #[test]
    fn several_attributes_of_a_node_change() {
        let added = || AttrEdit::Add("_old", "elsewhere".to_string());
        for model in both_encodings() {
            let there = vec![added(), AttrEdit::Rename("_class", "_old_class")];
            let changed = edited(&model, &Edits { attrs: [(1, there)].into(), ..Edits::default() });
            let nodes = changed.nodes();
            assert!(nodes.attr(1, "_old").is_some() && nodes.attr(1, "_class").is_none());
            assert_eq!(nodes.attr(1, "_old_class"), model.nodes().attr(1, "_class"));
            let back = vec![AttrEdit::Remove("_old"), AttrEdit::Rename("_old_class", "_class")];
            let edits = Edits { attrs: [(1, back)].into(), ..Edits::default() };
            let bytes = |model: &Model| model.edited(&Edits::default(), model.encoding()).unwrap().to_vec();
            assert_eq!(bytes(&edited(&changed, &edits)), bytes(&model));
        }
    }

    #[test]
    fn nodes_may_be_lines() {
        let text = "node { name: 'a' op: 'Const' }\nnode { name: 'b' op: 'Identity' input: 'a' }\n";
        let model = Model::from_bytes("test", text.as_bytes().to_vec(), &ReadOptions::default()).unwrap();
        let changed = edited(&model, &there(AttrEdit::Add("_old", "elsewhere".to_string())));
        let nodes = changed.nodes();
        assert_eq!([nodes.device(0), nodes.device(1)], ["/cpu:0", "/cpu:1"]);
        assert!(nodes.attr(0, "_old").is_some() && nodes.attr(1, "_old").is_some());
        assert_eq!(nodes.inputs(1).collect::<Vec<_>>(), ["a"]);
    }

    #[test]
    fn an_attribute_goes() {
        for model in both_encodings() {
            let edits = Edits { attrs: [(1, vec![AttrEdit::Remove("T")])].into(), ..Edits::default() };
            let changed = edited(&model, &edits);
            assert!(changed.nodes().attr(1, "T").is_none());
            assert_eq!(changed.nodes().attr(1, "_class"), model.nodes().attr(1, "_class"));
        }
    }
}
