//! Flags for training together with other processes.

use std::env;
use std::path::PathBuf;

use anyhow::{Context, bail};
use clap::Args;
use tf_lms::cli::Failure;
use tf_lms::train::{Checkpoint, Cluster, Part, Share, Timeouts, checkpoint_at, newest};

/// Together with whom to train.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Several workers")]
pub struct ClusterArgs {
    /// Train on so many processes of this machine, each with a GPU of its own; ends all if one fails
    #[arg(
        long,
        value_name = "N",
        value_parser = clap::value_parser!(u16).range(1..=1024),
        conflicts_with_all = ["cluster", "compare", "find_limit", "measure_link", "sweep", "trace", "profile", "grappler_memory"]
    )]
    pub workers: Option<u16>,

    /// Be one of several workers, which listen at these addresses [default: as TF_CONFIG, Slurm or mpirun say]
    #[arg(long, value_name = "HOST:PORT,…", value_delimiter = ',', requires = "rank",
        conflicts_with_all = ["compare", "find_limit", "measure_link", "sweep", "grappler_memory"])]
    pub cluster: Vec<String>,

    /// The number of this worker, from 0
    #[arg(long, value_name = "I", requires = "cluster")]
    pub rank: Option<usize>,

    /// Where the first worker of a machine listens, and the others behind it, where Slurm or mpirun start them
    #[arg(long, value_name = "PORT", default_value_t = 29400)]
    pub port: u16,

    /// How long to wait for a worker in a step, in seconds
    #[arg(long, value_name = "SECONDS", default_value_t = 60.0, value_parser = seconds)]
    pub worker_timeout: f64,

    /// How long to wait for all to come [default: 120, or --worker-timeout if that is more]
    #[arg(long, value_name = "SECONDS", value_parser = seconds)]
    pub start_timeout: Option<f64>,

    /// How workers share the data that a graph reads by itself
    #[arg(long, value_name = "HOW", value_enum, default_value_t)]
    pub share_data: Share,

    /// When a worker fails, begin again from the newest checkpoint, so often at most
    #[arg(long, value_name = "K", default_value_t = 0, requires_all = ["workers", "save_every"])]
    pub restarts: u32,

    /// Begin again without the worker that failed, as long as so many are left [default: with all]
    #[arg(long, value_name = "N", requires = "restarts", value_parser = clap::value_parser!(u16).range(1..))]
    pub min_workers: Option<u16>,

    /// First measure so many steps of one worker alone, to say how the rate of all compares
    #[arg(long, value_name = "STEPS", requires = "workers", value_parser = clap::value_parser!(u64).range(1..))]
    pub against_one: Option<u64>,

    /// Go on from the newest whole checkpoint in this folder, or from the beginning if it has none; or from this checkpoint
    #[arg(long, value_name = "DIR", conflicts_with = "restore")]
    pub resume: Option<PathBuf>,

    /// The GPU that this worker takes, if it is not that of its number among those of its machine.
    #[arg(long, hide = true)]
    pub place: Option<usize>,

    /// Seconds to wait before each step, so that tests can make a worker fail between two.
    #[arg(long, hide = true, value_parser = seconds)]
    pub pause: Option<f64>,

    /// Whether a process waits at the other end of standard input, and nobody is to train without it.
    #[arg(long, hide = true)]
    pub supervised: bool,

    /// This worker and the others, once that is known.
    #[arg(skip)]
    pub found: Option<Cluster>,

    /// How many steps were trained before.
    #[arg(skip)]
    pub first_step: u64,
}

fn seconds(text: &str) -> Result<f64, String> {
    let seconds: f64 = text.parse().map_err(|_| "expected a number of seconds".to_string())?;
    if (0.1..=1e6).contains(&seconds) {
        Ok(seconds)
    } else {
        Err("expected 0.1 to 1000000 seconds".to_string())
    }
}

impl ClusterArgs {
    /// Finds out who trains together: by flags, else by what a launcher says.
    pub fn find(&mut self) -> anyhow::Result<()> {
        self.found = match self.rank {
            Some(rank) => Some(
                Cluster::new(self.cluster.clone(), rank)
                    .map_err(|error| Failure::Usage.error(format!("--cluster, --rank: {error}")))?,
            ),
            None => Cluster::of_environment(|name| env::var(name).ok(), self.port)?,
        };
        Ok(())
    }

    /// Finds the checkpoint to go on from; only worker 0 reads it, and gives it to the others.
    pub fn go_on(&mut self, all_steps: u64, restore: &mut Option<PathBuf>) -> anyhow::Result<()> {
        let Some(folder) = &self.resume else { return Ok(()) };
        let found = if folder.is_dir() { newest(folder) } else { checkpoint_at(folder) };
        let found = found.with_context(|| folder.display().to_string())?;
        let Some(Checkpoint { prefix, step, .. }) = found else { return Ok(()) };
        if step >= all_steps {
            bail!(
                "{}: is of step {step}, and {all_steps} were to be trained: give more --steps",
                prefix.display()
            );
        }
        self.first_step = step;
        if self.is_first() {
            *restore = Some(prefix);
        }
        Ok(())
    }

    /// Whether this process writes checkpoints.
    pub fn is_first(&self) -> bool {
        self.found.as_ref().is_none_or(|cluster| cluster.rank == 0)
    }

    /// This worker's number.
    pub fn own_rank(&self) -> usize {
        self.found.as_ref().map_or(0, |cluster| cluster.rank)
    }

    /// The part of the data that is this worker's.
    pub fn part(&self) -> Part {
        let workers = self.found.as_ref().map_or(1, Cluster::len);
        Part { workers, rank: self.own_rank(), share: self.share_data, steps_before: self.first_step }
    }

    /// How long to wait for the others.
    pub fn timeouts(&self) -> Timeouts {
        const START: f64 = 120.0;
        let start = self.start_timeout.unwrap_or(START.max(self.worker_timeout));
        Timeouts { step: self.worker_timeout, start }
    }
}
