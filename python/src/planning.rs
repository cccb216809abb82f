//! From bytes to plans, and from plans to bytes: the library's way, without Python.

use pyo3::FromPyObject;
use pyo3::pybacked::PyBackedBytes;
use tf_lms::chart::{Chart, ChartError};
use tf_lms::flatten::is_lowered;
use tf_lms::picture::Recorder;
use tf_lms::pipeline::{Simulated, Summary, profile};
use tf_lms::plan::Draft;
use tf_lms::simulate::{Allocator, Program};
use tf_lms::{Analysis, AnalysisOptions, Budget, Fit, Model, OpenOptions, Plan};

use crate::errors::Refusal;

/// A graph, and what to plan for: Python's `tf_lms.planning.Task`.
#[derive(FromPyObject)]
pub struct Task {
    /// A GraphDef, MetaGraphDef or SavedModel, binary.
    graph: PyBackedBytes,
    /// What messages call it.
    name: String,
    /// The ops that a step is run for; none: those that the file names.
    train_ops: Vec<String>,
    /// The memory of each GPU; the last counts for all further ones.
    memory_bytes: Vec<u64>,
    /// A device profile's name, or a file that holds one.
    profile: String,
    /// The part of the memory that a plan may count on; none: what the measured error of predictions leaves.
    memory_ratio: Option<f64>,
    /// Whether weights may go to the host.
    swap_weights: bool,
    /// Whether the graph is a function that was made flat, so that its loops are not yet those that TensorFlow makes of it.
    of_function: bool,
    /// How often loops run where the graph does not tell, by the names of their frames; none names all others.
    iterations: Vec<(Option<String>, u64)>,
    /// Who hands out a GPU's memory.
    allocator: String,
}

/// What came of planning.
pub struct Planned {
    /// JSON; none if nothing is to be changed, or nothing fits.
    pub plan: Option<String>,
    /// JSON.
    pub report: String,
    /// SVG.
    pub chart: Option<String>,
}

impl Task {
    /// The model. One that was rewritten before is refused.
    fn open(&self) -> Result<(Model, AnalysisOptions), Refusal> {
        let options = OpenOptions { is_function: self.of_function, ..OpenOptions::default() };
        let model = Model::from_bytes(&self.name, self.graph.to_vec(), &options)?;
        match model.added_ops()? {
            0 => Ok((
                model,
                AnalysisOptions {
                    train_ops: self.train_ops.clone(),
                    iterations: self.iterations.iter().cloned().collect(),
                    ..AnalysisOptions::default()
                },
            )),
            added => Err(Refusal::Rewritten { name: self.name.clone(), added }),
        }
    }

    fn budget(&self) -> Result<Budget, Refusal> {
        let mut budget = Budget::on(profile(&self.profile)?, self.memory_bytes.clone());
        budget.memory_ratio = self.memory_ratio;
        budget.settings.swap_weights = self.swap_weights;
        budget.allocator = self.allocator.parse().map_err(Refusal::Other)?;
        Ok(budget)
    }
}

/// Looks for a plan.
pub fn plan(task: &Task, with_chart: bool) -> Result<Planned, Refusal> {
    let (model, options) = task.open()?;
    let graph = model.graph()?;
    let mut analysis = model.analyse(&graph, &options)?;
    // Python makes calls flat first, where it has to ask TensorFlow for their shapes.
    analysis.is_lowered |= is_lowered(model.file()).map_err(|error| Refusal::Other(error.to_string()))?;
    let budget = task.budget()?;
    let fit = analysis.fit(&budget)?;
    let mut summary = Summary::of(&analysis, &budget, &fit)?;
    // What is predicted of such loops, and of calls that are made flat, holds once they are rewritten, were it with nothing.
    let note = analysis.note_of_host_loops().filter(|_| task.of_function);
    let is_rewritten = note.is_some() || analysis.is_lowered;
    summary.notes.extend(note);
    if budget.allocator == Allocator::Async {
        summary.notes.push("memory is that of CUDA's allocator, as TF_GPU_ALLOCATOR says".to_string());
    }
    let report = serde_json::to_string(&summary).map_err(|error| Refusal::Other(error.to_string()))?;
    let chart = with_chart.then(|| chart(&analysis, &budget, &fit, model.name())).transpose()?;
    let plan = fit.plan.filter(|_| is_rewritten || !fit.tuning.fits_as_it_is()).map(|plan| plan.to_json());
    Ok(Planned { plan, report, chart })
}

/// Carries out a plan, and proves the result.
pub fn rewrite(task: &Task, plan: &str) -> Result<Vec<u8>, Refusal> {
    let (model, options) = task.open()?;
    let graph = model.graph()?;
    let plan = Plan::from_json("the plan", plan.as_bytes())?;
    Ok(model.rewrite(&graph, &plan)?.check(&options.train_ops)?.to_bytes()?)
}

/// The least memory in bytes for which there is a plan, for each step of the file.
pub fn least_memory(task: &Task) -> Result<Option<u64>, Refusal> {
    let (model, options) = task.open()?;
    let graph = model.graph()?;
    let analysis = model.analyse(&graph, &options)?;
    Ok(analysis.least_memory(&task.budget()?)?)
}

/// Memory over the step without and with the plan, as SVG.
fn chart(analysis: &Analysis, budget: &Budget, fit: &Fit, name: &str) -> Result<String, Refusal> {
    let simulated = Simulated::new(analysis, budget)?;
    let outline = simulated.outline()?;
    let machine = fit.tuning.machine(&simulated.machine(budget)?);
    let draft = match &fit.tuning.verdict {
        tf_lms::tune::Verdict::FitsWithSwapping(found) => found.draft.clone(),
        _ => Draft::default(),
    };
    let original = Program::new(&outline, &Draft::default());
    let program = Program::new(&outline, &draft);
    let unlimited = machine.with_memory(Vec::new());
    let ran_out = |_| Refusal::Other("memory ran out in a simulation that had fitted before".to_string());
    let before = Recorder::record(&original, &unlimited).map_err(ran_out)?;
    let after = match draft.is_empty() {
        true => None,
        false => Some(Recorder::record(&program, &machine).map_err(ran_out)?),
    };
    let shown = machine.with_memory(budget.memory_bytes.clone());
    let title = format!("{name}, {}", budget.profile.name);
    let drawn = before.memory_chart(after.as_ref(), &outline, &shown, &title).svg();
    drawn.map_err(|error: ChartError| Refusal::Other(error.to_string()))
}
