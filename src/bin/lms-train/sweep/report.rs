//! What the user sees of a sweep.

use std::fmt::{self, Display};

use serde::Serialize;
use tf_lms::cli::Size;

use super::columns::{self, Line};
use super::rows::{Mode, Outcome};
use super::work::Unit;

/// The version of the JSON document.
const SCHEMA: u32 = 1;

/// All that a sweep found out.
#[derive(Debug, Serialize)]
pub struct SweepReport {
    schema: u32,
    #[serde(flatten)]
    pub about: About,
    /// The unit of `rate`.
    rate_unit: String,
    largest_without_lms: Option<u64>,
    /// None as well if Grappler took no part.
    largest_by_grappler: Option<u64>,
    largest_with_lms: Option<u64>,
    pub rows: Vec<Line>,
    notes: Vec<String>,
    #[serde(skip)]
    pub unit: Unit,
}

/// What was swept, and where.
#[derive(Debug, Clone, Serialize)]
pub struct About {
    pub model: String,
    pub sweep: String,
    #[serde(skip)]
    pub sizes_name: String,
    pub device: String,
    /// What was predicted for; none if all was measured.
    pub device_profile: Option<String>,
    pub gpu_mem_bytes: Vec<u64>,
}

impl About {
    /// Where it took place: `on soft:436207616`, or what was predicted for.
    pub fn place(&self) -> String {
        match &self.device_profile {
            None => format!("on {}", self.device),
            Some(profile) => {
                let memory = self.gpu_mem_bytes.iter().map(|&bytes| Size(bytes).to_string());
                format!("predicted for {profile} with {}", memory.collect::<Vec<_>>().join(", "))
            }
        }
    }
}

impl SweepReport {
    pub fn new(about: About, rows: Vec<Line>, unit: Unit, notes: Vec<String>) -> SweepReport {
        let largest = |mode: Mode| {
            let trained = rows.iter().filter(|line| line.outcome == Outcome::Trained && line.mode == mode);
            trained.map(|line| line.size).max()
        };
        SweepReport {
            schema: SCHEMA,
            about,
            rate_unit: unit.column(),
            largest_without_lms: largest(Mode::WithoutLms),
            largest_by_grappler: largest(Mode::ByGrappler),
            largest_with_lms: largest(Mode::WithLms),
            rows,
            notes,
            unit,
        }
    }

    /// The rows as CSV: the names of the columns in the first line, nothing where nobody knows.
    ///
    /// # Errors
    ///
    /// Never for what can be written as text.
    pub fn csv(&self) -> anyhow::Result<Vec<u8>> {
        let mut writer = csv::WriterBuilder::new().has_headers(false).from_writer(Vec::new());
        writer.write_record(columns::names(self.unit))?;
        self.rows.iter().try_for_each(|line| writer.serialize(line))?;
        Ok(writer.into_inner()?)
    }
}

/// The columns of the table: what stands above each, in two lines, and how wide it is.
const HEADER: [[&str; 2]; 9] = [
    ["step", "ms"],
    ["rate", ""],
    ["slower", "%"],
    ["out", "MiB/step"],
    ["in", "MiB/step"],
    ["link", "GB/s"],
    ["link", "busy %"],
    ["compute", "busy %"],
    ["peak", "MiB"],
];

impl Display for SweepReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}: {}, {}", self.about.model, self.about.sweep, self.about.place())?;
        for (number, left) in [["", "", ""], ["size", "mode", "outcome"]].iter().enumerate() {
            write!(f, "  {:>7}  {:<11}  {:<13}", left[0], left[1], left[2])?;
            for column in HEADER {
                let text = match column {
                    ["rate", _] if number == 1 => self.unit.rate(),
                    column => column[number].to_string(),
                };
                write!(f, "  {text:>w$}", w = self.width(column))?;
            }
            writeln!(f)?;
        }
        self.rows.iter().try_for_each(|line| self.row(f, line))?;
        self.largest(f)?;
        self.endings(f)?;
        self.notes.iter().try_for_each(|note| writeln!(f, "  note: {note}"))
    }
}

impl SweepReport {
    fn width(&self, column: [&str; 2]) -> usize {
        match column {
            ["rate", _] => self.unit.rate().len(),
            _ => 8,
        }
    }

    fn row(&self, f: &mut fmt::Formatter<'_>, line: &Line) -> fmt::Result {
        const MIB: f64 = (1 << 20) as f64;
        let mib = |bytes: Option<u64>| bytes.map(|bytes| bytes as f64 / MIB);
        let values = [
            (line.step_seconds.map(|seconds| seconds * 1e3), 1),
            (line.rate, 3),
            (line.slowdown_percent, 1),
            (mib(line.out_bytes_per_step), 2),
            (mib(line.in_bytes_per_step), 2),
            (line.link_bytes_per_second.map(|rate| rate / 1e9), 2),
            (line.link_occupancy_percent, 0),
            (line.compute_occupancy_percent, 0),
            (mib(line.peak_bytes), 2),
        ];
        write!(f, "  {:>7}  {:<11}  {:<13}", line.size, line.mode, line.outcome)?;
        for (column, (value, decimals)) in HEADER.into_iter().zip(values) {
            let text = value.map_or("-".to_string(), |value| format!("{value:.decimals$}"));
            write!(f, "  {text:>w$}", w = self.width(column))?;
        }
        writeln!(f)
    }

    /// Why points crashed, and what ended the sweep. Points that say the same one after the other share a line.
    fn endings(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let is_told = |line: &&Line| match line.outcome {
            Outcome::Trained => false,
            Outcome::Crashed => true,
            Outcome::OutOfMemory | Outcome::DoesNotFit => line.mode != Mode::WithoutLms,
        };
        let told: Vec<&Line> = self.rows.iter().filter(is_told).collect();
        let same = |a: &&Line, b: &&Line| (a.mode, a.outcome, &a.message) == (b.mode, b.outcome, &b.message);
        for lines in told.chunk_by(same) {
            let (Some(first), Some(last)) = (lines.first(), lines.last()) else { continue };
            let sizes = match lines.len() {
                1 => first.size.to_string(),
                count => format!("{} to {} ({count} points)", first.size, last.size),
            };
            let message = first.message.as_deref().unwrap_or_default();
            writeln!(f, "  note: {sizes} {}: {}: {message}", first.mode, first.outcome)?;
        }
        Ok(())
    }

    fn largest(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let size = |size: Option<u64>| size.map_or("none".to_string(), |size| size.to_string());
        let has = |mode: Mode| self.rows.iter().any(|line| line.mode == mode);
        write!(f, "  largest {}: {}", self.about.sizes_name, size(self.largest_without_lms))?;
        if !has(Mode::WithLms) {
            return writeln!(f, ", without LMS");
        }
        write!(f, " without LMS")?;
        if has(Mode::ByGrappler) {
            write!(f, ", {} by Grappler", size(self.largest_by_grappler))?;
        }
        writeln!(f, ", {} with LMS", size(self.largest_with_lms))
    }
}
