//! How a model trains on many GPUs, with a plan for each that fits its memory and its part of a link.

use std::collections::BTreeMap;

use super::error::OfFile;
use super::{AnalysisOptions, Budget, Error, Model, Simulated};
use crate::ops::Fact;
use crate::parallel::ParallelOptions;
use crate::plan::{Analysis, DataParallel, Draft, Plan};
use crate::scale::{Cluster, ScaleError, Scaling, Situation, Step};
use crate::simulate::{Machine, Outline, Program};
use crate::tune::{Judge, Verdict};

/// How a model trains on many GPUs.
#[derive(Debug, Clone)]
pub struct Scaled {
    /// Without any plan, were there no end of memory.
    pub without: Scaling,
    /// In the budget, with plans where they are needed; none if it does not fit.
    pub with: Option<Scaling>,
    /// Whether all of it fits without any plan.
    pub fits_as_it_is: bool,
    /// How many examples one worker sees in a step, if its data tells.
    pub examples: Option<u64>,
    /// What is reduced.
    pub parallel: DataParallel,
}

impl Model {
    /// What is to be expected of this model on a cluster. Each worker has the budget. `plan`, which must be one for several workers, takes
    /// the place of those that would be found.
    ///
    /// One worker's step is that of the model as it is with a plan of its own, or of what several run if that is shorter; with a `plan` always the latter.
    ///
    /// # Errors
    ///
    /// If gradients are not understood, a step cannot be simulated, or a worker has several GPUs.
    pub fn scaled(
        &self,
        options: &AnalysisOptions,
        budget: &Budget,
        cluster: &Cluster,
        parallel: &ParallelOptions,
        plan: Option<&Plan>,
    ) -> Result<Scaled, Error> {
        cluster.check().of(self.name())?;
        let graph = self.graph()?;
        let analysis = self.analyse(&graph, options)?;
        if analysis.step.run_count() > 1 {
            let steps = analysis.step.run_count();
            return Err(ScaleError::SeveralSteps { steps }).of(self.name()).map_err(Error::from);
        }
        let parallel = match plan {
            Some(Plan { data_parallel: Some(planned), .. }) => planned.clone(),
            Some(_) => return Err(ScaleError::PlanOfOneWorker).of(self.name()).map_err(Error::from),
            None => self.data_parallel(&analysis, parallel)?,
        };
        let together = self.parallelized(&graph, &parallel)?;
        let joined = together.graph()?;
        let joined_analysis = together.analyse(&joined, options)?;
        let given = plan.map(|plan| Draft::of(plan, &joined)).transpose()?;

        let mut without = BTreeMap::new();
        let mut with = BTreeMap::new();
        let mut fits_as_it_is = true;
        for sharing in cluster.sharings() {
            let budget = on_part_of_a_link(budget, sharing);
            let found =
                Found::of(&joined_analysis, &budget, given.as_ref()).or_else(|error| self.failed(error))?;
            fits_as_it_is &= found.fits_as_it_is;
            without.insert(sharing, found.without);
            with.extend(found.with.map(|situation| (sharing, situation)));
        }
        let alone = match (&given, without.get(&1)) {
            (Some(_), Some(unshared)) => {
                Found { without: unshared.clone(), with: with.get(&1).cloned(), fits_as_it_is }
            }
            _ => {
                let budget = on_part_of_a_link(budget, 1);
                Found::of(&analysis, &budget, None).or_else(|error| self.failed(error))?
            }
        };
        let fits = with.len() == without.len();
        let scaling = |alone, by_sharing| {
            Scaling::new(cluster.clone(), alone, by_sharing).of(self.name()).map_err(Error::from)
        };
        // What several run may fit where what one runs does not.
        let alone_with = alone.with.or_else(|| with.get(&1).cloned());
        let with = alone_with.filter(|_| fits).map(|alone| scaling(alone, with)).transpose()?;
        Ok(Scaled {
            without: scaling(alone.without, without)?,
            with,
            fits_as_it_is,
            examples: examples(&analysis),
            parallel,
        })
    }

