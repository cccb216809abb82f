//! A file without its swaps: what the reduces are looked for in.

use std::collections::HashMap;

use super::super::names::{AddedName, Input};
use crate::format::{AttrEdit, Edits, FormatError, Model, Nodes};
use crate::proto::tensorflow::attr_value::Value;

/// What of a swap op or of a second run is read in place of what.
enum Instead<'a> {
    /// The first output is this input of the op itself.
    FirstOutput(&'a str),
    /// Each output is that of this node.
    Node(&'a str),
    /// There is nothing to read.
    Nothing,
}

/// The file without what swaps, orders or computes again, and with all ops where they were.
pub(in super::super) fn without_swaps(model: &Model) -> Result<Model, FormatError> {
    let nodes = model.nodes();
    let mut edits = Edits::default();
    let mut instead: HashMap<&str, Instead<'_>> = HashMap::new();
    for node in 0..nodes.len() {
        let name = nodes.name(node);
        let first = || nodes.inputs(node).next().filter(|input| !input.starts_with('^'));
        let what = match AddedName::parse(name) {
            None => continue,
            Some(AddedName::Recomputed(original, _)) => Instead::Node(original),
            Some(AddedName::Order) => Instead::Nothing,
            Some(_) => first().map_or(Instead::Nothing, Instead::FirstOutput),
        };
        instead.insert(name, what);
        edits.removed.insert(node);
    }
    let stays: Vec<usize> = (0..nodes.len()).filter(|node| !edits.removed.contains(node)).collect();
    for node in stays {
        put_back(nodes, node, &mut edits);
        let reads_added = |input: &str| name_of(input).is_some_and(|name| instead.contains_key(name));
        if nodes.inputs(node).any(reads_added) {
            let inputs = nodes.inputs(node).filter_map(|input| before(input, &instead)).collect();
            edits.inputs.insert(node, inputs);
        }
    }
    model.changed(&edits, model.encoding())
}

fn name_of(input: &str) -> Option<&str> {
    Input::parse(input).map(|(Input::Data(name, _) | Input::Control(name))| name)
}

/// What an input was without the swaps; none for a control input that was not there.
fn before(input: &str, instead: &HashMap<&str, Instead<'_>>) -> Option<String> {
    if input.starts_with('^') {
        return name_of(input).is_none_or(|name| !instead.contains_key(name)).then(|| input.to_string());
    }
    let mut at = input.to_string();
    // A copy of a copy of all workers' mean is as deep as it goes.
    for _ in 0..4 {
        let Some(Input::Data(name, output)) = Input::parse(&at) else { break };
        at = match instead.get(name) {
            Some(Instead::FirstOutput(source)) if output == 0 => source.to_string(),
            Some(Instead::Node(node)) if output == 0 => node.to_string(),
            Some(Instead::Node(node)) => format!("{node}:{output}"),
            _ => break,
        };
    }
    Some(at)
}

/// Puts an op back that went to the host.
fn put_back(nodes: Nodes<'_>, node: usize, edits: &mut Edits) {
    const MARK: &str = "_lms_device";
    const CLASS_BEFORE: &str = "_lms_class";
    let mut attrs = Vec::new();
    if let Some(Value::S(device)) = nodes.attr(node, MARK).and_then(|mark| mark.value) {
        let device = String::from_utf8(device).unwrap_or_default();
        edits.devices.insert(node, Some(device).filter(|device| !device.is_empty()));
        attrs.push(AttrEdit::Remove(MARK));
    }
    if nodes.attr(node, CLASS_BEFORE).is_some() {
        attrs.push(AttrEdit::Rename(CLASS_BEFORE, "_class"));
    }
    if !attrs.is_empty() {
        edits.attrs.insert(node, attrs);
    }
}
