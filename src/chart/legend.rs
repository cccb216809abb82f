//! What the colours and lines of a panel stand for.

use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, VPos};

use super::ChartError;
use super::figure::{Figure, Panel};
use super::palette::{BAND, colour, colour_of};
use super::strokes::{Area, dashes, failed};
use super::text::{TEXT_PIXELS, shorten, text, text_width};

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
            let name = shorten(&name, TEXT_PIXELS, room);
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
    pub(super) fn draw(&self, area: &Area, (left, top): (i32, i32)) -> Result<(), ChartError> {
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
