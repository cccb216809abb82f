//! What the tool does.

use std::fs;
use std::io::{self, Write};
use std::time::Instant;

use anyhow::Context;
use tf_lms::chart::Chart;
use tf_lms::cli::{Failure, GpuMemory, Subject, written};
use tf_lms::format::Destination;
use tf_lms::graph::{Device, Graph, TensorId};
use tf_lms::order::{Place, Placement};
use tf_lms::picture::{Names, Recorder, explain};
use tf_lms::plan::tflms::{self, Parameters, SyncMode};
use tf_lms::plan::{Analysis, Draft, Plan, graph_digest};
use tf_lms::shape::Sizes;
use tf_lms::simulate::{Machine, NoObserver, OpCost, Outcome, Outline, Program, simulate};
use tf_lms::tune::{self, Judge, Tuning, accuracy};

use crate::args::{Args, MemoryModel};
use crate::by_levels;
use crate::report::{AliveTensor, DeviceReport, FloorsReport, Report, Verdict, occupancy, peak};

/// How many of the tensors that are alive at the peak are listed.
const LISTED: usize = 10;

/// Finds or judges a plan, and reports.
pub fn tune(args: &Args) -> anyhow::Result<()> {
    if args.model_of_memory == MemoryModel::Tflms {
        return by_levels::tune(args);
    }
    if args.verbosity.json && args.output.as_deref() == Some("-".as_ref()) {
        return Err(Failure::Usage.error("--json and -o - both want standard output"));
    }
    let start = Instant::now();
    let subject = Subject::read(&args.model, &args.graph)?;
    let graph = subject.graph()?;
    let shapes = subject.shapes(&graph, &args.graph)?;
    let sizes = Sizes::of(&graph, &shapes).with_context(|| subject.model.name().to_string())?;
    let targets = subject.targets(&graph, &args.graph)?;
    let analysis = Analysis::new(&graph, &targets, shapes, sizes);
    let placement = Placement::of(&graph);
    let profile = args.budget.profile(None)?;
    let costs = args.budget.costs(&analysis, &profile)?;
    let cost = |node| OpCost { seconds: costs.seconds(node), workspace_bytes: costs.workspace_bytes(node) };
    let outline =
        Outline::new(&analysis, &placement, cost).with_context(|| subject.model.name().to_string())?;
    let fixed = args.tflms.parameters();
    let mut strategy = args.budget.strategy.strategy(&analysis, fixed.clone())?;
    let memory = match args.budget.wants_least() {
        false => args.budget.memory()?,
        true => vec![least_memory(args, &outline, &profile, &mut *strategy)?],
    };
    let usable = memory.iter().map(|&bytes| args.budget.usable_bytes(bytes)).collect();
    let machine = Machine::new(&profile, placement.gpus().len(), usable);
    let (tuning, given) = match &args.plan {
        None => (tune::tune(&outline, &machine, &mut *strategy)?, None),
        Some(path) => {
            let name = path.display().to_string();
            let plan = Plan::from_json(&name, &fs::read(path).with_context(|| name.clone())?)?;
            if plan.graph.nodes != graph.len() || plan.graph.digest != graph_digest(&graph) {
                return Err(Failure::Failed
                    .error(format!("{name}: the plan is for another graph than {}", subject.model.name())));
            }
            let draft = Draft::of(&plan, &graph)?;
            let strategy = plan.strategy.clone();
            (
                judge_given(&outline, &machine, draft.clone(), plan.parameters.clone())?,
                Some((strategy, draft)),
            )
        }
    };

    let original = Program::new(&outline, &Draft::default());
    let Conclusion { verdict, strategy, draft, outcome: after, parameters } =
        conclude(&outline, &machine, &tuning, given, &fixed)?;
    let program = Program::new(&outline, &draft);
    let unlimited = machine.with_memory(Vec::new());
    let recorded = |program, machine: &Machine| {
        Recorder::record(program, machine)
            .map_err(|_| Failure::Failed.error("memory ran out in a simulation that had fitted before"))
    };
    // The host runs ahead until memory makes it wait, so what a step takes depends on how much there is.
    let within = if verdict == Verdict::FitsWithSwapping { &machine } else { &unlimited };
    let (recorded_before, recorded_after) = (recorded(&original, &unlimited)?, recorded(&program, within)?);
    if let Some(name) = &args.explain {
        let tensor = find_tensor(&graph, name).ok_or_else(|| {
            Failure::Usage.error(format!("--explain {name}: {} has no such tensor", subject.model.name()))
        })?;
        let explanation = explain(&outline, &draft, &recorded_before, &recorded_after, tensor);
        let text = match args.verbosity.json {
            true => serde_json::to_string_pretty(&explanation)? + "\n",
            false => explanation.to_string(),
        };
        return Ok(io::stdout().lock().write_all(text.as_bytes())?);
    }
    if let Some(path) = &args.plot {
        let title = format!("{}, {}", subject.model.name(), profile.name);
        let with_plan = (!draft.is_empty()).then_some(&recorded_after);
        let shown = machine.with_memory(memory.clone());
        recorded_before.memory_chart(with_plan, &outline, &shown, &title).write(path)?;
    }
    if let Some(path) = &args.trace {
        recorded_after.timeline(&graph)?.write(path)?;
    }
    let swapped = swapped_bytes(&outline, &draft);
    let devices = placement.gpus().iter().enumerate().map(|(number, device)| {
        let (before, after, floor) =
            (&tuning.before.gpus[number], &after.gpus[number], &tuning.floors[number]);
        let name = |program: &Program, op: Option<u32>| {
            op.map_or("what is persistent".to_string(), |op| Names::new(&graph, program).entry(op))
        };
        DeviceReport {
            device: device.to_string(),
            gpu_mem: memory.get(number).or(memory.last()).copied().unwrap_or(0),
            persistent_bytes: after.persistent_bytes,
            peak_before: before.peak_bytes,
            peak_after: after.peak_bytes,
            peak_op_before: name(&original, before.peak_op),
            peak_op: name(&program, after.peak_op),
            peak_seconds: after.peak_seconds,
            swapout_bytes: swapped[number].0,
            swapin_bytes: swapped[number].1,
            copied_out_bytes: after.out_bytes,
            copied_in_bytes: after.in_bytes,
            host_bytes: after.out_bytes,
            floor_op: name(&original, floor.memory_op),
            floor_bytes: floor.memory_bytes,
            largest_alive: recorded_after
                .alive_at_peak(&graph, number as u16, LISTED)
                .into_iter()
                .map(|(tensor, bytes)| AliveTensor { tensor, bytes })
                .collect(),
        }
    });
    let mut judge = Judge::new(&outline, &machine);
    let mut report = Report {
        schema: Report::schema(),
        verdict,
        gpu_mem: memory.first().copied().unwrap_or(0),
        memory_ratio: memory
            .first()
            .map_or(1.0, |&bytes| args.budget.usable_bytes(bytes) as f64 / bytes as f64),
        device_profile: profile.name.clone(),
        devices: devices.collect(),
        peak_before: peak(&tuning.before),
        peak_after: peak(&after),
        least_memory_before: judge.least_memory(&Draft::default()),
        least_memory_after: judge.least_memory(&draft),
        error_bound: accuracy::PEAK_ERROR,
        swapout_bytes: swapped.iter().map(|(out, _)| out).sum(),
        swapin_bytes: swapped.iter().map(|(_, into)| into).sum(),
        copied_out_bytes: after.gpus.iter().map(|gpu| gpu.out_bytes).sum(),
        copied_in_bytes: after.gpus.iter().map(|gpu| gpu.in_bytes).sum(),
        host_bytes: after.host_peak_bytes,
        step_seconds_before: tuning.before.step_seconds,
        step_seconds_after: after.step_seconds,
        link_occupancy: occupancy(&after),
        floors: FloorsReport::of(&tuning.floors),
        strategy: strategy.clone(),
        swapped_tensors: draft.swaps.len(),
        recomputed_ops: draft.recomputations.len(),
        recompute_seconds: draft.recomputations.iter().map(|again| outline.seconds(again.op)).sum(),
        order_edges: draft.orders.len(),
        parameters: parameters.clone(),
        simulations: tuning.simulations,
        seconds: start.elapsed().as_secs_f64(),
        name: subject.model.name().to_string(),
        notes: Vec::new(),
    };
    report.notes.extend(report.host_memory_note());
    if tuning.is_tight && verdict == Verdict::FitsWithSwapping {
        report.notes.push(
            "it is tight: the plan fits only with copies as fast as the device profile says".to_string(),
        );
    }
    if !analysis.step.is_known() {
        report
            .notes
            .push("the file does not say what a step runs, so this is a guess; give --train-op".to_string());
    }
    if placement.gpus().is_empty() {
        report.notes.push("no op of the graph runs on a GPU".to_string());
    }

    if let Some(output) = args.output.as_deref().filter(|_| verdict != Verdict::DoesNotFit) {
        let host = Device::parse(args.tflms.host_device()).context("--host-device")?;
        let plan = written(&analysis, &strategy, draft, parameters, &host);
        write_plan(output, &plan)?;
    }
    print(args, &report)?;
    match verdict {
        Verdict::DoesNotFit => Err(Failure::DoesNotFit.error(format!(
            "{}: does not fit in {}, {:.0}% of which a plan may count on",
            report.name,
            tf_lms::cli::Size(report.gpu_mem),
            report.memory_ratio * 100.0
        ))),
        _ => Ok(()),
    }
}

