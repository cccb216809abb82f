//! From the files and flags to the graphs that run.

use std::borrow::Cow;
use std::collections::HashSet;
use std::path::PathBuf;

use anyhow::Context;
use serde::Serialize;
use tf_lms::cli::{Failure, plan_for_budget};
use tf_lms::format::{Encoding, Source};
use tf_lms::graph::{Graph, NodeId};
use tf_lms::order::Placement;
use tf_lms::plan::{
    BROADCAST, DataParallel, Draft, MEAN_LOSS, SET_COUNT, TensorSwap, Traffic, WORKERS, begins_accumulator,
    traffic,
};
use tf_lms::proto::tensorflow::ConfigProto;
use tf_lms::simulate::{OpCost, Outline};
use tf_lms::train::{
    Asked, CalledStep, DeviceChoice, FeedSpec, Feeds, Recipe, TrainError, Values, only_what_trains,
    with_configured_calls,
};
use tf_lms::tune::NO_STRATEGY;
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
    /// How the step is called where it is a function.
    pub called: Option<CalledStep>,
    pub feeds: Feeds,
    /// The checkpoint that a SavedModel comes with.
    pub own_checkpoint: Option<PathBuf>,
    /// What all workers do together in a step.
    pub reduced: Option<Reduced>,
    /// The tensors that read what must be the same on all workers.
    pub common: Vec<String>,
    /// Whether the number of workers is set, and not fed: the step is a function.
    pub sets_count: bool,
    /// Whether the top level of the file calls functions that the rewrite makes flat.
    calls_functions: bool,
}

/// What a worker gives the others in a step.
#[derive(Debug, Clone, Copy, Serialize)]
pub struct Reduced {
    pub collectives: usize,
    /// Of what a worker gives, as far as sizes are known.
    pub bytes: u64,
    /// Those of which it is not.
    pub unknown_sizes: usize,
}

impl Reduced {
    fn of(args: &Args, model: &Model, graph: &Graph) -> anyhow::Result<Reduced> {
        let analysis = model.analyse(graph, &args.graph.analysis())?;
        let is_collective =
            |node: &NodeId| graph.op(*node).name().starts_with("Collective") && analysis.step.contains(*node);
        let of_step: Vec<NodeId> = graph.node_ids().filter(is_collective).collect();
        let inputs = of_step.iter().filter_map(|&node| graph.data_inputs(node).first());
        let sizes: Vec<Option<u64>> = inputs.map(|&input| analysis.sizes.bytes(input)).collect();
        Ok(Reduced {
            collectives: of_step.len(),
            bytes: sizes.iter().flatten().sum(),
            unknown_sizes: sizes.iter().filter(|size| size.is_none()).count(),
        })
    }
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
        let read = args.read_model()?;
        let name = read.name().to_string();
        let given = args.given_plan()?;
        let parallelized = parallelize(args, &read, given.as_ref())?;
        let model = parallelized.as_ref().map_or(&read, |(model, _)| model);
        let graph = model.graph()?;
        let own_checkpoint = own_checkpoint(model);
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
        if model.is_parallel() && graph.node_ids().any(|node| graph.name(node) == MEAN_LOSS) {
            recipe.loss = Some(MEAN_LOSS.to_string());
        }
        let mut feeds = feeds_of_rank(args, |specs, seed| Feeds::make(&graph, &recipe, specs, &shapes, seed))
            .with_context(|| name.clone())?;
        if let Some(called) = &called {
            feeds.0 = called.renamed(feeds.0);
        }
        // What is compared is the file as it is.
        let mut original =
            if args.compare { model.file().graph_def().to_vec() } else { model.graph_def_as_run()? };
        if args.grappler_memory.is_some() {
            if own_checkpoint.is_some() {
                return Err(Failure::Usage.error(format!(
                    "{name}: --grappler-memory cannot restore the values that a SavedModel comes with"
                )));
            }
            original =
                only_what_trains(&original, &model.file_graph()?, &recipe).with_context(|| name.clone())?;
        }
        let reduced = if model.is_parallel() { Some(Reduced::of(args, model, &graph)?) } else { None };
        let parallel = parallelized.as_ref().map(|(_, parallel)| parallel);
        let file_graph = model.file_graph()?;
        let sets_count = file_graph.node_ids().any(|node| file_graph.name(node) == SET_COUNT);
        let common = common(&file_graph, &recipe);
        let rewritten = match args.rewrites() || parallel.is_some() {
            true => Some(rewrite(args, (&read, model), &graph, parallel, given)?),
            false => None,
        };
        if let Some(rewritten) = rewritten.as_ref().filter(|rewritten| !rewritten.host_ops.is_empty()) {
            recipe.initialize_last(&graph, &rewritten.host_ops);
        }
        Ok(Job {
            name,
            original,
            rewritten,
            recipe,
            called,
            feeds,
            own_checkpoint,
            reduced,
            common,
            sets_count,
            calls_functions: model.is_lowered(),
        })
    }

    /// The graph to train.
    pub fn graph_def(&self) -> &[u8] {
        self.rewritten.as_ref().map_or(&self.original, |rewritten| &rewritten.graph_def)
    }

    /// A graph of the job as a session is given it.
    pub fn configured<'g>(&self, graph_def: &'g [u8], config: &ConfigProto) -> anyhow::Result<Cow<'g, [u8]>> {
        Ok(match &self.called {
            Some(called) => {
                let configured = called.configured(graph_def, config, self.sets_count);
                configured.with_context(|| self.name.clone())?.into()
            }
            None if self.calls_functions => {
                with_configured_calls(graph_def, config).with_context(|| self.name.clone())?.into()
            }
            None => graph_def.into(),
        })
    }

    /// The shape of the data of a step: of the largest tensor that is fed or comes from an iterator.
    pub fn data_shape(&self) -> Option<&[i64]> {
        let both = [self.feeds.data_shape(), self.recipe.iterated.as_deref()];
        both.into_iter().flatten().max_by_key(|shape| shape.iter().product::<i64>())
    }
}

