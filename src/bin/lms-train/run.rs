//! A training from the graph to the last step.

use std::borrow::Cow;
use std::path::Path;

use anyhow::Context as _;
use tf_lms::cli::Failure;
use tf_lms::plan::{SET_COUNT, WORKERS};
use tf_lms::proto::tensorflow::RunMetadata;
use tf_lms::runtime::{Feed, Session, SessionError, Step, Tensor};
use tf_lms::train::{Counters, HostMemory, Initial, OutOfMemory, SoftGpu, SoftGpuError, TrainRun, digest};

use crate::args::Args;
use crate::job::Job;
use crate::setup::Setup;
use crate::{checkpoint, steps};

/// What training came to.
#[derive(Default)]
pub struct Trained {
    /// The loss of each step, those before measuring too.
    pub losses: Vec<f64>,
    /// The seconds of each measured step that was not recorded.
    pub seconds: Vec<f64>,
    /// What the software GPU counted in each of `seconds`; where it counts exactly, peaks are those of the step.
    pub counted: Vec<Vec<Counters>>,
    /// What it has counted at the end; peaks are those of the whole training.
    pub total: Option<Vec<Counters>>,
    /// The peaks of each GPU until they were counted anew.
    earlier_peaks: Vec<u64>,
    /// The process's memory before the first measured step and before the last step.
    pub host_first: Option<HostMemory>,
    pub host_last: Option<HostMemory>,
    /// What TensorFlow recorded of the last step.
    pub metadata: Option<RunMetadata>,
    /// How long that step took.
    pub recorded_seconds: Option<f64>,
    /// The values of all variables before the first step and after the last one, where they were asked for.
    pub first: Vec<Tensor>,
    pub last: Vec<Tensor>,
    /// The checkpoint that was written last.
    pub saved: Option<String>,
    pub interrupted: bool,
    /// A digest of what must be the same on all workers.
    pub common: Option<String>,
}

/// What only some runs want.
#[derive(Clone, Copy, Default)]
pub struct Wishes<'a> {
    /// The values to begin with, one for each variable of the recipe.
    pub initial: Option<&'a [Tensor]>,
    /// Whether to fetch variables.
    pub variables: bool,
    /// Whether to record the last step.
    pub record: bool,
    /// Whether running out of memory is to be told without what to try against it.
    pub without_advice: bool,
}

/// A training: what is run where, and how.
pub struct Context<'a> {
    pub args: &'a Args,
    pub setup: &'a Setup,
    pub job: &'a Job,
    pub wishes: &'a Wishes<'a>,
}

impl Context<'_> {
    /// The values of the placeholders, where steps can read them.
    pub fn feeds(&self, session: &Session) -> anyhow::Result<Vec<Feed>> {
        let feeds = self.job.feeds.0.iter().map(|fed| session.feed(&fed.tensor));
        feeds.collect::<Result<_, _>>().with_context(|| self.job.name.clone())
    }

    /// The runs of a step, one after the other.
    pub fn runs<'s>(&self, session: &'s Session) -> anyhow::Result<Vec<Step<'s>>> {
        let recipe = &self.job.recipe;
        let names: Vec<&str> = self.job.feeds.0.iter().map(|fed| fed.name.as_str()).collect();
        let run = |run: &TrainRun| {
            let loss = recipe.loss.as_deref().filter(|_| run.fetches_loss);
            let targets: Vec<&str> = run.train_ops.iter().map(String::as_str).collect();
            let step = session.step(&names, &loss.into_iter().collect::<Vec<_>>(), &targets);
            step.with_context(|| self.job.name.clone())
        };
        recipe.runs.iter().map(run).collect()
    }

    /// An error of TensorFlow's. When memory ran out: also which tensor, and what to try.
    pub fn explain(&self, error: SessionError, what: &str) -> anyhow::Error {
        let name = &self.job.name;
        if let Some(of_another) = self
            .setup
            .workers
            .as_ref()
            .filter(|_| !error.is_out_of_memory())
            .and_then(|workers| workers.blame(&error, what))
        {
            return of_another;
        }
        if !error.is_out_of_memory() {
            return anyhow::Error::new(error).context(format!("{name}: {what}"));
        }
        let found = OutOfMemory::of(&error.to_string());
        let said = OutOfMemory::once(&error.to_string());
        let mut text = format!("{name}: {what}: out of memory on {}: {said}", self.args.device);
        if let Some(tensor) = found.tensor {
            let node = found.node.map(|node| format!(", an output of {node}")).unwrap_or_default();
            text += &format!("\n  tensor: {tensor}{node}");
        }
        if !self.wishes.without_advice {
            text += match self.args.rewrites() {
                false => "\n  try: --rewrite (swap activations to the host), or a smaller --batch-size",
                true => {
                    "\n  try: --swapout-threshold 1 --sync-mode 3 (wait for swaps), a smaller --batch-size, or \
                     --find-limit to see how much memory it takes"
                }
            };
        }
        Failure::DoesNotFit.error(text)
    }
}

/// Trains a graph.
pub fn train(
    args: &Args,
    setup: &Setup,
    job: &Job,
    graph_def: &[u8],
    wishes: &Wishes,
) -> anyhow::Result<Trained> {
    let mut trained = Trained::default();
    train_into(&mut trained, args, setup, job, graph_def, wishes)?;
    Ok(trained)
}

