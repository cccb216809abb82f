//! From what was found out to what the user is told.

use std::time::Instant;

use tf_lms::ops::Fact;
use tf_lms::order::Place;
use tf_lms::picture::{Names, Recording};
use tf_lms::pipeline::{
    Budget, Simulated, branches_note, copied, image_order_note, kept_zeros_note, loop_notes, scratch_note,
    uncounted_note,
};
use tf_lms::plan::Draft;
use tf_lms::simulate::{Allocator, Machine, Outline, Program};
use tf_lms::tune::{Judge, Tuning, accuracy, peak_in_other_orders, step_bound};

use crate::conclusion::Conclusion;
use crate::report::{AliveTensor, DeviceReport, FloorsReport, LimitError, Report, Verdict, occupancy, peak};

/// What has TensorFlow take CUDA's allocator.
const ASYNC_VARIABLE: &str = "TF_GPU_ALLOCATOR=cuda_malloc_async";

/// How many of the tensors that are alive at the peak are listed.
const LISTED: usize = 10;

/// All that a report is made of.
pub struct Facts<'a> {
    pub name: &'a str,
    pub budget: &'a Budget,
    pub simulated: &'a Simulated<'a>,
    pub outline: &'a Outline<'a>,
    pub machine: &'a Machine,
    pub tuning: &'a Tuning,
    pub conclusion: &'a Conclusion,
    pub before: &'a Recording<'a>,
    pub after: &'a Recording<'a>,
    /// Whether the user gave the plan.
    pub is_given: bool,
    /// When the tool began.
    pub start: Instant,
}

