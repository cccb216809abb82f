//! Rate and efficiency against the number of GPUs.

use super::figure::{Axis, Curve, Drawing, Figure, Level, Mark, Panel, check_rising};
use super::pointing::Reading;
use super::unit::number;
use super::{Chart, ChartError};

/// What is predicted of more and more GPUs. The number of GPUs and the rate have logarithmic axes.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ScalingChart {
    /// The title: the model, the cluster.
    pub title: String,
    /// The unit of rates: `examples/s`.
    pub rate_unit: String,
    /// A curve for each way of training.
    pub series: Vec<ScalingSeries>,
    /// The efficiency that should be left, as a part of one worker's rate.
    pub wanted_efficiency: Option<f64>,
}

/// One way of training on more and more GPUs.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ScalingSeries {
    /// Which way: `without LMS`, `with LMS`.
    pub name: String,
    /// In the order of their numbers of GPUs.
    pub points: Vec<ScalingPoint>,
}

/// What is predicted of so many GPUs.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct ScalingPoint {
    /// How many; at least 1.
    pub gpus: u32,
    /// The rate of all of them together, above 0.
    pub rate: f64,
    /// What is left of one worker's rate for each, as a part of it.
    pub efficiency: f64,
    /// Whether it is the one that was asked about.
    pub is_marked: bool,
}

impl Chart for ScalingChart {
    fn drawing(&self) -> Result<Drawing, ChartError> {
        self.check()?;
        let all = || self.series.iter().flat_map(|series| &series.points);
        let most = all().map(|point| f64::from(point.gpus)).fold(1.0, f64::max);
        // Whole powers of 2, so that the axis has round numbers.
        let rates = || all().map(|point| point.rate.log2());
        let least = rates().fold(f64::INFINITY, f64::min).floor();
        let end = rates().fold(f64::NEG_INFINITY, f64::max).ceil();
        let (start, end) = if least < end { (least, end) } else { (end - 1.0, end + 1.0) };
        let (start, end) = if start.is_finite() && end.is_finite() { (start, end) } else { (0.0, 1.0) };
        let limit = self.wanted_efficiency.map(|part| Level {
            y: part * 100.0,
            name: format!("{}% of one GPU's rate", number(part * 100.0, 100.0)),
        });
        let figure = Figure {
            title: self.title.clone(),
            x: Axis {
                name: "GPUs".to_string(),
                unit: String::new(),
                start: 0.0,
                end: most.log2().ceil().max(1.0),
                is_logarithmic: true,
            },
            panels: vec![
                Panel {
                    name: "predicted".to_string(),
                    y: Axis {
                        name: "rate of all".to_string(),
                        unit: self.rate_unit.clone(),
                        start,
                        end,
                        is_logarithmic: true,
                    },
                    curves: self.curves(|point| point.rate.log2(), &self.rate_unit),
                    limit: None,
                    band: None,
                },
                Panel {
                    name: "predicted".to_string(),
                    y: Axis {
                        name: "of one GPU's rate".to_string(),
                        unit: "%".to_string(),
                        start: 0.0,
                        end: 105.0,
                        is_logarithmic: false,
                    },
                    curves: self.curves(|point| point.efficiency * 100.0, ""),
                    limit,
                    band: None,
                },
            ],
            labels: Vec::new(),
        };
        figure.draw()
    }
}

impl ScalingChart {
    fn check(&self) -> Result<(), ChartError> {
        for series in &self.series {
            check_rising(
                &series.name,
                "number of GPUs",
                series.points.iter().map(|point| f64::from(point.gpus)),
            )?;
            for (index, point) in series.points.iter().enumerate() {
                let values = [
                    ("number of GPUs", f64::from(point.gpus), point.gpus > 0),
                    ("rate", point.rate, point.rate > 0.0 && point.rate.is_finite()),
                    ("efficiency", point.efficiency, point.efficiency >= 0.0 && point.efficiency.is_finite()),
                ];
                if let Some(&(quantity, value, _)) = values.iter().find(|(_, _, is_good)| !is_good) {
                    return Err(ChartError::Value { curve: series.name.clone(), index, quantity, value });
                }
            }
        }
        Ok(())
    }

    /// The curves, with the height of a point; where there is a unit, what was asked about is told in it.
    fn curves(&self, height: impl Fn(&ScalingPoint) -> f64, unit: &str) -> Vec<Curve> {
        let place = |point: &ScalingPoint| (f64::from(point.gpus).log2(), height(point));
        let curve = |series: &ScalingSeries| Curve {
            name: series.name.clone(),
            note: String::new(),
            reading: Reading::Points,
            points: series.points.iter().map(place).collect(),
            labels: Vec::new(),
            peak: series.points.iter().find(|point| point.is_marked && !unit.is_empty()).map(|point| Mark {
                x: place(point).0,
                y: place(point).1,
                text: format!("{} GPUs: {} {unit}", point.gpus, number(point.rate, point.rate)),
            }),
            broken_at: None,
        };
        self.series.iter().map(curve).collect()
    }
}
