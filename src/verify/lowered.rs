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
use crate::format::Model;
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
    Ok(rewritten.changed(&restored(rewritten)?.unwrap_or_default(), rewritten.encoding())?)
}

fn made_flat(original: &Model, ops: &OpRegistry) -> Result<Model, FlattenError> {
    Ok(original.changed(&lowered(original, ops)?.unwrap_or_default(), original.encoding())?)
}
