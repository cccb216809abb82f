//! What a page shows when one points at a place of a chart.

use serde::Serialize;

/// The panels with their places in the drawing, in pixels, and their curves.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(super) struct Pointing {
    pub(super) x_unit: String,
    /// Whether places are logarithms to base 2.
    pub(super) x_is_logarithmic: bool,
    pub(super) panels: Vec<PointingPanel>,
    /// The lines of each label that a point names by its number.
    pub(super) labels: Vec<Vec<String>>,
}

#[derive(Debug, Clone, PartialEq, Serialize)]
pub(super) struct PointingPanel {
    pub(super) left: i32,
    pub(super) top: i32,
    pub(super) width: i32,
    pub(super) height: i32,
    pub(super) x_end: f64,
    pub(super) y_unit: String,
    /// Whether values are logarithms to base 2.
    pub(super) y_is_logarithmic: bool,
    pub(super) curves: Vec<PointingCurve>,
}

#[derive(Debug, Clone, PartialEq, Serialize)]
pub(super) struct PointingCurve {
    pub(super) name: String,
    pub(super) colour: String,
    pub(super) reading: Reading,
    /// x, y and the label.
    pub(super) points: Vec<(f64, f64, Option<usize>)>,
}

/// How a curve is drawn, and what it says between its points.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Reading {
    /// A point holds until the next one.
    Steps,
    /// Only the points were measured; lines lead the eye from one to the next.
    Points,
}
