//! What the tool does.

use std::time::Instant;

use anyhow::Context;
use tf_lms::Model;
use tf_lms::chart::Chart;
use tf_lms::cli::{Failure, GpuMemory, Size};
use tf_lms::graph::Graph;
use tf_lms::picture::Recorder;
use tf_lms::pipeline::{Budget, Simulated};
use tf_lms::plan::{Analysis, Draft};
use tf_lms::simulate::{Machine, Program};
use tf_lms::tune::Tuning;

use crate::args::{Args, MemoryModel};
use crate::assemble::Facts;
use crate::by_levels;
use crate::conclusion::{Conclusion, conclude};
use crate::explained::Explainer;
use crate::given::Given;
use crate::output::{print, write_plan};
use crate::report::{Report, Verdict};
use crate::waiting::Waiting;

/// Finds or judges a plan, and reports.
pub fn tune(args: &Args) -> anyhow::Result<()> {
    if args.model_of_memory == MemoryModel::Tflms {
        return by_levels::tune(args);
    }
    if args.verbosity.json && args.output.as_deref() == Some("-".as_ref()) {
        return Err(Failure::Usage.error("--json and -o - both want standard output"));
    }
    let start = Instant::now();
    let model = args.model.read_step(&args.graph, &args.step)?;
    let graph = model.graph()?;
    let analysis = model.analyse(&graph, &args.graph.analysis())?;
    let mut budget = budget(args)?;
    let runs = steps(args, &analysis)?;
    let waiting = Waiting::new(args, budget.progress.clone());
    if args.budget.wants_least() {
        budget.memory_bytes = vec![least(&model, &analysis, &budget)?];
    }
    let given = args.plan.as_deref().map(|path| Given::read(path, &model, &graph, args)).transpose()?;
    let found = match (&runs[..], &given) {
        ([_, _, ..], None) => analysis.fit_in_turn(&budget).with_context(|| model.name().to_string())?,
        _ => Vec::new(),
    };
    let mut told = Vec::new();
    for (number, run) in runs.iter().enumerate() {
        let name = match runs.len() {
            1 => model.name().to_string(),
            _ => format!("{}, step {}", model.name(), analysis.name_of_run(number)),
        };
        let job = StepJob { args, name, budget: &budget, given: given.as_ref(), start };
        let tuning = found.get(number).map(|fit| fit.tuning.clone());
        told.extend(job.tell(run, &graph, tuning)?);
    }
    drop(waiting);
    conclude_all(args, &analysis, &budget, &told)
}

/// The steps: those of the file's train ops, which are run in turn, or the only one.
fn steps<'a>(args: &Args, analysis: &Analysis<'a>) -> anyhow::Result<Vec<Analysis<'a>>> {
    let count = analysis.step.run_count();
    if count < 2 {
        return Ok(vec![analysis.clone()]);
    }
    let of_one = [
        ("--explain", args.explain.is_some()),
        ("--plot", args.plot.is_some()),
        ("--trace", args.trace.is_some()),
    ];
    match of_one.iter().find(|(_, is_asked)| *is_asked) {
        Some((flag, _)) => Err(Failure::Usage.error(format!(
            "{flag} shows one step, and the file has {count} train ops that are run in turn: give one with --train-op, as {}",
            analysis.name_of_run(0)
        ))),
        None => Ok((0..count).map(|run| analysis.of_run(run)).collect()),
    }
}

/// The least memory in bytes for which there is a plan.
fn least(model: &Model, analysis: &Analysis, budget: &Budget) -> anyhow::Result<u64> {
    let least = analysis.least_memory(budget).with_context(|| model.name().to_string())?;
    least.with_context(|| format!("{}: no plan was found for any memory", model.name()))
}

/// A step that something is to be said of.
struct StepJob<'a> {
    args: &'a Args,
    name: String,
    budget: &'a Budget,
    given: Option<&'a Given>,
    start: Instant,
}

/// What was said of a step, and the plan.
struct Told {
    report: Report,
    conclusion: Conclusion,
}