/// What a plan that was given comes to.
fn judge_given(
    outline: &Outline,
    machine: &Machine,
    draft: Draft,
    parameters: serde_json::Value,
) -> anyhow::Result<Tuning> {
    let mut tuning = tune::tune(outline, machine, &mut tune::Nothing)?;
    let mut judge = Judge::new(outline, machine);
    judge.trust_the_profile();
    let outcome = judge.judge(&draft);
    tuning.is_tight = false;
    tuning.verdict = match outcome {
        Ok(outcome) => tune::Verdict::FitsWithSwapping(Box::new(tune::Found {
            strategy: "given",
            draft,
            outcome,
            parameters,
        })),
        Err(_) => tune::Verdict::DoesNotFit,
    };
    Ok(tuning)
}

/// The least memory of a GPU for which the strategy finds a plan.
fn least_memory(
    args: &Args,
    outline: &Outline,
    profile: &tf_lms::cost::DeviceProfile,
    strategy: &mut dyn tune::Strategy,
) -> anyhow::Result<u64> {
    if args.budget.gpu_mem != [GpuMemory::Least] {
        return Err(Failure::Usage.error("--gpu-mem: min stands alone"));
    }
    let machine = Machine::new(profile, outline.placement().gpus().len(), Vec::new());
    let least = tune::least_budget(outline, &machine, strategy)?;
    let bytes = least.with_context(|| "no plan was found for any memory")?;
    Ok(args.budget.memory_for(bytes))
}

