//! What every chart is made of: panels one below the other over one x axis, with curves in them.

use super::pointing::{Pointing, PointingCurve, PointingPanel, Reading};
use super::unit::number;
use super::{ChartError, draw, palette};

/// What is drawn, in the units of its axes.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Figure {
    pub(super) title: String,
    /// What the x axis shows, and in which unit.
    pub(super) x: Axis,
    pub(super) panels: Vec<Panel>,
    /// What the curves' points can name; the lines of each.
    pub(super) labels: Vec<Vec<String>>,
}

/// An axis. That of x always starts at 0.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Axis {
    pub(super) name: String,
    /// What numbers on it are followed by; empty if they are plain numbers.
    pub(super) unit: String,
    pub(super) start: f64,
    pub(super) end: f64,
    /// Whether all values on it are logarithms to base 2.
    pub(super) is_logarithmic: bool,
}

impl Axis {
    /// A number as it stands on the axis, which is so long.
    pub(super) fn label(&self, value: f64, length: f64) -> String {
        if self.is_logarithmic { number(value.exp2(), value.exp2()) } else { number(value, length) }
    }

    /// What stands beside the axis.
    pub(super) fn title(&self) -> String {
        match (self.name.as_str(), self.unit.as_str()) {
            (name, "") => name.to_string(),
            ("", unit) => unit.to_string(),
            (name, unit) => format!("{name} ({unit})"),
        }
    }
}

#[derive(Debug, Clone, PartialEq)]
pub(super) struct Panel {
    pub(super) name: String,
    pub(super) y: Axis,
    pub(super) curves: Vec<Curve>,
    /// A line that should not be passed.
    pub(super) limit: Option<Level>,
    /// A band from 0 up.
    pub(super) band: Option<Level>,
}

/// A height in a panel and what the legend calls it.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Level {
    pub(super) y: f64,
    pub(super) name: String,
}

#[derive(Debug, Clone, PartialEq)]
pub(super) struct Curve {
    pub(super) name: String,
    /// What the legend says behind the name.
    pub(super) note: String,
    pub(super) reading: Reading,
    /// In the order of x.
    pub(super) points: Vec<(f64, f64)>,
    /// For each point, or for none, the label.
    pub(super) labels: Vec<Option<u32>>,
    pub(super) peak: Option<Mark>,
    /// Where on the x axis the curve could not go on.
    pub(super) broken_at: Option<f64>,
}

/// A place on a curve, with text beside it.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Mark {
    pub(super) x: f64,
    pub(super) y: f64,
    pub(super) text: String,
}

/// A figure drawn.
#[derive(Debug, Clone, PartialEq)]
pub struct Drawing {
    pub(super) title: String,
    pub(super) svg: String,
    pub(super) pointing: Pointing,
}

impl Figure {
    pub(super) fn draw(&self) -> Result<Drawing, ChartError> {
        let mut svg = String::new();
        let placed = draw::draw(self, &mut svg)?;
        let mut pointing = Pointing {
            x_unit: self.x.unit.clone(),
            x_is_logarithmic: self.x.is_logarithmic,
            panels: Vec::new(),
            labels: Vec::new(),
        };
        let mut numbers = vec![None; self.labels.len()];
        for (panel, placed) in self.panels.iter().zip(placed) {
            let mut curves = Vec::new();
            for (curve, kept) in panel.curves.iter().zip(placed.kept) {
                let points = kept.into_iter().map(|index| {
                    let label = curve.labels.get(index).copied().flatten().map(|label| label as usize);
                    let number = label.map(|label| {
                        // Only labels that a point drawn still names come along.
                        *numbers[label].get_or_insert_with(|| {
                            pointing.labels.push(self.labels[label].clone());
                            pointing.labels.len() - 1
                        })
                    });
                    (curve.points[index].0, curve.points[index].1, number)
                });
                let points = points.collect();
                let colour = palette::colour_text(palette::colour_of(self, &curve.name));
                curves.push(PointingCurve {
                    name: curve.name.clone(),
                    colour,
                    reading: curve.reading,
                    points,
                });
            }
            pointing.panels.push(PointingPanel {
                left: placed.left,
                top: placed.top,
                width: placed.width,
                height: placed.height,
                x_end: self.x.end,
                y_unit: panel.y.unit.clone(),
                y_is_logarithmic: panel.y.is_logarithmic,
                curves,
            });
        }
        Ok(Drawing { title: self.title.clone(), svg, pointing })
    }
}

/// Refuses what has no place on an axis that starts at 0.
pub(super) fn check_value(
    curve: &str,
    index: usize,
    quantity: &'static str,
    value: f64,
) -> Result<(), ChartError> {
    if value >= 0.0 {
        check_finite(curve, index, quantity, value)
    } else {
        Err(no_place(curve, index, quantity, value))
    }
}

/// Refuses NaN and infinity.
pub(super) fn check_finite(
    curve: &str,
    index: usize,
    quantity: &'static str,
    value: f64,
) -> Result<(), ChartError> {
    if value.is_finite() { Ok(()) } else { Err(no_place(curve, index, quantity, value)) }
}

fn no_place(curve: &str, index: usize, quantity: &'static str, value: f64) -> ChartError {
    ChartError::Value { curve: curve.to_string(), index, quantity, value }
}

/// Refuses values that have no place on an axis, or that do not rise.
pub(super) fn check_rising(
    curve: &str,
    quantity: &'static str,
    values: impl Iterator<Item = f64>,
) -> Result<(), ChartError> {
    let mut last = 0.0;
    for (index, value) in values.enumerate() {
        check_value(curve, index, quantity, value)?;
        if value < last {
            return Err(ChartError::Order { curve: curve.to_string(), index, quantity });
        }
        last = value;
    }
    Ok(())
}
