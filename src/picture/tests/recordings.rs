//! Recordings, and what is drawn of them, agree with what came of the step.

use std::collections::HashSet;

use serde_json::Value as Json;

use super::graphs::testdata;
use super::steps::{draft, machine, with_chain, with_outline};
use crate::chart::{Chart, Engine, Timeline};
use crate::graph::NodeId;
use crate::order::Place;
use crate::picture::{Names, Recorder, Recording};
use crate::plan::{Analysis, Draft};
use crate::simulate::{Origin, Outline, Program};

/// Checks of a step that hold with any plan.
pub(super) fn check_recording(outline: &Outline, recording: &Recording) {
    check_peaks(outline, recording);
    check_spans(recording);
}

fn check_peaks(outline: &Outline, recording: &Recording) {
    let machine = machine(outline, false);
    let chart = recording.memory_chart(Some(recording), outline, &machine, "a step");
    let outcome = recording.outcome();
    let peaks = outcome.gpus.iter().map(|gpu| gpu.peak_bytes).chain([outcome.host_peak_bytes]);
    assert_eq!(chart.panels.len(), outcome.gpus.len() + 1);
    for (panel, peak_bytes) in chart.panels.iter().zip(peaks) {
        for series in &panel.series {
            assert_eq!(
                series.points.iter().map(|point| point.bytes).max(),
                Some(peak_bytes),
                "{}",
                panel.name
            );
            assert_eq!(series.points.last().map(|point| point.seconds), Some(outcome.step_seconds));
            assert!(series.peak.as_ref().is_none_or(|peak| peak.bytes == peak_bytes));
        }
    }
    let names = Names::new(outline.analysis().graph, recording.program());
    for (number, gpu) in outcome.gpus.iter().enumerate() {
        let op = gpu.peak_op.map(|op| names.entry(op)).unwrap_or_default();
        let peak = chart.panels[number].series[0].peak.as_ref().unwrap();
        assert_eq!(peak.op, op);
        // The op runs when the host has launched it, or later.
        assert!(peak.seconds >= gpu.peak_seconds);
        let alive = recording.alive_at_peak(outline.analysis().graph, number as u16, usize::MAX);
        let bytes: u64 = alive.iter().map(|(_, bytes)| bytes).sum();
        assert_eq!(gpu.persistent_bytes + bytes, gpu.peak_bytes);
        assert!(alive.is_sorted_by(|a, b| (b.1, &a.0) <= (a.1, &b.0)));
    }
}

fn check_spans(recording: &Recording) {
    let mut spans: Vec<_> = recording.spans().to_vec();
    spans.sort_by(|a, b| (a.engine.cmp(&b.engine)).then(a.start_seconds.total_cmp(&b.start_seconds)));
    for pair in spans.windows(2).filter(|pair| pair[0].engine == pair[1].engine) {
        assert!(pair[0].end_seconds <= pair[1].start_seconds, "{pair:?}");
    }
    assert!(spans.iter().all(|span| span.start_seconds <= span.end_seconds));
    assert!(spans.iter().all(|span| span.end_seconds <= recording.outcome().step_seconds));
    let seconds = |wanted: fn(Engine) -> bool| -> f64 {
        let wanted = spans.iter().filter(|span| wanted(span.engine));
        wanted.map(|span| span.end_seconds - span.start_seconds).sum()
    };
    let out: f64 = recording.outcome().gpus.iter().map(|gpu| gpu.out_seconds).sum();
    let into: f64 = recording.outcome().gpus.iter().map(|gpu| gpu.in_seconds).sum();
    assert!((seconds(|engine| matches!(engine, Engine::CopyOut { .. })) - out).abs() < 1e-9);
    assert!((seconds(|engine| matches!(engine, Engine::CopyIn { .. })) - into).abs() < 1e-9);
}

fn events(timeline: &Timeline, phase: &str) -> Vec<Json> {
    let json = serde_json::to_value(timeline).unwrap();
    let events = json["traceEvents"].as_array().unwrap().iter();
    events.filter(|event| event["ph"] == phase).cloned().collect()
}

