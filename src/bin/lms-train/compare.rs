//! The original and the rewritten graph, from the same values.

use std::fmt::{self, Display};

use serde::Serialize;
use tf_lms::cli::Failure;
use tf_lms::runtime::Tensor;

use crate::args::Args;
use crate::job::Job;
use crate::run::{self, Trained, Wishes};
use crate::setup::Setup;
use crate::tasks::print;
use tf_lms::cli::interrupt;

/// What the comparison found.
#[derive(Debug, Serialize)]
struct Comparison {
    schema: u32,
    model: String,
    device: String,
    /// What TensorFlow said when the original ran out of memory; none if it fits.
    original_out_of_memory: Option<String>,
    /// Of the steps that the original trained.
    original_losses: Vec<f64>,
    rewritten_losses: Vec<f64>,
    /// The first step, from 1, whose losses are not the same number.
    first_difference: Option<LossDifference>,
    variables_compared: usize,
    variables_differing: Vec<VariableDifference>,
    #[serde(skip)]
    notes: Vec<&'static str>,
}

#[derive(Debug, Serialize)]
struct LossDifference {
    step: usize,
    original: f64,
    rewritten: f64,
}

#[derive(Debug, Serialize)]
struct VariableDifference {
    name: String,
    largest: f64,
}

/// Trains both and reports. An original that runs out of memory is what a rewrite is for, so it ends nothing.
pub fn compare(args: &Args) -> anyhow::Result<()> {
    let setup = Setup::new(args)?;
    let job = Job::prepare(args)?;
    interrupt::listen("lms-train", "ending after this step");
    let wishes = Wishes { variables: true, ..Wishes::default() };
    let may_not_fit = Wishes { without_advice: true, ..wishes };
    let mut original = Trained::default();
    let ended = run::train_into(&mut original, args, &setup, &job, &job.original, &may_not_fit);
    let out_of_memory = match ended {
        Ok(()) => None,
        Err(error) if Failure::of(&error) == Failure::DoesNotFit => Some(format!("{error:#}")),
        Err(error) => return Err(error),
    };
    let initial = (!original.first.is_empty()).then_some(original.first.as_slice());
    let rewritten = run::train(args, &setup, &job, job.graph_def(), &Wishes { initial, ..wishes })?;
    print(args, &Comparison::new(args, &job, original, rewritten, out_of_memory))
}

impl Comparison {
    fn new(
        args: &Args,
        job: &Job,
        original: Trained,
        rewritten: Trained,
        out_of_memory: Option<String>,
    ) -> Comparison {
        let pairs = original.losses.iter().zip(&rewritten.losses).enumerate();
        let differs = |(_, (a, b)): &(usize, (&f64, &f64))| a.to_bits() != b.to_bits();
        let first_difference = pairs
            .filter(|pair| differs(pair))
            .map(|(step, (&original, &rewritten))| LossDifference { step: step + 1, original, rewritten });
        let names = job.recipe.variables.iter().map(|variable| &variable.name);
        let values = original.last.iter().zip(&rewritten.last);
        let differing = names.zip(values).filter(|(_, (a, b))| a != b);
        let notes = if job.recipe.variables.is_empty() {
            vec![
                "the file lists no variables, and the graph does not tell how all are read and initialized: each graph ran its own initialization, and only losses were compared",
            ]
        } else {
            Vec::new()
        };
        Comparison {
            schema: 1,
            model: job.name.clone(),
            device: args.device.to_string(),
            original_out_of_memory: out_of_memory,
            first_difference: first_difference.into_iter().next(),
            variables_compared: original.last.len(),
            variables_differing: differing
                .map(|(name, (a, b))| VariableDifference {
                    name: name.clone(),
                    largest: largest_difference(a, b),
                })
                .collect(),
            original_losses: original.losses,
            rewritten_losses: rewritten.losses,
            notes,
        }
    }
}

/// Not a number if the values are no numbers.
fn largest_difference(a: &Tensor, b: &Tensor) -> f64 {
    let (Some(a), Some(b)) = (a.to_f64(), b.to_f64()) else { return f64::NAN };
    a.iter().zip(&b).map(|(a, b)| (a - b).abs()).fold(0.0, f64::max)
}

impl Display for Comparison {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}, original and rewritten, on {}", self.model, self.device)?;
        if let Some(message) = &self.original_out_of_memory {
            writeln!(f, "  original   {}", message.trim_end())?;
            match (self.rewritten_losses.first(), self.rewritten_losses.last()) {
                (Some(first), Some(last)) => writeln!(
                    f,
                    "  rewritten  trains: loss {first} at the start, {last} in step {}",
                    self.rewritten_losses.len()
                )?,
                _ => writeln!(f, "  rewritten  trains")?,
            }
        }
        self.losses(f)?;
        self.variables(f)?;
        self.notes.iter().try_for_each(|note| writeln!(f, "  note       {note}"))
    }
}

impl Comparison {
    fn losses(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let steps = self.original_losses.len();
        match &self.first_difference {
            None if self.original_out_of_memory.is_none() => {
                writeln!(f, "  losses     the same to the bit in all {steps} steps")
            }
            None if steps == 0 => writeln!(f, "  losses     not compared: the original trained no step"),
            None => writeln!(f, "  losses     the same to the bit in all that the original trained: {steps}"),
            Some(first) => writeln!(
                f,
                "  losses     differ from step {} on: {} and {}, by {:e}",
                first.step,
                first.original,
                first.rewritten,
                (first.original - first.rewritten).abs()
            ),
        }
    }

    fn variables(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.variables_differing.iter().max_by(|a, b| a.largest.total_cmp(&b.largest)) {
            None if self.original_out_of_memory.is_some() => Ok(()),
            None => writeln!(f, "  variables  the same to the bit, all {}", self.variables_compared),
            Some(worst) => writeln!(
                f,
                "  variables  {} of {} differ, most {}, by {:e}",
                self.variables_differing.len(),
                self.variables_compared,
                worst.name,
                worst.largest
            ),
        }
    }
}
