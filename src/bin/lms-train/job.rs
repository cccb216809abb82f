//! From the files and flags to the graphs that run.

use std::fs;
use std::path::PathBuf;

use anyhow::Context;
use serde::Serialize;
use tf_lms::cli::{Failure, plan_for_budget};
use tf_lms::format::{Encoding, Source};
use tf_lms::graph::Graph;
use tf_lms::order::Placement;
use tf_lms::plan::{Draft, TensorSwap, Traffic, traffic};
use tf_lms::train::{Asked, CalledStep, DeviceChoice, Feeds, Recipe, only_what_trains};
use tf_lms::{Analysis, Model, Plan};

use crate::args::Args;

/// What the names of swap-ins begin with.
pub const SWAP_IN: &str = "lms/swap_in/";

/// All that is to be run.
pub struct Job {
    /// What messages call the model.
    pub name: String,
    /// The GraphDef as it is.
    pub original: Vec<u8>,
    pub rewritten: Option<Rewritten>,
    pub recipe: Recipe,
    pub feeds: Feeds,
    /// The checkpoint that a SavedModel comes with.
    pub own_checkpoint: Option<PathBuf>,
}

/// A graph that was rewritten.
pub struct Rewritten {
    pub graph_def: Vec<u8>,
    pub planned: Planned,
    /// The names of its swap-ins.
    pub swap_ins: Vec<String>,
    /// Ops that went to the host.
    pub host_ops: Vec<String>,
}

/// What a plan moves in a step.
#[derive(Debug, Clone, Copy, Serialize)]
pub struct Planned {
    pub swapouts: usize,
    pub swapins: usize,
    pub bytes_out: u64,
    pub bytes_in: u64,
    /// Tensors of unknown size, which count nothing.
    pub unknown_sizes: usize,
}

impl Job {
    pub fn prepare(args: &Args) -> anyhow::Result<Job> {
        let model = args.read_model()?;
        let name = model.name().to_string();
        let graph = model.graph()?;
        let own_checkpoint = own_checkpoint(&model);
        let asked = Asked { restore: args.restore.is_some() || own_checkpoint.is_some(), ..args.asked() };
        let called = match model.step_function() {
            Some(flat) => Some(
                CalledStep::find(&model.file_graph()?, model.meta_graph(), flat, &asked)
                    .with_context(|| name.clone())?,
            ),
            None => None,
        };
        let mut recipe = match &called {
            Some(called) => called.recipe.clone(),
            None => Recipe::find(&graph, model.meta_graph(), &asked).with_context(|| name.clone())?,
        };
        let shapes = args.graph.given_shapes().resolve(&graph).with_context(|| name.clone())?;
        let mut feeds =
            Feeds::make(&graph, &recipe, &args.feeds, &shapes, args.seed).with_context(|| name.clone())?;
        if let Some(called) = &called {
            feeds.0 = called.renamed(feeds.0);
        }
        let mut original = model.file().graph_def().to_vec();
        if args.grappler_memory.is_some() {
            if own_checkpoint.is_some() {
                return Err(Failure::Usage.error(format!(
                    "{name}: --grappler-memory cannot restore the values that a SavedModel comes with"
                )));
            }
            original = only_what_trains(&original, &graph, &recipe).with_context(|| name.clone())?;
        }
        let rewritten = if args.rewrites() { Some(rewrite(args, &model, &graph)?) } else { None };
        if let Some(rewritten) = rewritten.as_ref().filter(|rewritten| !rewritten.host_ops.is_empty()) {
            recipe.initialize_last(&graph, &rewritten.host_ops);
        }
        Ok(Job { name, original, rewritten, recipe, feeds, own_checkpoint })
    }

    /// The graph to train.
    pub fn graph_def(&self) -> &[u8] {
        self.rewritten.as_ref().map_or(&self.original, |rewritten| &rewritten.graph_def)
    }

