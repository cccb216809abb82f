//! Taking all LMS ops out again.

use std::collections::HashMap;

use super::error::RewriteError;
use super::names;
use crate::format::{AttrEdit, Edits, Model};

/// The edits that turn a rewritten graph into the one that it was made from.
///
/// # Errors
///
/// If there are no LMS ops, or some that do not have their form.
pub fn strip(model: &Model) -> Result<Edits, RewriteError> {
    let nodes = model.nodes();
    let mut edits = Edits::default();
    // What each swap op reads.
    let mut sources: HashMap<&str, &str> = HashMap::new();
    for node in 0..nodes.len() {
        let name = nodes.name(node);
        if names::is_added(name) {
            edits.removed.insert(node);
            if let Some(source) = nodes.inputs(node).next().filter(|input| !input.starts_with('^')) {
                sources.insert(name, source);
            }
        }
    }
    for node in 0..nodes.len() {
        let mut attrs = Vec::new();
        if let Some(device) = names::device_before(nodes, node) {
            edits.devices.insert(node, Some(device).filter(|device| !device.is_empty()));
            attrs.push(AttrEdit::Remove(names::DEVICE_BEFORE));
        }
        if names::is_freed(nodes, node) {
            attrs.push(AttrEdit::Rename(names::CLASS_BEFORE, names::CLASS));
        }
        if !attrs.is_empty() {
            edits.attrs.insert(node, attrs);
        }
    }
    if edits.is_empty() {
        return Err(RewriteError::NothingToStrip);
    }
    for node in (0..nodes.len()).filter(|node| !edits.removed.contains(node)) {
        if nodes.inputs(node).any(|input| names::is_added(input.trim_start_matches('^'))) {
            let inputs: Result<Vec<_>, _> =
                nodes.inputs(node).filter_map(|input| original_input(input, &sources).transpose()).collect();
            edits.inputs.insert(node, inputs?);
        }
    }
    Ok(edits)
}

/// What an input was before the rewrite; none for a control input that was not there.
fn original_input(input: &str, sources: &HashMap<&str, &str>) -> Result<Option<String>, RewriteError> {
    if let Some(control) = input.strip_prefix('^') {
        return Ok((!names::is_added(control)).then(|| input.to_string()));
    }
    if let Some(node) = names::recomputed(input.rsplit_once(':').map_or(input, |(name, _)| name)) {
        return Ok(Some(names::same_output(input, node)));
    }
    let mut source = input;
    // A swap-in reads the tensor or its swap-out: two steps at most. What it reads may be all workers', made from what each has, which
    // may have been swapped too.
    for _ in 0..6 {
        let name = source.strip_suffix(":0").unwrap_or(source);
        let reader = names::reads_own(name);
        match sources.get(reader.as_deref().unwrap_or(name)) {
            Some(&next) => source = next,
            None if names::is_added(name) => break,
            None if source == input => return Ok(Some(input.to_string())),
            None if source.contains(':') => return Ok(Some(source.to_string())),
            None => return Ok(Some(names::like(input, source))),
        }
    }
    Err(RewriteError::UnknownForm {
        node: input.to_string(),
        what: "it does not lead back to a tensor of the original graph",
    })
}
