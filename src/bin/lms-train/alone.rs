//! One worker by itself, so that it can be said how the rate of all compares.

use std::fmt::{self, Display};
use std::process::Stdio;

use anyhow::{Context, bail};
use serde::Serialize;
use serde_json::Value;
use tf_lms::cli::Failure;

use crate::again::{self, Flags};
use crate::args::Args;

/// What one worker alone is not given: others, checkpoints, and the number of steps.
const OWN: Flags = Flags {
    switches: &["--json", "--data-parallel"],
    valued: &[
        "--workers",
        "--restarts",
        "--min-workers",
        "--against-one",
        "--resume",
        "--save",
        "--save-every",
        "--steps",
    ],
};

/// How fast one worker is alone on its machine, on the graph as it is trained without others.
#[derive(Debug, Clone, Copy, Serialize)]
pub struct One {
    /// That were measured.
    steps: u64,
    pub steps_per_second: f64,
    pub examples_per_second: Option<f64>,
}

/// All workers compared with one.
#[derive(Debug, Clone, Copy, Serialize)]
pub struct Scaling {
    pub one: One,
    /// The rate of all, as a multiple of one's.
    pub times: f64,
    /// That as part of the number of workers.
    pub efficiency: f64,
}

impl One {
    /// Trains that many steps, which nothing is kept of.
    pub fn measure(args: &Args, steps: u64) -> anyhow::Result<One> {
        // The last step may be recorded, and is then not measured.
        let flags = ["--json", "--supervised", "--steps", &(steps + 1).to_string()].map(str::to_string);
        let mut command = again::command(&flags, &OWN)?;
        for launcher in ["TF_CONFIG", "SLURM_PROCID", "OMPI_COMM_WORLD_RANK"] {
            command.env_remove(launcher);
        }
        if !args.verbosity.quiet {
            eprintln!("lms-train: measuring {steps} steps of one worker alone");
        }
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .context("cannot start a worker")?;
        // It ends with its standard input.
        let _open = child.stdin.take();
        let output = child.wait_with_output()?;
        if !output.status.success() {
            let failure = match output.status.code() {
                Some(2) => Failure::Usage,
                Some(3) => Failure::DoesNotFit,
                _ => bail!("one worker alone failed: {}", again::last_words(&output)),
            };
            return Err(failure.error(format!("one worker alone: {}", again::last_words(&output))));
        }
        let report: Value = serde_json::from_slice(&output.stdout).context("what one worker reported")?;
        let rate = |of: &str| report["rates"][of].as_f64();
        Ok(One {
            steps: report["steps"].as_u64().unwrap_or(steps),
            steps_per_second: rate("steps_per_second").context("one worker alone reported no rate")?,
            examples_per_second: rate("examples_per_second"),
        })
    }

    /// Compares the rates of several workers: in examples if they are counted, else in steps, which are of one size.
    pub fn against(self, steps: &[f64], examples: Option<&[f64]>) -> Scaling {
        let times = match (self.examples_per_second, examples) {
            (Some(one), Some(all)) => all.iter().sum::<f64>() / one,
            _ => steps.iter().sum::<f64>() / self.steps_per_second,
        };
        Scaling { one: self, times, efficiency: times / steps.len() as f64 }
    }
}

impl Display for One {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let examples = self.examples_per_second.map(|rate| format!(", {rate:.2} examples/s"));
        write!(
            f,
            "{:.2} steps/s{} in {} steps",
            self.steps_per_second,
            examples.unwrap_or_default(),
            self.steps
        )
    }
}
