//! What TensorFlow recorded of a step.

use std::collections::HashSet;

use serde::Serialize;
use tf_lms::chart::{ChartError, Timeline};
use tf_lms::proto::tensorflow::{NodeExecStats, RunMetadata, StepStats};
use tf_lms::train::Intervals;

use crate::job::SWAP_IN;

/// How many of the swap-ins really ran, or are in the graphs that did: of a function's ops only their times are recorded.
pub fn kept(metadata: &RunMetadata, swap_ins: &[String]) -> usize {
    let placed = metadata.partition_graphs.iter().flat_map(|graph| &graph.node).map(|node| &node.name);
    let devices = metadata.step_stats.iter().flat_map(|stats| &stats.dev_stats);
    let timed = devices.flat_map(|device| &device.node_stats).map(|node| &node.node_name);
    // Where a call is inlined its name is before theirs.
    let own = |name: &str| name.find(SWAP_IN).unwrap_or(0);
    let ran: HashSet<&str> = placed.chain(timed).map(|name| &name[own(name)..]).collect();
    swap_ins.iter().filter(|name| ran.contains(name.as_str())).count()
}

/// The most memory that TensorFlow saw in use on a GPU, or on any: a sample at each op, so a lower bound.
pub fn sampled_peak(metadata: &RunMetadata, gpu: Option<usize>) -> Option<u64> {
    let devices = metadata.step_stats.iter().flat_map(|stats| &stats.dev_stats);
    let is_wanted = |device: &str| match gpu {
        Some(gpu) => device.ends_with(&format!("/device:GPU:{gpu}")),
        None => device.contains("GPU"),
    };
    let gpus = devices.filter(|device| is_wanted(&device.device));
    let memory = gpus.flat_map(|device| &device.node_stats).flat_map(|node| &node.memory);
    let gpu = memory.filter(|memory| !memory.allocator_name.to_lowercase().contains("cpu"));
    gpu.filter_map(|memory| u64::try_from(memory.allocator_bytes_in_use).ok())
        .max()
        .filter(|&bytes| bytes > 0)
}

/// What one op took. One row of `--profile`.
#[derive(Debug, Serialize)]
struct OpProfile<'a> {
    name: &'a str,
    device: &'a str,
    /// Microseconds since the step began.
    start_us: i64,
    /// How long the kernel's call took.
    duration_us: f64,
    /// The bytes of each output.
    output_bytes: Vec<i64>,
}

/// `--profile`: see `docs/lms-train.md`.
#[derive(Debug, Serialize)]
pub struct Profile<'a> {
    schema: u32,
    model: &'a str,
    ops: Vec<OpProfile<'a>>,
}

impl<'a> Profile<'a> {
    pub fn of(model: &'a str, metadata: &'a RunMetadata) -> Profile<'a> {
        let empty: &[_] = &[];
        let devices = metadata.step_stats.as_ref().map_or(empty, |stats| &stats.dev_stats);
        let zero =
            devices.iter().flat_map(|device| &device.node_stats).map(|node| node.all_start_micros).min();
        let zero = zero.unwrap_or(0);
        let mut ops: Vec<OpProfile> = devices
            .iter()
            .flat_map(|device| device.node_stats.iter().map(move |node| (device.device.as_str(), node)))
            .map(|(device, node)| OpProfile {
                name: &node.node_name,
                device,
                start_us: node.all_start_micros - zero,
                duration_us: nanos(node) as f64 / 1000.0,
                output_bytes: node.output.iter().map(output_bytes).collect(),
            })
            .collect();
        ops.sort_by(|a, b| (a.start_us, a.name, a.device).cmp(&(b.start_us, b.name, b.device)));
        Profile { schema: 1, model, ops }
    }
}

fn output_bytes(output: &tf_lms::proto::tensorflow::NodeOutput) -> i64 {
    let description = output.tensor_description.as_ref();
    let allocation = description.and_then(|description| description.allocation_description.as_ref());
    allocation.map_or(0, |allocation| allocation.requested_bytes)
}

fn nanos(node: &NodeExecStats) -> i64 {
    match node.op_end_rel_nanos - node.op_start_rel_nanos {
        0 => (node.op_end_rel_micros - node.op_start_rel_micros) * 1000,
        nanos => nanos,
    }
}

/// When kernels and when copies ran, in microseconds, from a real GPU's streams.
pub fn busy(stats: &StepStats) -> (Intervals, Intervals) {
    let of = |wanted: fn(&str) -> bool| {
        let devices = stats.dev_stats.iter().filter(|device| wanted(&device.device.to_lowercase()));
        let nodes = devices.flat_map(|device| &device.node_stats);
        Intervals::union(nodes.map(|node| {
            let start = node.all_start_micros + node.op_start_rel_micros;
            (start, start + (nanos(node) / 1000).max(1))
        }))
    };
    (of(|device| device.contains("stream:all")), of(|device| device.contains("memcpy")))
}

/// Step statistics as a timeline from the first op on, for devices that write no trace of their own.
pub fn timeline(stats: &StepStats) -> Result<Timeline, ChartError> {
    let start = |node: &NodeExecStats| node.all_start_micros + node.op_start_rel_micros;
    let zero = stats.dev_stats.iter().flat_map(|device| &device.node_stats).map(start).min().unwrap_or(0);
    let mut timeline = Timeline::new();
    for device in &stats.dev_stats {
        for node in &device.node_stats {
            let track = timeline.track(&device.device, &format!("thread {}", node.thread_id));
            let mut args = serde_json::Map::new();
            args.insert("label".to_string(), node.timeline_label.clone().into());
            let (start_seconds, seconds) =
                ((start(node) - zero) as f64 / 1e6, nanos(node).max(0) as f64 / 1e9);
            timeline.add_span(track, &node.node_name, start_seconds, seconds, args)?;
        }
    }
    Ok(timeline)
}
