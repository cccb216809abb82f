//! The workers as processes: what each says, how each ends, and which of them was the first to fail.

use std::collections::VecDeque;
use std::io::{BufRead, BufReader, Read};
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use anyhow::Context;
use tf_lms::cli::Failure;

use crate::blame::HANGS;
use crate::workers::OTHER_WORKER;

/// How often workers are looked at.
const LOOK: Duration = Duration::from_millis(20);

/// How long a worker may take to end once it has failed.
const LAST_STEPS: Duration = Duration::from_secs(1);

/// So many of a worker's last lines are kept.
const LINES: usize = 40;

/// Why a round ended early.
#[derive(Debug)]
pub struct Failed {
    pub message: String,
    pub failure: Failure,
    /// The worker that did, if it is known.
    pub worker: Option<usize>,
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
pub struct Workers {
    all: Vec<Worker>,
    addresses: Vec<String>,
}

impl Workers {
    /// No workers yet; where each is to listen.
    pub fn at(addresses: Vec<String>) -> Workers {
        Workers { all: Vec::new(), addresses }
    }

    /// Starts the next worker.
    pub fn start(&mut self, mut command: Command) -> anyhow::Result<()> {
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        self.all.push(Worker::of(command.spawn().context("cannot start a worker")?));
        Ok(())
    }

    /// What each wrote on its standard output; or why all were ended.
    pub fn wait(&mut self) -> anyhow::Result<Result<Vec<String>, Failed>> {
        loop {
            let mut all_ended = true;
            for rank in 0..self.all.len() {
                let Some(status) = self.all[rank].child.try_wait()? else {
                    all_ended = false;
                    continue;
                };
                if !status.success() {
                    let failed = self.why(rank, status);
                    self.end_all();
                    return Ok(Err(failed));
                }
            }
            if all_ended {
                return Ok(Ok(self.all.iter_mut().map(Worker::report).collect()));
            }
            thread::sleep(LOOK);
        }
    }

    /// Why all must end, if this worker was seen to have ended first.
    fn why(&mut self, rank: usize, status: ExitStatus) -> Failed {
        if status.code() == Some(OTHER_WORKER)
            && let Some(words) = self.all[rank].last_words()
        {
            let named = self.named(&words);
            let awaited = match named {
                // That one will not end.
                _ if words.contains(HANGS) => Vec::new(),
                Some(named) => vec![named],
                None => (0..self.all.len()).collect(),
            };
            return match self.ended_by_itself(&awaited) {
                Some((cause, status)) => self.own_end(cause, status),
                None => Failed { message: words, failure: Failure::OtherWorker, worker: named },
            };
        }
        // One that was killed is the cause; those that saw it go are not.
        let killed = self.ended().into_iter().find(|(_, status)| status.signal().is_some());
        let (cause, status) = killed.unwrap_or((rank, status));
        self.own_end(cause, status)
    }

    /// A worker that ended because of no other, and how. The awaited ones may be just about to: a reduce fails on all workers as
    /// soon as it fails on one, and who fails first need not be the first to end.
    fn ended_by_itself(&mut self, awaited: &[usize]) -> Option<(usize, ExitStatus)> {
        let started = Instant::now();
        loop {
            let ended = self.ended();
            let own = |status: ExitStatus| !status.success() && status.code() != Some(OTHER_WORKER);
            if let Some(&found) = ended.iter().find(|(_, status)| own(*status)) {
                return Some(found);
            }
            let has_ended = |awaited: &usize| ended.iter().any(|(rank, _)| rank == awaited);
            if awaited.iter().all(has_ended) || started.elapsed() > LAST_STEPS {
                return None;
            }
            thread::sleep(LOOK);
        }
    }

    /// The workers that have ended, and how.
    fn ended(&mut self) -> Vec<(usize, ExitStatus)> {
        let status = |worker: &mut Worker| worker.child.try_wait().ok().flatten();
        self.all.iter_mut().enumerate().filter_map(|(rank, worker)| Some((rank, status(worker)?))).collect()
    }

    /// What it means that a worker ended in this way, because of no other.
    fn own_end(&self, rank: usize, status: ExitStatus) -> Failed {
        let failure = match status.code() {
            Some(2) => Failure::Usage,
            Some(3) => Failure::DoesNotFit,
            _ => Failure::OtherWorker,
        };
        let message = match (status.signal(), self.all[rank].last_words()) {
            (Some(signal), _) => format!("worker {rank} was killed by signal {signal}"),
            (None, Some(words)) => format!("worker {rank} failed: {words}"),
            (None, None) => format!("worker {rank} failed: {status}"),
        };
        Failed { message, failure, worker: Some(rank) }
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

#[cfg(test)]
mod tests {
    use super::*;

    /// Workers that are shell scripts, at ports 1, 2, ….
    fn workers(scripts: &[&str]) -> Workers {
        let mut workers = Workers::at((1..=scripts.len()).map(|port| format!("127.0.0.1:{port}")).collect());
        for script in scripts {
            let mut command = Command::new("sh");
            command.args(["-c", script]);
            workers.start(command).unwrap();
        }
        workers
    }

    fn failed(scripts: &[&str]) -> (Failed, Duration) {
        let started = Instant::now();
        let failed = workers(scripts).wait().unwrap().expect_err("a worker fails");
        (failed, started.elapsed())
    }

    #[test]
    fn reports_come_in_the_order_of_ranks() {
        let reports = workers(&["sleep 0.2; echo first", "echo second"]).wait().unwrap();
        assert_eq!(reports.ok().unwrap(), ["first\n", "second\n"]);
    }

    #[test]
    fn who_failed_first_is_the_cause_though_it_ends_later() {
        let saw_it = "echo 'lms-train: worker 0: step 1: worker 1 (127.0.0.1:2) failed: gone' >&2; exit 4";
        let out_of_memory = "sleep 0.3; echo 'lms-train: out of memory' >&2; exit 3";
        let (failed, _) = failed(&[saw_it, out_of_memory]);
        assert_eq!((failed.failure, failed.worker), (Failure::DoesNotFit, Some(1)));
        assert_eq!(failed.message, "worker 1 failed: out of memory");
    }

    #[test]
    fn who_was_killed_is_the_cause_though_nobody_named_it() {
        let saw_it = "echo 'lms-train: worker 0: step 1: another worker failed: cancelled' >&2; exit 4";
        let (failed, _) = failed(&[saw_it, "sleep 0.3; kill -9 $$"]);
        assert_eq!((failed.failure, failed.worker), (Failure::OtherWorker, Some(1)));
        assert_eq!(failed.message, "worker 1 was killed by signal 9");
    }

    #[test]
    fn one_that_goes_on_is_waited_for_a_little() {
        let named = "echo 'lms-train: worker 0: step 1: worker 1 (127.0.0.1:2) failed: gone' >&2; exit 4";
        let (failed, took) = failed(&[named, "exec sleep 30"]);
        assert_eq!((failed.failure, failed.worker), (Failure::OtherWorker, Some(1)));
        assert!(took >= LAST_STEPS && took < LAST_STEPS * 5, "{took:?}");
    }

    #[test]
    fn one_that_hangs_is_not_waited_for() {
        let hangs = format!("echo 'lms-train: worker 0: step 1: worker 1 (127.0.0.1:2) {HANGS}' >&2; exit 4");
        let (failed, took) = failed(&[&hangs, "exec sleep 30"]);
        assert_eq!((failed.failure, failed.worker), (Failure::OtherWorker, Some(1)));
        assert!(took < LAST_STEPS, "{took:?}");
    }
}
