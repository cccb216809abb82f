//! What the tool does.

use std::time::Instant;

use anyhow::Context;
use tf_lms::chart::Chart;
use tf_lms::cli::{Failure, GpuMemory, Simulated, Size, Subject, written};
use tf_lms::cost::DeviceProfile;
use tf_lms::graph::Device;
use tf_lms::picture::Recorder;
use tf_lms::plan::Draft;
use tf_lms::simulate::{Machine, Outline, Program};
use tf_lms::tune::{self, Strategy};

use crate::args::{Args, MemoryModel};
use crate::assemble::Facts;
use crate::by_levels;
use crate::conclusion::conclude;
use crate::explained::Explainer;
use crate::given::Given;
use crate::output::{print, write_plan};
use crate::report::Verdict;

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
    let name = subject.model.name();
    let graph = subject.graph()?;
    let shapes = subject.shapes(&graph, &args.graph)?;
    let analysis = subject.analysis(&graph, &args.graph, shapes)?;
    let simulated = Simulated::new(&analysis, &args.budget, args.budget.profile(None)?)?;
    let (placement, profile) = (&simulated.placement, &simulated.profile);
    let outline = simulated.outline().with_context(|| name.to_string())?;
    let fixed = args.tflms.parameters();
    let mut strategy = args.budget.strategy.strategy(&analysis, fixed.clone())?;
    let memory = match args.budget.wants_least() {
        false => args.budget.memory()?,
        true => vec![least_memory(args, &outline, profile, &mut *strategy)?],
    };
    let machine = args.budget.machine_of(profile, placement.gpus().len(), &memory);
    let given = args.plan.as_deref().map(|path| Given::read(path, &subject, &graph, args)).transpose()?;
    let tuning = match &given {
        None => tune::tune(&outline, &machine, &mut *strategy)?,
        Some(given) => given.judge(&outline, &machine)?,
    };

    let conclusion = conclude(&outline, &machine, &tuning, given.as_ref(), &fixed)?;
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
        let filters = conclusion.filters(given.is_none().then_some(&fixed));
        let explainer = Explainer {
            name,
            outline: &outline,
            machine: &machine,
            conclusion: &conclusion,
            filters: &filters,
            before: &before,
            after: &after,
        };
        return Ok(print(args, &explainer.tell(asked, args.verbosity.json)?)?);
    }
    if let Some(path) = &args.plot {
        let title = format!("{name}, {}", profile.name);
        let with_plan = (!conclusion.draft.is_empty()).then_some(&after);
        let shown = machine.with_memory(memory.clone());
        before.memory_chart(with_plan, &outline, &shown, &title).write(path)?;
    }
    if let Some(path) = &args.trace {
        after.timeline(&graph)?.write(path)?;
    }
    let facts = Facts {
        name,
        budget: &args.budget,
        simulated: &simulated,
        outline: &outline,
        machine: &machine,
        memory: &memory,
        tuning: &tuning,
        conclusion: &conclusion,
        before: &before,
        after: &after,
        start,
    };
    let report = facts.report();
    let verdict = report.verdict;
    if let Some(output) = args.output.as_deref().filter(|_| verdict != Verdict::DoesNotFit) {
        let host = Device::parse(args.tflms.host_device()).context("--host-device")?;
        let draft = conclusion.draft.clone();
        let plan = written(&analysis, &conclusion.strategy, draft, conclusion.parameters.clone(), &host);
        write_plan(output, &plan)?;
    }
    let text = if args.verbosity.json { report.to_json()? } else { report.to_string() };
    print(args, &text)?;
    match verdict {
        Verdict::DoesNotFit => Err(Failure::DoesNotFit.error(format!(
            "{name}: does not fit in {}, {:.0}% of which a plan may count on",
            Size(report.gpu_mem),
            report.memory_ratio * 100.0
        ))),
        _ => Ok(()),
    }
}

/// The least memory of a GPU for which the strategy finds a plan.
fn least_memory(
    args: &Args,
    outline: &Outline,
    profile: &DeviceProfile,
    strategy: &mut dyn Strategy,
) -> anyhow::Result<u64> {
    if args.budget.gpu_mem != [GpuMemory::Least] {
        return Err(Failure::Usage.error("--gpu-mem: min stands alone"));
    }
    let machine = Machine::new(profile, outline.placement().gpus().len(), Vec::new());
    let least = tune::least_budget(outline, &machine, strategy, |bytes| args.budget.memory_for(bytes))?;
    let bytes = least.with_context(|| "no plan was found for any memory")?;
    Ok(args.budget.memory_for(bytes))
}