/// The model made to train on several workers, if there are some and it is not yet.
fn parallelize(
    args: &Args,
    model: &Model,
    plan: Option<&Plan>,
) -> anyhow::Result<Option<(Model, DataParallel)>> {
    let has_others = args.cluster.found.is_some();
    let is_asked = (has_others || args.parallel.data_parallel) && !model.is_parallel();
    let loss = args.loss.clone();
    let found = args.parallel.parallelize(is_asked, model, plan, &args.graph.analysis(), loss)?;
    if has_others && found.is_none() && !model.is_parallel() {
        return Err(Failure::Usage
            .error("the plan is for one worker: make one with lms-rewrite --data-parallel --plan-out"));
    }
    Ok(found)
}

/// What reads the variables that the file lists and all workers are given; `graph` is the file's top level.
fn common(graph: &Graph, recipe: &Recipe) -> Vec<String> {
    let is_read = |node: &NodeId| {
        let name = graph.name(*node);
        name.starts_with(BROADCAST) && name.ends_with("/read")
    };
    let reads = graph.node_ids().filter(is_read);
    let variables = reads.filter_map(|read| graph.data_inputs(read).first());
    let given: HashSet<&str> = variables.map(|&variable| graph.name(graph.producer(variable))).collect();
    let listed = recipe.variables.iter().filter(|variable| given.contains(variable.name.as_str()));
    listed.map(|variable| variable.snapshot.clone()).collect()
}