/// The swaps that copy something: their tensors have bytes and lie on a GPU, constants too, and their consumers run in the step.
pub(super) fn returns(outline: &Outline, draft: &Draft) -> usize {
    let Analysis { graph, sizes, step, .. } = outline.analysis();
    let copies = |swap: &&crate::plan::TensorSwap| {
        step.contains(graph.producer(swap.tensor))
            && !outline.liveness().is_dead(graph, swap.tensor)
            && sizes.bytes(swap.tensor).is_some_and(|bytes| bytes > 0)
            && outline.placement().output(swap.tensor) != Place::Host
    };
    let runs = |consumers: &[NodeId]| consumers.iter().any(|&node| outline.entry(node).is_some());
    let uses = draft.swaps.iter().filter(copies).flat_map(|swap| &swap.uses);
    uses.filter(|swap_in| runs(&swap_in.consumers)).count()
}

pub(super) fn check_arrows(outline: &Outline, draft: &Draft, recording: &Recording) {
    let graph = outline.analysis().graph;
    let timeline = recording.timeline(graph).unwrap();
    let (starts, ends) = (events(&timeline, "s"), events(&timeline, "f"));
    assert_eq!(starts.len(), returns(outline, draft));
    let spans = events(&timeline, "X");
    let span_at = |arrow: &Json| {
        let same = |span: &&Json| ["pid", "tid", "ts"].iter().all(|key| span[key] == arrow[key]);
        spans.iter().find(same).unwrap()["name"].as_str().unwrap().to_string()
    };
    let mut pairs = HashSet::new();
    for (start, end) in starts.iter().zip(&ends) {
        assert_eq!(start["id"], end["id"]);
        let (from, to) = (span_at(start), span_at(end));
        assert_eq!(from.strip_prefix("swap-out of ").unwrap(), to.strip_prefix("swap-in of ").unwrap());
        pairs.insert(from);
    }
    let swapped = draft.swaps.iter().map(|swap| format!("swap-out of {}", graph.tensor_name(swap.tensor)));
    assert!(pairs.is_subset(&swapped.collect()));
}

#[test]
fn a_pool_has_the_peak_of_its_outcome() {
    with_outline(&testdata("mnist_cnn.meta"), "train", |outline| {
        let machine = machine(outline, false).with_memory(vec![1 << 30]);
        let program = Program::new(outline, &draft(outline, 1, 0));
        let recording = Recorder::record(&program, &machine).unwrap();
        let chart = recording.memory_chart(None, outline, &machine, "mnist_cnn");
        assert_eq!(chart.panels[0].budget_bytes, Some(1 << 30));
        let points = &chart.panels[0].series[0].points;
        let peak = recording.outcome().gpus[0].peak_bytes;
        assert_eq!(points.iter().map(|point| point.bytes).max(), Some(peak));
        assert!(Recorder::record(&program, &machine.with_memory(vec![peak / 2])).is_err());
    });
}

/// `a` is in the buffer that `in` was copied to, and `c` in that of `b`.
#[test]
fn what_is_alive_has_the_name_of_what_was_written_last() {
    let alive = |most| {
        with_chain(100, |outline, _, before, _| before.alive_at_peak(outline.analysis().graph, 0, most))
    };
    let largest = [("a:0", 1 << 20), ("c:0", 1 << 20), ("vector:0", 1 << 10)];
    assert_eq!(alive(9), largest.map(|(name, bytes)| (name.to_string(), bytes)));
    assert_eq!(alive(2), alive(9)[..2]);
}

/// A page that names three tensors at each of many thousand points would be too large to send.
#[test]
fn pages_of_large_graphs_stay_small() {
    with_outline(&testdata("deeplabv3plus_513_b16.meta"), "train", |outline| {
        let machine = machine(outline, false);
        let (original, planned) =
            (Program::new(outline, &Draft::default()), Program::new(outline, &draft(outline, 20, 0)));
        let before = Recorder::record(&original, &machine).unwrap();
        let after = Recorder::record(&planned, &machine).unwrap();
        let chart = before.memory_chart(Some(&after), outline, &machine, "DeepLabV3+");
        let page = chart.html().unwrap();
        assert!(page.len() < 2 << 20, "{}", page.len());
        let named = chart.labels.iter().filter(|label| !label.largest_tensors.is_empty()).count();
        assert!(named > 0 && named < chart.labels.len() / 2);
        assert!((0..planned.len() as u32).any(|op| matches!(planned.origin(op), Origin::SwapIn(..))));
    });
}
