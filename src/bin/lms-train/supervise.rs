//! Several workers on this machine, started and watched.
//!
//! Each is this program once more, with `--cluster` and `--rank`. Their standard input stays open as long as this process lives: when it
//! ends, however it ends, they do. As soon as one of them fails, all are ended: a collective that has failed cannot be used again.

use std::collections::VecDeque;
use std::fmt::{self, Display};
use std::io::{BufRead, BufReader, Read};
use std::net::TcpListener;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Child, ExitStatus, Stdio};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use anyhow::Context;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use tf_lms::cli::{Failure, Page, Size};
use tf_lms::train::{Checkpoint, whole};

use crate::again::{self, Flags};
use crate::alone::{One, Scaling};
use crate::args::Args;
use crate::inspect::Reducing;
use crate::tasks::print;

/// What a worker is not given as it stands.
const OWN: Flags = Flags {
    switches: &["--json", "--supervised"],
    valued: &["--workers", "--cluster", "--rank", "--restarts", "--min-workers", "--against-one", "--resume"],
};

/// How often workers are looked at.
const LOOK: Duration = Duration::from_millis(20);

/// So many of a worker's last lines are kept.
const LINES: usize = 40;

/// What all workers came to.
#[derive(Debug, Serialize)]
struct Together {
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

/// Why a round ended early.
struct Failed {
    message: String,
    failure: Failure,
    /// The worker that did, if it is known.
    worker: Option<usize>,
}

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
                return print(args, &Together { restarts, left_out, ..Together::of(each, one) });
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

fn count_of_workers(count: usize) -> String {
    if count == 1 { "1 worker".to_string() } else { format!("{count} workers") }
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
    let count = places.len();
    let addresses = free_addresses(count)?;
    let cluster = addresses.join(",");
    let mut workers = Workers { all: Vec::new(), addresses };
    for (rank, place) in places.iter().enumerate() {
        let mut flags =
            vec!["--cluster".to_string(), cluster.clone(), "--rank".to_string(), rank.to_string()];
        flags.extend(["--json", "--supervised"].map(str::to_string));
        flags.extend(["--place".to_string(), place.to_string()]);
        if let Some(from) = resume {
            flags.extend(["--resume".to_string(), from.to_string_lossy().into_owned()]);
        }
        let mut command = again::command(&flags, &OWN)?;
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        workers.all.push(Worker::of(command.spawn().context("cannot start a worker")?));
    }
    loop {
        let mut all_ended = true;
        for rank in 0..count {
            let Some(status) = workers.all[rank].child.try_wait()? else {
                all_ended = false;
                continue;
            };
            if !status.success() {
                let failed = workers.why(rank, status);
                workers.end_all();
                return Ok(Err(failed));
            }
        }
        if all_ended {
            break;
        }
        thread::sleep(LOOK);
    }
    let mut each = Vec::new();
    for (rank, worker) in workers.all.iter_mut().enumerate() {
        let report = worker.report();
        let report =
            serde_json::from_str(&report).with_context(|| format!("worker {rank} reported {report:?}"))?;
        each.push(report);
    }
    Ok(Ok(each))
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

struct Worker {
    child: Child,
    stdout: Option<JoinHandle<String>>,
    last_lines: Arc<Mutex<VecDeque<String>>>,
}

impl Worker {
    fn of(mut child: Child) -> Worker {
        let stdout = child.stdout.take().map(|mut stdout| {
            thread::spawn(move || {
                let mut text = String::new();
                // What is no text is no report, which is seen there.
                let _ = stdout.read_to_string(&mut text);
                text
            })
        });
        let last_lines: Arc<Mutex<VecDeque<String>>> = Arc::default();
        if let Some(stderr) = child.stderr.take() {
            let lines = Arc::clone(&last_lines);
            thread::spawn(move || {
                for line in BufReader::new(stderr).lines().map_while(Result::ok) {
                    let mut lines = lines.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
                    if lines.len() == LINES {
                        lines.pop_front();
                    }
                    lines.push_back(line);
                }
            });
        }
        Worker { child, stdout, last_lines }
    }

    fn report(&mut self) -> String {
        self.stdout.take().and_then(|reader| reader.join().ok()).unwrap_or_default()
    }

    /// What it said last of its own.
    fn last_words(&self) -> Option<String> {
        // The thread that reads it may be behind.
        for _ in 0..10 {
            let lines = self.last_lines.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).clone();
            let start = lines.iter().rposition(|line| line.starts_with("lms-train: "));
            if let Some(start) = start {
                let words: Vec<&str> = lines.iter().skip(start).map(String::as_str).collect();
                return Some(words.join("\n").trim_start_matches("lms-train: ").to_string());
            }
            thread::sleep(LOOK);
        }
        None
    }
}

/// All workers; none of them outlives this.
struct Workers {
    all: Vec<Worker>,
    addresses: Vec<String>,
}

impl Workers {
    /// Why all must end, if this worker did first.
    fn why(&mut self, rank: usize, status: ExitStatus) -> Failed {
        // One that was killed is the cause; those that saw it go are not.
        for (other, worker) in self.all.iter_mut().enumerate() {
            if let Ok(Some(status)) = worker.child.try_wait()
                && let Some(signal) = status.signal()
            {
                return Failed {
                    message: format!("worker {other} was killed by signal {signal}"),
                    failure: Failure::OtherWorker,
                    worker: Some(other),
                };
            }
        }
        let words = self.all[rank].last_words();
        let failure = match status.code() {
            Some(2) => Failure::Usage,
            Some(3) => Failure::DoesNotFit,
            _ => Failure::OtherWorker,
        };
        let (message, worker) = match (words, status.code()) {
            (Some(words), Some(4)) => {
                let worker = self.named(&words);
                (words, worker)
            }
            (Some(words), _) => (format!("worker {rank} failed: {words}"), Some(rank)),
            (None, _) => (format!("worker {rank} failed: {status}"), Some(rank)),
        };
        Failed { message, failure, worker }
    }

    /// The worker that one of the others ended because of, by what that said: it gives the number and the address.
    fn named(&self, words: &str) -> Option<usize> {
        let named = |rank: usize, address: &str| words.contains(&format!("worker {rank} ({address})"));
        self.addresses.iter().enumerate().position(|(rank, address)| named(rank, address))
    }

    fn end_all(&mut self) {
        for worker in &mut self.all {
            // One that has ended cannot be killed, and need not be.
            let _ = worker.child.kill();
        }
        for worker in &mut self.all {
            let _ = worker.child.wait();
        }
    }
}

impl Drop for Workers {
    fn drop(&mut self) {
        self.end_all();
    }
}

impl Together {
    fn of(each: Vec<Value>, one: Option<One>) -> Together {
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
            restarts: 0,
            left_out: Vec::new(),
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
