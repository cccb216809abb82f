//! How points end: measured where there is a device, else predicted.

use anyhow::bail;
use tf_lms::train::GrapplerMemory;

use super::ground::Ground;
use super::measure::measure;
use super::point::Answer;
use super::predict::Predictor;
use super::rows::{Ending, Mode, Outcome, Row, Source};
use super::sizes::Sizes;
use crate::args::Args;

/// Says how points end.
pub struct Answers<'a> {
    sizes: &'a Sizes,
    ground: &'a Ground,
    predictor: Predictor<'a>,
    predicts: bool,
    /// What points by Grappler have done to them.
    grappler: Option<GrapplerMemory>,
    /// Whether there was a device before.
    measured: bool,
    /// Why nothing can be measured.
    pub no_device: Option<String>,
}

impl<'a> Answers<'a> {
    /// For a sweep of which some rows are there already.
    pub fn new(
        sizes: &'a Sizes,
        ground: &'a Ground,
        predictor: Predictor<'a>,
        args: &Args,
        kept: &[Row],
    ) -> Answers<'a> {
        let has = |source: Source| kept.iter().any(|row| row.source == source);
        // Measured and predicted points in one sweep could not be compared.
        let predicts = args.sweep.predict || has(Source::Predicted);
        let (grappler, measured) = (args.grappler_memory, has(Source::Measured));
        Answers { sizes, ground, predictor, predicts, grappler, measured, no_device: None }
    }

    /// The row of a point.
    ///
    /// # Errors
    ///
    /// If no point at all can be answered.
    pub fn row(&mut self, size: u64, mode: Mode) -> anyhow::Result<Row> {
        let args = self.sizes.args(size)?;
        if !self.predicts {
            let ending = match measure(self.ground, args, mode, self.grappler)? {
                Answer::Ended(ending) => Some(ending),
                // One that was there before and is gone is a crash.
                Answer::NoDevice(why) if self.measured => Some(Ending::other(Outcome::Crashed, why)),
                Answer::NoDevice(why) if self.grappler.is_some() => {
                    bail!(
                        "nobody predicts what Grappler does, and there is no device to measure it on: {why}"
                    )
                }
                Answer::NoDevice(why) => {
                    self.no_device = Some(why);
                    None
                }
            };
            if let Some(ending) = ending {
                self.measured = true;
                return Ok(Row { size, mode, source: Source::Measured, ending });
            }
            self.predicts = true;
        }
        let ending = self.predictor.predict(size, args, mode)?;
        Ok(Row { size, mode, source: Source::Predicted, ending })
    }
}
