//! What the user sees of a training.

use std::fmt::{self, Display};

use serde::Serialize;
use tf_lms::cli::{Page, Size};
use tf_lms::train::{Counters, GrapplerMemory, HostMemory, Percentiles, examples, points};

use crate::args::Args;
use crate::gpus::{Busy, Gpu, Traffic};
use crate::inspect::{self, Recorded, Reducing};
use crate::job::{Job, Planned, Reduced};
use crate::run::Trained;

/// The version of the JSON document.
const SCHEMA: u32 = 1;

/// All figures.
#[derive(Debug, Serialize)]
pub struct Report {
    schema: u32,
    model: String,
    device: String,
    rewritten: bool,
    /// What TensorFlow's own memory optimizer was asked to do.
    grappler_memory: Option<GrapplerMemory>,
    steps: usize,
    warmup: u64,
    interrupted: bool,
    losses: Vec<f64>,
    step_seconds: Option<Percentiles>,
    pub rates: Option<Rates>,
    pub memory: Memory,
    /// Bytes in a step, as measured: of all GPUs together.
    pub traffic: Option<Traffic>,
    /// Bytes in a step, as planned.
    plan: Option<Planned>,
    swapins_kept: Option<usize>,
    /// What a worker gives the others in a step.
    #[serde(skip_serializing_if = "Option::is_none")]
    reduced: Option<Reduced>,
    /// What its reduces took in the last step.
    #[serde(skip_serializing_if = "Option::is_none")]
    reducing: Option<Reducing>,
    /// A digest of the variables, which must be the same on all workers.
    #[serde(skip_serializing_if = "Option::is_none")]
    variables_digest: Option<String>,
    /// In the mean of all GPUs.
    pub busy: Option<Busy>,
    /// Of each software GPU, if there are several.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    gpus: Vec<Gpu>,
    saved: Option<String>,
}

#[derive(Debug, Serialize)]
pub struct Rates {
    pub steps_per_second: f64,
    examples_per_second: Option<f64>,
    /// Millions of pixels or voxels.
    mega_points_per_second: Option<f64>,
    points: Option<&'static str>,
}

#[derive(Debug, Serialize)]
pub struct Memory {
    limit_bytes: Option<u64>,
    /// On the GPU with the most.
    pub peak_bytes: Option<u64>,
    /// `exact`: of all allocations; `sampled`: at each op, so it may have been more.
    peak_is: Option<&'static str>,
    /// Of each measured step, where peaks are exact: on the GPU with the most in that step.
    step_peak_bytes: Option<Percentiles>,
    /// Of the whole process: with the software GPU, the device's memory is among it.
    host: Option<Host>,
}

/// Bytes that the process holds of the host's memory.
#[derive(Debug, Serialize)]
struct Host {
    peak_bytes: u64,
    /// Before the first measured step and before the last one: a leak makes the second larger.
    first_step_bytes: Option<u64>,
    last_step_bytes: Option<u64>,
}

impl Host {
    fn of(trained: &Trained, now: HostMemory) -> Host {
        let [first, last] =
            [trained.host_first, trained.host_last].map(|memory| memory.map(|memory| memory.resident_bytes));
        Host {
            // Linux writes its own peak down now and then, and counts by the processor: what was seen may be more.
            peak_bytes: first.into_iter().chain(last).fold(now.peak_bytes, u64::max),
            first_step_bytes: first,
            last_step_bytes: last,
        }
    }
}

/// The peak of each measured step.
fn step_peaks(trained: &Trained) -> Vec<f64> {
    let most =
        |step: &Vec<Counters>| step.iter().map(|counters| counters.peak_bytes).max().unwrap_or_default();
    trained.counted.iter().map(|step| most(step) as f64).collect()
}

impl Report {
    pub fn new(args: &Args, job: &Job, trained: &Trained) -> Report {
        let metadata = trained.metadata.as_ref();
        let mean = trained.seconds.iter().sum::<f64>() / trained.seconds.len() as f64;
        let data = job.data_shape();
        let (count, unit) = data.and_then(points).unzip();
        let gpus = Gpu::all(args, trained);
        let totals = trained.total.as_deref().unwrap_or_default();
        let exact = totals.iter().map(|total| total.peak_bytes).max().filter(|_| args.is_exact());
        let sampled = metadata.and_then(|metadata| inspect::sampled_peak(metadata, None));
        let recorded = metadata.and_then(|metadata| Recorded::of(metadata.step_stats.as_ref()?));
        Report {
            schema: SCHEMA,
            model: job.name.clone(),
            device: args.device.to_string(),
            rewritten: job.rewritten.is_some(),
            grappler_memory: args.grappler_memory,
            steps: trained.seconds.len(),
            warmup: args.warmup,
            interrupted: trained.interrupted,
            losses: trained.losses.clone(),
            step_seconds: Percentiles::of(&trained.seconds),
            rates: mean.is_finite().then(|| Rates {
                steps_per_second: 1.0 / mean,
                examples_per_second: data.and_then(examples).map(|examples| examples as f64 / mean),
                mega_points_per_second: count.map(|count| count as f64 / mean / 1e6),
                points: unit,
            }),
            memory: Memory {
                limit_bytes: totals.first().map(|total| total.limit_bytes),
                peak_bytes: exact.or(sampled),
                step_peak_bytes: exact.and_then(|_| Percentiles::of(&step_peaks(trained))),
                peak_is: exact.map(|_| "exact").or(sampled.map(|_| "sampled")),
                host: HostMemory::now().map(|now| Host::of(trained, now)),
            },
            traffic: Traffic::sum(&gpus).or(recorded.as_ref().map(recorded_traffic)),
            plan: job.rewritten.as_ref().map(|rewritten| rewritten.planned),
            reduced: job.reduced,
            reducing: metadata
                .and_then(|metadata| metadata.step_stats.as_ref())
                .zip(trained.recorded_seconds)
                .filter(|_| args.cluster.found.is_some())
                .and_then(|(stats, seconds)| Reducing::of(stats, seconds)),
            variables_digest: trained.common.clone(),
            swapins_kept: metadata
                .zip(job.rewritten.as_ref())
                .map(|(metadata, rewritten)| inspect::kept(metadata, &rewritten.swap_ins)),
            busy: Busy::mean(&gpus).or(recorded.as_ref().map(recorded_busy)),
            gpus: if gpus.len() > 1 { gpus } else { Vec::new() },
            saved: trained.saved.clone(),
        }
    }
}

