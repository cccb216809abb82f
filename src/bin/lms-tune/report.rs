//! What the user sees.

use std::fmt::{self, Display};
use std::ops::Not;

use serde::Serialize;
use tf_lms::cli::{Page, Size, milliseconds};
use tf_lms::simulate::{Floors, GpuOutcome, Outcome};
use tf_lms::tune::{accuracy, describe};

/// The version of the JSON document.
const SCHEMA: u32 = 1;

/// TensorFlow's own limit on pinned host memory for copies, unless a variable says otherwise.
const PINNED_POOL_BYTES: u64 = 64 << 30;

/// The variable that says otherwise, in MiB.
const PINNED_POOL_VARIABLE: &str = "TF_GPU_HOST_MEM_LIMIT_IN_MB";

/// Two memories that differ by less than one part in so many are told as one.
const WORTH_TELLING_PARTS: u64 = 100;

/// How far off a least memory may be: by this part, or by so many bytes if these are no more than the largest part.
#[derive(Debug, Clone, Copy, Serialize)]
pub struct LimitError {
    pub part: f64,
    pub bytes: u64,
    pub largest_part: f64,
}

impl LimitError {
    /// What was seen.
    pub fn seen() -> LimitError {
        LimitError {
            part: accuracy::LIMIT_ERROR,
            bytes: accuracy::LIMIT_ERROR_BYTES,
            largest_part: accuracy::SMALL_LIMIT_ERROR,
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    Fits,
    FitsWithSwapping,
    DoesNotFit,
}

/// All that is said of a graph and a budget. `after` is with the plan, or as it is if none is needed or none fits.
#[derive(Debug, Serialize)]
pub struct Report {
    pub schema: u32,
    pub verdict: Verdict,
    /// Whether the graph fits only in the order and with copies as fast as predicted.
    pub is_tight: bool,
    /// Bytes of the first GPU.
    pub gpu_mem: u64,
    pub memory_ratio: f64,
    /// Who hands the memory out.
    pub allocator: String,
    pub device_profile: String,
    pub devices: Vec<DeviceReport>,
    pub peak_before: u64,
    pub peak_after: u64,
    /// The most that the peak before comes to in other orders that a process may take.
    pub peak_before_in_other_orders: u64,
    /// The least memory in which a step runs, the pool's fragmentation included.
    pub least_memory_before: u64,
    pub least_memory_after: u64,
    /// The latter also if copies are slower, faster or less even than the profile says.
    pub least_memory_whenever_copies_end: u64,
    /// The least memory with the plan, whenever copies end, if CUDA's allocator hands it out; none if that is the one.
    pub least_memory_with_async: Option<u64>,
    /// The worst error of a predicted peak that was seen, as a part of it.
    pub error_bound: f64,
    /// The same of a least memory.
    pub least_memory_error_bound: LimitError,
    pub swapout_bytes: u64,
    pub swapin_bytes: u64,
    pub copied_out_bytes: u64,
    pub copied_in_bytes: u64,
    pub host_bytes: u64,
    pub step_seconds_before: f64,
    pub step_seconds_after: f64,
    /// The step with a plan for CUDA's allocator, if it is much shorter, or if there is none for TensorFlow's own.
    pub step_seconds_with_async: Option<f64>,
    /// The part of the step in which the busier direction of the busiest link carries bytes.
    pub link_occupancy: f64,
    pub floors: FloorsReport,
    /// What no plan that runs the ops in the order of this one gets below; none without a plan, or if that was not found out.
    pub step_bound_seconds: Option<f64>,
    pub strategy: String,
    pub swapped_tensors: usize,
    /// Tensors of the host that come to a GPU when they are needed.
    pub late_tensors: usize,
    pub recomputed_ops: usize,
    pub recompute_seconds: f64,
    pub order_edges: usize,
    pub initial_values: usize,
    pub weights_on_host: usize,
    /// Stacks and lists of loops.
    pub accumulators_on_host: usize,
    /// Tensors on a GPU that count with the most that they can be, because only the data decides how large they are.
    pub bounded_tensors: usize,
    /// Whether calls in the graph are made flat: figures are of what is written then, not of the graph as it is.
    #[serde(skip_serializing_if = "Not::not")]
    pub is_lowered: bool,
    pub parameters: serde_json::Value,
    pub simulations: u32,
    pub seconds: f64,
    #[serde(skip)]
    pub name: String,
    #[serde(skip)]
    pub notes: Vec<String>,
}

#[derive(Debug, Serialize)]
pub struct DeviceReport {
    pub device: String,
    pub gpu_mem: u64,
    pub persistent_bytes: u64,
    pub peak_before: u64,
    pub peak_after: u64,
    /// What runs where the peak is, before.
    pub peak_op_before: String,
    /// What runs where the peak is, after.
    pub peak_op: String,
    pub peak_seconds: f64,
    pub swapout_bytes: u64,
    pub swapin_bytes: u64,
    /// All that is copied to the host in a step: swapped tensors, the loss, what the host computes with.
    pub copied_out_bytes: u64,
    /// All that is copied from the host: swapped tensors, what is fed.
    pub copied_in_bytes: u64,
    pub host_bytes: u64,
    pub floor_op: String,
    pub floor_bytes: u64,
    /// The largest tensors alive at the peak, after.
    pub largest_alive: Vec<AliveTensor>,
}

#[derive(Debug, Clone, Serialize)]
pub struct AliveTensor {
    pub tensor: String,
    pub bytes: u64,
}

#[derive(Debug, Serialize)]
pub struct FloorsReport {
    pub memory_bytes: u64,
    /// How long it takes to compute each op once.
    pub step_seconds: f64,
}

impl FloorsReport {
    pub fn of(floors: &[Floors]) -> FloorsReport {
        FloorsReport {
            memory_bytes: floors.iter().map(|floor| floor.memory_bytes).max().unwrap_or(0),
            step_seconds: floors.iter().map(|floor| floor.step_seconds).fold(0.0, f64::max),
        }
    }
}

/// The most memory that any GPU has in use.
pub fn peak(outcome: &Outcome) -> u64 {
    outcome.gpus.iter().map(|gpu| gpu.peak_bytes).max().unwrap_or(0)
}

/// What part of the step the busier direction of the busiest link is busy.
pub fn occupancy(outcome: &Outcome) -> f64 {
    let busy = |gpu: &GpuOutcome| gpu.out_seconds.max(gpu.in_seconds);
    let most = outcome.gpus.iter().map(busy).fold(0.0, f64::max);
    if outcome.step_seconds > 0.0 { most / outcome.step_seconds } else { 0.0 }
}

impl Report {
    /// What to do where more host memory is needed than TensorFlow takes by itself.
    pub fn host_memory_note(&self) -> Option<String> {
        (self.host_bytes > PINNED_POOL_BYTES).then(|| {
            format!(
                "the copies need {} of host memory, more than TensorFlow pins by itself: set {PINNED_POOL_VARIABLE} to {} or more",
                Size(self.host_bytes),
                self.host_bytes.div_ceil(1 << 20)
            )
        })
    }

    /// What the plan does, and what it was made with.
    fn plan(&self) -> String {
        let mut parts = vec![format!("{} tensors leave", self.swapped_tensors)];
        if self.late_tensors > 0 {
            parts.push(format!("{} come late from the host", self.late_tensors));
        }
        if self.recomputed_ops > 0 {
            let milliseconds = self.recompute_seconds * 1e3;
            parts.push(format!("{} ops run again ({milliseconds:.1} ms)", self.recomputed_ops));
        }
        if self.order_edges > 0 {
            parts.push(format!("{} ops wait for others", self.order_edges));
        }
        if self.initial_values > 0 {
            parts.push(format!("{} variables begin by way of the host", self.initial_values));
        }
        if self.weights_on_host > 0 {
            parts.push(format!("{} weights are on the host", self.weights_on_host));
        }
        if self.accumulators_on_host > 0 {
            parts.push(format!("{} stacks and lists of loops are on the host", self.accumulators_on_host));
        }
        let made_with = match describe(&self.strategy) {
            Some(known) if !self.parameters.is_null() => known.told(&self.parameters),
            _ => self.strategy.clone(),
        };
        format!("{} ({made_with})", parts.join(", "))
    }

    /// The document of `--json`.
    ///
    /// # Errors
    ///
    /// Never for a report of finite numbers.
    pub fn to_json(&self) -> serde_json::Result<String> {
        Ok(serde_json::to_string_pretty(self)? + "\n")
    }

    pub fn schema() -> u32 {
        SCHEMA
    }
}

impl Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let verdict = match self.verdict {
            Verdict::Fits if self.is_lowered => "fits with its calls made flat",
            Verdict::Fits => "fits as it is",
            Verdict::FitsWithSwapping => "fits with swapping",
            Verdict::DoesNotFit => "does not fit",
        };
        let mut page = Page::titled(format_args!("{}: {verdict} in {}", self.name, Size(self.gpu_mem)));
        self.devices.iter().for_each(|device| self.device(&mut page, device));
        if self.is_changed() {
            let [out, back] = [self.swapout_bytes, self.swapin_bytes].map(Size);
            page.row("copies", format_args!("{out} out, {back} in each step"));
            page.row("host memory", Size(self.host_bytes));
        }
        page.row("least that suffices", self.least_memory());
        page.row("step", self.step());
        self.limits(&mut page);
        if self.verdict == Verdict::FitsWithSwapping {
            page.row("plan", self.plan());
        }
        page.row("effort", format_args!("{} steps simulated in {:.2} s", self.simulations, self.seconds));
        self.notes.iter().for_each(|note| page.line(format_args!("note: {note}")));
        page.fmt(f)
    }
}

