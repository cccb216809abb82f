//! The least memory in which a graph trains.

use std::fmt::{self, Display};
use std::process::Command;

use anyhow::{Context, bail};
use serde::Serialize;
use tf_lms::cli::{Failure, Size};
use tf_lms::train::DeviceChoice;
use tf_lms::tune::{first_guess, least_memory};

use crate::again::{self, Flags};
use crate::args::Args;
use crate::tasks::print;

/// The search ends when the bounds are this near: a sixty-fourth, or 256 KiB.
const NEAR: u64 = 64;
const LEAST_DISTANCE: u64 = 256 << 10;
/// Where the search begins if nothing else is said.
const PLENTY: u64 = 16 << 30;

#[derive(Debug, Serialize)]
struct Limit {
    schema: u32,
    model: String,
    rewritten: bool,
    /// The least memory in which it trained; so it did in all larger ones that were tried.
    trains_bytes: u64,
    /// A smaller one in which it did not; zero if there is none.
    fails_bytes: u64,
    probes: Vec<Probe>,
}

#[derive(Debug, Clone, Serialize)]
struct Probe {
    bytes: u64,
    ending: Ending,
}

/// How a probe ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
enum Ending {
    Trained,
    OutOfMemory,
    /// Neither: what the process said last.
    Crashed(String),
}

/// Searches and reports.
pub fn find_limit(args: &Args) -> anyhow::Result<()> {
    let is_soft = matches!(args.device, DeviceChoice::Soft { .. });
    if !args.device.is_gpu() {
        return Err(Failure::Usage.error("--find-limit needs a GPU: --device soft or --device gpu"));
    }
    if args.model.input.as_deref() == Some("-".as_ref()) {
        return Err(Failure::Usage.error("--find-limit reads the model many times: give a file"));
    }
    let mut search = LimitSearch { args, probes: Vec::new() };
    // A GPU's own memory is what there is; the software GPU has as much as it is told.
    let start = match &args.device {
        device if is_soft && device.memory().is_none() => device.with_memory(PLENTY),
        device => Some(device.clone()),
    };
    let start = start.context("a device without memory")?;
    let peak = search.peak(&start, is_soft)?;
    // Nobody says how much a GPU without a limit has; if less than this, the probe that asks for it fails like any other.
    let most = start.memory().unwrap_or(peak.saturating_mul(2));
    let nearness = |bytes: u64| (bytes / NEAR).max(LEAST_DISTANCE);
    let Some(found) = least_memory(first_guess(peak), most, nearness, |limit| search.probe(limit))? else {
        bail!("does not train in {}, although it took {} without a limit", Size(most), Size(peak));
    };
    let name = args.model.source().name();
    let rewritten = args.rewrites();
    print(
        args,
        &Limit {
            schema: 1,
            model: name,
            rewritten,
            trains_bytes: found.enough_bytes,
            fails_bytes: found.too_little_bytes,
            probes: search.probes,
        },
    )
}

struct LimitSearch<'a> {
    args: &'a Args,
    probes: Vec<Probe>,
}

impl LimitSearch<'_> {
    /// The bytes in use with plenty of memory.
    fn peak(&mut self, device: &DeviceChoice, exact: bool) -> anyhow::Result<u64> {
        let flags: &[&str] = if exact { &["--json", "--exact-memory"] } else { &["--json"] };
        let output = self.command(device, flags)?.output().context("cannot start a probe")?;
        if !output.status.success() {
            let text = String::from_utf8_lossy(&output.stderr);
            bail!("does not train on {device} either: {}", text.trim());
        }
        let report: serde_json::Value = serde_json::from_slice(&output.stdout).context("a probe's report")?;
        report["memory"]["peak_bytes"].as_u64().context("a probe's report has no peak")
    }

    /// Whether it trains.
    fn probe(&mut self, limit: u64) -> anyhow::Result<bool> {
        let device = self.args.device.with_memory(limit).context("a device without memory")?;
        let output = self.command(&device, &["--quiet"])?.output().context("cannot start a probe")?;
        let ending = match output.status.code() {
            Some(0) => Ending::Trained,
            Some(3) => Ending::OutOfMemory,
            _ => Ending::Crashed(again::last_words(&output)),
        };
        if !self.args.verbosity.quiet {
            eprintln!("{:>12}  {ending}", Size(limit).to_string());
        }
        let trained = ending == Ending::Trained;
        self.probes.push(Probe { bytes: limit, ending });
        Ok(trained)
    }

    /// This program with this process's flags, but for those that the search sets.
    fn command(&self, device: &DeviceChoice, more: &[&str]) -> anyhow::Result<Command> {
        let flags = Flags {
            switches: &["--find-limit", "--json", "--quiet", "-q", "--verbose", "-v", "--exact-memory"],
            valued: &["--device", "--steps", "--warmup"],
        };
        let device = device.to_string();
        let set = [&["--device", &device, "--steps", "2", "--warmup", "1"], more].concat();
        Ok(again::command(&set, &flags)?)
    }
}

impl Display for Ending {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Ending::Trained => f.write_str("trains"),
            Ending::OutOfMemory => f.write_str("out of memory"),
            Ending::Crashed(how) => write!(f, "crashed: {how}"),
        }
    }
}

impl Display for Limit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let what = if self.rewritten { "rewritten" } else { "as it is" };
        writeln!(
            f,
            "{}, {what}: trains in {}, does not in {}",
            self.model,
            Size(self.trains_bytes),
            Size(self.fails_bytes)
        )?;
        let crashes = self.probes.iter().filter(|probe| matches!(probe.ending, Ending::Crashed(_))).count();
        if crashes > 0 {
            writeln!(
                f,
                "  {crashes} of {} probes crashed, which is not running out of memory",
                self.probes.len()
            )?;
        }
        Ok(())
    }
}
