//! Where a worker is in its training, for the others to ask.
//!
//! A process that is there need not come to a reduce: it may still compute, write a checkpoint, or read its file. TensorFlow's server answers
//! meanwhile and knows nothing of that. So each worker has a [`Beacon`]: it answers datagrams at the worker's own address and port, which
//! TensorFlow uses for streams alone. A question and its answer have one length, so nobody can have a worker send much to somebody else, and
//! there is nothing in an answer but how far the worker is.

use std::collections::BTreeMap;
use std::fmt::{self, Display};
use std::io;
use std::net::{SocketAddr, UdpSocket};
use std::sync::{Arc, Mutex, MutexGuard};
use std::thread;
use std::time::{Duration, Instant};

use rustix::time::{ClockId, clock_gettime};

/// How often a worker looks at how much it computes.
const LOOK: Duration = Duration::from_millis(250);
/// Who takes less than this part of a processor waits: for others, for a GPU, or for a disk.
const IDLE: f64 = 0.1;
/// How long ago a worker computed that still computes, at most: it looks only now and then.
const STILL: Duration = Duration::from_millis(900);

/// The length of each datagram, and how it begins.
const LENGTH: usize = 40;
const MARK: [u8; 7] = *b"lms-wrk";
const ASKS: u8 = b'?';
const IS_AT: u8 = b'@';
const LEAVES: u8 = b'.';
const NOBODY: u32 = u32::MAX;

/// What a worker does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Phase {
    /// It prepares its graph, and the first values of variables.
    Prepares,
    /// It waits for the first values of worker 0.
    Begins,
    /// It is between two steps.
    Between,
    /// It runs a step: computes, or waits for the others in a reduce.
    Step,
    /// It writes a checkpoint.
    Saves,
}

const PHASES: [Phase; 5] = [Phase::Prepares, Phase::Begins, Phase::Between, Phase::Step, Phase::Saves];

/// Where a worker is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Whereabouts {
    /// What it does.
    pub phase: Phase,
    /// The step that it runs, or runs next, from 1.
    pub step: u64,
    /// For how long it has done that.
    pub since: Duration,
    /// How long ago it last computed on the processor.
    pub idle: Duration,
}

impl Whereabouts {
    /// Whether it computes on the processor.
    pub fn computes(&self) -> bool {
        self.idle <= STILL
    }

    /// How far it is: who has the same number has come to the same thing that all do together.
    pub fn progress(&self) -> u64 {
        match self.phase {
            Phase::Prepares => 0,
            Phase::Begins => 1,
            Phase::Between | Phase::Saves => self.step.saturating_mul(2),
            Phase::Step => self.step.saturating_mul(2).saturating_add(1),
        }
    }
}

impl Display for Whereabouts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Whereabouts { step, .. } = self;
        let seconds = self.since.as_secs_f64();
        match self.phase {
            Phase::Prepares => write!(f, "it has been preparing its graph for {seconds:.1} s"),
            Phase::Begins => {
                write!(f, "it has been waiting for the variables of worker 0 for {seconds:.1} s")
            }
            Phase::Between => write!(f, "it has been on its way to step {step} for {seconds:.1} s"),
            Phase::Saves => write!(f, "it has been writing a checkpoint for {seconds:.1} s"),
            Phase::Step if self.computes() => {
                write!(f, "it has been in step {step} for {seconds:.1} s, and still computes")
            }
            Phase::Step => {
                let idle = self.idle.min(self.since).as_secs_f64();
                write!(f, "it has been in step {step} for {seconds:.1} s, the last {idle:.1} s of them idle")
            }
        }
    }
}

/// Tells others where this worker is, for as long as the process lives.
#[derive(Debug, Clone)]
pub struct Beacon {
    state: Arc<Mutex<State>>,
    socket: Option<Arc<UdpSocket>>,
}

#[derive(Debug)]
struct State {
    phase: Phase,
    step: u64,
    entered: Instant,
    computed: Instant,
    /// Where it was when its step failed: what it does behind that is no matter.
    failed: Option<Whereabouts>,
    /// Workers that said that they end, and because of whom.
    left: BTreeMap<usize, Option<usize>>,
}

impl State {
    fn now(&self) -> Whereabouts {
        let State { phase, step, entered, computed, .. } = *self;
        self.failed.unwrap_or(Whereabouts { phase, step, since: entered.elapsed(), idle: computed.elapsed() })
    }
}

