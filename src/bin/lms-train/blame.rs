//! Which worker a run failed because of, if it was not this one.

use tf_lms::runtime::{Code, Status};
use tf_lms::train::{Beacon, Cluster, Presence, Timeouts, Whereabouts, ask};

/// What is said of a worker that is there and does nothing.
pub const HANGS: &str = "hangs: it listens, and does not answer";

/// Whether another worker's failure can be why a run ended like this.
pub fn may_be_of_another(status: &Status) -> bool {
    let of_others =
        [Code::Unavailable, Code::DeadlineExceeded, Code::Aborted, Code::Cancelled, Code::FailedPrecondition];
    of_others.contains(&status.code) || status.message.contains("ollective")
}

/// Why a run failed.
pub struct Blame {
    /// The other workers' addresses.
    pub others: Vec<String>,
    /// The worker that it failed because of, if that is known.
    pub worker: Option<usize>,
    /// A sentence about it.
    pub why: String,
}

/// Another worker, as it was found.
struct Found {
    rank: usize,
    presence: Presence,
    /// Whether it said that it ends, and because of whom.
    left: Option<Option<usize>>,
}

impl Blame {
    /// Asks the others.
    pub fn of(cluster: &Cluster, beacon: &Beacon, timeouts: Timeouts, status: &Status) -> Blame {
        let own = beacon.fail();
        let ranks: Vec<usize> = (0..cluster.len()).filter(|&rank| rank != cluster.rank).collect();
        let others: Vec<String> = ranks.iter().map(|&rank| cluster.addresses[rank].clone()).collect();
        let found: Vec<Found> = ask(&others)
            .into_iter()
            .zip(ranks)
            .map(|(presence, rank)| Found { rank, presence, left: beacon.left(rank) })
            .collect();
        let (worker, why) = judge(cluster, own, &found, timeouts, status);
        Blame { others, worker, why }
    }
}

fn judge(
    cluster: &Cluster,
    own: Whereabouts,
    found: &[Found],
    timeouts: Timeouts,
    status: &Status,
) -> (Option<usize>, String) {
    let name = |rank: usize| match cluster.addresses.get(rank) {
        Some(address) => format!("worker {rank} ({address})"),
        None => format!("worker {rank}"),
    };
    let missing = || {
        found.iter().filter_map(|other| match (other.presence, other.left) {
            (Presence::Answers(_), _) => None,
            (Presence::Silent, _) => Some((other.rank, HANGS)),
            (Presence::Gone, None) => Some((other.rank, "is gone, or never came")),
            (Presence::Gone, Some(because)) => {
                (because == Some(other.rank)).then_some((other.rank, "was late, and has ended"))
            }
        })
    };
    if let Some((first, _)) = missing().next() {
        let all: Vec<String> = missing().map(|(rank, what)| format!("{} {what}", name(rank))).collect();
        return (Some(first), all.join("; "));
    }
    // Another one found out, and has ended since.
    let told = found.iter().find_map(|other| Some((other.rank, other.left??)));
    if status.code != Code::DeadlineExceeded {
        let message = status.message.as_str();
        return match (told, named_task(message, found)) {
            (Some((by, of)), _) => (Some(of), format!("it was {}, as worker {by} said", name(of))),
            (None, Some(rank)) => (Some(rank), format!("{} failed: {message}", name(rank))),
            (None, None) => (None, format!("another worker failed: {message}")),
        };
    }
    let Timeouts { step, start } = timeouts;
    let else_longer = format!(
        "if that is no fault, give a longer --worker-timeout ({step} s), or --start-timeout ({start} s) for the beginning and the first step"
    );
    let late = late(own, found);
    if !late.is_empty() {
        let all: Vec<String> =
            late.iter().map(|(rank, at)| format!("{} is late: {at}", name(*rank))).collect();
        return (Some(late[0].0), format!("{}; {else_longer}", all.join("; ")));
    }
    if let Some((by, of)) = told {
        return (Some(of), format!("it was {}, as worker {by} said", name(of)));
    }
    let known: Vec<(usize, Whereabouts)> = found.iter().filter_map(Found::whereabouts).collect();
    let all_wait = known.len() == found.len()
        && known.iter().all(|(_, at)| at.progress() >= own.progress() && !at.computes());
    if own.computes() && all_wait {
        let (rank, others) =
            (cluster.rank, if found.len() == 1 { "the other waits" } else { "all others wait" });
        return (Some(rank), format!("{} itself is late, and {others}: {own}; {else_longer}", name(rank)));
    }
    let mut each: Vec<String> = known.iter().map(|(rank, at)| format!("{}: {at}", name(*rank))).collect();
    each.push(format!("this one: {own}"));
    let each = each.join("; ");
    (None, format!("all workers answer, but one did not come to a reduce in time ({each}): {else_longer}"))
}

impl Found {
    fn whereabouts(&self) -> Option<(usize, Whereabouts)> {
        match self.presence {
            Presence::Answers(at) => Some((self.rank, at?)),
            Presence::Silent | Presence::Gone => None,
        }
    }
}

/// Those that this worker waited for: they have not come to where it is, or still compute while it does not.
fn late(own: Whereabouts, found: &[Found]) -> Vec<(usize, Whereabouts)> {
    let of = |is_late: &dyn Fn(Whereabouts) -> bool| -> Vec<_> {
        found.iter().filter_map(Found::whereabouts).filter(|(_, at)| is_late(*at)).collect()
    };
    let behind = of(&|at| at.progress() < own.progress());
    if !behind.is_empty() || own.computes() {
        return behind;
    }
    of(&|at| at.progress() == own.progress() && at.computes())
}

