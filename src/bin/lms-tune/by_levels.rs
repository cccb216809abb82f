//! Tuning in TFLMSv2's model of memory.

use std::fmt::Write as _;
use std::time::Instant;

use anyhow::Context;
use serde_json::{Value, json};
use tf_lms::cli::{Failure, Size};
use tf_lms::plan::tflms::Parameters;
use tf_lms::shape::learning_parameter_bytes;
use tf_lms::simulate::usable_bytes;
use tf_lms::tune::{LevelPlan, LevelTuning, tune_by_levels};

use crate::args::Args;
use crate::output::{print, write_plan};

/// The part of memory that TFLMSv2 counts on unless told otherwise.
const TFLMS_MEMORY_RATIO: f64 = 0.9;

/// Finds TFLMSv2's plan and ours in its model of memory, and reports both.
pub fn tune(args: &Args) -> anyhow::Result<()> {
    let start = Instant::now();
    let model = args.model.read_step(&args.graph, &args.step)?;
    let name = model.name();
    let graph = model.graph()?;
    let analysis = model.analyse(&graph, &args.graph.analysis())?;
    analysis.check_calls().with_context(|| name.to_string())?;
    let parameter_bytes = learning_parameter_bytes(&graph, &analysis.shapes, &model.trainable_variables());
    let memory = args.budget.memory()?.first().copied().unwrap_or(0);
    let ratio = args.budget.memory_ratio.unwrap_or(TFLMS_MEMORY_RATIO);
    let usable = usable_bytes(memory, parameter_bytes, ratio);
    let tuning =
        tune_by_levels(&analysis, usable, &args.tflms.parameters()).with_context(|| name.to_string())?;
    let seconds = start.elapsed().as_secs_f64();

    if let (Some(output), Some(best)) = (&args.output, &tuning.best) {
        let parameters = serde_json::to_value(&best.parameters)?;
        let host = args.tflms.host()?;
        let plan = best.draft.clone().into_plan(&analysis, tf_lms::plan::tflms::NAME, parameters, &host);
        write_plan(output, &plan)?;
    }
    let text = match args.verbosity.json {
        true => serde_json::to_string_pretty(&document(&tuning, memory, usable, seconds))? + "\n",
        false => table(name, &tuning, memory, usable, seconds)?,
    };
    print(args, &text)?;
    if !tuning.fits && tuning.best.is_none() {
        return Err(
            Failure::DoesNotFit.error(format!("{name}: does not fit in {} by TFLMSv2's model", Size(memory)))
        );
    }
    Ok(())
}

fn verdict(tuning: &LevelTuning) -> &'static str {
    match (&tuning.best, tuning.fits) {
        (_, true) => "fits",
        (Some(_), _) => "fits_with_swapping",
        (None, _) => "does_not_fit",
    }
}

fn document(tuning: &LevelTuning, memory: u64, usable: u64, seconds: f64) -> Value {
    let plan = |plan: &LevelPlan| {
        json!({
            "parameters": plan.parameters,
            "peak": plan.peak.bytes,
            "swapout_bytes": plan.out_bytes,
            "swapin_bytes": plan.in_bytes,
        })
    };
    json!({
        "schema": 1,
        "model": "tflms",
        "verdict": verdict(tuning),
        "gpu_mem": memory,
        "usable_bytes": usable,
        "peak_before": tuning.before.bytes,
        "tflms": tuning.tflms.as_ref().map(plan),
        "best": tuning.best.as_ref().map(plan),
        "tflms_simulations": tuning.tflms_simulations,
        "simulations": tuning.simulations,
        "seconds": seconds,
    })
}

fn table(
    name: &str,
    tuning: &LevelTuning,
    memory: u64,
    usable: u64,
    seconds: f64,
) -> Result<String, std::fmt::Error> {
    let mut text = String::new();
    let verdict = verdict(tuning).replace('_', " ");
    writeln!(
        text,
        "{name}: {verdict} in {} ({} of it usable), by TFLMSv2's model of memory",
        Size(memory),
        Size(usable)
    )?;
    writeln!(text, "  {:<20} {}", "peak before", Size(tuning.before.bytes))?;
    for (whose, plan) in [("TFLMSv2's search", &tuning.tflms), ("fewest bytes", &tuning.best)] {
        let Some(plan) = plan.as_ref().filter(|_| !tuning.fits) else { continue };
        let Parameters { swapout_threshold, swapin_ahead, swapin_groupby, sync_mode, .. } = plan.parameters;
        let mode = u8::from(sync_mode);
        writeln!(
            text,
            "  {whose:<20} {} out, {} in, peak {}",
            Size(plan.out_bytes),
            Size(plan.in_bytes),
            Size(plan.peak.bytes)
        )?;
        writeln!(
            text,
            "  {:<20} --swapout-threshold {swapout_threshold} --swapin-ahead {swapin_ahead} --swapin-groupby {swapin_groupby} --sync-mode {mode}",
            ""
        )?;
    }
    writeln!(text, "  {:<20} {} steps simulated in {seconds:.2} s", "effort", tuning.simulations)?;
    Ok(text)
}
