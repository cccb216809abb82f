//! Workers that die, hang, or never come.

use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use lms_testing::program::{MNIST_REF, command, report};

/// Seconds that a worker is waited for in these tests.
const TIMEOUT: f64 = 3.0;

/// A training that would take for ever.
struct Endless {
    supervisor: Child,
    start: Instant,
}

impl Endless {
    fn start(flags: &[&str], until: &Path) -> Endless {
        let model = format!("testdata/{}.meta", MNIST_REF.model);
        let timeout = TIMEOUT.to_string();
        let base = [
            model.as_str(),
            "--device",
            "cpu",
            "--feed",
            MNIST_REF.feeds[0],
            "--threads",
            "1",
            "--warmup",
            "0",
        ];
        let all = ["--steps", "1000000", "--worker-timeout", &timeout];
        let mut command = command(&[&base[..], &all, flags].concat());
        let child = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
        let mut endless = Endless { supervisor: child, start: Instant::now() };
        while !until.is_file() {
            assert!(endless.supervisor.try_wait().unwrap().is_none(), "the run ended");
            assert!(endless.start.elapsed() < Duration::from_secs(120), "no checkpoint");
            thread::sleep(Duration::from_millis(5));
        }
        endless
    }

    /// The workers' processes, by their numbers.
    fn workers(&self) -> Vec<u32> {
        let mut found = Vec::new();
        for entry in fs::read_dir("/proc").unwrap().flatten() {
            let Ok(pid) = entry.file_name().to_string_lossy().parse::<u32>() else { continue };
            let read = |file: &str| fs::read_to_string(format!("/proc/{pid}/{file}")).unwrap_or_default();
            let parent = read("stat")
                .rsplit_once(") ")
                .and_then(|(_, rest)| rest.split(' ').nth(1)?.parse::<u32>().ok());
            if parent == Some(self.supervisor.id()) {
                let line = read("cmdline");
                let words: Vec<&str> = line.split('\0').collect();
                let rank = words
                    .iter()
                    .position(|word| *word == "--rank")
                    .map(|at| words[at + 1].parse::<u32>().unwrap());
                found.push((rank.unwrap(), pid));
            }
        }
        found.sort_unstable();
        found.into_iter().map(|(_, pid)| pid).collect()
    }

    /// The exit status, what was said, and how long it took.
    fn end(mut self) -> (Option<i32>, String, Duration) {
        let since = Instant::now();
        while self.supervisor.try_wait().unwrap().is_none() {
            assert!(since.elapsed() < Duration::from_secs(60), "the others hang");
            thread::sleep(Duration::from_millis(5));
        }
        let took = since.elapsed();
        let mut said = String::new();
        self.supervisor.stderr.take().unwrap().read_to_string(&mut said).unwrap();
        (self.supervisor.wait().unwrap().code(), said, took)
    }
}

impl Drop for Endless {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.supervisor.kill();
        let _ = self.supervisor.wait();
    }
}

fn signal(name: &str, pid: u32) {
    let sent = Command::new("kill").args([format!("-{name}"), pid.to_string()]).status().unwrap();
    assert!(sent.success());
}

fn is_alive(pid: u32) -> bool {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit_once(") ").is_some_and(|(_, rest)| !rest.starts_with('Z'))
}

/// Where a process listens, to streams and to datagrams: addresses as the kernel writes them, in hexadecimal.
fn listening(pid: u32) -> Vec<String> {
    let sockets: Vec<String> = fs::read_dir(format!("/proc/{pid}/fd"))
        .unwrap()
        .flatten()
        .filter_map(|entry| fs::read_link(entry.path()).ok())
        .filter_map(|link| Some(link.to_str()?.strip_prefix("socket:[")?.strip_suffix(']')?.to_string()))
        .collect();
    /// Of streams, and of datagrams that come from anywhere.
    const LISTENS: [&str; 2] = ["0A", "07"];
    let tables = ["tcp", "tcp6", "udp", "udp6"]
        .map(|table| fs::read_to_string(format!("/proc/{pid}/net/{table}")).unwrap_or_default());
    let rows =
        tables.iter().flat_map(|table| table.lines()).map(|line| line.split_whitespace().collect::<Vec<_>>());
    let own = rows.filter(|row| {
        row.len() > 9 && LISTENS.contains(&row[3]) && sockets.iter().any(|socket| socket == row[9])
    });
    own.filter_map(|row| Some(row[1].split_once(':')?.0.to_string())).collect()
}

