//! What is to be told of a graph and a budget, as data: what a program shows its user, or writes as JSON.

use serde::Serialize;

use super::{Budget, Error, Fit, Simulated, branches_note, copied, loop_notes, uncounted_note};
use crate::plan::{Analysis, Draft};
use crate::simulate::{GpuOutcome, Machine, NoObserver, Outcome, Outline, Program, simulate};
use crate::size::Size;
use crate::tune::{Description, Found, Judge, NO_STRATEGY, Tuning, Verdict, accuracy, peak_in_other_orders};

/// The version of the JSON document.
const SCHEMA: u32 = 1;

/// What was found out of a graph and a budget. Bytes are of one step; seconds are of the profile's device.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Summary {
    /// The version of the JSON document.
    pub schema: u32,
    /// How graph and budget go together.
    pub verdict: SummaryVerdict,
    /// Whether it fits only in the order and with copies as fast as predicted.
    pub is_tight: bool,
    /// Whether it is tight because it counts on all of the memory: what predictions may be off by is not left over.
    pub takes_margin: bool,
    /// The profile's name.
    pub device_profile: String,
    /// Each GPU.
    pub devices: Vec<DeviceSummary>,
    /// A step of the graph as it is, were there no end of memory.
    pub step_seconds_before: f64,
    /// A step with the plan; none if nothing fits.
    pub step_seconds_after: Option<f64>,
    /// Bytes of host memory that copies from GPUs take; none if nothing fits.
    pub host_bytes: Option<u64>,
    /// Who made the plan: `none` if it changes nothing.
    pub strategy: String,
    /// What the strategy was set to, for people; none if there is no plan.
    pub settings: Option<String>,
    /// How many tensors leave.
    pub swapped_tensors: usize,
    /// How many ops run again.
    pub recomputed_ops: usize,
    /// How many ops wait for others.
    pub order_edges: usize,
    /// How many steps were simulated.
    pub simulations: u32,
    /// What a user should know besides, a sentence each.
    pub notes: Vec<String>,
}

/// How a graph and a budget go together.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum SummaryVerdict {
    /// No swapping is needed.
    Fits,
    /// With the plan.
    FitsWithSwapping,
    /// Not with any plan that the strategy knows.
    DoesNotFit,
}

/// One GPU. All sizes are bytes.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct DeviceSummary {
    /// Its name in the graph.
    pub device: String,
    /// Its memory.
    pub memory_bytes: u64,
    /// What of it a plan may count on.
    pub usable_bytes: u64,
    /// Variables and constants.
    pub persistent_bytes: u64,
    /// The most in use at a time as the graph is, were there no end of memory.
    pub peak_before: u64,
    /// The same with the plan; none if nothing fits.
    pub peak_after: Option<u64>,
    /// The least memory in which the graph runs as it is, the pool's fragmentation included.
    pub least_memory_before: u64,
    /// What no plan gets below.
    pub floor_bytes: u64,
    /// What the plan has leave.
    pub swapout_bytes: u64,
    /// What the plan brings back, each time counted.
    pub swapin_bytes: u64,
    /// How much more a step copies from the GPU with the plan than without. A little more may go than what leaves: where a `Switch` is on the host
    /// for the sake of a tensor that is there, the condition goes there too.
    pub added_out_bytes: i64,
    /// The same to the GPU.
    pub added_in_bytes: i64,
}

