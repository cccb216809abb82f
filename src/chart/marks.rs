//! Peaks, and what stands beside them.

use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, VPos};

use super::ChartError;
use super::draw::Scale;
use super::figure::{Curve, Figure, Mark, Panel};
use super::palette::{colour, colour_of};
use super::strokes::{Area, failed};
use super::text::{TEXT_PIXELS, text, text_width};

/// Marks the curves' peaks, and writes beside each its size, where nothing else was written.
pub(super) fn draw_marks(
    plot: &Area,
    figure: &Figure,
    panel: &Panel,
    scale: &Scale,
    limit: Option<i32>,
) -> Result<(), ChartError> {
    let mut taken: Vec<Rect> = limit
        .map(|y| Rect { left: 0, right: scale.right as i32, top: y - 2, bottom: y + 2 })
        .into_iter()
        .collect();
    let peaks: Vec<(&Curve, &Mark)> =
        panel.curves.iter().filter_map(|curve| curve.peak.as_ref().map(|peak| (curve, peak))).collect();
    for (curve, peak) in peaks {
        let at = (scale.x(peak.x), scale.y(peak.y));
        let colour = colour(colour_of(figure, &curve.name));
        plot.draw(&Circle::new(at, 5, WHITE.filled())).map_err(failed)?;
        plot.draw(&Circle::new(at, 5, colour.stroke_width(2))).map_err(failed)?;
        let place = Rect::beside(at, text_width(&peak.text, TEXT_PIXELS), scale, &taken);
        plot.draw(&Rectangle::new(
            [(place.left, place.top), (place.right, place.bottom)],
            WHITE.mix(0.8).filled(),
        ))
        .map_err(failed)?;
        let centre = ((place.left + place.right) / 2, (place.top + place.bottom) / 2);
        text(plot, &peak.text, centre, TEXT_PIXELS, HPos::Center, VPos::Center)?;
        taken.push(place);
    }
    Ok(())
}

/// A rectangle of pixels.
#[derive(Debug, Clone, Copy)]
struct Rect {
    left: i32,
    right: i32,
    top: i32,
    bottom: i32,
}

impl Rect {
    /// The first free place beside a point: above, below, to its right, to its left; above if none is free.
    fn beside((x, y): (i32, i32), width: i32, scale: &Scale, taken: &[Rect]) -> Rect {
        let (right, bottom, height, gap) = (scale.right as i32, scale.bottom as i32, 18, 8);
        let left = (x - width / 2).clamp(2, (right - width - 2).max(2));
        let places = [
            (left, y - gap - height),
            (left, y + gap),
            (x + gap, y - height / 2),
            (x - gap - width, y - height / 2),
        ];
        let boxes = places.map(|(left, top)| Rect { left, right: left + width, top, bottom: top + height });
        let free = |place: &&Rect| {
            place.left >= 0
                && place.right <= right
                && place.top >= 0
                && place.bottom <= bottom
                && !taken.iter().any(|other| place.overlaps(other))
        };
        boxes.iter().find(free).copied().unwrap_or(boxes[0])
    }

    fn overlaps(&self, other: &Rect) -> bool {
        self.left < other.right
            && other.left < self.right
            && self.top < other.bottom
            && other.top < self.bottom
    }
}