/// The worker that TensorFlow names.
fn named_task(message: &str, found: &[Found]) -> Option<usize> {
    let names = |rank: usize| {
        // Task 1 is not meant where task 10 is named.
        let name = format!("task:{rank}");
        message.split(&name).skip(1).any(|rest| !rest.starts_with(|next: char| next.is_ascii_digit()))
    };
    found.iter().map(|other| other.rank).find(|&rank| names(rank))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use tf_lms::train::Phase;

    const TIMEOUTS: Timeouts = Timeouts { step: 60.0, start: 120.0 };
    /// How long ago who waits, and who computes, last computed.
    const WAITS: f64 = 50.0;
    const COMPUTES: f64 = 0.1;

    fn at(phase: Phase, step: u64, idle: f64) -> Whereabouts {
        Whereabouts { phase, step, since: Duration::from_secs(63), idle: Duration::from_secs_f64(idle) }
    }

    fn answers(rank: usize, phase: Phase, step: u64, idle: f64) -> Found {
        Found { rank, presence: Presence::Answers(Some(at(phase, step, idle))), left: None }
    }

    /// As worker 0 of all sees it, in step 12.
    fn judged(idle: f64, found: &[Found], code: Code) -> (Option<usize>, String) {
        let addresses = (0..=found.len()).map(|rank| format!("10.0.0.{rank}:7000")).collect();
        let cluster = Cluster::new(addresses, 0).unwrap();
        let status = Status { code, message: "from task:10, task:1".to_string() };
        judge(&cluster, at(Phase::Step, 12, idle), found, TIMEOUTS, &status)
    }

    fn in_time(idle: f64, found: &[Found]) -> (Option<usize>, String) {
        judged(idle, found, Code::DeadlineExceeded)
    }

    #[test]
    fn who_has_not_come_to_the_step_is_late() {
        for (phase, step, said) in [
            (Phase::Saves, 12, "it has been writing a checkpoint for 63.0 s"),
            (Phase::Between, 12, "it has been on its way to step 12 for 63.0 s"),
            (Phase::Step, 11, "it has been in step 11 for 63.0 s, the last 50.0 s of them idle"),
            (Phase::Prepares, 0, "it has been preparing its graph for 63.0 s"),
        ] {
            // Whether this one computes does not matter: the other cannot wait for it.
            for idle in [WAITS, COMPUTES] {
                let found = [answers(1, Phase::Step, 12, COMPUTES), answers(2, phase, step, WAITS)];
                let (worker, why) = in_time(idle, &found);
                assert_eq!(worker, Some(2), "{why}");
                assert!(why.starts_with(&format!("worker 2 (10.0.0.2:7000) is late: {said}; if")), "{why}");
            }
        }
    }

    #[test]
    fn who_still_computes_where_others_wait_is_late() {
        let found = [answers(1, Phase::Step, 12, WAITS), answers(2, Phase::Step, 12, COMPUTES)];
        let (worker, why) = in_time(WAITS, &found);
        assert_eq!(worker, Some(2), "{why}");
        assert!(why.contains("in step 12 for 63.0 s, and still computes"), "{why}");
        let found = [answers(1, Phase::Step, 12, WAITS), answers(2, Phase::Between, 13, WAITS)];
        let (worker, why) = in_time(COMPUTES, &found);
        assert_eq!(worker, Some(0), "{why}");
        assert!(why.starts_with("worker 0 (10.0.0.0:7000) itself is late, and all others wait: "), "{why}");
    }

    #[test]
    fn where_nobody_can_know_all_is_told() {
        let not_known = Found { rank: 2, presence: Presence::Answers(None), left: None };
        for (idle, found) in [
            (WAITS, vec![answers(1, Phase::Step, 12, WAITS)]),
            (COMPUTES, vec![answers(1, Phase::Step, 12, COMPUTES)]),
            (COMPUTES, vec![answers(1, Phase::Step, 12, WAITS), not_known]),
        ] {
            let (worker, why) = in_time(idle, &found);
            assert_eq!(worker, None, "{why}");
            assert!(why.contains("worker 1 (10.0.0.1:7000): it has been in step 12"), "{why}");
            assert!(why.contains("this one: it has been in step 12"), "{why}");
        }
    }

    #[test]
    fn who_ended_because_of_another_is_not_the_cause() {
        let gone = |rank: usize, left: Option<Option<usize>>| Found { rank, presence: Presence::Gone, left };
        let hangs = Found { rank: 2, presence: Presence::Silent, left: None };
        let (worker, why) = in_time(WAITS, &[gone(1, Some(Some(2))), hangs]);
        assert_eq!((worker, why.as_str()), (Some(2), format!("worker 2 (10.0.0.2:7000) {HANGS}").as_str()));
        let waits = || answers(2, Phase::Step, 12, WAITS);
        for code in [Code::DeadlineExceeded, Code::Unavailable] {
            let (worker, why) = judged(WAITS, &[gone(1, Some(Some(2))), waits()], code);
            assert_eq!(worker, Some(2), "{why}");
            assert_eq!(why, "it was worker 2 (10.0.0.2:7000), as worker 1 said");
            let (worker, why) = judged(WAITS, &[gone(1, Some(Some(1))), waits()], code);
            assert_eq!((worker, why.as_str()), (Some(1), "worker 1 (10.0.0.1:7000) was late, and has ended"));
            let (worker, why) = judged(WAITS, &[gone(1, None), waits()], code);
            assert_eq!((worker, why.as_str()), (Some(1), "worker 1 (10.0.0.1:7000) is gone, or never came"));
        }
        let (worker, why) = judged(WAITS, &[waits(), answers(1, Phase::Step, 12, WAITS)], Code::Unavailable);
        assert_eq!(worker, Some(1), "{why}");
    }
}