/// The values of placeholders for this worker: its part of the data, and settings (which are single numbers) as all have them.
fn feeds_of_rank(
    args: &Args,
    make: impl Fn(&[FeedSpec], u64) -> Result<Feeds, TrainError>,
) -> Result<Feeds, TrainError> {
    let rank = args.cluster.own_rank();
    let workers = args.cluster.found.as_ref().map_or(1, |cluster| cluster.len());
    let of_rank = |spec: &FeedSpec| match &spec.values {
        Values::File(path) => {
            let path = path.to_string_lossy().replace("{rank}", &rank.to_string());
            FeedSpec { values: Values::File(path.into()), ..spec.clone() }
        }
        _ => spec.clone(),
    };
    let mut specs: Vec<FeedSpec> = args.feeds.iter().map(of_rank).collect();
    let count = FeedSpec { name: WORKERS.to_string(), values: Values::Constant(workers as f64) };
    if let Ok(with_count) = make(&[&specs[..], std::slice::from_ref(&count)].concat(), args.seed)
        && with_count.0.iter().any(|fed| fed.name == WORKERS)
    {
        specs.push(count);
    }
    let mut feeds = make(&specs, args.seed.wrapping_add(rank as u64))?;
    if rank > 0 {
        let common = make(&specs, args.seed)?;
        for (own, common) in feeds.0.iter_mut().zip(common.0) {
            if own.tensor.shape().is_empty() {
                own.tensor = common.tensor;
            }
        }
    }
    Ok(feeds)
}

/// Plans, rewrites and checks. `read` is what was read, and `model` the same, perhaps for several workers.
fn rewrite(
    args: &Args,
    (read, model): (&Model, &Model),
    graph: &Graph,
    parallel: Option<&DataParallel>,
    given: Option<Plan>,
) -> anyhow::Result<Rewritten> {
    let name = || model.name().to_string();
    let analysis = model.analyse(graph, &args.graph.analysis())?;
    let plan = match given {
        Some(plan) => plan,
        None if !args.rewrites() => Plan::new(&analysis, NO_STRATEGY, &args.tflms.host()?.to_string()),
        None => {
            if args.budget.is_given() {
                let profile = matches!(args.device, DeviceChoice::Soft { .. }).then_some("soft");
                let budget = args.budget.budget(profile, &args.tflms)?;
                let tuned = plan_for_budget(&analysis, &budget).with_context(name)?;
                if !args.verbosity.quiet {
                    eprintln!("{}: {}", name(), tuned.note);
                }
                tuned.plan
            } else {
                args.budget.plan_as_told(&analysis, &args.tflms)?
            }
        }
    };
    let plan = match parallel {
        Some(parallel) => plan.with_data_parallel(parallel.clone()),
        None => plan,
    };
    let rewritten = model.rewrite_as(graph, &plan, Encoding::Binary)?.of(read);
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
        let (of_loops, unknown_loops) = copied_by_loops(&runs, &placement, &draft);
        let leaves = |swap: &&TensorSwap| !draft.begins_on_host(graph, &placement, swap.tensor);
        Ok(Planned {
            swapouts: draft.swaps.iter().filter(leaves).count(),
            swapins: draft.swaps.iter().map(|swap| swap.uses.len()).sum(),
            bytes_out: copied.iter().chain(&of_loops).map(|gpu| gpu.out_bytes).sum(),
            bytes_in: copied.iter().chain(&of_loops).map(|gpu| gpu.in_bytes).sum(),
            unknown_sizes: plan.swaps.iter().filter(|swap| swap.bytes.is_none()).count() + unknown_loops,
        })
    }
}

/// What the runs copy for stacks and lists of loops on the host, and for how many of these that is not known.
fn copied_by_loops(runs: &[Analysis], placement: &Placement, draft: &Draft) -> (Vec<Traffic>, usize) {
    let mut copied = Vec::new();
    let mut unknown = 0;
    for run in runs {
        match Outline::new(run, placement, |_| OpCost::default()) {
            Ok(outline) => copied.extend(outline.traffic_of_accumulators(draft)),
            Err(_) => {
                let begun = |&&node: &&NodeId| begins_accumulator(run.graph, node);
                unknown += draft.host_ops.iter().filter(begun).count();
            }
        }
    }
    (copied, unknown)
}

/// The values in a SavedModel's directory.
fn own_checkpoint(model: &Model) -> Option<PathBuf> {
    let prefix = model.source().and_then(Source::directory)?.join("variables/variables");
    prefix.with_extension("index").is_file().then_some(prefix)
}
