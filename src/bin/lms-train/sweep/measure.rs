//! Has a point trained in a process of its own, and listens to what it says.

use anyhow::{Context, bail};
use clap::ValueEnum;
use tf_lms::cli::{Failure, GraphArgs};
use tf_lms::train::GrapplerMemory;

use super::ground::Ground;
use super::point::Answer;
use super::rows::{Ending, Mode, Outcome};
use crate::again::{self, Flags};

/// What a sweep sets itself for each point, or keeps to itself.
const SET: Flags = Flags {
    switches: &["--json", "--quiet", "-q", "--verbose", "-v"],
    valued: &[
        "--sweep",
        "--sweep-file",
        "--csv",
        "--plot",
        "--device",
        "--gpu-mem",
        "--batch-size",
        "--shape",
        "--grappler-memory",
    ],
};

/// Trains a point.
///
/// # Errors
///
/// If the flags are wrong for every point, or no process can be started.
pub fn measure(
    ground: &Ground,
    args: &GraphArgs,
    mode: Mode,
    grappler: Option<GrapplerMemory>,
) -> anyhow::Result<Answer> {
    let mut set = vec!["--sweep-point".to_string(), "--quiet".to_string()];
    set.extend(["--device".to_string(), ground.device.to_string()]);
    match mode {
        Mode::WithoutLms => {}
        Mode::ByGrappler => {
            let how = grappler.and_then(|how| how.to_possible_value());
            set.extend(how.map(|how| format!("--grappler-memory={}", how.get_name())));
        }
        Mode::WithLms => {
            let memory: Vec<String> = ground.gpu_mem.iter().map(ToString::to_string).collect();
            set.extend(["--gpu-mem".to_string(), memory.join(",")]);
        }
    }
    set.extend(args.batch_size.iter().flat_map(|size| ["--batch-size".to_string(), size.to_string()]));
    set.extend(args.shapes.iter().flat_map(|shape| ["--shape".to_string(), shape.to_string()]));
    let output = again::command(&set, &SET)?.output().context("cannot start a process for a point")?;
    match output.status.code() {
        Some(0) => serde_json::from_slice(&output.stdout).context("what the process of a point says"),
        Some(2) => {
            let text = String::from_utf8_lossy(&output.stderr);
            let text = text.trim();
            Err(Failure::Usage.error(text.strip_prefix("lms-train: ").unwrap_or(text)))
        }
        Some(130) => bail!("interrupted"),
        _ => Ok(Answer::Ended(Ending::other(Outcome::Crashed, again::last_words(&output)))),
    }
}