    /// The shape of the data of a step: of the largest tensor that is fed or comes from an iterator.
    pub fn data_shape(&self) -> Option<&[i64]> {
        let both = [self.feeds.data_shape(), self.recipe.iterated.as_deref()];
        both.into_iter().flatten().max_by_key(|shape| shape.iter().product::<i64>())
    }
}

/// Plans, rewrites and checks.
fn rewrite(args: &Args, model: &Model, graph: &Graph) -> anyhow::Result<Rewritten> {
    let name = || model.name().to_string();
    let analysis = model.analyse(graph, &args.graph.analysis())?;
    let plan = match &args.plan {
        Some(path) => {
            let json = fs::read(path).with_context(|| path.display().to_string())?;
            Plan::from_json(&path.display().to_string(), &json)?
        }
        None => {
            args.budget.check_strategy()?;
            if args.budget.is_given() {
                let profile = matches!(args.device, DeviceChoice::Soft { .. }).then_some("soft");
                let budget = args.budget.budget(profile, &args.tflms)?;
                let tuned = plan_for_budget(&analysis, &budget).with_context(name)?;
                if !args.verbosity.quiet {
                    eprintln!("{}: {}", name(), tuned.note);
                }
                tuned.plan
            } else {
                analysis.plan_to(&args.tflms.parameters(), &args.tflms.host()?)?
            }
        }
    };
    let rewritten = model.rewrite_as(graph, &plan, Encoding::Binary)?;
    let checked = rewritten.check(&args.graph.train_ops);
    let checked = checked.context("the rewrite failed its check, nothing was run")?;
    let output = checked.model();
    Ok(Rewritten {
        graph_def: output.graph_def().to_vec(),
        planned: Planned::of(&plan, &analysis)?,
        swap_ins: swap_ins(output)?,
        host_ops: plan.host_ops,
    })
}

/// The names of the swap-ins of a graph, in its functions too.
fn swap_ins(output: &tf_lms::format::Model) -> anyhow::Result<Vec<String>> {
    let functions = output.functions()?;
    let bodies = functions.iter().map(|function| output.function_nodes(function));
    let all = [output.nodes()].into_iter().chain(bodies);
    let names = all.flat_map(|nodes| (0..nodes.len()).map(move |node| nodes.name(node).to_string()));
    Ok(names.filter(|name| name.starts_with(SWAP_IN)).collect())
}

impl Planned {
    fn of(plan: &Plan, analysis: &Analysis) -> anyhow::Result<Planned> {
        let (graph, placement) = (analysis.graph, Placement::of(analysis.graph));
        let draft = Draft::of(plan, graph)?;
        // Of several runs of a step each copies what it needs itself.
        let runs: Vec<Analysis> = match analysis.step.run_count() {
            0 | 1 => vec![analysis.clone()],
            count => (0..count).map(|run| analysis.of_run(run)).collect(),
        };
        let copied =
            runs.iter().flat_map(|run| traffic(run, &placement, &draft, |node| run.step.contains(node)));
        let copied: Vec<Traffic> = copied.collect();
        let leaves = |swap: &&TensorSwap| !draft.begins_on_host(graph, &placement, swap.tensor);
        Ok(Planned {
            swapouts: draft.swaps.iter().filter(leaves).count(),
            swapins: draft.swaps.iter().map(|swap| swap.uses.len()).sum(),
            bytes_out: copied.iter().map(|gpu| gpu.out_bytes).sum(),
            bytes_in: copied.iter().map(|gpu| gpu.in_bytes).sum(),
            unknown_sizes: plan.swaps.iter().filter(|swap| swap.bytes.is_none()).count(),
        })
    }
}

/// The values in a SavedModel's directory.
fn own_checkpoint(model: &Model) -> Option<PathBuf> {
    let prefix = model.source().and_then(Source::directory)?.join("variables/variables");
    prefix.with_extension("index").is_file().then_some(prefix)
}
