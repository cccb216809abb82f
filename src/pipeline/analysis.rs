//! What is said about a graph beside its file, and what can be asked of it then.

use std::path::PathBuf;

use super::in_turn::{fit_in_turn, least_in_turn};
use super::{Budget, Error, Fit, Simulated, StepFit, host_device};
use crate::graph::{Device, NodeId, TensorId};
use crate::ops::{Attr, AttrLookup, Flow};
use crate::order::{Place, Placement};
use crate::plan::tflms::{self, Parameters};
use crate::plan::{Analysis, Iterations, Plan, WORKERS};
use crate::shape::GivenShapes;
use crate::simulate::Machine;
use crate::tune::planned::hold_back_means;
use crate::tune::{Proposal, Strategy, StrategyError};

/// What a file does not say about its graph.
#[derive(Debug, Clone, Default)]
pub struct AnalysisOptions {
    /// Sizes that the file leaves open. Where any are given, or the file has no shapes at all, TensorFlow is asked what follows.
    pub shapes: GivenShapes,
    /// The ops that a step is run for; none: those of the collection `train_op`.
    pub train_ops: Vec<String>,
    /// TensorFlow's library, or a folder that holds it; none: it is looked for. It is opened only if it must be asked.
    pub tensorflow: Option<PathBuf>,
    /// How often loops run, where the graph does not tell.
    pub iterations: Iterations,
}

