//! What TensorFlow recorded of a step.

use std::collections::HashSet;
use std::fmt::{self, Display};

use serde::{Deserialize, Serialize};
use tf_lms::chart::{ChartError, Timeline};
use tf_lms::proto::tensorflow::{AllocatorMemoryUsed, NodeExecStats, RunMetadata, StepStats};
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

/// The most memory that TensorFlow saw in use on a GPU, or on any: a sample at each op.
pub fn sampled_peak(metadata: &RunMetadata, gpu: Option<usize>) -> Option<u64> {
    let devices = metadata.step_stats.iter().flat_map(|stats| &stats.dev_stats);
    let is_wanted = |device: &str| match gpu {
        Some(gpu) => device.ends_with(&format!("/device:GPU:{gpu}")),
        None => device.contains("GPU"),
    };
    let gpus = devices.filter(|device| is_wanted(&device.device));
    let memory = gpus.flat_map(|device| &device.node_stats).flat_map(gpu_memory);
    let in_use = memory.map(|memory| memory.allocator_bytes_in_use + scratch_bytes(memory));
    in_use.max().and_then(|bytes| u64::try_from(bytes).ok()).filter(|&bytes| bytes > 0)
}

/// What an op took of GPUs' memory.
fn gpu_memory(node: &NodeExecStats) -> impl Iterator<Item = &AllocatorMemoryUsed> {
    node.memory.iter().filter(|memory| !memory.allocator_name.to_lowercase().contains("cpu"))
}

/// What an op took while it was launched and gave back by the end of it, such as the workspace of a convolution: what is in use is sampled
/// after that.
fn scratch_bytes(memory: &AllocatorMemoryUsed) -> i64 {
    (memory.peak_bytes - memory.live_bytes).max(0)
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
    /// The bytes of a GPU's memory that it took beside its outputs, and gave back.
    scratch_bytes: i64,
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
                scratch_bytes: gpu_memory(node).map(scratch_bytes).sum(),
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

/// What a real GPU did in a step, as CUPTI recorded it. Times are in microseconds.
#[derive(Debug, Default, PartialEq)]
pub struct Recorded {
    pub kernels: Intervals,
    pub copies_out: Intervals,
    pub copies_in: Intervals,
    pub bytes_out: u64,
    pub bytes_in: u64,
}

impl Recorded {
    /// None if no kernel of a GPU was recorded. Copies within the GPU are none of these.
    ///
    /// TensorFlow labels a copy with its direction and CUPTI's details: `MemcpyD2H kind_src:device kind_dst:pinned size:4096 dest:0 …`.
    pub fn of(stats: &StepStats) -> Option<Recorded> {
        let rows = |wanted: &'static str| {
            let devices = stats.dev_stats.iter().filter(move |device| device.device.ends_with(wanted));
            devices.flat_map(|device| &device.node_stats)
        };
        let microseconds = |node: &NodeExecStats| {
            let start = node.all_start_micros + node.op_start_rel_micros;
            (start, start + (nanos(node) / 1000).max(1))
        };
        let copies = |direction: &'static str| {
            rows("/memcpy").filter(move |node| node.timeline_label.starts_with(direction))
        };
        let bytes = |direction| copies(direction).filter_map(|node| copied_bytes(&node.timeline_label)).sum();
        let when = |direction| Intervals::union(copies(direction).map(microseconds));
        let recorded = Recorded {
            kernels: Intervals::union(rows("/stream:all").map(microseconds)),
            copies_out: when("MemcpyD2H"),
            copies_in: when("MemcpyH2D"),
            bytes_out: bytes("MemcpyD2H"),
            bytes_in: bytes("MemcpyH2D"),
        };
        (recorded.kernels.total() > 0).then_some(recorded)
    }
}

/// The bytes that a copy moved, by its label.
fn copied_bytes(label: &str) -> Option<u64> {
    label.split(' ').find_map(|detail| detail.strip_prefix("size:"))?.parse().ok()
}

/// What a worker's reduces took in a step.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Reducing {
    /// Of the step that was recorded, which takes longer than others.
    pub step_seconds: f64,
    /// While at least one collective was under way. Waiting for workers that come later to it is a part of that.
    pub under_way_seconds: f64,
    /// Of these, while nothing else was computed on this worker.
    pub waited_seconds: f64,
}

impl Reducing {
    /// By the record of a step; none if no collective ran.
    pub fn of(stats: &StepStats, step_seconds: f64) -> Option<Reducing> {
        let (mut reduces, mut computes) = (Vec::new(), Vec::new());
        for device in &stats.dev_stats {
            let is_stream = device.device.to_lowercase().contains("stream:all");
            for node in &device.node_stats {
                match op_type(node) {
                    Some(op) if op.starts_with("Collective") => reduces.push(interval(node)),
                    // They wait for what others send.
                    Some("_Recv" | "_HostRecv") => {}
                    Some(_) => computes.push(interval(node)),
                    // Kernels of a GPU, beside what launched them, but for those that reduce. Elsewhere what is no op is a message
                    // under way.
                    None if is_stream && !reduces_on_gpu(node) => computes.push(interval(node)),
                    None => {}
                }
            }
        }
        let (reduces, computes) = (Intervals::union(reduces), Intervals::union(computes));
        let seconds = |nanos: i64| nanos as f64 / 1e9;
        (reduces.total() > 0).then(|| Reducing {
            step_seconds,
            under_way_seconds: seconds(reduces.total()),
            waited_seconds: seconds(reduces.total() - reduces.overlap(&computes)),
        })
    }
}

