//! Flags for a sweep over a size.

use std::path::PathBuf;

use clap::Args;

use super::SweepSpec;

/// The flags of a sweep.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Sweep")]
pub struct SweepArgs {
    /// Train at each of these sizes, each in a process of its own: without LMS until memory runs out, from there with the
    /// plan that the tuner finds, until that does not fit either. SIZES is `batch`, or dimensions of placeholders, counted
    /// from 0, as images:1,2 or volume:1,2,3+truth:1,2,3 [default for STEP: 1]
    #[arg(
        long,
        value_name = "SIZES=FIRST..LAST[/STEP]",
        conflicts_with_all = [
            "rewrite", "plan", "compare", "find_limit", "measure_link", "save", "trace", "profile", "op_times",
            "swapout_threshold", "swapin_ahead", "swapin_groupby", "sync_mode",
        ]
    )]
    pub sweep: Option<SweepSpec>,

    /// Have the simulator say what would be measured, and run no step; --device-profile says on which GPU
    #[arg(long, requires = "sweep")]
    pub predict: bool,

    /// Keep what is done in this file: the same command goes on from there if it was broken off
    #[arg(long, value_name = "FILE", requires = "sweep")]
    pub sweep_file: Option<PathBuf>,

    /// Write the sweep's table as CSV
    #[arg(long, value_name = "FILE", requires = "sweep")]
    pub csv: Option<PathBuf>,

    /// Draw rate, slowdown, bytes over the link and occupancy against size: FILE.svg, .png, or .html to point at values
    #[arg(long, value_name = "FILE", requires = "sweep")]
    pub plot: Option<PathBuf>,

    /// Train one point of a sweep, and say how it ended: what a sweep runs in processes of their own
    #[arg(long, hide = true)]
    pub sweep_point: bool,
}