impl Analysis<'_> {
    /// Makes sure that all that a step runs is in the graph. Of what functions need that are not, nobody could say whether it fits.
    ///
    /// # Errors
    ///
    /// If there are such functions.
    pub fn check_calls(&self) -> Result<(), Error> {
        let Some(&first) = self.calls.first() else { return Ok(()) };
        Err(Error::UnknownBodies {
            node: self.graph.name(first).to_string(),
            op: self.graph.op(first).name().to_string(),
            count: self.calls.len(),
            why: self.why_calls_stay.clone(),
        })
    }

    /// A loop of a function that carries a variable of which the first value is fed, and that the flat graph keeps on a GPU. TensorFlow, which
    /// makes the loop of a `While`, places what carries a variable where its first value comes from (`lower_while_op.cc`): as it is, the
    /// variable is on the host, and is copied to the GPU and back in each iteration. None if there is no such loop.
    pub fn loop_carried_by_host(&self) -> Option<&str> {
        let graph = self.graph;
        let placement = Placement::of(graph);
        let is_carried = |&node: &NodeId| {
            let begins = |&first: &TensorId| {
                let maker = graph.producer(first);
                // An argument of a function is no node.
                maker.index() < graph.len()
                    && graph.op(maker).must_be_fed()
                    && placement.output(first) == Place::Host
            };
            graph.flow(node) == Some(Flow::Enter)
                && self.step.contains(node)
                && placement.op(node) != Place::Host
                && graph.attrs(node).attr("is_constant") != Some(Attr::Bool(true))
                && graph.data_inputs(node).first().is_some_and(begins)
        };
        graph.node_ids().find(is_carried).map(|node| graph.name(node))
    }

    /// The same as a sentence.
    pub fn note_of_host_loops(&self) -> Option<String> {
        let first = self.loop_carried_by_host()?;
        Some(format!(
            "as it is, TensorFlow keeps what `{first}` begins with on the host, and copies it in each iteration; rewritten, it is on the GPU, \
             which is what is predicted"
        ))
    }

    /// That figures are of what is written, where a session would make calls flat in another way.
    pub fn note_of_calls(&self) -> Option<String> {
        self.is_lowered.then(|| {
            "the graph calls functions, which are made flat; figures are of that graph, which is what is written (as it is, TensorFlow keeps \
             what branches need for their gradients on the host, and may order ops otherwise)"
                .to_string()
        })
    }

    /// The plan of TFLMSv2's strategy with these parameters. Tensors go to the CPU in the task of the op that makes them.
    ///
    /// # Errors
    ///
    /// If the parameters do not go with the graph.
    pub fn plan(&self, parameters: &Parameters) -> Result<Plan, Error> {
        self.plan_to(parameters, &host_device(None)?)
    }

    /// As [`Analysis::plan`]; `host_device` is where tensors go when they leave.
    ///
    /// # Errors
    ///
    /// As [`Analysis::plan`].
    pub fn plan_to(&self, parameters: &Parameters, host_device: &Device) -> Result<Plan, Error> {
        Ok(tflms::plan(self, parameters, host_device).map_err(StrategyError::from)?)
    }

    /// The plan that a strategy's parameters come to as they were told, for no budget; none if it plans for budgets only.
    /// `host_device` is where tensors go when they leave. Of a graph for several workers it holds their means back where sizes are known
    /// ([`hold_back_means`]).
    ///
    /// # Errors
    ///
    /// If the strategy cannot plan for this graph, or not with these parameters.
    pub fn plan_as_told(&self, strategy: &dyn Strategy, host_device: &Device) -> Result<Option<Plan>, Error> {
        let mut proposal = strategy.plan_as_told(self)?;
        if let Some(proposal) = &mut proposal {
            self.hold_back_means(proposal);
        }
        Ok(proposal.map(|proposal| proposal.into_plan(self, host_device)))
    }

    /// Where there is no budget, one worker's peak is what a step of several is held to.
    fn hold_back_means(&self, proposal: &mut Proposal) {
        let is_parallel = self.graph.node_ids().any(|node| self.graph.name(node) == WORKERS);
        if !is_parallel || self.step.run_count() > 1 {
            return;
        }
        // Only the order of ops and copies is asked for, which is nearly the same on all devices.
        let budget = Budget::new(0);
        let Ok(simulated) = Simulated::new(self, &budget) else { return };
        let Ok(outline) = simulated.outline() else { return };
        let machine = Machine::new(&simulated.profile, simulated.placement.gpus().len(), Vec::new());
        hold_back_means(&outline, &machine, &mut proposal.draft);
    }

    /// Whether a step fits the budget, and with which plan: the best that the budget's strategy finds.
    ///
    /// ```
    /// let model = tf_lms::read("testdata/mnist_cnn.meta")?;
    /// let graph = model.graph()?;
    /// let analysis = model.analyse(&graph, &tf_lms::AnalysisOptions::default())?;
    /// let fit = analysis.fit(&tf_lms::Budget::new(16 << 30))?;
    /// assert!(fit.fits_as_it_is());
    /// println!("its peak is {}", tf_lms::size::Size(fit.peak_bytes_before()));
    /// # Ok::<(), tf_lms::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// If sizes that matter are unknown, or if the strategy cannot plan for this graph. That nothing fits is no error.
    pub fn fit(&self, budget: &Budget) -> Result<Fit, Error> {
        self.fit_with(budget, &mut *budget.strategy(self)?)
    }

    /// The same of each step of a file with several train ops, which are run in turn, with one plan for all of them.
    ///
    /// # Errors
    ///
    /// As [`Analysis::fit`].
    pub fn fit_in_turn(&self, budget: &Budget) -> Result<Vec<StepFit>, Error> {
        fit_in_turn(self, budget, &mut *budget.strategy(self)?)
    }

    /// The least memory of a GPU, in bytes, for which there is a plan, one for all steps of a file; none if none is found for any. The
    /// budget's own memory does not matter.
    ///
    /// # Errors
    ///
    /// As [`Analysis::fit`].
    pub fn least_memory(&self, budget: &Budget) -> Result<Option<u64>, Error> {
        if self.step.run_count() > 1 {
            return least_in_turn(self, budget);
        }
        let simulated = Simulated::new(self, budget)?;
        simulated.least_memory(&simulated.outline()?, budget)
    }

    /// As [`Analysis::fit`], with a strategy of your own.
    ///
    /// # Errors
    ///
    /// As [`Analysis::fit`].
    pub fn fit_with(&self, budget: &Budget, strategy: &mut dyn Strategy) -> Result<Fit, Error> {
        if self.step.run_count() > 1 {
            let steps = fit_in_turn(self, budget, strategy)?;
            if let Some(fit) = Fit::of_steps(self, steps, strategy.description().name, &budget.host_device) {
                return Ok(fit);
            }
        }
        let simulated = Simulated::new(self, budget)?;
        let outline = simulated.outline()?;
        let tuning = simulated.tune_with(&outline, budget, strategy)?;
        Ok(Fit::new(self, tuning, strategy.description().name, &budget.host_device))
    }
}
