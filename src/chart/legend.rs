//! What the colours and lines of a panel stand for.

use plotters::coord::Shift;
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, VPos};

use super::ChartError;
use super::draw::{BAND, LIMIT, TEXT_PIXELS, colour, colour_of, text, text_width};
use super::figure::{Figure, Panel};

const ROW_HEIGHT: i32 = 20;
const SWATCH_WIDTH: i32 = 26;
const GAP: i32 = 22;

enum Swatch {
    Curve(usize),
    Limit,
    Band,
}

/// A panel's legend: entries side by side, as many in a row as fit.
pub(super) struct Legend {
    rows: Vec<Vec<(i32, Swatch, String)>>,
}

impl Legend {
    /// The legend of a panel, so many pixels wide.
    pub(super) fn of(figure: &Figure, panel: &Panel, width: i32) -> Legend {
        let curves = panel.curves.iter().map(|curve| {
            let name = match curve.note.as_str() {
                "" => curve.name.clone(),
                note => format!("{}: {note}", curve.name),
            };
            (Swatch::Curve(colour_of(figure, &curve.name)), name)
        });
        let limit = panel.limit.iter().map(|limit| (Swatch::Limit, limit.name.clone()));
        let band = panel.band.iter().map(|band| (Swatch::Band, band.name.clone()));
        let mut rows: Vec<Vec<_>> = Vec::new();
        let mut left = 0;
        for (swatch, name) in curves.chain(limit).chain(band) {
            let room = width - SWATCH_WIDTH - 6;
            let name = shorten(&name, room);
            let entry_width = SWATCH_WIDTH + 6 + text_width(&name, TEXT_PIXELS);
            match rows.last_mut() {
                Some(row) if left + entry_width <= width => row.push((left, swatch, name)),
                _ => {
                    left = 0;
                    rows.push(vec![(0, swatch, name)]);
                }
            }
            left += entry_width + GAP;
        }
        Legend { rows }
    }

    /// How high it is, in pixels.
    pub(super) fn height(&self) -> i32 {
        self.rows.len() as i32 * ROW_HEIGHT + 8
    }

    /// Draws it with its upper left corner at a place.
    pub(super) fn draw(
        &self,
        area: &DrawingArea<SVGBackend, Shift>,
        (left, top): (i32, i32),
    ) -> Result<(), ChartError> {
        for (row, entries) in self.rows.iter().enumerate() {
            let y = top + row as i32 * ROW_HEIGHT + ROW_HEIGHT / 2;
            for (offset, swatch, name) in entries {
                let x = left + offset;
                let end = x + SWATCH_WIDTH;
                match *swatch {
                    Swatch::Limit => dashes(area, (x, end), y)?,
                    Swatch::Band => {
                        let rectangle = Rectangle::new([(x, y - 6), (end, y + 6)], BAND.mix(0.25).filled());
                        area.draw(&rectangle).map_err(failed)?;
                    }
                    Swatch::Curve(number) => {
                        let line = PathElement::new(vec![(x, y), (end, y)], colour(number).stroke_width(4));
                        area.draw(&line).map_err(failed)?;
                    }
                }
                text(area, name, (end + 6, y), TEXT_PIXELS, HPos::Left, VPos::Center)?;
            }
        }
        Ok(())
    }
}

fn failed(error: impl std::fmt::Display) -> ChartError {
    ChartError::Draw { reason: error.to_string() }
}

/// A dashed line at height `y`.
pub(super) fn dashes(
    area: &DrawingArea<SVGBackend, Shift>,
    (from, to): (i32, i32),
    y: i32,
) -> Result<(), ChartError> {
    let mut x = from;
    while x < to {
        let dash = PathElement::new(vec![(x, y), ((x + 8).min(to), y)], LIMIT.stroke_width(2));
        area.draw(&dash).map_err(failed)?;
        x += 13;
    }
    Ok(())
}

/// A text with its middle left out if it is too wide: an op's name tells most at its two ends.
fn shorten(content: &str, width: i32) -> String {
    let characters: Vec<char> = content.chars().collect();
    let fitting = (f64::from(width) / (TEXT_PIXELS * 0.61)) as usize;
    if characters.len() <= fitting {
        return content.to_string();
    }
    let kept = fitting.saturating_sub(1);
    let (front, back) = (kept - kept / 3, kept / 3);
    let start: String = characters[..front].iter().collect();
    let end: String = characters[characters.len() - back..].iter().collect();
    format!("{start}…{end}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_text_loses_its_middle() {
        assert_eq!(shorten("short", 100), "short");
        let short = shorten(&"ä".repeat(500), 200);
        assert!(text_width(&short, TEXT_PIXELS) <= 200, "{short}");
        assert!(short.contains('…'));
    }
}
