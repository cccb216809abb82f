//! What `--explain` tells.

use serde::Serialize;
use tf_lms::cli::Failure;
use tf_lms::graph::{ByName, Graph, TensorId};
use tf_lms::omit::{Difference, EdgeExplanation, edges, explain_edges};
use tf_lms::picture::{Explained, Explanation, Fate, Recording, explain};
use tf_lms::plan::{Draft, Filters, without_tensor};
use tf_lms::simulate::{Machine, Outline};

use crate::conclusion::Conclusion;

/// What stands between the ends of an edge.
const ARROW: &str = "->";

/// Explains parts of a plan.
pub struct Explainer<'a> {
    /// The model's.
    pub name: &'a str,
    pub outline: &'a Outline<'a>,
    pub machine: &'a Machine,
    pub conclusion: &'a Conclusion,
    /// Those that the plan was made with.
    pub filters: &'a Filters,
    pub before: &'a Recording<'a>,
    pub after: &'a Recording<'a>,
}

/// A tensor's life, and what it would cost to keep the tensor.
#[derive(Serialize)]
struct TensorDocument {
    #[serde(flatten)]
    explanation: Explanation,
    /// None if the plan keeps it anyway.
    without: Option<Difference>,
}

impl Explainer<'_> {
    /// The text about a tensor, or about an edge of the plan; or the document.
    pub fn tell(&self, asked: &str, as_json: bool) -> anyhow::Result<String> {
        if let Some(tensor) = ByName::of(self.graph()).tensor_or_first(asked) {
            let document = self.tensor(tensor);
            if as_json {
                return Ok(serde_json::to_string_pretty(&document)? + "\n");
            }
            let without = document.without.map(|without| without.to_string()).unwrap_or_default();
            return Ok(document.explanation.to_string() + &without);
        }
        let edge = self.edge(asked)?;
        Ok(if as_json { serde_json::to_string_pretty(&edge)? + "\n" } else { edge.to_string() })
    }

    fn graph(&self) -> &Graph<'_> {
        self.outline.analysis().graph
    }

    fn tensor(&self, tensor: TensorId) -> TensorDocument {
        let Conclusion { draft, strategy, .. } = self.conclusion;
        let plan = Explained { draft, strategy, filters: self.filters };
        let explanation = explain(self.outline, plan, self.before, self.after, tensor);
        let is_kept = matches!(explanation.fate, Fate::Stays(_));
        let without = (!is_kept).then(|| self.compare(&without_tensor(draft, tensor)));
        TensorDocument { explanation, without }
    }

    fn edge(&self, asked: &str) -> anyhow::Result<EdgeExplanation> {
        let error = |what: &str| {
            Err(Failure::Usage.error(format!("--explain {asked}: {} has no such {what}", self.name)))
        };
        // A node's name may hold an arrow itself.
        let mut is_edge = false;
        for (arrow, _) in asked.match_indices(ARROW) {
            let (from, to) = (&asked[..arrow], &asked[arrow + ARROW.len()..]);
            if !self.has(from) || !self.has(to) {
                continue;
            }
            is_edge = true;
            let draft = &self.conclusion.draft;
            let found = edges(draft, self.graph(), from, to);
            if !found.is_empty() {
                return Ok(explain_edges(draft, self.graph(), (from, to), &found, |less| self.compare(less)));
            }
        }
        match is_edge {
            true => Err(Failure::Usage.error(format!("--explain {asked}: the plan adds no such edge"))),
            false if asked.contains(ARROW) => error("tensor, op or edge"),
            false => error("tensor"),
        }
    }

    /// Whether there is a node, or a tensor, of this name.
    fn has(&self, name: &str) -> bool {
        self.graph().node_ids().any(|node| self.graph().name(node) == name)
            || ByName::of(self.graph()).tensor_or_first(name).is_some()
    }

    fn compare(&self, less: &Draft) -> Difference {
        Difference::of(self.outline, self.machine, &self.conclusion.draft, less)
    }
}