impl Report {
    /// Whether there is a plan beside the graph as it is.
    fn is_changed(&self) -> bool {
        self.verdict != Verdict::Fits
    }

    /// The peak of a GPU, and what is there then.
    fn device(&self, page: &mut Page, device: &DeviceReport) {
        let [before, after] = [device.peak_before, device.peak_after].map(Size);
        let bound = Size((device.peak_after as f64 * self.error_bound) as u64);
        match self.is_changed() {
            true => page.row("peak", format_args!("{before} before, {after} after (± {bound})")),
            false => page.row("peak", format_args!("{before} (± {bound}){}", self.other_orders(device))),
        }
        page.part("of that persistent", Size(device.persistent_bytes));
        let when = milliseconds(device.peak_seconds);
        page.part("where", format_args!("{when} into the step, at {}", device.peak_op));
        device.largest_alive.iter().for_each(|alive| page.amount(Size(alive.bytes), &alive.tensor));
        if self.devices.len() > 1 {
            page.part("on", &device.device);
        }
    }

    /// What the peak of a graph as it is comes to in another order, if that is beyond the bound.
    fn other_orders(&self, device: &DeviceReport) -> String {
        let most = self.peak_before_in_other_orders;
        let is_beyond = most as f64 > device.peak_after as f64 * (1.0 + self.error_bound);
        match is_beyond && device.peak_after == self.peak_after {
            true => format!(", up to {} in other orders", Size(most)),
            false => String::new(),
        }
    }