impl Beacon {
    /// A worker that prepares. Where the port is another program's, and so nobody can ask, it is for this worker alone.
    pub fn light(address: SocketAddr) -> Beacon {
        let now = Instant::now();
        let state = State {
            phase: Phase::Prepares,
            step: 0,
            entered: now,
            computed: now,
            failed: None,
            left: BTreeMap::new(),
        };
        let socket = UdpSocket::bind(address)
            .and_then(|socket| socket.set_read_timeout(Some(LOOK)).map(|()| Arc::new(socket)));
        let beacon = Beacon { state: Arc::new(Mutex::new(state)), socket: socket.ok() };
        let shining = beacon.clone();
        thread::spawn(move || shining.shine());
        beacon
    }

    /// This worker does this from now on.
    pub fn enter(&self, phase: Phase, step: u64) {
        let mut state = self.state();
        (state.phase, state.step, state.entered) = (phase, step, Instant::now());
    }

    /// Where this worker is.
    pub fn now(&self) -> Whereabouts {
        self.state().now()
    }

    /// This worker's run failed: others are told where it was until then.
    pub fn fail(&self) -> Whereabouts {
        let mut state = self.state();
        let now = state.now();
        state.failed = Some(now);
        now
    }

    /// Tells others that this worker ends, and because of whom if that is known.
    pub fn leave(&self, others: &[String], rank: usize, because_of: Option<usize>) {
        let number = |rank: usize| u32::try_from(rank).unwrap_or(NOBODY);
        let mut datagram = begun(LEAVES);
        datagram[8..12].copy_from_slice(&number(rank).to_le_bytes());
        datagram[12..16].copy_from_slice(&because_of.map_or(NOBODY, number).to_le_bytes());
        for other in others {
            // Who is not there need not know.
            let _ = self.socket.as_ref().map(|socket| socket.send_to(&datagram, other.as_str()));
        }
    }

    /// Whether this worker said that it ends, and because of whom.
    pub fn left(&self, rank: usize) -> Option<Option<usize>> {
        self.state().left.get(&rank).copied()
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    /// Answers, and looks now and then at how much the process computes.
    fn shine(&self) {
        let (mut looked, mut used) = (Instant::now(), processor_seconds());
        loop {
            let mut asked = [0; LENGTH];
            let received = match &self.socket {
                Some(socket) => socket.recv_from(&mut asked),
                None => {
                    thread::sleep(LOOK);
                    Err(io::ErrorKind::TimedOut.into())
                }
            };
            match received {
                Ok((LENGTH, from)) => self.receive(&asked, from),
                Err(error)
                    if !matches!(error.kind(), io::ErrorKind::TimedOut | io::ErrorKind::WouldBlock) =>
                {
                    // Such as that nobody is at the other end: nothing to wait for.
                    thread::sleep(Duration::from_millis(1));
                }
                _ => (),
            }
            let seconds = looked.elapsed().as_secs_f64();
            if seconds >= LOOK.as_secs_f64() {
                let now = processor_seconds();
                if now - used > IDLE * seconds {
                    self.state().computed = Instant::now();
                }
                (looked, used) = (Instant::now(), now);
            }
        }
    }

    fn receive(&self, datagram: &[u8; LENGTH], from: SocketAddr) {
        if *datagram == begun(ASKS) {
            let answer = self.now().to_bytes();
            // Who asked asks again, or does without.
            let _ = self.socket.as_ref().map(|socket| socket.send_to(&answer, from));
        } else if datagram[..8] == begun(LEAVES)[..8] {
            let number = |at: usize| {
                let bytes = [datagram[at], datagram[at + 1], datagram[at + 2], datagram[at + 3]];
                Some(u32::from_le_bytes(bytes))
                    .filter(|&number| number != NOBODY)
                    .map(|number| number as usize)
            };
            /// No cluster has more.
            const MOST: usize = 1 << 16;
            if let Some(rank) = number(8).filter(|&rank| rank < MOST) {
                self.state().left.insert(rank, number(12));
            }
        }
    }
}

/// Asks a worker where it is; who has not answered by then does not know.
#[derive(Debug)]
pub(super) struct Question(UdpSocket);

impl Question {
    /// Sends it; what comes from elsewhere than this address is no answer.
    pub(super) fn send(address: SocketAddr) -> io::Result<Question> {
        let any: SocketAddr = if address.is_ipv4() { ([0; 4], 0).into() } else { ([0; 16], 0).into() };
        let socket = UdpSocket::bind(any)?;
        socket.connect(address)?;
        socket.send(&begun(ASKS))?;
        Ok(Question(socket))
    }