impl Summary {
    /// What is to be told of a fit. Of several steps that are run in turn it is told of the one that [`Fit::tuning`] is of.
    ///
    /// # Errors
    ///
    /// As [`Analysis::fit`].
    pub fn of(analysis: &Analysis, budget: &Budget, fit: &Fit) -> Result<Summary, Error> {
        let number = fit.steps.iter().position(|step| step.tuning.before == fit.tuning.before);
        let run = number.map_or_else(|| analysis.clone(), |number| analysis.of_run(number));
        let simulated = Simulated::new(&run, budget)?;
        let outline = simulated.outline()?;
        let machine = fit.tuning.machine(&simulated.machine(budget)?);
        let found = match &fit.tuning.verdict {
            Verdict::FitsWithSwapping(found) => Some(&**found),
            Verdict::Fits | Verdict::DoesNotFit => None,
        };
        let draft = found.map_or_else(Draft::default, |found| found.draft.clone());
        let settings = |found: &Found| found.strategy.told(&found.parameters);
        let asked = budget.strategy(&run)?.description();
        Ok(Summary {
            schema: SCHEMA,
            verdict: verdict(&fit.tuning),
            is_tight: fit.tuning.is_tight && !matches!(fit.tuning.verdict, Verdict::DoesNotFit),
            takes_margin: fit.tuning.takes_margin,
            device_profile: budget.profile.name.clone(),
            devices: devices(&outline, &machine, budget, &fit.tuning, &draft),
            step_seconds_before: fit.tuning.before.step_seconds,
            step_seconds_after: fit.outcome().map(|outcome| outcome.step_seconds),
            host_bytes: fit.outcome().map(|outcome| outcome.host_peak_bytes),
            strategy: found.map_or(NO_STRATEGY, |found| found.strategy.name).to_string(),
            settings: found.map(settings),
            swapped_tensors: draft.swaps.len(),
            recomputed_ops: draft.recomputations.len(),
            order_edges: draft.orders.len(),
            simulations: fit.tuning.simulations,
            notes: notes(&fit.tuning, &outline, &machine, &draft, asked),
        })
    }
}

fn verdict(tuning: &Tuning) -> SummaryVerdict {
    match tuning.verdict {
        Verdict::Fits => SummaryVerdict::Fits,
        Verdict::FitsWithSwapping(_) => SummaryVerdict::FitsWithSwapping,
        Verdict::DoesNotFit => SummaryVerdict::DoesNotFit,
    }
}

fn devices(
    outline: &Outline,
    machine: &Machine,
    budget: &Budget,
    tuning: &Tuning,
    draft: &Draft,
) -> Vec<DeviceSummary> {
    let moved = copied(outline, draft);
    let after = peaks_after(outline, machine, tuning, draft);
    let least = Judge::new(outline, machine).least_memory(&Draft::default());
    let gpus = outline.placement().gpus();
    let added = |number: usize, copied: fn(&GpuOutcome) -> u64| {
        let copied_by = |outcome: &Outcome| copied(&outcome.gpus[number]) as i64;
        tuning.outcome().map_or(0, |outcome| copied_by(outcome) - copied_by(&tuning.before))
    };
    let device = |number: usize| {
        let memory = budget.memory_bytes.get(number).or(budget.memory_bytes.last()).copied().unwrap_or(0);
        DeviceSummary {
            device: gpus[number].to_string(),
            memory_bytes: memory,
            usable_bytes: budget.usable_bytes(memory),
            persistent_bytes: tuning.before.gpus[number].persistent_bytes,
            peak_before: tuning.before.gpus[number].peak_bytes,
            peak_after: after.as_ref().map(|peaks| peaks[number]),
            least_memory_before: least,
            floor_bytes: tuning.floors[number].memory_bytes,
            swapout_bytes: moved[number].out_bytes,
            swapin_bytes: moved[number].in_bytes,
            added_out_bytes: added(number, |gpu| gpu.out_bytes),
            added_in_bytes: added(number, |gpu| gpu.in_bytes),
        }
    };
    (0..gpus.len()).map(device).collect()
}

