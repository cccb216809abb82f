//! Memory over a training step.

use super::figure::{Axis, Curve, Drawing, Figure, Level, Mark, Panel, check_rising, check_value};
use super::pointing::Reading;
use super::unit::{Unit, bytes_text, number, seconds_text};
use super::{Chart, ChartError};

/// The least that an axis of time spans, so that a step without length can be drawn too.
const LEAST_SECONDS: f64 = 1e-9;

/// Memory over one training step, before and after swapping, in a panel for each GPU and one for the host.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct MemoryChart {
    /// The title: the model, its sizes, the GPU.
    pub title: String,
    /// A panel for each memory, drawn one below the other over the same seconds.
    pub panels: Vec<MemoryPanel>,
    /// The ops that the points name.
    pub labels: Vec<OpLabel>,
}

/// One memory: a GPU's, or the host's.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct MemoryPanel {
    /// Whose memory it is.
    pub name: String,
    /// How much there is: drawn as a line.
    pub budget_bytes: Option<u64>,
    /// What stays from step to step: drawn as a band.
    pub persistent_bytes: Option<u64>,
    /// Memory in use, for each graph compared.
    pub series: Vec<MemorySeries>,
}

/// Memory in use in one run of the step.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct MemorySeries {
    /// Which graph ran: `without LMS`, `with LMS`. A name has the same colour in every panel.
    pub name: String,
    /// In the order of their seconds.
    pub points: Vec<MemoryPoint>,
    /// The most in use.
    pub peak: Option<MemoryPeak>,
}

/// From these seconds on so many bytes are in use, until the next point.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct MemoryPoint {
    /// Since the step began.
    pub seconds: f64,
    /// In use from then on.
    pub bytes: u64,
    /// The op that runs there: its place in the chart's labels.
    pub label: Option<u32>,
}

/// Where the most memory is in use.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct MemoryPeak {
    /// Since the step began.
    pub seconds: f64,
    /// In use there.
    pub bytes: u64,
    /// The op that runs there.
    pub op: String,
}

/// An op, as the HTML page shows it where one points.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct OpLabel {
    /// The op's name.
    pub op: String,
    /// How long it runs.
    pub seconds: Option<f64>,
    /// The largest tensors alive while it runs, with their bytes.
    pub largest_tensors: Vec<(String, u64)>,
}

impl Chart for MemoryChart {
    fn drawing(&self) -> Result<Drawing, ChartError> {
        self.check()?;
        let longest = self.all_seconds().fold(LEAST_SECONDS, f64::max);
        let unit = Unit::of_seconds(longest);
        let figure = Figure {
            title: self.title.clone(),
            x: Axis {
                name: "time in the step".to_string(),
                unit: unit.name.to_string(),
                start: 0.0,
                end: longest / unit.size,
                is_logarithmic: false,
            },
            panels: self.panels.iter().map(|panel| panel.figure(unit)).collect(),
            labels: self.labels.iter().map(OpLabel::lines).collect(),
        };
        figure.draw()
    }
}

impl MemoryChart {
    fn check(&self) -> Result<(), ChartError> {
        for (index, label) in self.labels.iter().enumerate() {
            check_value(&label.op, index, "duration", label.seconds.unwrap_or(0.0))?;
        }
        for series in self.panels.iter().flat_map(|panel| &panel.series) {
            check_rising(&series.name, "time", series.points.iter().map(|point| point.seconds))?;
            if let Some(peak) = &series.peak {
                check_value(&series.name, 0, "time of the peak", peak.seconds)?;
            }
            for (index, point) in series.points.iter().enumerate() {
                if let Some(label) = point.label.filter(|&label| label as usize >= self.labels.len()) {
                    let labels = self.labels.len();
                    return Err(ChartError::Label { curve: series.name.clone(), index, label, labels });
                }
            }
        }
        Ok(())
    }

    fn all_seconds(&self) -> impl Iterator<Item = f64> {
        self.panels.iter().flat_map(|panel| &panel.series).flat_map(|series| {
            let points = series.points.iter().map(|point| point.seconds);
            points.chain(series.peak.iter().map(|peak| peak.seconds))
        })
    }
}

impl MemoryPanel {
    fn figure(&self, seconds: Unit) -> Panel {
        let of_series = self.series.iter().flat_map(|series| {
            let points = series.points.iter().map(|point| point.bytes);
            points.chain(series.peak.iter().map(|peak| peak.bytes))
        });
        let most = of_series.chain(self.budget_bytes).chain(self.persistent_bytes).max().unwrap_or(0) as f64;
        let unit = Unit::of_bytes(most);
        let level = |bytes: Option<u64>, name: &str| {
            bytes.map(|bytes| Level {
                y: bytes as f64 / unit.size,
                name: format!("{name} {}", bytes_text(bytes)),
            })
        };
        Panel {
            name: self.name.clone(),
            y: Axis {
                name: "memory in use".to_string(),
                unit: unit.name.to_string(),
                start: 0.0,
                // A margin for the peak's text.
                end: if most > 0.0 { most * 1.12 / unit.size } else { 1.0 },
                is_logarithmic: false,
            },
            curves: self.series.iter().map(|series| series.curve(seconds, unit)).collect(),
            limit: level(self.budget_bytes, "budget"),
            band: level(self.persistent_bytes, "persistent"),
        }
    }
}

impl MemorySeries {
    fn curve(&self, seconds: Unit, bytes: Unit) -> Curve {
        let place = |at: f64, size: u64| (at / seconds.size, size as f64 / bytes.size);
        let note = self.peak.as_ref().map(|peak| {
            let size = bytes_text(peak.bytes);
            let at = number(peak.seconds / seconds.size, peak.seconds / seconds.size);
            let op = if peak.op.is_empty() { String::new() } else { format!(" in {}", peak.op) };
            format!("peak {size} at {at} {}{op}", seconds.name)
        });
        let peak = self.peak.as_ref().map(|peak| {
            let (x, y) = place(peak.seconds, peak.bytes);
            Mark { x, y, text: bytes_text(peak.bytes) }
        });
        Curve {
            name: self.name.clone(),
            note: note.unwrap_or_default(),
            reading: Reading::Steps,
            points: self.points.iter().map(|point| place(point.seconds, point.bytes)).collect(),
            labels: self.points.iter().map(|point| point.label).collect(),
            peak,
            broken_at: None,
        }
    }
}

impl OpLabel {
    fn lines(&self) -> Vec<String> {
        let runs = self.seconds.map(|seconds| format!("runs {}", seconds_text(seconds)));
        let tensors =
            self.largest_tensors.iter().map(|(name, bytes)| format!("{} {name}", bytes_text(*bytes)));
        [self.op.clone()].into_iter().chain(runs).chain(tensors).collect()
    }
}
