//! What is written of a sweep, and where.

use tf_lms::chart::Chart;
use tf_lms::cli::SweepSpec;
use tf_lms::cost::DeviceProfile;
use tf_lms::format::write_file;

use super::columns::lines;
use super::figure::figure;
use super::ground::Ground;
use super::report::{About, SweepReport};
use super::rows::{Row, Source};
use super::sizes::Sizes;
use crate::args::Args;

/// What is written, and where.
pub struct Outputs<'a> {
    pub args: &'a Args,
    pub spec: &'a SweepSpec,
    pub ground: &'a Ground,
    pub profile: &'a DeviceProfile,
    pub sizes: &'a Sizes,
}

impl Outputs<'_> {
    /// What there is to say of some rows.
    pub fn report(&self, rows: &[Row], notes: Vec<String>) -> SweepReport {
        let is_predicted = rows.iter().any(|row| row.source == Source::Predicted);
        let about = About {
            model: self.args.model.source().name(),
            sweep: self.spec.to_string(),
            sizes_name: self.spec.sizes_name(),
            device: self.ground.device.to_string(),
            device_profile: is_predicted.then(|| self.profile.name.clone()),
            gpu_mem_bytes: self.ground.gpu_mem.clone(),
        };
        SweepReport::new(about, lines(rows, |size| self.sizes.amount(size)), self.sizes.unit, notes)
    }

    /// Writes the files that were asked for.
    ///
    /// # Errors
    ///
    /// If one of them cannot be written.
    pub fn write(&self, report: &SweepReport) -> anyhow::Result<()> {
        if let Some(path) = &self.args.sweep.csv {
            write_file(path, &report.csv()?)?;
        }
        if let Some(path) = &self.args.sweep.plot {
            figure(report).write(path)?;
        }
        Ok(())
    }
}
