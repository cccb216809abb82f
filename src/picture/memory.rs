//! Memory over a step, as a chart.

use std::collections::HashMap;

use super::alive::Alive;
use super::{Names, Recording};
use crate::chart::{MemoryChart, MemoryPanel, MemoryPeak, MemoryPoint, MemorySeries, OpLabel};
use crate::order::Place;
use crate::simulate::{Machine, Outline};

/// How many tensors a label names.
const LABEL_TENSORS: usize = 3;

/// Labels name tensors only where at least this much of the peak is in use, which is where one asks what takes it. Elsewhere
/// they would only make pages larger.
const NEAR_PEAK: f64 = 0.5;

impl Recording<'_> {
    /// Memory in use over this step, and over the one with a plan, in a panel for each GPU and one for the host. The lines
    /// are the budgets of `machine`.
    pub fn memory_chart(
        &self,
        with_plan: Option<&Recording>,
        outline: &Outline,
        machine: &Machine,
        title: &str,
    ) -> MemoryChart {
        let graph = outline.analysis().graph;
        let runs: Vec<(&str, &Recording, Names)> = [("without LMS", Some(self)), ("with LMS", with_plan)]
            .into_iter()
            .filter_map(|(name, run)| run.map(|run| (name, run, Names::new(graph, run.program()))))
            .collect();
        let mut labels = Vec::new();
        let mut series = |place| {
            let of_run = |(name, run, names): &(&str, &Recording, Names)| MemorySeries {
                name: (*name).to_string(),
                points: points(run, names, place, &mut labels),
                peak: peak(run, names, place),
            };
            runs.iter().map(of_run).collect()
        };
        let mut panels = Vec::new();
        for (number, gpu) in self.outcome().gpus.iter().enumerate() {
            panels.push(MemoryPanel {
                name: format!("GPU {number}"),
                budget_bytes: machine.memory_bytes(number),
                persistent_bytes: Some(gpu.persistent_bytes),
                series: series(Place::Gpu(number as u16)),
            });
        }
        panels.push(MemoryPanel {
            name: "host".to_string(),
            budget_bytes: None,
            persistent_bytes: None,
            series: series(Place::Host),
        });
        MemoryChart { title: title.to_string(), panels, labels }
    }
}

/// Each change of a memory, from the beginning of the step to its end.
fn points(run: &Recording, names: &Names, place: Place, labels: &mut Vec<OpLabel>) -> Vec<MemoryPoint> {
    let highest = highest_changes(run, place);
    let near_peak = run.peak(place).map_or(0.0, |(_, peak)| peak.bytes as f64 * NEAR_PEAK) as u64;
    let first_label = labels.len() as u32;
    // Labels are in the order in which the entries first change the memory.
    labels.extend(highest.ops.iter().map(|&op| OpLabel {
        op: names.entry(op),
        seconds: run.span(op).map(|span| span.end_seconds - span.start_seconds),
        largest_tensors: Vec::new(),
    }));
    let mut alive = Alive::new(run);
    let mut points = Vec::new();
    if place == Place::Host {
        // It is empty until the first op puts something there; a GPU has what is persistent.
        points.push(MemoryPoint::default());
    }
    for (number, change) in run.changes(place) {
        alive.pass(number, change);
        let label = change.op.and_then(|op| highest.labels.get(&op));
        if let Some(&(label, highest)) = label
            && highest == number
            && change.bytes >= near_peak
        {
            labels[(first_label + label) as usize].largest_tensors = alive
                .largest()
                .into_iter()
                .take(LABEL_TENSORS)
                .map(|(tensor, bytes)| (names.tensor(tensor), bytes))
                .collect();
        }
        points.push(MemoryPoint {
            seconds: change.seconds,
            bytes: change.bytes,
            label: label.map(|&(label, _)| first_label + label),
        });
    }
    let last = points.last().copied().unwrap_or_default();
    points.push(MemoryPoint { seconds: run.outcome().step_seconds.max(last.seconds), label: None, ..last });
    points
}

/// The entries that change a memory.
struct HighestChanges {
    /// In the order in which they first do.
    ops: Vec<u32>,
    /// For each its place in `ops`, and the change after which most memory is in use.
    labels: HashMap<u32, (u32, usize)>,
}

fn highest_changes(run: &Recording, place: Place) -> HighestChanges {
    let mut highest = HighestChanges { ops: Vec::new(), labels: HashMap::new() };
    let mut bytes: Vec<u64> = Vec::new();
    for (number, change) in run.changes(place) {
        let Some(op) = change.op else { continue };
        let label = highest.labels.entry(op).or_insert_with(|| {
            highest.ops.push(op);
            bytes.push(change.bytes);
            (highest.ops.len() as u32 - 1, number)
        });
        if change.bytes > bytes[label.0 as usize] {
            (bytes[label.0 as usize], label.1) = (change.bytes, number);
        }
    }
    highest
}

fn peak(run: &Recording, names: &Names, place: Place) -> Option<MemoryPeak> {
    run.peak(place).map(|(_, peak)| MemoryPeak {
        seconds: peak.seconds,
        bytes: peak.bytes,
        op: peak.op.map(|op| names.entry(op)).unwrap_or_default(),
    })
}
