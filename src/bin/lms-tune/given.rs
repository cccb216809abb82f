//! A plan that was made before.

use std::fs;
use std::path::Path;

use anyhow::Context;
use tf_lms::cli::{Failure, Subject};
use tf_lms::graph::Graph;
use tf_lms::plan::{Draft, Plan, graph_digest};
use tf_lms::simulate::{Machine, Outline};
use tf_lms::tune::{self, Judge, Tuning};

/// A plan that the user gave.
pub struct Given {
    pub strategy: String,
    pub parameters: serde_json::Value,
    pub draft: Draft,
}

impl Given {
    /// Reads a plan for a graph.
    pub fn read(path: &Path, subject: &Subject, graph: &Graph) -> anyhow::Result<Given> {
        let name = path.display().to_string();
        let plan = Plan::from_json(&name, &fs::read(path).with_context(|| name.clone())?)?;
        if plan.graph.nodes != graph.len() || plan.graph.digest != graph_digest(graph) {
            return Err(Failure::Failed
                .error(format!("{name}: the plan is for another graph than {}", subject.model.name())));
        }
        let draft = Draft::of(&plan, graph)?;
        Ok(Given { strategy: plan.strategy, parameters: plan.parameters, draft })
    }

    /// What the plan comes to.
    pub fn judge(&self, outline: &Outline, machine: &Machine) -> anyhow::Result<Tuning> {
        let mut tuning = tune::tune(outline, machine, &mut tune::Nothing)?;
        let mut judge = Judge::new(outline, machine);
        judge.trust_the_profile();
        let outcome = judge.judge(&self.draft);
        tuning.is_tight = false;
        tuning.verdict = match outcome {
            Ok(outcome) => tune::Verdict::FitsWithSwapping(Box::new(tune::Found {
                strategy: "given",
                draft: self.draft.clone(),
                outcome,
                parameters: self.parameters.clone(),
            })),
            Err(_) => tune::Verdict::DoesNotFit,
        };
        Ok(tuning)
    }
}