    /// The answer, if it comes within this time.
    pub(super) fn answer(self, patience: Duration) -> Option<Whereabouts> {
        self.0.set_read_timeout(Some(patience)).ok()?;
        let mut answer = [0; LENGTH];
        let length = self.0.recv(&mut answer).ok()?;
        (length == LENGTH).then(|| Whereabouts::of_bytes(&answer)).flatten()
    }
}

impl Whereabouts {
    fn to_bytes(self) -> [u8; LENGTH] {
        let mut bytes = begun(IS_AT);
        let milliseconds = |time: Duration| u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
        let phase = PHASES.iter().position(|&phase| phase == self.phase).unwrap_or_default();
        let numbers = [phase as u64, self.step, milliseconds(self.since), milliseconds(self.idle)];
        for (number, place) in numbers.iter().zip(bytes[8..].chunks_exact_mut(8)) {
            place.copy_from_slice(&number.to_le_bytes());
        }
        bytes
    }

    fn of_bytes(bytes: &[u8; LENGTH]) -> Option<Whereabouts> {
        if bytes[..8] != begun(IS_AT)[..8] {
            return None;
        }
        let mut numbers = bytes[8..].chunks_exact(8).map(|bytes| {
            let mut number = [0; 8];
            number.copy_from_slice(bytes);
            u64::from_le_bytes(number)
        });
        Some(Whereabouts {
            phase: *PHASES.get(usize::try_from(numbers.next()?).ok()?)?,
            step: numbers.next()?,
            since: Duration::from_millis(numbers.next()?),
            idle: Duration::from_millis(numbers.next()?),
        })
    }
}

fn begun(kind: u8) -> [u8; LENGTH] {
    let mut datagram = [0; LENGTH];
    datagram[..7].copy_from_slice(&MARK);
    datagram[7] = kind;
    datagram
}

/// What this process has used of processors.
fn processor_seconds() -> f64 {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    time.tv_sec as f64 + time.tv_nsec as f64 * 1e-9
}

#[cfg(test)]
mod tests {
    use std::hint::black_box;

    use super::*;

    const PATIENCE: Duration = Duration::from_secs(5);

    fn lit() -> (Beacon, SocketAddr) {
        let beacon = Beacon::light("127.0.0.1:0".parse().unwrap());
        let address = beacon.socket.as_ref().unwrap().local_addr().unwrap();
        (beacon, address)
    }

    #[test]
    fn a_worker_tells_where_it_is() {
        let (beacon, address) = lit();
        let asked = || Question::send(address).unwrap().answer(PATIENCE).unwrap();
        assert_eq!(asked().phase, Phase::Prepares);
        beacon.enter(Phase::Saves, 12);
        thread::sleep(Duration::from_millis(30));
        let found = asked();
        assert_eq!((found.phase, found.step), (Phase::Saves, 12));
        assert!(found.since >= Duration::from_millis(30) && found.since < PATIENCE);
        // What it does behind a failure is not where it was.
        beacon.fail();
        beacon.enter(Phase::Between, 13);
        assert_eq!(asked().phase, Phase::Saves);
    }

    #[test]
    fn who_computes_says_so() {
        let (beacon, _) = lit();
        let until = Instant::now() + STILL + LOOK * 3;
        while Instant::now() < until {
            black_box((0..1000).sum::<u64>());
        }
        assert!(beacon.now().computes());
    }

    #[test]
    fn who_ends_says_because_of_whom() {
        let ((one, address), (other, _)) = (lit(), lit());
        assert_eq!(one.left(2), None);
        other.leave(&[address.to_string()], 2, Some(5));
        other.leave(&[address.to_string()], 3, None);
        let started = Instant::now();
        while one.left(3).is_none() && started.elapsed() < PATIENCE {
            thread::sleep(Duration::from_millis(5));
        }
        assert_eq!((one.left(2), one.left(3), one.left(4)), (Some(Some(5)), Some(None), None));
    }

    #[test]
    fn who_is_between_steps_has_not_come_to_the_next() {
        let at = |phase: Phase, step: u64| {
            Whereabouts { phase, step, since: Duration::ZERO, idle: Duration::ZERO }.progress()
        };
        let way = [
            at(Phase::Prepares, 0),
            at(Phase::Begins, 0),
            at(Phase::Between, 1),
            at(Phase::Step, 1),
            at(Phase::Saves, 2),
            at(Phase::Step, 2),
        ];
        assert!(way.is_sorted_by(|before, after| before < after), "{way:?}");
        assert_eq!(at(Phase::Saves, 2), at(Phase::Between, 2));
    }

    #[test]
    fn what_is_no_answer_is_none() {
        let at = Whereabouts {
            phase: Phase::Step,
            step: 7,
            since: Duration::from_millis(1500),
            idle: Duration::from_millis(20),
        };
        assert_eq!(Whereabouts::of_bytes(&at.to_bytes()), Some(at));
        let mut other = at.to_bytes();
        other[8] = PHASES.len() as u8;
        assert_eq!(Whereabouts::of_bytes(&other), None);
        assert_eq!(Whereabouts::of_bytes(&begun(ASKS)), None);
    }
}