impl Display for Reducing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [waited, under_way, step] =
            [self.waited_seconds, self.under_way_seconds, self.step_seconds].map(|seconds| seconds * 1e3);
        write!(f, "{waited:.1} ms of {under_way:.1} ms that they took, in a step of {step:.1} ms")
    }
}

/// Whether a kernel of a GPU is one of NVIDIA's library that reduces.
fn reduces_on_gpu(kernel: &NodeExecStats) -> bool {
    [&kernel.node_name, &kernel.timeline_label].iter().any(|text| text.to_lowercase().contains("nccl"))
}

/// The type of the op that was recorded: TensorFlow labels each `NAME = TYPE(INPUTS)`.
fn op_type(node: &NodeExecStats) -> Option<&str> {
    let (_, call) = node.timeline_label.split_once(" = ")?;
    Some(call.split_once('(')?.0)
}

/// When it ran, in nanoseconds.
fn interval(node: &NodeExecStats) -> (i64, i64) {
    let start = (node.all_start_micros + node.op_start_rel_micros) * 1000;
    (start, start + nanos(node))
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

#[cfg(test)]
mod tests {
    use tf_lms::proto::tensorflow::DeviceStepStats;

    use super::*;

    /// An op from one microsecond to another.
    fn ran(label: &str, (start, end): (i64, i64)) -> NodeExecStats {
        NodeExecStats {
            timeline_label: label.to_string(),
            all_start_micros: start - 3,
            op_start_rel_micros: 3,
            op_end_rel_micros: 3 + end - start,
            ..NodeExecStats::default()
        }
    }

    #[test]
    fn what_a_gpu_copied_is_in_the_labels_of_its_copies() {
        let device = |device: &str, node_stats| DeviceStepStats {
            device: device.to_string(),
            node_stats,
            ..DeviceStepStats::default()
        };
        let copy = |direction: &str, bytes: u64, when| {
            let label = format!("{direction} kind_src:device kind_dst:pinned size:{bytes} dest:0 async:1");
            ran(&label, when)
        };
        let copies = vec![
            copy("MemcpyD2H", 4096, (0, 10)),
            copy("MemcpyD2H", 4, (20, 30)),
            copy("MemcpyH2D", 1000, (5, 10)),
            copy("MemcpyD2D", 77, (0, 50)),
        ];
        let kernels = device("/device:GPU:0/stream:all", vec![ran("sgemm regs:8", (0, 40))]);
        let twice = device("/device:GPU:0/stream:14<MemcpyD2H>", copies[..2].to_vec());
        let memcpy = device("/device:GPU:0/memcpy", copies);
        let recorded = Recorded::of(&StepStats { dev_stats: vec![memcpy.clone(), kernels, twice] }).unwrap();
        assert_eq!((recorded.bytes_out, recorded.bytes_in), (4100, 1000));
        let times = [&recorded.kernels, &recorded.copies_out, &recorded.copies_in].map(Intervals::total);
        assert_eq!(times, [40, 20, 5]);
        assert_eq!(Recorded::of(&StepStats { dev_stats: vec![memcpy] }), None);
    }

    #[test]
    fn waited_is_what_is_reduced_while_nothing_is_computed() {
        let gpu = vec![ran("c = Conv2D(a, b)", (0, 120)), ran("u = ApplyAdam(v, m)", (300, 350))];
        let host = vec![
            ran("lms/parallel/0/mean = CollectiveReduceV2(a, ^c)", (100, 200)),
            ran("lms/parallel/1/mean = CollectiveReduceV2(b)", (150, 310)),
            ran("b/_1 = _Recv()", (0, 400)),
            ran("[512B] [23.4Mb/s] from /job:worker/replica:0/task:1", (150, 300)),
        ];
        let stats = |gpu, host| {
            let device = |device: &str, node_stats| DeviceStepStats {
                device: device.to_string(),
                node_stats,
                ..DeviceStepStats::default()
            };
            StepStats { dev_stats: vec![device("/device:GPU:0", gpu), device("/device:CPU:0", host)] }
        };
        let found = Reducing::of(&stats(gpu.clone(), host.clone()), 1.0).unwrap();
        assert_eq!((found.under_way_seconds, found.waited_seconds), (210e-6, 180e-6));
        assert_eq!(Reducing::of(&stats(gpu.clone(), Vec::new()), 1.0), None);
        // Of a GPU's kernels those that reduce are no computing.
        let mut with_kernels = stats(gpu, host);
        let kernels = vec![ran("ncclDevKernel_AllReduce", (100, 300)), ran("volta_sgemm", (150, 170))];
        let device = "/device:GPU:0/stream:all".to_string();
        with_kernels.dev_stats.push(DeviceStepStats {
            device,
            node_stats: kernels,
            ..DeviceStepStats::default()
        });
        assert_eq!(Reducing::of(&with_kernels, 1.0).unwrap().waited_seconds, 160e-6);
    }
}
