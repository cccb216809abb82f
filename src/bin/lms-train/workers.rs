//! This process as one of several workers.

use std::io::Read;
use std::process;
use std::thread;
use std::time::Duration;

use anyhow::Context as _;
use tf_lms::cli::Failure;
use tf_lms::plan::{BARRIER, BROADCAST, RANK, WORKERS};
use tf_lms::proto::tensorflow::ConfigProto;
use tf_lms::runtime::{Server, Session, SessionError, Tensor, TensorFlow};
use tf_lms::train::{Beacon, Cluster, DeviceChoice, Phase, Timeouts, for_worker};

use crate::args::Args;
use crate::blame::{self, Blame};
use crate::listen;

/// The exit status of a worker that ended because of another one.
pub const OTHER_WORKER: i32 = 4;

/// A worker with its server.
pub struct Workers {
    cluster: Cluster,
    server: Server,
    timeouts: Timeouts,
    beacon: Beacon,
}

impl Workers {
    /// Starts this worker's server, if there are others. What listens, listens on this worker's own address alone.
    pub fn join(
        args: &Args,
        tensorflow: &'static TensorFlow,
        config: &mut ConfigProto,
    ) -> anyhow::Result<Option<Workers>> {
        if args.cluster.supervised {
            end_with_supervisor();
        }
        let Some(cluster) = args.cluster.found.clone() else { return Ok(None) };
        let nccl = matches!(args.device, DeviceChoice::Gpu { .. });
        *config = cluster.configure(std::mem::take(config), nccl);
        let address = cluster.own_address()?;
        listen::only_on(address.ip());
        let server = Server::start(tensorflow, &cluster.server_def(config))
            .with_context(|| format!("worker {} cannot listen on {address}", cluster.rank))?;
        let beacon = Beacon::light(address);
        Ok(Some(Workers { cluster, server, timeouts: args.cluster.timeouts(), beacon }))
    }

    /// A session on this worker's server.
    pub fn session(
        &self,
        tensorflow: &'static TensorFlow,
        graph_def: &[u8],
        config: &ConfigProto,
    ) -> anyhow::Result<Session> {
        let graph_def = for_worker(graph_def, self.timeouts)?;
        Ok(Session::on(&self.server, tensorflow, &graph_def, config)?)
    }

    /// Gives all workers the variables of worker 0.
    pub fn begin(&self, session: &Session) -> Result<(), SessionError> {
        let (workers, rank) = (number(self.cluster.len())?, number(self.cluster.rank)?);
        self.enter(Phase::Begins, 0);
        session.run(&[(WORKERS, &workers), (RANK, &rank)], &[], &[BROADCAST]).map(|_| ())
    }

    /// How long a step may take, when the longest before took so many seconds.
    pub fn limit(&self, longest_seconds: Option<f64>) -> Option<Duration> {
        self.timeouts.of_step(longest_seconds)
    }

    /// Waits for the others: who leaves takes what they still read of the last step.
    pub fn end(&self, session: &Session) {
        if let Ok(workers) = number(self.cluster.len()) {
            // A worker that fails now has trained all steps.
            let _ = session.run(&[(WORKERS, &workers)], &[], &[BARRIER]);
        }
        thread::sleep(Duration::from_millis(300));
    }

    /// What this worker does from now on; `step` is the one that it runs, or runs next, from 1.
    pub fn enter(&self, phase: Phase, step: u64) {
        self.beacon.enter(phase, step);
    }

    /// An error of a run, with the worker that it comes from if that is another one; none if it is this one's own.
    pub fn blame(&self, error: &SessionError, what: &str) -> Option<anyhow::Error> {
        let status = error.status()?;
        if !blame::may_be_of_another(status) {
            return None;
        }
        let blame = Blame::of(&self.cluster, &self.beacon, self.timeouts, status);
        let rank = self.cluster.rank;
        self.beacon.leave(&blame.others, rank, blame.worker);
        Some(Failure::OtherWorker.error(format!("worker {rank}: {what}: {}", blame.why)))
    }
}

/// A number that is fed.
fn number(number: usize) -> Result<Tensor, SessionError> {
    Ok(Tensor::of(&[], &[number as i32])?)
}

/// Ends this process as soon as the one that started it is gone.
fn end_with_supervisor() {
    thread::spawn(|| {
        let mut nothing = [0; 64];
        let mut stdin = std::io::stdin().lock();
        while stdin.read(&mut nothing).is_ok_and(|read| read > 0) {}
        process::exit(OTHER_WORKER);
    });
}
