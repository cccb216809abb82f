//! A file in which the calls at the top level of the graph were made flat.
//!
//! The nodes as they were are in the file. What has to be shown:
//!
//! * with these in the place of all nodes, the file is the original file;
//! * the original made flat and the file are two graphs of which the second computes what the first does: by all the other rules.
//!
//! The original is made flat from its bytes. How that is done is all that is shared with the rewrite (`flatten`); the tests hold it
//! against TensorFlow, which makes it flat by itself.

use super::report::{Report, Verified, VerifyError, ViolationKind};
use super::workers::Place;
use super::{CheckOptions, check_graphs};
use crate::flatten::{FlattenError, is_lowered, lowered, restored};
use crate::format::{Edits, FormatError, Model, ReadOptions};
use crate::ops::OpRegistry;

/// Whether a file has calls made flat that its original has.
pub(super) fn was_lowered(original: &Model, rewritten: &Model) -> bool {
    // What does not decode is found by the rules about the files.
    let is = |model: &Model| is_lowered(model).unwrap_or(false);
    is(rewritten) && !is(original)
}

/// Proves that such a file computes what its original does.
pub(super) fn check(
    original: &Model,
    rewritten: &Model,
    ops: &OpRegistry,
    options: &CheckOptions,
) -> Result<Verified, VerifyError> {
    let (back, flat) = match (as_it_was(rewritten), made_flat(original, ops)) {
        (Ok(back), Ok(flat)) => (back, flat),
        (Err(error), _) | (_, Err(error)) => {
            let mut report = Report::default();
            report.add(ViolationKind::Damaged, || {
                ([], "a top level that can be made flat, and be given back".to_string(), error.to_string())
            });
            return Err(report.into_error());
        }
    };
    check_graphs(original, &back, ops, options, Place::Graph)?;
    check_graphs(&flat, rewritten, ops, options, Place::Graph)
}

fn as_it_was(rewritten: &Model) -> Result<Model, FlattenError> {
    edited(rewritten, &restored(rewritten)?.unwrap_or_default())
}

fn made_flat(original: &Model, ops: &OpRegistry) -> Result<Model, FlattenError> {
    edited(original, &lowered(original, ops)?.unwrap_or_default())
}

fn edited(model: &Model, edits: &Edits) -> Result<Model, FlattenError> {
    let content = model.edited(edits, model.encoding())?.to_vec();
    Ok(Model::from_bytes(model.name(), content, &read_options(model)?)?)
}

/// What takes the same of several graphs again.
pub(super) fn read_options(model: &Model) -> Result<ReadOptions, FormatError> {
    let info = model.meta_graph()?.and_then(|meta_graph| meta_graph.meta_info_def);
    Ok(ReadOptions { tags: info.map(|info| info.tags) })
}
