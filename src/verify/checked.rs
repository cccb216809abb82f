//! What this room alone can make.

use super::{CheckOptions, Verified, VerifyError, check_with};
use crate::format::Model;
use crate::ops::OpRegistry;

/// A rewritten model of which it is proved that it computes what the original does. Only [`prove`] makes one.
#[derive(Debug)]
pub struct Checked {
    model: Model,
    verified: Verified,
}

impl Checked {
    /// The rewritten model.
    pub fn model(&self) -> &Model {
        &self.model
    }

    /// What was counted on the way.
    pub fn verified(&self) -> &Verified {
        &self.verified
    }
}

/// As [`check_with`], for who wants to go on with the rewritten model.
///
/// # Errors
///
/// As for [`super::check`].
pub fn prove(
    original: &Model,
    rewritten: Model,
    ops: &OpRegistry,
    options: &CheckOptions,
) -> Result<Checked, VerifyError> {
    let verified = check_with(original, &rewritten, ops, options)?;
    Ok(Checked { model: rewritten, verified })
}
