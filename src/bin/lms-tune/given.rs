//! A plan that was made before.

use std::fs;
use std::path::Path;

use anyhow::Context;
use tf_lms::Model;
use tf_lms::graph::Graph;
use tf_lms::plan::{Draft, Plan};
use tf_lms::simulate::{Machine, Outline};
use tf_lms::tune::{self, Description, Judge, Tuning};

use crate::args::Args;

/// Stands for whoever made the plan, which may be nobody that this program knows.
static GIVEN: Description = Description::named("given");

/// A plan that the user gave.
pub struct Given {
    pub strategy: String,
    pub parameters: serde_json::Value,
    pub draft: Draft,
}

impl Given {
    /// Reads a plan for a graph. One that cannot be carried out is not worth a prediction.
    pub fn read(path: &Path, model: &Model, graph: &Graph, args: &Args) -> anyhow::Result<Given> {
        let name = path.display().to_string();
        let plan = Plan::from_json(&name, &fs::read(path).with_context(|| name.clone())?)?;
        model.rewrite(graph, &plan)?.check(&args.graph.train_ops).context(name)?;
        let draft = Draft::of(&plan, graph)?;
        Ok(Given { strategy: plan.strategy, parameters: plan.parameters, draft })
    }

    /// What the plan comes to.
    pub fn judge(&self, outline: &Outline, machine: &Machine) -> anyhow::Result<Tuning> {
        let host_ops = self.draft.host_ops.clone();
        let mut tuning = tune::tune(outline, machine, &mut tune::Nothing { host_ops })?;
        let mut judge = Judge::new(outline, machine);
        judge.trust_the_profile();
        let outcome = judge.judge(&self.draft);
        (tuning.is_tight, tuning.is_for_one_thread) = (false, false);
        tuning.verdict = match outcome {
            Ok(outcome) => tune::Verdict::FitsWithSwapping(Box::new(tune::Found {
                strategy: &GIVEN,
                draft: self.draft.clone(),
                outcome,
                parameters: self.parameters.clone(),
            })),
            Err(_) => tune::Verdict::DoesNotFit,
        };
        Ok(tuning)
    }
}