/// Trains a graph, and leaves what it came to in `trained`, even if it ends in an error.
pub fn train_into(
    trained: &mut Trained,
    args: &Args,
    setup: &Setup,
    job: &Job,
    graph_def: &[u8],
    wishes: &Wishes,
) -> anyhow::Result<()> {
    let context = Context { args, setup, job, wishes };
    let graph_def = job.configured(graph_def, &setup.config)?;
    let part = args.cluster.part().of(&graph_def, &job.recipe.iterators);
    let graph_def = part.with_context(|| job.name.clone())?.map_or(graph_def, Cow::Owned);
    let session = setup.session(&graph_def, job.sets_count).with_context(|| job.name.clone())?;
    drop(graph_def);
    initialize(&context, &session)?;
    if wishes.variables {
        trained.first =
            variables(&session, job).map_err(|error| context.explain(error, "reading the variables"))?;
    }
    let feeds = context.feeds(&session)?;
    steps::run(&context, &session, &context.runs(&session)?, &feeds, trained)?;
    if let Some(workers) = &setup.workers {
        let names: Vec<&str> = job.common.iter().map(String::as_str).collect();
        if !names.is_empty() {
            let values = session.run(&[], &names, &[]);
            trained.common =
                Some(digest(&values.map_err(|error| context.explain(error, "reading the variables"))?));
        }
        workers.end(&session);
    }
    if wishes.variables {
        trained.last =
            variables(&session, job).map_err(|error| context.explain(error, "reading the variables"))?;
    }
    if let Some(soft) = &setup.soft {
        let mut total = soft.counters()?;
        for (counters, &earlier) in total.iter_mut().zip(&trained.earlier_peaks) {
            counters.peak_bytes = counters.peak_bytes.max(earlier);
        }
        trained.total = Some(total);
    }
    Ok(())
}

impl Trained {
    /// What the software GPU has counted before a step. Where it counts exactly, it begins anew.
    pub fn before_step(&mut self, soft: &SoftGpu, exact: bool) -> Result<Vec<Counters>, SoftGpuError> {
        let counters = soft.counters()?;
        if !exact {
            return Ok(counters);
        }
        self.earlier_peaks.resize(counters.len(), 0);
        for (earlier, counters) in self.earlier_peaks.iter_mut().zip(&counters) {
            *earlier = counters.peak_bytes.max(*earlier);
        }
        soft.reset()?;
        soft.counters()
    }
}

/// Gives the variables their first values, and fills tables.
pub fn initialize(context: &Context, session: &Session) -> anyhow::Result<()> {
    let Context { args, job, wishes, .. } = *context;
    let explain = |error: SessionError| context.explain(error, "initialization");
    let recipe = &job.recipe;
    let ops: Vec<&str> = recipe.init_ops.iter().map(String::as_str).collect();
    let run = |ops: &[&str]| match ops.is_empty() {
        true => Ok(()),
        false => session.run(&[], &[], ops).map(|_| ()).map_err(explain),
    };
    let run_all = || {
        run(&ops)?;
        recipe.late_init_ops.iter().try_for_each(|op| run(&[op]))
    };
    let restored: Option<&Path> =
        args.restore.as_deref().or(job.own_checkpoint.as_deref().filter(|_| !recipe.initializes()));
    // Where a checkpoint alone has the first values, it has them for both.
    let initial: Option<Vec<&Initial>> =
        recipe.variables.iter().map(|variable| variable.initial.as_ref()).collect();
    match (wishes.initial.zip(initial), restored) {
        (Some((values, initial)), _) => {
            let names = initial.iter().map(|initial| initial.value.as_str());
            let feeds: Vec<(&str, &Tensor)> = names.zip(values).collect();
            let ops: Vec<&str> = initial.iter().map(|initial| initial.initializer.as_str()).collect();
            session.run(&feeds, &[], &ops).map_err(explain)?;
        }
        (None, Some(prefix)) => {
            run_all()?;
            checkpoint::restore(session, recipe, prefix)?;
        }
        (None, None) => run_all()?,
    }
    let tables: Vec<&str> = recipe.table_init_ops.iter().map(String::as_str).collect();
    run(&tables)?;
    if job.sets_count {
        let others = args.cluster.found.as_ref();
        let count =
            Tensor::of(&[], &[others.map_or(1, |cluster| cluster.len()) as i32]).map_err(SessionError::from);
        count.and_then(|count| session.run(&[(WORKERS, &count)], &[], &[SET_COUNT])).map_err(explain)?;
    }
    match &context.setup.workers {
        Some(workers) => workers
            .begin(session)
            .map_err(|error| context.explain(error, "giving all workers the variables of worker 0")),
        None => Ok(()),
    }
}

fn variables(session: &Session, job: &Job) -> Result<Vec<Tensor>, SessionError> {
    let names: Vec<&str> = job.recipe.variables.iter().map(|variable| variable.snapshot.as_str()).collect();
    if names.is_empty() { Ok(Vec::new()) } else { session.run(&[], &names, &[]) }
}
