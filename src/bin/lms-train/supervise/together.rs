//! What all workers came to, together and each.

use std::fmt::{self, Display};

use serde::{Deserialize, Serialize};
use serde_json::Value;
use tf_lms::cli::{Page, Size};

use super::count_of_workers;
use crate::alone::{One, Scaling};
use crate::inspect::Reducing;

/// What all workers came to.
#[derive(Debug, Serialize)]
pub struct Together {
    schema: u32,
    model: Option<String>,
    workers: usize,
    restarts: u32,
    /// The workers that failed and were left out, by the numbers that they had at first.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    left_out: Vec<usize>,
    /// Of all workers together.
    examples_per_second: Option<f64>,
    /// Of the slowest, which all wait for.
    steps_per_second: Option<f64>,
    /// The rate of all, compared with one worker's.
    #[serde(skip_serializing_if = "Option::is_none")]
    scaling: Option<Scaling>,
    /// A digest of the variables of the file, which are the same on all workers.
    variables_digest: Option<Value>,
    /// What each worker gives in a step.
    reduced_bytes: Option<u64>,
    /// The mean of all workers, if the file names a loss.
    losses: Option<Value>,
    saved: Option<Value>,
    /// Each worker's own report.
    each: Vec<Value>,
}

impl Together {
    /// What each reported, how often all were started again and without whom, and the rate of one alone, if that was measured.
    pub fn of(each: Vec<Value>, restarts: u32, left_out: Vec<usize>, one: Option<One>) -> Together {
        let rate = |of: &str| -> Option<Vec<f64>> {
            each.iter().map(|report| report["rates"][of].as_f64()).collect()
        };
        let first = each.first();
        let get = |key: &str| first.map(|report| report[key].clone()).filter(|value| !value.is_null());
        let (steps, examples) = (rate("steps_per_second"), rate("examples_per_second"));
        let scaling = one.zip(steps.as_ref()).map(|(one, steps)| one.against(steps, examples.as_deref()));
        Together {
            schema: 1,
            model: get("model").and_then(|model| model.as_str().map(str::to_string)),
            workers: each.len(),
            restarts,
            left_out,
            examples_per_second: examples.map(|rates| rates.iter().sum()),
            steps_per_second: steps.map(|rates| rates.into_iter().fold(f64::INFINITY, f64::min)),
            scaling,
            variables_digest: get("variables_digest"),
            reduced_bytes: first.and_then(|report| report["reduced"]["bytes"].as_u64()),
            losses: get("losses"),
            saved: get("saved"),
            each,
        }
    }
}

impl Display for Together {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut page = Page::default();
        self.tell(&mut page);
        page.fmt(f)
    }
}

impl Together {
    /// What all did, and then each.
    fn tell(&self, page: &mut Page) {
        let name = self.model.as_deref().unwrap_or("the model");
        page.row("model", format_args!("{name}, on {}", count_of_workers(self.workers)));
        if self.restarts > 0 {
            page.row("begun again", format_args!("{} times", self.restarts));
        }
        if !self.left_out.is_empty() {
            let numbers: Vec<String> = self.left_out.iter().map(usize::to_string).collect();
            page.row("left out", format_args!("worker {}", numbers.join(", ")));
        }
        if let Some(losses) = self.losses.as_ref().and_then(Value::as_array)
            && let (Some(first), Some(last)) = (losses.first(), losses.last())
        {
            page.row("loss", format_args!("{first} at the start, {last} at the end"));
        }
        if let Some(steps) = self.steps_per_second {
            let examples =
                self.examples_per_second.map(|rate| format!(", {rate:.2} examples/s")).unwrap_or_default();
            page.row("rate", format_args!("{steps:.2} steps/s{examples}"));
        }
        if let Some(scaling) = &self.scaling {
            let of_all = scaling.efficiency * 100.0;
            page.row(
                "scaling against one",
                format_args!("{:.2} times its rate, {of_all:.1}% of {} times", scaling.times, self.workers),
            );
            page.row("one alone", scaling.one);
        }
        if let Some(bytes) = self.reduced_bytes {
            page.row("reduced in a step", format_args!("{} by each", Size(bytes)));
        }
        for (rank, report) in self.each.iter().enumerate() {
            let examples = report["rates"]["examples_per_second"].as_f64();
            let peak = report["memory"]["peak_bytes"].as_u64();
            let copied = ["bytes_out", "bytes_in"].map(|way| report["traffic"][way].as_u64());
            let mut parts = Vec::new();
            parts.extend(examples.map(|rate| format!("{rate:.2} examples/s")));
            parts.extend(peak.map(|peak| format!("peak {}", Size(peak))));
            if let [Some(out), Some(back)] = copied {
                parts.push(format!("copied {} out, {} in", Size(out), Size(back)));
            }
            page.row(&format!("worker {rank}"), parts.join("; "));
            let reducing = Reducing::deserialize(&report["reducing"]);
            reducing.iter().for_each(|reducing| page.part("waited for reduces", reducing));
        }
        if let Some(saved) = self.saved.as_ref().and_then(Value::as_str) {
            page.row("checkpoint", saved);
        }
    }
}
