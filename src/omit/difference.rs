//! Two plans for a graph, simulated.

use std::fmt;

use serde::Serialize;

use crate::plan::Draft;
use crate::simulate::{Machine, NoObserver, Outcome, Outline, Program, simulate};
use crate::size::Size;

/// A figure of a step with the whole plan, and without a part of it.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Change<T> {
    /// With the whole plan.
    pub with: T,
    /// Without the part.
    pub without: T,
}

/// What leaving a part of a plan out changes.
///
/// Shown, it is a few lines of text.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Difference {
    /// Whether the step runs in the budget. If it does not both ways, the other figures are those of memory without end.
    pub fits: Change<bool>,
    /// The peak of each GPU.
    pub peak_bytes: Vec<Change<u64>>,
    /// How long the step takes.
    pub step_seconds: Change<f64>,
}

impl Difference {
    /// Simulates a step with a plan, and with what is left of it, on a machine whose memory is the budget.
    pub fn of(outline: &Outline, machine: &Machine, draft: &Draft, less: &Draft) -> Difference {
        let programs = Change { with: Program::new(outline, draft), without: Program::new(outline, less) };
        let run = |program: &Program, machine: &Machine| simulate(program, machine, &mut NoObserver).ok();
        let within = [&programs.with, &programs.without].map(|program| run(program, machine));
        let fits = Change { with: within[0].is_some(), without: within[1].is_some() };
        let [with, without] = match within {
            [Some(with), Some(without)] => [with, without],
            // Memory that is waited for and memory without end are not to be compared.
            _ => {
                let unlimited = machine.with_memory(Vec::new());
                [&programs.with, &programs.without]
                    .map(|program| run(program, &unlimited).unwrap_or_default())
            }
        };
        let peaks = |outcome: &Outcome| outcome.gpus.iter().map(|gpu| gpu.peak_bytes).collect::<Vec<_>>();
        let pairs = peaks(&with).into_iter().zip(peaks(&without));
        Difference {
            fits,
            peak_bytes: pairs.map(|(with, without)| Change { with, without }).collect(),
            step_seconds: Change { with: with.step_seconds, without: without.step_seconds },
        }
    }
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let verdict = match (self.fits.with, self.fits.without) {
            (true, true) => "the step fits all the same",
            (true, false) => "the step does not fit; in memory without end:",
            (false, true) => "the step fits, as with the whole plan it does not; in memory without end:",
            (false, false) => {
                "the step does not fit, nor does it with the whole plan; in memory without end:"
            }
        };
        writeln!(f, "  {:<12} {verdict}", "without it")?;
        for (gpu, peak) in self.peak_bytes.iter().enumerate() {
            let which = if self.peak_bytes.len() > 1 { format!(" of GPU {gpu}") } else { String::new() };
            let more = signed(peak.with <= peak.without, Size(peak.with.abs_diff(peak.without)));
            writeln!(
                f,
                "  {:<12} peak{which} {} instead of {} ({more})",
                "",
                Size(peak.without),
                Size(peak.with)
            )?;
        }
        let Change { with, without } = self.step_seconds;
        let [with, without] = [with, without].map(|seconds| seconds * 1e3);
        writeln!(f, "  {:<12} step {without:.3} ms instead of {with:.3} ms ({:+.3} ms)", "", without - with)
    }
}

fn signed(is_more: bool, size: Size) -> String {
    format!("{}{size}", if is_more { "+" } else { "-" })
}