/// 127.0.0.1, by itself or in an address of version 6, or ::1.
fn is_loopback(address: &str) -> bool {
    ["0100007F", "0000000000000000FFFF00000100007F", "00000000000000000000000001000000"].contains(&address)
}

/// Each worker in turn, killed and stopped: all others end, the one is named, and nothing is left behind.
#[test]
fn a_worker_that_dies_or_hangs_ends_all_and_is_named() {
    if lms_testing::tensorflow().is_none() {
        return;
    }
    for (how, victim) in [("KILL", 0), ("KILL", 1), ("STOP", 0), ("STOP", 1)] {
        let folder = tempfile::tempdir().unwrap();
        let prefix = folder.path().join("m").display().to_string();
        let flags = ["--workers", "2", "--save", &prefix, "--save-every", "5"];
        let endless = Endless::start(&flags, &folder.path().join("m-5.index"));
        let workers = endless.workers();
        assert_eq!(workers.len(), 2);
        signal(how, workers[victim]);
        let (status, said, took) = endless.end();
        assert_eq!(status, Some(4), "{said}");
        assert!(said.contains(&format!("worker {victim} ")), "{how} of worker {victim}: {said}");
        let said_how = if how == "KILL" { "was killed by signal 9" } else { "hangs" };
        assert!(said.contains(said_how), "{said}");
        assert!(took.as_secs_f64() <= TIMEOUT + 2.0, "{how} of worker {victim}: {took:?}");
        assert!(!workers.iter().any(|&pid| is_alive(pid)), "a worker is left");
    }
}

