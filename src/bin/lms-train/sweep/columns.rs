//! What follows from a sweep's rows: rates, slowdown, occupancy.

use serde::Serialize;

use super::rows::{Mode, Outcome, Row, Source};
use super::work::Unit;

/// A row as it is shown. Empty where nobody knows.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Line {
    pub size: u64,
    pub mode: Mode,
    pub outcome: Outcome,
    pub source: Source,
    pub step_seconds: Option<f64>,
    /// In the sweep's unit.
    pub rate: Option<f64>,
    /// Of a point with LMS, or by Grappler: how much less its rate is than that at the largest size without LMS, as a part of that.
    pub slowdown_percent: Option<f64>,
    pub out_bytes_per_step: Option<u64>,
    pub in_bytes_per_step: Option<u64>,
    /// While one is under way, both directions together.
    pub link_bytes_per_second: Option<f64>,
    /// The part of the step in which the busier direction carries bytes.
    pub link_occupancy_percent: Option<f64>,
    pub compute_occupancy_percent: Option<f64>,
    pub peak_bytes: Option<u64>,
    pub message: Option<String>,
}

/// What the rows of a sweep say. `amount` is what a step of a size takes in.
pub fn lines(rows: &[Row], amount: impl Fn(u64) -> f64) -> Vec<Line> {
    let rate = |row: &Row| row.ending.figures.map(|figures| amount(row.size) / figures.step_seconds);
    let without = rows.iter().rev().filter(|row| row.mode == Mode::WithoutLms);
    let reference = without.filter_map(rate).next();
    let line = |row: &Row| {
        let figures = row.ending.figures;
        let percent = |seconds: Option<f64>| Some(seconds? / figures?.step_seconds * 100.0);
        let bytes = figures.and_then(|figures| Some((figures.out_bytes? + figures.in_bytes?) as f64));
        let copying = figures.and_then(|figures| figures.copy_seconds).filter(|&seconds| seconds > 0.0);
        let slowdown = rate(row).zip(reference).map(|(rate, reference)| (1.0 - rate / reference) * 100.0);
        Line {
            size: row.size,
            mode: row.mode,
            outcome: row.ending.outcome,
            source: row.source,
            step_seconds: figures.map(|figures| figures.step_seconds),
            rate: rate(row),
            slowdown_percent: slowdown.filter(|_| row.mode != Mode::WithoutLms),
            out_bytes_per_step: figures.and_then(|figures| figures.out_bytes),
            in_bytes_per_step: figures.and_then(|figures| figures.in_bytes),
            link_bytes_per_second: bytes.zip(copying).map(|(bytes, seconds)| bytes / seconds),
            link_occupancy_percent: percent(figures.and_then(|figures| figures.link_seconds)),
            compute_occupancy_percent: percent(figures.and_then(|figures| figures.compute_seconds)),
            peak_bytes: figures.and_then(|figures| figures.peak_bytes),
            message: row.ending.message.clone(),
        }
    };
    rows.iter().map(line).collect()
}

/// The names of a line's columns, with their units.
pub fn names(unit: Unit) -> [String; 14] {
    [
        "size",
        "mode",
        "outcome",
        "source",
        "step_seconds",
        &unit.column(),
        "slowdown_percent",
        "out_bytes_per_step",
        "in_bytes_per_step",
        "link_bytes_per_second",
        "link_occupancy_percent",
        "compute_occupancy_percent",
        "peak_bytes",
        "message",
    ]
    .map(str::to_string)
}

#[cfg(test)]
mod tests {
    use super::super::rows::{Ending, Figures};
    use super::*;

    fn row(size: u64, mode: Mode, seconds: f64) -> Row {
        let figures = Figures {
            step_seconds: seconds,
            out_bytes: Some(600),
            in_bytes: Some(400),
            copy_seconds: Some(seconds / 2.0),
            link_seconds: Some(seconds / 4.0),
            compute_seconds: None,
            peak_bytes: None,
        };
        Row { size, mode, source: Source::Measured, ending: Ending::trained(figures) }
    }

    #[test]
    fn slowdown_is_against_the_largest_without_lms() {
        let out = Ending::other(Outcome::OutOfMemory, "no more");
        let rows = [
            row(1, Mode::WithoutLms, 1.0),
            row(2, Mode::WithoutLms, 1.0),
            Row { size: 3, mode: Mode::WithoutLms, source: Source::Measured, ending: out },
            row(3, Mode::WithLms, 2.0),
            row(4, Mode::WithLms, 4.0),
        ];
        let lines = lines(&rows, |size| size as f64);
        let of = |column: fn(&Line) -> Option<f64>| lines.iter().map(column).collect::<Vec<_>>();
        assert_eq!(of(|line| line.rate), [Some(1.0), Some(2.0), None, Some(1.5), Some(1.0)]);
        assert_eq!(of(|line| line.slowdown_percent), [None, None, None, Some(25.0), Some(50.0)]);
        assert_eq!(lines[4].link_bytes_per_second, Some(500.0));
        assert_eq!(lines[4].link_occupancy_percent, Some(25.0));
        assert_eq!(lines[4].compute_occupancy_percent, None);
        let without_reference = super::lines(&rows[2..], |size| size as f64);
        assert!(without_reference.iter().all(|line| line.slowdown_percent.is_none()));
    }
}