    fn failed<T>(&self, failure: Failure) -> Result<T, Error> {
        match failure {
            Failure::Scale(error) => Err(error).of(self.name()).map_err(Error::from),
            Failure::Other(error) => Err(error),
        }
    }
}

/// Why one worker's step is not known.
enum Failure {
    Scale(ScaleError),
    Other(Error),
}

impl<E: Into<Error>> From<E> for Failure {
    fn from(error: E) -> Failure {
        Failure::Other(error.into())
    }
}

/// The same budget where so many copy over one link at the same time.
fn on_part_of_a_link(budget: &Budget, sharing: u32) -> Budget {
    let mut budget = budget.clone();
    budget.profile.link_out_bytes_per_second /= f64::from(sharing);
    budget.profile.link_in_bytes_per_second /= f64::from(sharing);
    budget
}

/// One worker's step.
struct Found {
    without: Situation,
    with: Option<Situation>,
    fits_as_it_is: bool,
}

impl Found {
    fn of(analysis: &Analysis, budget: &Budget, given: Option<&Draft>) -> Result<Found, Failure> {
        let simulated = Simulated::new(analysis, budget)?;
        let gpus = simulated.placement.gpus().len();
        if gpus > 1 {
            return Err(Failure::Scale(ScaleError::SeveralGpus { gpus }));
        }
        let outline = simulated.outline()?;
        let mut machine = simulated.machine(budget)?;
        let unlimited = machine.with_memory(Vec::new());
        let without = situation(&outline, &Draft::default(), &unlimited).map_err(Failure::Scale)?;
        let mut fits_as_it_is = false;
        let draft = match given {
            Some(draft) => {
                let mut judge = Judge::new(&outline, &machine);
                judge.trust_the_profile();
                fits_as_it_is = judge.judge(&Draft::default()).is_ok();
                judge.judge(draft).is_ok().then(|| draft.clone())
            }
            None => {
                let tuning = simulated.tune(&outline, budget)?.0;
                machine = tuning.machine(&machine);
                match tuning.verdict {
                    Verdict::Fits => {
                        return Ok(Found { with: Some(without.clone()), without, fits_as_it_is: true });
                    }
                    Verdict::FitsWithSwapping(found) => Some(found.draft),
                    Verdict::DoesNotFit => None,
                }
            }
        };
        let with = draft.map(|draft| situation(&outline, &draft, &machine)).transpose();
        Ok(Found { without, with: with.map_err(Failure::Scale)?, fits_as_it_is })
    }
}

fn situation(outline: &Outline, draft: &Draft, machine: &Machine) -> Result<Situation, ScaleError> {
    let program = Program::new(outline, draft);
    let step = |machine: &Machine| Step::of(outline.analysis(), &program, machine);
    let free_link = Machine {
        out_bytes_per_second: f64::INFINITY,
        in_bytes_per_second: f64::INFINITY,
        link_latency_seconds: 0.0,
        ..machine.clone()
    };
    Ok(Situation {
        step: step(machine)?,
        free_link: step(&free_link)?,
        free_host: step(&Machine { host_op_seconds: 0.0, ..machine.clone() })?,
    })
}

/// How many examples the data of a step has: the first dimension of the largest of what is fed, or comes from an input pipeline.
fn examples(analysis: &Analysis) -> Option<u64> {
    let Analysis { graph, shapes, step, .. } = analysis;
    let data =
        graph.node_ids().filter(|&node| step.contains(node) && graph.op(node).facts().has(Fact::TakesData));
    let known = data.flat_map(|node| graph.outputs(node)).filter_map(|tensor| shapes.get(tensor));
    let whole = known.filter(|shape| shape.len() > 1 && shape.iter().all(|&size| size > 0));
    let largest =
        whole.max_by_key(|shape| shape.iter().fold(1_i64, |all, &size| all.saturating_mul(size)))?;
    u64::try_from(largest[0]).ok()
}