impl StepJob<'_> {
    /// Finds or judges a plan for the step, unless `tuning` has one already. Nothing is left to be said where one tensor was explained.
    fn tell(
        &self,
        analysis: &Analysis,
        graph: &Graph,
        tuning: Option<Tuning>,
    ) -> anyhow::Result<Option<Told>> {
        let StepJob { args, name, budget, given, start } = self;
        let simulated = Simulated::new(analysis, budget)?;
        let outline = simulated.outline().with_context(|| name.to_string())?;
        let machine = simulated.machine(budget)?;
        let is_searched_for = tuning.is_none() && given.is_none() && !args.budget.wants_least();
        let tuning = match (tuning, given) {
            (Some(tuning), _) => tuning,
            (None, Some(given)) => given.judge(&outline, &machine)?,
            (None, None) => simulated.tune(&outline, budget)?.0,
        };
        let machine = tuning.machine(&machine);
        let fixed = &budget.parameters;
        let conclusion = conclude(&outline, &machine, &tuning, *given, &*budget.strategy(analysis)?)?;
        let original = Program::new(&outline, &Draft::default());
        let program = Program::new(&outline, &conclusion.draft);
        let unlimited = machine.with_memory(Vec::new());
        let recorded = |program, machine: &Machine| {
            Recorder::record(program, machine)
                .map_err(|_| Failure::Failed.error("memory ran out in a simulation that had fitted before"))
        };
        // The host runs ahead until memory makes it wait, so what a step takes depends on how much there is.
        let within = if conclusion.verdict == Verdict::FitsWithSwapping { &machine } else { &unlimited };
        let (before, after) = (recorded(&original, &unlimited)?, recorded(&program, within)?);
        if let Some(asked) = &args.explain {
            let filters = conclusion.filters(given.is_none().then_some(fixed));
            let explainer = Explainer {
                name,
                outline: &outline,
                machine: &machine,
                conclusion: &conclusion,
                filters: &filters,
                before: &before,
                after: &after,
            };
            print(args, &explainer.tell(asked, args.verbosity.json)?)?;
            return Ok(None);
        }
        if let Some(path) = &args.plot {
            let title = format!("{name}, {}", budget.profile.name);
            let with_plan = (!conclusion.draft.is_empty()).then_some(&after);
            let shown = machine.with_memory(budget.memory_bytes.clone());
            before.memory_chart(with_plan, &outline, &shown, &title).write(path)?;
        }
        if let Some(path) = &args.trace {
            after.timeline(graph)?.write(path)?;
        }
        let facts = Facts {
            name,
            budget,
            simulated: &simulated,
            outline: &outline,
            machine: &machine,
            tuning: &tuning,
            conclusion: &conclusion,
            before: &before,
            after: &after,
            is_given: given.is_some(),
            start: *start,
        };
        let mut report = facts.report();
        drop((before, after));
        if is_searched_for {
            let bound = report.step_bound_seconds;
            report.step_seconds_with_async = simulated.step_in_no_pieces(&outline, budget, &tuning, bound)?;
        }
        Ok(Some(Told { report, conclusion }))
    }
}

/// Writes the plan and prints what was said of each step. It fits if each of them does.
fn conclude_all(args: &Args, analysis: &Analysis, budget: &Budget, told: &[Told]) -> anyhow::Result<()> {
    let Some(first) = told.first() else { return Ok(()) };
    let misfit = told.iter().find(|told| told.report.verdict == Verdict::DoesNotFit);
    if let (Some(output), None) = (args.output.as_deref(), misfit) {
        // One plan serves all steps; a step that fits as it is has it too, unless all do.
        let with_plan = told.iter().find(|told| !told.conclusion.draft.is_empty()).unwrap_or(first);
        let Conclusion { draft, parameters, strategy, .. } = &with_plan.conclusion;
        let plan = draft.clone().into_plan(analysis, strategy, parameters.clone(), &budget.host_device);
        write_plan(output, &plan)?;
    }
    let text = match (args.verbosity.json, told) {
        (true, [only]) => only.report.to_json()?,
        (true, _) => {
            let steps: Vec<&Report> = told.iter().map(|told| &told.report).collect();
            let document = serde_json::json!({ "schema": Report::schema(), "steps": steps });
            serde_json::to_string_pretty(&document)? + "\n"
        }
        (false, _) => told.iter().map(|told| told.report.to_string()).collect(),
    };
    print(args, &text)?;
    match misfit {
        Some(Told { report, .. }) => Err(Failure::DoesNotFit.error(format!(
            "{}: does not fit in {}, {:.0}% of which a plan may count on",
            report.name,
            Size(report.gpu_mem),
            report.memory_ratio * 100.0
        ))),
        None => Ok(()),
    }
}

/// The budget; without any memory if the least is asked for.
fn budget(args: &Args) -> anyhow::Result<Budget> {
    if !args.budget.wants_least() {
        return args.budget.budget(None, &args.tflms);
    }
    if args.budget.gpu_mem != [GpuMemory::Least] {
        return Err(Failure::Usage.error("--gpu-mem: min stands alone"));
    }
    args.budget.budget_of(Vec::new(), args.budget.profile(None)?, &args.tflms)
}
