//! What the simulator says of a point.

use anyhow::Context;
use tf_lms::cli::{GraphArgs, Size};
use tf_lms::cost::DeviceProfile;
use tf_lms::graph::Graph;
use tf_lms::simulate::{GpuOutcome, Outcome as Simulated};
use tf_lms::tune::{Tuning, Verdict};
use tf_lms::{Error, Model};

use super::ground::Ground;
use super::rows::{Ending, Figures, Mode, Outcome};
use crate::args::Args;

/// Answers for one size at a time, both ways.
pub struct Predictor<'a> {
    pub args: &'a Args,
    pub ground: &'a Ground,
    pub profile: &'a DeviceProfile,
    pub model: &'a Model,
    pub graph: &'a Graph<'a>,
    /// The size that was asked for last: where memory runs out, the same one is asked for again, with LMS.
    last: Option<(u64, Both)>,
}

/// What is said of a size.
#[derive(Clone)]
struct Both {
    without: Ending,
    with: Ending,
}

impl<'a> Predictor<'a> {
    pub fn new(
        args: &'a Args,
        (ground, profile): (&'a Ground, &'a DeviceProfile),
        (model, graph): (&'a Model, &'a Graph<'a>),
    ) -> Predictor<'a> {
        Predictor { args, ground, profile, model, graph, last: None }
    }

    /// How a point would end.
    ///
    /// # Errors
    ///
    /// If TensorFlow is needed for the shapes and not there.
    pub fn predict(&mut self, size: u64, sized: &GraphArgs, mode: Mode) -> anyhow::Result<Ending> {
        let both = match self.last.take() {
            Some((last, both)) if last == size => both,
            _ => match self.tune(sized) {
                Ok(tuning) => Both::of(&tuning, self.ground),
                Err(error) if is_without_tensorflow(&error) => return Err(error),
                // Some sizes contradict the graph, as when halves and doubles of an odd size meet.
                Err(error) => {
                    let ending = Ending::other(Outcome::Crashed, format!("{error:#}"));
                    Both { without: ending.clone(), with: ending }
                }
            },
        };
        let ending = if mode == Mode::WithoutLms { both.without.clone() } else { both.with.clone() };
        self.last = Some((size, both));
        Ok(ending)
    }

    fn tune(&self, sized: &GraphArgs) -> anyhow::Result<Tuning> {
        let analysis = self.model.analyse(self.graph, &sized.analysis())?;
        let memory = self.ground.gpu_mem.clone();
        let mut budget = self.args.budget.budget_of(memory, self.profile.clone(), &self.args.tflms)?;
        // What is asked for are sizes that are sure to do.
        budget.keeps_margin = true;
        Ok(analysis.fit(&budget).with_context(|| self.model.name().to_string())?.tuning)
    }
}

fn is_without_tensorflow(error: &anyhow::Error) -> bool {
    matches!(error.downcast_ref(), Some(Error::TensorFlow { .. }))
}

impl Both {
    fn of(tuning: &Tuning, ground: &Ground) -> Both {
        let before = figures(&tuning.before);
        let peak = Size(before.peak_bytes.unwrap_or(0));
        let memory = Size(ground.gpu_mem.first().copied().unwrap_or(0));
        let floor = tuning.floors.iter().map(|floor| floor.memory_bytes).max().unwrap_or(0);
        let out_of_memory =
            || Ending::other(Outcome::OutOfMemory, format!("a predicted peak of {peak} in {memory}"));
        match &tuning.verdict {
            Verdict::Fits => Both { without: Ending::trained(before), with: Ending::trained(before) },
            Verdict::FitsWithSwapping(found) => {
                Both { without: out_of_memory(), with: Ending::trained(figures(&found.outcome)) }
            }
            Verdict::DoesNotFit => Both {
                without: out_of_memory(),
                with: Ending::other(
                    Outcome::DoesNotFit,
                    format!("no plan was found with which it fits; none at all gets below {}", Size(floor)),
                ),
            },
        }
    }
}

/// Bytes of all GPUs; times and the peak of the one that has most.
fn figures(outcome: &Simulated) -> Figures {
    let most = |seconds: fn(&GpuOutcome) -> f64| outcome.gpus.iter().map(seconds).fold(0.0, f64::max);
    let sum = |bytes: fn(&GpuOutcome) -> u64| Some(outcome.gpus.iter().map(bytes).sum());
    Figures {
        step_seconds: outcome.step_seconds,
        out_bytes: sum(|gpu| gpu.out_bytes),
        in_bytes: sum(|gpu| gpu.in_bytes),
        copy_seconds: Some(outcome.gpus.iter().map(|gpu| gpu.out_seconds + gpu.in_seconds).sum()),
        link_seconds: Some(most(|gpu| gpu.out_seconds.max(gpu.in_seconds))),
        compute_seconds: Some(most(|gpu| gpu.compute_seconds)),
        peak_bytes: outcome.gpus.iter().map(|gpu| gpu.peak_bytes).max(),
    }
}