/// What was found out, and the plan that goes with it. Where nothing fits, that is the plan that was given, or the one that swaps
/// the most.
struct Conclusion {
    verdict: Verdict,
    strategy: String,
    draft: Draft,
    outcome: Outcome,
    parameters: serde_json::Value,
}

fn conclude(
    outline: &Outline,
    machine: &Machine,
    tuning: &Tuning,
    given: Option<(String, Draft)>,
    fixed: &Parameters,
) -> anyhow::Result<Conclusion> {
    let strategy = |found: &str| given.as_ref().map_or(found, |(strategy, _)| strategy).to_string();
    Ok(match &tuning.verdict {
        tune::Verdict::Fits => Conclusion {
            verdict: Verdict::Fits,
            strategy: strategy("none"),
            draft: Draft::default(),
            outcome: tuning.before.clone(),
            parameters: serde_json::Value::Null,
        },
        tune::Verdict::FitsWithSwapping(found) => {
            // A pool hands out more than was asked for: where the step needs less than the budget without that, that is said.
            let counted = unlimited(outline, machine, &found.draft);
            Conclusion {
                verdict: Verdict::FitsWithSwapping,
                strategy: strategy(found.strategy),
                draft: found.draft.clone(),
                outcome: Outcome { gpus: merge_peaks(&found.outcome, &counted), ..found.outcome.clone() },
                parameters: found.parameters.clone(),
            }
        }
        tune::Verdict::DoesNotFit => {
            let everything = Parameters {
                swapout_threshold: 1,
                sync_mode: SyncMode { swap_out: true, swap_in: true },
                ..fixed.clone()
            };
            let (strategy, draft, parameters) = match given {
                Some((strategy, draft)) => (strategy, draft, serde_json::Value::Null),
                None => {
                    let draft = tflms::draft(outline.analysis(), &everything)?;
                    let parameters = serde_json::to_value(&everything).unwrap_or_default();
                    (tflms::NAME.to_string(), draft, parameters)
                }
            };
            let outcome = unlimited(outline, machine, &draft);
            Conclusion { verdict: Verdict::DoesNotFit, strategy, draft, outcome, parameters }
        }
    })
}

