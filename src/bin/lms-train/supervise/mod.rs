//! Several workers on this machine, started and watched.
//!
//! Each is this program once more, with `--cluster` and `--rank`. Their standard input stays open as long as this process lives: when it
//! ends, however it ends, they do. As soon as one of them fails, all are ended: a collective that has failed cannot be used again.

mod processes;
mod together;

use std::net::TcpListener;
use std::path::Path;

use anyhow::Context;
use serde_json::Value;
use tf_lms::cli::Failure;
use tf_lms::train::{Checkpoint, whole};

use crate::again::{self, Flags};
use crate::alone::One;
use crate::args::Args;
use crate::tasks::print;
use processes::{Failed, Workers};
use together::Together;

/// What a worker is not given as it stands.
const OWN: Flags = Flags {
    switches: &["--json", "--supervised"],
    valued: &["--workers", "--cluster", "--rank", "--restarts", "--min-workers", "--against-one", "--resume"],
};

/// Trains on several processes, again if one fails and that was asked for.
pub fn supervise(args: &Args) -> anyhow::Result<()> {
    let workers = usize::from(args.cluster.workers.unwrap_or(1));
    let least = args.cluster.min_workers.map_or(workers, usize::from);
    if least > workers {
        return Err(Failure::Usage.error(format!("--min-workers {least}: --workers starts {workers}")));
    }
    let one = args.cluster.against_one.map(|steps| One::measure(args, steps)).transpose()?;
    // What earlier runs left in the folder is not of this one.
    let old = saved(args);
    let mut resume = args.cluster.resume.clone();
    // Each worker keeps its GPU when others are left out.
    let mut places: Vec<usize> = (0..workers).collect();
    let mut restarts = 0;
    loop {
        match round(&places, resume.as_deref())? {
            Ok(each) => {
                check_same(&each)?;
                let left_out = (0..workers).filter(|place| !places.contains(place)).collect();
                return print(args, &Together::of(each, restarts, left_out, one));
            }
            Err(failed) => {
                let is_last =
                    restarts >= args.cluster.restarts || !matches!(failed.failure, Failure::OtherWorker);
                if is_last {
                    return Err(failed.failure.error(failed.message));
                }
                restarts += 1;
                let without = failed.worker.filter(|_| places.len() > least).map(|rank| places.remove(rank));
                resume = saved(args)
                    .into_iter()
                    .rfind(|found| !old.contains(found))
                    .map(|new| new.prefix)
                    .or(resume);
                if !args.verbosity.quiet {
                    let all = args.cluster.restarts;
                    let without = match without {
                        Some(_) => format!(" without it, on {}", count_of_workers(places.len())),
                        None => String::new(),
                    };
                    let from = resume.as_ref().map(|from| format!(" from {}", from.display()));
                    eprintln!(
                        "lms-train: {}; beginning again{}{without} ({restarts} of {all})",
                        failed.message,
                        from.unwrap_or_default()
                    );
                }
            }
        }
    }
}

/// The whole checkpoints where this run writes its own.
fn saved(args: &Args) -> Vec<Checkpoint> {
    let Some(prefix) = &args.save else { return Vec::new() };
    let folder = prefix.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    // A folder that is not there yet has none.
    let mut found = whole(folder).unwrap_or_default();
    let name =
        |path: &Path| path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    found.retain(|found| name(&found.prefix) == format!("{}-{}", name(prefix), found.step));
    found
}

/// All workers must end with the same variables, to the bit.
fn check_same(each: &[Value]) -> anyhow::Result<()> {
    let digest = |report: &Value| report["variables_digest"].as_str().map(str::to_string);
    let first = each.first().and_then(digest);
    match each.iter().position(|report| digest(report) != first) {
        None => Ok(()),
        Some(other) => Err(anyhow::anyhow!(
            "workers 0 and {other} ended with other variables, so what they computed is worth nothing: were they fed other settings?"
        )),
    }
}

/// Runs a worker at each of these places to their end, or to that of the first that fails.
fn round(places: &[usize], resume: Option<&Path>) -> anyhow::Result<Result<Vec<Value>, Failed>> {
    let addresses = free_addresses(places.len())?;
    let cluster = addresses.join(",");
    let mut workers = Workers::at(addresses);
    for (rank, place) in places.iter().enumerate() {
        let mut flags =
            vec!["--cluster".to_string(), cluster.clone(), "--rank".to_string(), rank.to_string()];
        flags.extend(["--json", "--supervised"].map(str::to_string));
        flags.extend(["--place".to_string(), place.to_string()]);
        if let Some(from) = resume {
            flags.extend(["--resume".to_string(), from.to_string_lossy().into_owned()]);
        }
        workers.start(again::command(&flags, &OWN)?)?;
    }
    let reports = match workers.wait()? {
        Ok(reports) => reports,
        Err(failed) => return Ok(Err(failed)),
    };
    let parse = |(rank, report): (usize, String)| {
        serde_json::from_str(&report).with_context(|| format!("worker {rank} reported {report:?}"))
    };
    reports.into_iter().enumerate().map(parse).collect::<anyhow::Result<_>>().map(Ok)
}

fn count_of_workers(count: usize) -> String {
    if count == 1 { "1 worker".to_string() } else { format!("{count} workers") }
}

/// Places on the loopback device where nobody listens.
fn free_addresses(count: usize) -> anyhow::Result<Vec<String>> {
    // All at once, so that they differ.
    let listeners: Vec<TcpListener> = (0..count)
        .map(|_| TcpListener::bind("127.0.0.1:0"))
        .collect::<Result<_, _>>()
        .context("no port is free for a worker")?;
    let addresses: Result<Vec<String>, _> =
        listeners.iter().map(|listener| listener.local_addr().map(|address| address.to_string())).collect();
    Ok(addresses?)
}
