//! Rate against size, as far as memory lets it go.

use super::figure::{Axis, Curve, Drawing, Figure, Panel, check_finite, check_rising, check_value};
use super::pointing::Reading;
use super::unit::number;
use super::{Chart, ChartError};

/// What a sweep over resolutions or batch sizes measured: how fast each way of training is, and how far it gets.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct SweepChart {
    /// The title: the model, what was swept, the GPU.
    pub title: String,
    /// What was swept: `resolution`, `batch size`.
    pub size_name: String,
    /// The unit of the sizes: `pixels a side`; empty for plain numbers.
    pub size_unit: String,
    /// The rate first, then what else was measured (slowdown, link occupancy), one below the other over the same sizes.
    pub panels: Vec<SweepPanel>,
}

/// One quantity against size.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct SweepPanel {
    /// The quantity: `rate`, `slowdown`, `link occupancy`.
    pub name: String,
    /// Its unit: `megapixels/s`, `images/s`, `%`; empty for plain numbers.
    pub unit: String,
    /// A curve for each way of training.
    pub series: Vec<SweepSeries>,
}

/// One way of training over all sizes.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct SweepSeries {
    /// Which way: `without LMS`, `with LMS`. A name has the same colour in every panel.
    pub name: String,
    /// In the order of their sizes.
    pub points: Vec<SweepPoint>,
    /// The least size at which memory ran out.
    pub out_of_memory_size: Option<f64>,
}

/// What was measured at one size.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct SweepPoint {
    /// The size.
    pub size: f64,
    /// The quantity there, in its panel's unit.
    pub value: f64,
}

impl Chart for SweepChart {
    fn drawing(&self) -> Result<Drawing, ChartError> {
        self.check()?;
        let largest = self.all_sizes().fold(0.0, f64::max);
        let figure = Figure {
            title: self.title.clone(),
            x: Axis {
                name: self.size_name.clone(),
                unit: self.size_unit.clone(),
                start: 0.0,
                end: end_of(largest),
                is_logarithmic: false,
            },
            panels: self.panels.iter().map(SweepPanel::figure).collect(),
            labels: Vec::new(),
        };
        figure.draw()
    }
}

/// The end of an axis on which a value lies, with a margin for what marks it.
fn end_of(most: f64) -> f64 {
    // Half the largest float: an axis from minus to plus that has a length.
    if most > 0.0 { (most * 1.05).min(f64::MAX / 2.0) } else { 1.0 }
}

impl SweepChart {
    fn check(&self) -> Result<(), ChartError> {
        for series in self.panels.iter().flat_map(|panel| &panel.series) {
            check_rising(&series.name, "size", series.points.iter().map(|point| point.size))?;
            for (index, point) in series.points.iter().enumerate() {
                check_finite(&series.name, index, "value", point.value)?;
            }
            if let Some(size) = series.out_of_memory_size {
                check_value(&series.name, series.points.len(), "size without enough memory", size)?;
            }
        }
        Ok(())
    }

    fn all_sizes(&self) -> impl Iterator<Item = f64> {
        self.panels
            .iter()
            .flat_map(|panel| &panel.series)
            .flat_map(|series| series.points.iter().map(|point| point.size).chain(series.out_of_memory_size))
    }
}

impl SweepPanel {
    fn figure(&self) -> Panel {
        let values = || self.series.iter().flat_map(|series| &series.points).map(|point| point.value);
        // A slowdown can come out a little below 0.
        let least = values().fold(0.0, f64::min);
        Panel {
            name: String::new(),
            y: Axis {
                name: self.name.clone(),
                unit: self.unit.clone(),
                start: if least < 0.0 { -end_of(-least) } else { 0.0 },
                end: end_of(values().fold(0.0, f64::max)),
                is_logarithmic: false,
            },
            curves: self.series.iter().map(SweepSeries::curve).collect(),
            limit: None,
            band: None,
        }
    }
}

impl SweepSeries {
    fn curve(&self) -> Curve {
        let note = self.out_of_memory_size.map(|size| format!("out of memory at {} (×)", number(size, size)));
        Curve {
            name: self.name.clone(),
            note: note.unwrap_or_default(),
            reading: Reading::Points,
            points: self.points.iter().map(|point| (point.size, point.value)).collect(),
            labels: Vec::new(),
            peak: None,
            broken_at: self.out_of_memory_size,
        }
    }
}