/// What a real GPU copied, from what TensorFlow recorded of the last step.
fn recorded_traffic(recorded: &Recorded) -> Traffic {
    Traffic { bytes_out: recorded.bytes_out, bytes_in: recorded.bytes_in }
}

/// When it was busy, likewise.
fn recorded_busy(recorded: &Recorded) -> Busy {
    let seconds = |micros: i64| micros as f64 / 1e6;
    let copies = recorded.copies_out.or(&recorded.copies_in);
    Busy {
        kernels: seconds(recorded.kernels.total()),
        copies: seconds(copies.total()),
        both: seconds(recorded.kernels.overlap(&copies)),
        copies_out: seconds(recorded.copies_out.total()),
        copies_in: seconds(recorded.copies_in.total()),
    }
}

impl Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let what = match (self.rewritten, self.grappler_memory) {
            (true, _) => "rewritten",
            (false, Some(_)) => "rewritten by Grappler",
            (false, None) => "as it is",
        };
        let mut page = Page::titled(format_args!("{}, {what}, on {}", self.model, self.device));
        let end = if self.interrupted { ", interrupted" } else { "" };
        page.row("steps", format_args!("{} measured after {} to warm up{end}", self.steps, self.warmup));
        if let (Some(first), Some(last)) = (self.losses.first(), self.losses.last()) {
            page.row("loss", format_args!("{first} at the start, {last} at the end"));
        }
        if let Some(rates) = &self.rates {
            let examples = rates.examples_per_second.map(|rate| format!(", {rate:.2} examples/s"));
            let points = rates.mega_points_per_second.zip(rates.points);
            let points = points.map(|(rate, unit)| format!(", {rate:.4} mega{unit}/s")).unwrap_or_default();
            let examples = examples.unwrap_or_default();
            page.row("rate", format_args!("{:.2} steps/s{examples}{points}", rates.steps_per_second));
        }
        if let Some(spread) = &self.step_seconds {
            let [p10, median, p90, p99] =
                [spread.p10, spread.median, spread.p90, spread.p99].map(|s| s * 1e3);
            page.row("step", format_args!("{median:.1} ms; p10 {p10:.1}, p90 {p90:.1}, p99 {p99:.1}"));
        }
        if let (Some(peak), Some(kind)) = (self.memory.peak_bytes, self.memory.peak_is) {
            let limit =
                self.memory.limit_bytes.map(|limit| format!(" of {}", Size(limit))).unwrap_or_default();
            page.row("peak", format_args!("{}{limit} ({kind})", Size(peak)));
        }
        if let Some(host) = &self.memory.host {
            let last = host.last_step_bytes.map(|bytes| format!(", {} in the last step", Size(bytes)));
            page.row(
                "host memory",
                format_args!("{} at most{}", Size(host.peak_bytes), last.unwrap_or_default()),
            );
        }
        if let Some(Traffic { bytes_out, bytes_in }) = self.traffic {
            page.row("copied in a step", format_args!("{} out, {} in", Size(bytes_out), Size(bytes_in)));
        }
        if let Some(plan) = &self.plan {
            let (out, back) = (Size(plan.bytes_out), Size(plan.bytes_in));
            page.row("planned", format_args!("{out} out of {} tensors, {back} in", plan.swapouts));
            if plan.unknown_sizes > 0 {
                page.row("", format_args!("and {} tensors of unknown size", plan.unknown_sizes));
            }
            if let Some(kept) = self.swapins_kept {
                page.row("swaps that ran", format_args!("{kept} of {}", plan.swapins));
            }
        }
        if let Some(Reduced { collectives, bytes, .. }) = self.reduced {
            page.row("reduced in a step", format_args!("{} by {collectives} collectives", Size(bytes)));
        }
        if let Some(reducing) = &self.reducing {
            page.row("waited for reduces", reducing);
        }
        if let Some(busy) = &self.busy {
            let [kernels, copies, both] = [busy.kernels, busy.copies, busy.both].map(|seconds| seconds * 1e3);
            page.row(
                "busy in a step",
                format_args!("kernels {kernels:.1} ms, copies {copies:.1} ms, both {both:.1} ms"),
            );
        }
        self.gpus.iter().for_each(|gpu| page.row(&format!("GPU {}", gpu.gpu), gpu));
        self.saved.iter().for_each(|saved| page.row("checkpoint", saved));
        page.fmt(f)
    }
}