/// A step with a plan where memory has no end.
fn unlimited(outline: &Outline, machine: &Machine, draft: &Draft) -> Outcome {
    let machine = machine.with_memory(Vec::new());
    simulate(&Program::new(outline, draft), &machine, &mut NoObserver).unwrap_or_default()
}

/// The outcome within the budget; where the step needs less than that anyway, the peak of what it needs.
fn merge_peaks(within: &Outcome, counted: &Outcome) -> Vec<tf_lms::simulate::GpuOutcome> {
    let pairs = within.gpus.iter().zip(&counted.gpus);
    pairs
        .map(|(within, counted)| match counted.peak_bytes <= within.peak_bytes {
            true => tf_lms::simulate::GpuOutcome {
                peak_bytes: counted.peak_bytes,
                peak_op: counted.peak_op,
                peak_seconds: counted.peak_seconds,
                ..within.clone()
            },
            false => within.clone(),
        })
        .collect()
}

/// For each GPU the bytes that a plan takes out and back in a step.
fn swapped_bytes(outline: &Outline, draft: &Draft) -> Vec<(u64, u64)> {
    let Analysis { graph, sizes, step, .. } = outline.analysis();
    let mut swapped = vec![(0, 0); outline.placement().gpus().len()];
    let runs = |node| outline.entry(node).is_some();
    for swap in &draft.swaps {
        let Place::Gpu(gpu) = outline.placement().output(swap.tensor) else { continue };
        let returns =
            swap.uses.iter().filter(|swap_in| swap_in.consumers.iter().any(|&node| runs(node))).count();
        // Constants are copied too, although no step runs them.
        if step.contains(graph.producer(swap.tensor)) && returns > 0 {
            let bytes = sizes.bytes(swap.tensor).unwrap_or(0);
            let (out, into) = &mut swapped[usize::from(gpu)];
            (*out, *into) = (*out + bytes, *into + bytes * returns as u64);
        }
    }
    swapped
}

/// The tensor of this name; of an op without an output number the first.
fn find_tensor(graph: &Graph, name: &str) -> Option<TensorId> {
    let (node, output) = match name.rsplit_once(':') {
        Some((node, output)) => (node, output.parse().ok()?),
        None => (name, 0),
    };
    let node = graph.node_ids().find(|&id| graph.name(id) == node)?;
    graph.outputs(node).nth(output)
}

fn write_plan(output: &std::ffi::OsStr, plan: &Plan) -> anyhow::Result<()> {
    match Destination::from(output) {
        Destination::Stdout => io::stdout().lock().write_all(plan.to_json().as_bytes())?,
        _ => tf_lms::format::write_file(std::path::Path::new(output), plan.to_json().as_bytes())?,
    }
    Ok(())
}

fn print(args: &Args, report: &Report) -> anyhow::Result<()> {
    let text = if args.verbosity.json { report.to_json()? } else { report.to_string() };
    if args.output.as_deref() == Some("-".as_ref()) {
        if !args.verbosity.quiet {
            io::stderr().lock().write_all(text.as_bytes())?;
        }
    } else if args.verbosity.json || !args.verbosity.quiet {
        io::stdout().lock().write_all(text.as_bytes())?;
    }
    Ok(())
}