    fn least_memory(&self) -> String {
        let before = Size(self.least_memory_before);
        let with_async = self.with_async();
        let (least, whenever) = (self.least_memory_after, self.least_memory_whenever_copies_end);
        let differs = whenever > least + least / WORTH_TELLING_PARTS;
        let further = |how: &str| match differs {
            true => format!(", {} {how}", Size(whenever)),
            false => String::new(),
        };
        if !self.is_changed() {
            return format!("{before}{}{with_async}", further("in other orders"));
        }
        format!("{before} before, {} after{}{with_async}", Size(least), further("whenever copies end"))
    }

    /// The least memory with CUDA's allocator, if that reaches further.
    fn with_async(&self) -> String {
        let least = self.least_memory_whenever_copies_end;
        let reaches = |&bytes: &u64| bytes + bytes / WORTH_TELLING_PARTS < least;
        let further = self.least_memory_with_async.filter(reaches);
        further.map(|bytes| format!(", {} with --allocator async", Size(bytes))).unwrap_or_default()
    }

    fn step(&self) -> String {
        let [before, after] = [self.step_seconds_before, self.step_seconds_after].map(milliseconds);
        let profile = &self.device_profile;
        if !self.is_changed() {
            return format!("{before} (on {profile})");
        }
        let longer = (self.step_seconds_after / self.step_seconds_before - 1.0) * 100.0;
        let busy = self.link_occupancy * 100.0;
        let with_async = self.step_with_async();
        format!(
            "{before} before, {after} after: {longer:.1}% longer; the link is busy {busy:.0}% of it (on {profile}){with_async}"
        )
    }

    /// The step with a plan for CUDA's allocator, where that is worth telling.
    fn step_with_async(&self) -> String {
        let told = |seconds| match self.verdict {
            Verdict::DoesNotFit => format!("; a plan for --allocator async has {}", milliseconds(seconds)),
            _ => format!("; {} with --allocator async", milliseconds(seconds)),
        };
        self.step_seconds_with_async.map(told).unwrap_or_default()
    }

    /// What holds for every plan, and how near this one comes.
    fn limits(&self, page: &mut Page) {
        // A plan that does not do what is needed says nothing about how near a limit one could come.
        let above = |value: f64, floor: f64| match floor > 0.0 && self.verdict != Verdict::DoesNotFit {
            true => format!(" (here {:.2}x)", value / floor),
            false => String::new(),
        };
        page.heading("no plan gets below");
        let memory = self.floors.memory_bytes;
        let largest = self.devices.iter().max_by_key(|device| device.floor_bytes);
        let op = largest.map_or("", |device| &device.floor_op);
        let here = above(self.peak_after as f64, memory as f64);
        page.part("memory", format_args!("{}{here}, for {op}", Size(memory)));
        let step = |seconds: f64| milliseconds(seconds) + &above(self.step_seconds_after, seconds);
        page.part("step", format_args!("{}, for computing each op once", step(self.floors.step_seconds)));
        if let Some(bound) = self.step_bound_seconds {
            page.part(
                "step, with copies",
                format_args!("{}, in the order of ops that this one has", step(bound)),
            );
        }
    }
}
