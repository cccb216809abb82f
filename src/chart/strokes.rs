//! Small things that are drawn in several places.

use std::fmt::Display;

use plotters::coord::Shift;
use plotters::prelude::*;

use super::ChartError;
use super::palette::LIMIT;

/// A part of the drawing.
pub(super) type Area<'a> = DrawingArea<SVGBackend<'a>, Shift>;

/// What the drawing library says, as an error of the chart's.
pub(super) fn failed(error: impl Display) -> ChartError {
    ChartError::Draw { reason: error.to_string() }
}

/// A dashed line at height `y`.
pub(super) fn dashes(area: &Area, (from, to): (i32, i32), y: i32) -> Result<(), ChartError> {
    let mut x = from;
    while x < to {
        let dash = PathElement::new(vec![(x, y), ((x + 8).min(to), y)], LIMIT.stroke_width(2));
        area.draw(&dash).map_err(failed)?;
        x += 13;
    }
    Ok(())
}

/// A cross in the middle of which a place lies.
pub(super) fn cross(plot: &Area, (x, y): (i32, i32), colour: RGBColor) -> Result<(), ChartError> {
    for (from, to) in [((x - 6, y - 6), (x + 6, y + 6)), ((x - 6, y + 6), (x + 6, y - 6))] {
        plot.draw(&PathElement::new(vec![from, to], colour.stroke_width(3))).map_err(failed)?;
    }
    Ok(())
}
