//! What the tool does.

use std::time::Instant;

use anyhow::Context;
use tf_lms::chart::Chart;
use tf_lms::cli::{Failure, GpuMemory, Size};
use tf_lms::picture::Recorder;
use tf_lms::pipeline::{Budget, Simulated};
use tf_lms::plan::Draft;
use tf_lms::simulate::{Machine, Program};

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
    let model = args.model.read(&args.graph)?;
    let name = model.name();
    let graph = model.graph()?;
    let analysis = model.analyse(&graph, &args.graph.analysis())?;
    let mut budget = budget(args)?;
    let simulated = Simulated::new(&analysis, &budget)?;
    let outline = simulated.outline().with_context(|| name.to_string())?;
    if args.budget.wants_least() {
        let least = simulated.least_memory(&outline, &budget)?;
        budget.memory_bytes = vec![least.with_context(|| "no plan was found for any memory")?];
    }
    let machine = simulated.machine(&budget)?;
    let given = args.plan.as_deref().map(|path| Given::read(path, &model, &graph, args)).transpose()?;
    let tuning = match &given {
        None => simulated.tune(&outline, &budget)?.0,
        Some(given) => given.judge(&outline, &machine)?,
    };

    let fixed = &budget.parameters;
    let conclusion = conclude(&outline, &machine, &tuning, given.as_ref(), fixed)?;
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
        return Ok(print(args, &explainer.tell(asked, args.verbosity.json)?)?);
    }
    if let Some(path) = &args.plot {
        let title = format!("{name}, {}", budget.profile.name);
        let with_plan = (!conclusion.draft.is_empty()).then_some(&after);
        let shown = machine.with_memory(budget.memory_bytes.clone());
        before.memory_chart(with_plan, &outline, &shown, &title).write(path)?;
    }
    if let Some(path) = &args.trace {
        after.timeline(&graph)?.write(path)?;
    }
    let facts = Facts {
        name,
        budget: &budget,
        simulated: &simulated,
        outline: &outline,
        machine: &machine,
        tuning: &tuning,
        conclusion: &conclusion,
        before: &before,
        after: &after,
        start,
    };
    let report = facts.report();
    let verdict = report.verdict;
    if let Some(output) = args.output.as_deref().filter(|_| verdict != Verdict::DoesNotFit) {
        let (draft, parameters) = (conclusion.draft.clone(), conclusion.parameters.clone());
        let plan = draft.into_plan(&analysis, &conclusion.strategy, parameters, &budget.host_device);
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