/// Workers go with the process that started them, even if nobody gives it time to end them.
#[test]
fn workers_do_not_outlive_the_process_that_started_them() {
    if lms_testing::tensorflow().is_none() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let prefix = folder.path().join("m").display().to_string();
    let flags = ["--workers", "2", "--save", &prefix, "--save-every", "5"];
    let endless = Endless::start(&flags, &folder.path().join("m-5.index"));
    let workers = endless.workers();
    // Meanwhile nobody else can reach them.
    for &pid in &workers {
        let addresses = listening(pid);
        assert!(
            addresses.len() >= 2 && addresses.iter().all(|address| is_loopback(address)),
            "{addresses:?}"
        );
    }
    drop(endless);
    let start = Instant::now();
    while workers.iter().any(|&pid| is_alive(pid)) {
        assert!(start.elapsed() < Duration::from_secs(10), "a worker goes on alone");
        thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn a_worker_that_never_comes_is_named() {
    if lms_testing::tensorflow().is_none() {
        return;
    }
    let free = || std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().to_string();
    let (own, other) = (free(), free());
    let model = format!("testdata/{}.meta", MNIST_REF.model);
    let cluster = format!("{own},{other}");
    let flags =
        [model.as_str(), "--device", "cpu", "--cluster", &cluster, "--rank", "0", "--start-timeout", "3"];
    let output = command(&flags).args(["--feed", MNIST_REF.feeds[0]]).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(4), "{said}");
    assert!(said.contains(&format!("worker 1 ({other}) is gone, or never came")), "{said}");
}

/// How graphs of the zoo are trained here: the same bits each time.
const ON_CPU: [&str; 8] =
    ["--device", "cpu", "--feed", "labels=randint:0:10", "--batch-size", "8", "--threads", "1"];

/// Killed in its midst and begun again from the last checkpoint, a training ends with the bits of one that was not. The graph draws no
/// random numbers: these would begin anew.
#[test]
fn a_training_that_was_begun_again_ends_as_an_unbroken_one() {
    let graphs = tempfile::tempdir().unwrap();
    if lms_testing::tensorflow().is_none() || !crate::zoo::make(graphs.path()) {
        return;
    }
    let model = graphs.path().join("clip_global.meta").display().to_string();
    let base = [&[model.as_str()], &ON_CPU[..]].concat();
    let all = ["--warmup", "0", "--steps", "1500", "--workers", "2", "--worker-timeout", "20", "--json"];
    let folder = tempfile::tempdir().unwrap();
    let prefix = folder.path().join("m").display().to_string();
    let save = ["--save", &prefix, "--save-every", "20", "--restarts", "2"];
    let unbroken = report(&command(&[&base[..], &all].concat()).output().unwrap());
    let mut broken = command(&[&base[..], &all, &save].concat());
    let child = broken.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut endless = Endless { supervisor: child, start: Instant::now() };
    while !folder.path().join("m-40.index").is_file() {
        assert!(endless.start.elapsed() < Duration::from_secs(120), "no checkpoint");
        thread::sleep(Duration::from_millis(1));
    }
    signal("KILL", endless.workers()[1]);
    let mut out = String::new();
    endless.supervisor.stdout.take().unwrap().read_to_string(&mut out).unwrap();
    let (status, said, _) = endless.end();
    assert_eq!(status, Some(0), "{said}");
    let again: serde_json::Value = serde_json::from_str(&out).unwrap();
    assert_eq!(again["restarts"], 1, "{said}");
    assert_eq!(again["variables_digest"], unbroken["variables_digest"], "{said}");
    // It went on from a checkpoint, and not from the beginning.
    let trained = again["losses"].as_array().unwrap().len();
    assert!((1..1500).contains(&trained), "{trained} steps after the kill");
}

/// Without the worker that failed, as those that are left would have gone on from that checkpoint; never with fewer than was said. What an
/// earlier run left in the folder is of a later step, and nobody goes on from that.
#[test]
fn the_others_go_on_without_the_worker_that_failed() {
    let graphs = tempfile::tempdir().unwrap();
    if lms_testing::tensorflow().is_none() || !crate::zoo::make(graphs.path()) {
        return;
    }
    let model = graphs.path().join("momentum.meta").display().to_string();
    let base = [&[model.as_str()], &ON_CPU[..]].concat();
    let all = ["--warmup", "0", "--steps", "600", "--worker-timeout", "20", "--json"];
    let folder = tempfile::tempdir().unwrap();
    let in_folder = |name: &str| folder.path().join(name);
    for end in ["index", "data-00000-of-00001"] {
        fs::write(in_folder(&format!("m-1400.{end}")), "of an earlier run").unwrap();
    }
    let prefix = in_folder("m").display().to_string();
    let save =
        ["--workers", "3", "--save", &prefix, "--save-every", "50", "--restarts", "2", "--min-workers", "2"];
    let mut broken = command(&[&base[..], &all, &save].concat());
    let child = broken.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut endless = Endless { supervisor: child, start: Instant::now() };
    let said = endless.supervisor.stderr.take().unwrap();
    let mut lines =
        BufReader::new(said).lines().map(Result::unwrap).filter(|line| line.contains("beginning again"));
    let mut from = Vec::new();
    for (round, victim) in [(0, 1), (1, 0)] {
        // The first round writes at 100; the second begins there or behind, and writes at least that of 50 steps later.
        let next = from.last().map_or(100, |step| step + 50);
        while !in_folder(&format!("m-{next}.index")).is_file() {
            assert!(endless.start.elapsed() < Duration::from_secs(120), "no checkpoint");
            thread::sleep(Duration::from_millis(1));
        }
        let workers = endless.workers();
        assert_eq!(workers.len(), 3 - round);
        signal("KILL", workers[victim]);
        let line = lines.next().unwrap();
        assert_eq!(line.contains("without it, on 2 workers"), round == 0, "{line}");
        let step = line.split("m-").nth(1).and_then(|rest| rest.split(' ').next()?.parse::<u64>().ok());
        from.push(step.unwrap_or_else(|| panic!("no checkpoint in {line}")));
    }
    let mut out = String::new();
    endless.supervisor.stdout.take().unwrap().read_to_string(&mut out).unwrap();
    assert_eq!(endless.supervisor.wait().unwrap().code(), Some(0));
    let trained: serde_json::Value = serde_json::from_str(&out).unwrap();
    assert_eq!((&trained["workers"], &trained["restarts"]), (&2.into(), &2.into()));
    assert_eq!(trained["left_out"], serde_json::json!([1]));
    let checkpoint = in_folder(&format!("m-{}", from[0])).display().to_string();
    let two = report(
        &command(&[&base[..], &all, &["--workers", "2", "--resume", &checkpoint]].concat()).output().unwrap(),
    );
    assert_eq!(two["losses"].as_array().unwrap().len() as u64, 600 - from[0]);
    assert_eq!(trained["variables_digest"], two["variables_digest"]);
}