/// The peaks with the plan. The simulator's are of a pool that hands out more than was asked for: where the step needs less
/// than the budget without that, it is said.
fn peaks_after(outline: &Outline, machine: &Machine, tuning: &Tuning, draft: &Draft) -> Option<Vec<u64>> {
    let within: &Outcome = tuning.outcome()?;
    let unlimited = machine.with_memory(Vec::new());
    let counted = simulate(&Program::new(outline, draft), &unlimited, &mut NoObserver).unwrap_or_default();
    let pairs = within.gpus.iter().zip(&counted.gpus);
    Some(pairs.map(|(within, counted)| within.peak_bytes.min(counted.peak_bytes)).collect())
}

fn notes(
    tuning: &Tuning,
    outline: &Outline,
    machine: &Machine,
    draft: &Draft,
    asked: &'static Description,
) -> Vec<String> {
    let mut notes: Vec<String> = tuning.fallback(asked).into_iter().collect();
    notes.extend(tuning.caveat().map(str::to_string));
    notes.extend(other_orders(tuning, outline, machine));
    if outline.bounded_tensors() > 0 {
        notes.push(format!(
            "only the data decides how large {} tensors are; they count with the most that they can be",
            outline.bounded_tensors()
        ));
    }
    notes.extend(uncounted_note(outline));
    notes.extend(branches_note(outline));
    notes.extend(loop_notes(outline, machine, tuning, draft));
    notes.extend(outline.analysis().note_of_calls());
    if outline.placement().gpus().is_empty() {
        notes.push("no op of the graph runs on a GPU".to_string());
    }
    notes
}

/// What the graph as it is takes in another order, if that is more than a prediction may be off by.
fn other_orders(tuning: &Tuning, outline: &Outline, machine: &Machine) -> Option<String> {
    let predicted = tuning.before.peak_bytes() as f64;
    let most = peak_in_other_orders(outline, machine, &Draft::default());
    let is_beyond = most as f64 > predicted * (1.0 + accuracy::PEAK_ERROR);
    is_beyond.then(|| format!("as it is, the step may take up to {} in another order of its ops", Size(most)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::AnalysisOptions;

    fn summary(memory_bytes: u64) -> (Summary, Fit) {
        let model = crate::read("testdata/resnet50_2000_b1.meta").unwrap();
        let graph = model.graph().unwrap();
        let analysis = model.analyse(&graph, &AnalysisOptions::default()).unwrap();
        let budget = Budget::new(memory_bytes);
        let fit = analysis.fit(&budget).unwrap();
        (Summary::of(&analysis, &budget, &fit).unwrap(), fit)
    }

    #[test]
    fn what_fits_is_told_without_a_plan() {
        let (summary, fit) = summary(64 << 30);
        assert_eq!(summary.verdict, SummaryVerdict::Fits);
        assert_eq!(summary.devices[0].peak_after, Some(fit.peak_bytes_before()));
        assert_eq!((summary.swapped_tensors, summary.devices[0].swapout_bytes), (0, 0));
        assert_eq!(summary.settings, None);
    }

    #[test]
    fn a_plan_is_told_with_what_it_copies() {
        let (summary, fit) = summary(6 << 30);
        let plan = fit.plan.as_ref().unwrap();
        assert_eq!(summary.verdict, SummaryVerdict::FitsWithSwapping);
        let bytes: u64 = plan.swaps.iter().map(|swap| swap.bytes.unwrap()).sum();
        assert_eq!(summary.devices[0].swapout_bytes, bytes);
        assert!(summary.devices[0].peak_after.unwrap() <= summary.devices[0].usable_bytes);
        assert!(summary.devices[0].peak_before > 6 << 30);
        assert_eq!(summary.swapped_tensors, plan.swaps.len());
        let json = serde_json::to_value(&summary).unwrap();
        assert_eq!(json["verdict"], "fits_with_swapping");
    }

    #[test]
    fn what_does_not_fit_is_told_with_the_floor() {
        let (summary, _) = summary(64 << 20);
        assert_eq!(summary.verdict, SummaryVerdict::DoesNotFit);
        assert!(summary.devices[0].floor_bytes > 64 << 20);
        assert_eq!(summary.devices[0].peak_after, None);
    }
}
