//! A sweep as a figure: rate against size, and below it what it costs.

use tf_lms::chart::{SweepChart, SweepPanel, SweepPoint, SweepSeries};

use super::columns::Line;
use super::report::SweepReport;
use super::rows::{Mode, Outcome};
use super::work::Unit;

/// Units of bytes, the largest first.
const BYTES: [(&str, f64); 3] =
    [("GiB/step", (1 << 30) as f64), ("MiB/step", (1 << 20) as f64), ("KiB/step", 1024.0)];

/// The figure of a sweep.
pub fn figure(report: &SweepReport) -> SweepChart {
    let (size_name, size_unit) = match report.unit {
        Unit::Examples => ("batch size", ""),
        Unit::Megapixels => ("resolution", "pixels a side"),
        Unit::Megavoxels => ("resolution", "voxels a side"),
        Unit::MegaElements => (report.about.sizes_name.as_str(), ""),
    };
    let rows = &report.rows;
    let bytes = |line: &Line| Some((line.out_bytes_per_step? + line.in_bytes_per_step?) as f64);
    let most = rows.iter().filter_map(bytes).fold(0.0, f64::max);
    let &(bytes_unit, scale) = BYTES.iter().find(|(_, scale)| most >= *scale).unwrap_or(&BYTES[2]);
    let rate = SweepPanel {
        // Where memory ran out is marked once.
        series: series(rows, |line| line.rate, true),
        name: "rate".to_string(),
        unit: report.unit.rate(),
    };
    let below = [
        ("slowdown", "%", series(rows, |line| line.slowdown_percent, false)),
        ("over the link, out and in", bytes_unit, series(rows, |line| Some(bytes(line)? / scale), false)),
        ("link occupancy", "%", series(rows, |line| line.link_occupancy_percent, false)),
        ("compute occupancy", "%", series(rows, |line| line.compute_occupancy_percent, false)),
    ];
    let below = below
        .into_iter()
        .filter(|(_, _, series)| !series.is_empty())
        .map(|(name, unit, series)| SweepPanel { name: name.to_string(), unit: unit.to_string(), series });
    SweepChart {
        title: format!("{}, {}", report.about.model, report.about.place()),
        size_name: size_name.to_string(),
        size_unit: size_unit.to_string(),
        panels: std::iter::once(rate).chain(below).collect(),
    }
}

/// A curve for each way of training that has anything to show.
fn series(rows: &[Line], value: impl Fn(&Line) -> Option<f64>, with_end: bool) -> Vec<SweepSeries> {
    let of = |mode: Mode| {
        let rows = || rows.iter().filter(move |line| line.mode == mode);
        let lacking = |line: &&Line| matches!(line.outcome, Outcome::OutOfMemory | Outcome::DoesNotFit);
        let point = |line: &Line| Some(SweepPoint { size: line.size as f64, value: value(line)? });
        SweepSeries {
            name: mode.to_string(),
            points: rows().filter_map(point).collect(),
            out_of_memory_size: rows().find(lacking).filter(|_| with_end).map(|line| line.size as f64),
        }
    };
    let is_empty = |series: &SweepSeries| series.points.is_empty() && series.out_of_memory_size.is_none();
    [Mode::WithoutLms, Mode::ByGrappler, Mode::WithLms]
        .map(of)
        .into_iter()
        .filter(|series| !is_empty(series))
        .collect()
}
