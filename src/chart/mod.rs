//! The project's figures: memory over a training step, rate against size or number of GPUs, as SVG, PNG or a page to point at;
//! and timelines for Perfetto.
//!
//! A chart says what is to be seen; a `Figure` is the same in panels, axes and curves, which are drawn once, as SVG.
//! A PNG is that SVG rendered with a font that comes along, and a page is that SVG with the points that it was drawn of.

mod draw;
mod error;
mod figure;
mod legend;
mod marks;
mod memory;
mod page;
mod palette;
#[cfg(feature = "png")]
mod png;
mod pointing;
mod scaling;
mod strokes;
mod sweep;
mod text;
mod thin;
mod timeline;
mod unit;

use std::path::Path;

pub use error::ChartError;
pub use figure::Drawing;
pub use memory::{MemoryChart, MemoryPanel, MemoryPeak, MemoryPoint, MemorySeries, OpLabel};
pub use scaling::{ScalingChart, ScalingPoint, ScalingSeries};
pub use sweep::{SweepChart, SweepPanel, SweepPoint, SweepSeries};
pub use timeline::{Engine, Timeline, Track};

use crate::format::write_file;

/// A figure that can be written to a file. The same chart always gives the same bytes.
pub trait Chart {
    /// Draws the chart.
    ///
    /// # Errors
    ///
    /// If a value has no place on an axis.
    fn drawing(&self) -> Result<Drawing, ChartError>;

    /// The chart as SVG.
    ///
    /// # Errors
    ///
    /// If a value has no place on an axis.
    fn svg(&self) -> Result<String, ChartError> {
        Ok(self.drawing()?.svg)
    }

    /// The chart as PNG.
    ///
    /// # Errors
    ///
    /// If a value has no place on an axis, or this was built without the feature `png`.
    fn png(&self) -> Result<Vec<u8>, ChartError> {
        let drawing = self.drawing()?;
        #[cfg(feature = "png")]
        return png::render(&drawing.svg);
        #[cfg(not(feature = "png"))]
        {
            let _ = drawing;
            Err(ChartError::NoPng)
        }
    }

    /// The chart as an HTML page that needs nothing else: where one points at a curve, it says what is there.
    ///
    /// # Errors
    ///
    /// If a value has no place on an axis.
    fn html(&self) -> Result<String, ChartError> {
        page::page(&self.drawing()?)
    }

    /// Writes the chart in the format that the file's extension names: `.svg`, `.png` or `.html`.
    ///
    /// # Errors
    ///
    /// If it is another extension, a value has no place on an axis, or the operating system refuses.
    fn write(&self, path: &Path) -> Result<(), ChartError> {
        let extension = path.extension().and_then(|extension| extension.to_str()).unwrap_or_default();
        let content = match extension.to_lowercase().as_str() {
            "svg" => self.svg()?.into_bytes(),
            "png" => self.png()?,
            "html" => self.html()?.into_bytes(),
            _ => return Err(ChartError::Extension { path: path.to_path_buf() }),
        };
        Ok(write_file(path, &content)?)
    }
}

#[cfg(all(test, feature = "png"))]
mod tests;
