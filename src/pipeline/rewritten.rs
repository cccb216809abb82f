//! A rewritten model on its way to being checked and written.

use std::path::Path;

use super::Error;
use super::error::OfFile;
use crate::format::{Destination, Edits, Encoding, FormatError, Model as File, Rope, Source, Written};
use crate::verify::{self, Checked};

/// A model with a plan carried out, of which nothing is proved yet. It cannot be written: [`Rewritten::check`] it.
#[derive(Debug)]
pub struct Rewritten<'a> {
    pub(super) original: &'a super::Model,
    pub(super) file: File,
    pub(super) control_edges: usize,
}

impl Rewritten<'_> {
    /// How many control edges were added.
    pub fn control_edges(&self) -> usize {
        self.control_edges
    }

    /// The same, to be checked against the model that this one's was made from.
    #[must_use]
    pub fn of<'o>(self, original: &'o super::Model) -> Rewritten<'o> {
        Rewritten { original, file: self.file, control_edges: self.control_edges }
    }

    /// Proves that it computes what the original does. `train_ops` are ops that a step is run for, beside those that the file names.
    ///
    /// # Errors
    ///
    /// If it is not proved: because it is not so, or because the checker cannot see that it is.
    pub fn check(self, train_ops: &[String]) -> Result<Checked, Error> {
        self.original.prove(self.file, train_ops)
    }

    /// The model as it is, for someone who checks it otherwise.
    pub fn unchecked(self) -> File {
        self.file
    }
}

impl Checked {
    /// The file's content in an encoding.
    ///
    /// # Errors
    ///
    /// If the encoding cannot hold all of it.
    pub fn content(&self, encoding: Encoding) -> Result<Rope<'_>, FormatError> {
        self.model().edited(&Edits::default(), encoding)
    }

    /// The file's content in the encoding of the original.
    ///
    /// # Errors
    ///
    /// If it is more than a protobuf message may be.
    pub fn to_bytes(&self) -> Result<Vec<u8>, Error> {
        Ok(self.content(self.model().encoding())?.to_vec())
    }

    /// Writes it: all of it or, on an error, nothing. `source` is where the original came from: from a SavedModel's folder comes a
    /// folder with everything else copied.
    ///
    /// # Errors
    ///
    /// If the operating system refuses, or the encoding cannot hold all of it.
    pub fn write(
        &self,
        destination: &Destination,
        source: &Source,
        encoding: Encoding,
    ) -> Result<Written, Error> {
        Ok(destination.write(&self.content(encoding)?, source)?)
    }
}

impl super::Model {
    /// Writes what became of this model, in the same encoding: all of it or, on an error, nothing. From a
    /// SavedModel's folder comes a folder with everything else copied.
    ///
    /// # Errors
    ///
    /// If the operating system refuses.
    pub fn write(&self, checked: &Checked, path: impl AsRef<Path>) -> Result<Written, Error> {
        let destination = Destination::Path(path.as_ref().to_path_buf());
        let source = self.source().cloned().unwrap_or(Source::Stdin);
        checked.write(&destination, &source, self.file().encoding())
    }

    /// Proves that a rewritten model computes what this one does. `train_ops` are ops that a step is run for, beside those that the
    /// file names.
    ///
    /// # Errors
    ///
    /// If it is not proved: because it is not so, or because the checker cannot see that it is.
    pub fn prove(&self, rewritten: File, train_ops: &[String]) -> Result<Checked, Error> {
        let options = verify::CheckOptions { train_ops: train_ops.to_vec(), is_function: self.is_function };
        let name = rewritten.name().to_string();
        Ok(verify::prove(self.file(), rewritten, self.registry(), &options).of(&name)?)
    }
}