impl Facts<'_> {
    /// The report.
    pub fn report(&self) -> Report {
        let Facts { budget: Budget { memory_bytes: memory, .. }, tuning, .. } = *self;
        let Conclusion { verdict, strategy, draft, outcome, parameters } = self.conclusion;
        let graph = self.simulated.analysis.graph;
        let placement = self.outline.placement();
        let leaves = |tensor| !draft.begins_on_host(graph, placement, tensor);
        let is_of_host = |tensor| placement.output(tensor) == Place::Host;
        let devices = self.devices();
        let mut judge = Judge::new(self.outline, self.machine);
        let allocator = self.budget.allocator;
        let least_memory_after = judge.least_memory(draft);
        let mut report = Report {
            schema: Report::schema(),
            verdict: *verdict,
            is_tight: tuning.is_tight && *verdict != Verdict::DoesNotFit,
            gpu_mem: memory.first().copied().unwrap_or(0),
            memory_ratio: memory
                .first()
                .map_or(1.0, |&bytes| self.budget.usable_bytes(bytes) as f64 / bytes as f64),
            allocator: allocator.to_string(),
            device_profile: self.simulated.profile.name.clone(),
            peak_before: peak(&tuning.before),
            peak_after: peak(outcome),
            peak_before_in_other_orders: peak_in_other_orders(self.outline, self.machine, &Draft::default()),
            least_memory_before: judge.least_memory(&Draft::default()),
            least_memory_after,
            least_memory_whenever_copies_end: judge
                .least_memory_whenever_copies_end(draft, least_memory_after),
            least_memory_with_async: (allocator != Allocator::Async).then(|| self.least_memory_with_async()),
            error_bound: accuracy::PEAK_ERROR,
            least_memory_error_bound: LimitError::seen(),
            swapout_bytes: devices.iter().map(|device| device.swapout_bytes).sum(),
            swapin_bytes: devices.iter().map(|device| device.swapin_bytes).sum(),
            copied_out_bytes: outcome.gpus.iter().map(|gpu| gpu.out_bytes).sum(),
            copied_in_bytes: outcome.gpus.iter().map(|gpu| gpu.in_bytes).sum(),
            host_bytes: outcome.host_peak_bytes,
            step_seconds_before: tuning.before.step_seconds,
            step_seconds_after: outcome.step_seconds,
            step_seconds_with_async: None,
            link_occupancy: occupancy(outcome),
            floors: FloorsReport::of(&tuning.floors),
            step_bound_seconds: self.step_bound_seconds(),
            strategy: strategy.clone(),
            swapped_tensors: draft.swaps.iter().filter(|swap| leaves(swap.tensor)).count(),
            late_tensors: draft.swaps.iter().filter(|swap| is_of_host(swap.tensor)).count(),
            recomputed_ops: draft.recomputations.len(),
            recompute_seconds: draft.recomputations.iter().map(|again| self.outline.seconds(again.op)).sum(),
            order_edges: draft.orders.len(),
            initial_values: draft.initial_values.len(),
            weights_on_host: draft
                .host_ops
                .iter()
                .filter(|&&node| graph.op(node).facts().has(Fact::KeepsValue))
                .count(),
            accumulators_on_host: self.outline.accumulators_among(&draft.host_ops).len(),
            bounded_tensors: self.outline.bounded_tensors(),
            is_lowered: self.simulated.analysis.is_lowered,
            parameters: parameters.clone(),
            simulations: tuning.simulations,
            seconds: self.start.elapsed().as_secs_f64(),
            name: self.name.to_string(),
            notes: Vec::new(),
            devices,
        };
        report.notes = self.notes(&report);
        report
    }

    /// What no plan with the order of ops of this one gets below.
    fn step_bound_seconds(&self) -> Option<f64> {
        let is_planned = self.conclusion.verdict == Verdict::FitsWithSwapping;
        is_planned.then(|| step_bound(self.outline, self.machine, &self.conclusion.draft)).flatten()
    }

    /// The least memory that suffices for the plan with CUDA's allocator.
    fn least_memory_with_async(&self) -> u64 {
        let machine = self.machine.clone().with_allocator(Allocator::Async);
        let mut judge = Judge::new(self.outline, &machine);
        let draft = &self.conclusion.draft;
        let least = judge.least_memory(draft);
        judge.least_memory_whenever_copies_end(draft, least)
    }

    fn devices(&self) -> Vec<DeviceReport> {
        let Facts { budget: Budget { memory_bytes: memory, .. }, tuning, .. } = *self;
        let graph = self.simulated.analysis.graph;
        let swapped = copied(self.outline, &self.conclusion.draft);
        let name = |program: &Program, op: Option<u32>| {
            op.map_or("what is persistent".to_string(), |op| Names::new(graph, program).entry(op))
        };
        let report = |number: usize| {
            let (before, after, floor) =
                (&tuning.before.gpus[number], &self.conclusion.outcome.gpus[number], &tuning.floors[number]);
            let alive = self.after.alive_at_peak(graph, number as u16, LISTED);
            DeviceReport {
                device: self.simulated.placement.gpus()[number].to_string(),
                gpu_mem: memory.get(number).or(memory.last()).copied().unwrap_or(0),
                persistent_bytes: after.persistent_bytes,
                peak_before: before.peak_bytes,
                peak_after: after.peak_bytes,
                peak_op_before: name(self.before.program(), before.peak_op),
                peak_op: name(self.after.program(), after.peak_op),
                peak_seconds: after.peak_seconds,
                swapout_bytes: swapped[number].out_bytes,
                swapin_bytes: swapped[number].in_bytes,
                copied_out_bytes: after.out_bytes,
                copied_in_bytes: after.in_bytes,
                host_bytes: after.out_bytes,
                floor_op: name(self.before.program(), floor.memory_op),
                floor_bytes: floor.memory_bytes,
                largest_alive: alive
                    .into_iter()
                    .map(|(tensor, bytes)| AliveTensor { tensor, bytes })
                    .collect(),
            }
        };
        (0..self.simulated.placement.gpus().len()).map(report).collect()
    }

    /// What the user should know besides.
    fn notes(&self, report: &Report) -> Vec<String> {
        let tuning = self.tuning;
        let mut notes: Vec<String> = report.host_memory_note().into_iter().collect();
        if self.budget.allocator == Allocator::Async {
            notes.push(format!(
                "memory is that of CUDA's allocator: have TensorFlow take it with {ASYNC_VARIABLE}"
            ));
        }
        notes.extend(tuning.caveat().map(str::to_string));
        let asked = self.budget.strategy(self.simulated.analysis).map(|strategy| strategy.description());
        if let (Ok(asked), false) = (asked, self.is_given) {
            notes.extend(tuning.fallback(asked));
        }
        if report.bounded_tensors > 0 {
            notes.push(format!(
                "only the data decides how large {} tensors are; they count with the most that they can be, so that the \
                 prediction is a bound",
                report.bounded_tensors
            ));
        }
        if report.verdict != Verdict::Fits {
            let notes_of = |device: &DeviceReport| scratch_note(self.outline, &device.floor_op);
            notes.extend(report.devices.iter().filter_map(notes_of));
        }
        notes.extend(image_order_note(self.simulated.analysis));
        notes.extend(kept_zeros_note(self.outline, tuning.before.peak_bytes()));
        notes.extend(uncounted_note(self.outline));
        notes.extend(branches_note(self.outline));
        notes.extend(loop_notes(self.outline, self.machine, tuning, &self.conclusion.draft));
        if let Some(function) = &self.simulated.analysis.function {
            notes.push(format!("the step is the function {function}, with the calls in it made flat"));
            notes.extend(self.simulated.analysis.note_of_host_loops());
        }
        notes.extend(self.simulated.analysis.note_of_calls());
        if !self.simulated.analysis.step.is_known() {
            notes.push(
                "the file does not say what a step runs, so this is a guess; give --train-op".to_string(),
            );
        }
        if self.simulated.placement.gpus().is_empty() {
            notes.push("no op of the graph runs on a GPU".to_string());
        }
        notes
    }
}
