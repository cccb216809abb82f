//! Streams, events and timers.
//!
//! A stream is a thread that does one job after another. What TensorFlow holds is a pointer to a `Stream`, `Event` or
//! `Timer` here; a job that refers to one shares in its ownership, so that TensorFlow may destroy it at any time.

use crate::device::Device;
use crate::status::{Fault, catch};
use crate::sync::{lock, now_ns, wait_while};
use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex};

type Job = Box<dyn FnOnce() -> Result<(), Fault> + Send>;

#[derive(Default)]
struct Queue {
    jobs: VecDeque<Job>,
    busy: bool,
    stop: bool,
    /// The first job that failed.
    fault: Option<Fault>,
}

/// Work in order.
pub struct Stream {
    device: &'static Device,
    queue: Mutex<Queue>,
    work: Condvar,
    idle: Condvar,
}

impl Stream {
    /// Starts the stream's thread.
    pub fn start(device: &'static Device) -> Result<Arc<Stream>, Fault> {
        let (queue, work, idle) = (Mutex::default(), Condvar::new(), Condvar::new());
        let stream = Arc::new(Stream { device, queue, work, idle });
        let runner = stream.clone();
        std::thread::Builder::new()
            .name("softgpu-stream".into())
            .spawn(move || runner.run())
            .map_err(|e| Fault::new(format!("softgpu: no thread for a stream: {e}")))?;
        Ok(stream)
    }

    fn run(&self) {
        loop {
            let mut queue = lock(&self.queue);
            queue.busy = false;
            if queue.jobs.is_empty() {
                self.idle.notify_all();
            }
            queue = wait_while(&self.work, queue, |q| q.jobs.is_empty() && !q.stop);
            let Some(job) = queue.jobs.pop_front() else { return };
            queue.busy = true;
            drop(queue);
            if let Err(fault) = catch(job) {
                lock(&self.queue).fault.get_or_insert(fault);
            }
        }
    }

    /// The device the stream belongs to.
    pub fn device(&self) -> &'static Device {
        self.device
    }

    /// Appends a job.
    pub fn push(&self, job: impl FnOnce() -> Result<(), Fault> + Send + 'static) {
        lock(&self.queue).jobs.push_back(Box::new(job));
        self.work.notify_one();
    }

    /// Waits until all jobs are done.
    pub fn drain(&self) {
        drop(wait_while(&self.idle, lock(&self.queue), |q| q.busy || !q.jobs.is_empty()));
    }

    /// The first failure of a job.
    pub fn status(&self) -> Result<(), Fault> {
        lock(&self.queue).fault.clone().map_or(Ok(()), Err)
    }

    /// Lets the thread end once all jobs are done.
    pub fn stop(&self) {
        lock(&self.queue).stop = true;
        self.work.notify_all();
    }

    /// Holds back what comes next here until what is now in `other` is done.
    pub fn wait_for(&self, other: &Stream) {
        let event = Arc::new(EventState::default());
        let turn = event.record();
        let signal = event.clone();
        other.push(move || {
            signal.reach(turn);
            Ok(())
        });
        self.push(move || {
            event.wait(turn);
            Ok(())
        });
    }
}

/// A point in a stream that others can wait for. It may be recorded again and again.
#[derive(Default)]
pub struct Event(Arc<EventState>);

#[derive(Default)]
struct EventState {
    turns: Mutex<Turns>,
    changed: Condvar,
}

#[derive(Default)]
struct Turns {
    recorded: u64,
    reached: u64,
}

impl EventState {
    fn record(&self) -> u64 {
        let mut turns = lock(&self.turns);
        turns.recorded += 1;
        turns.recorded
    }

    fn recorded(&self) -> u64 {
        lock(&self.turns).recorded
    }

    fn reach(&self, turn: u64) {
        let mut turns = lock(&self.turns);
        turns.reached = turns.reached.max(turn);
        self.changed.notify_all();
    }

    fn wait(&self, turn: u64) {
        drop(wait_while(&self.changed, lock(&self.turns), |turns| turns.reached < turn));
    }
}

impl Event {
    /// Marks the end of what is now in `stream`.
    pub fn record(&self, stream: &Stream) {
        let (state, turn) = (self.0.clone(), self.0.record());
        stream.push(move || {
            state.reach(turn);
            Ok(())
        });
    }

    /// Holds back what comes next in `stream` until the mark is reached.
    pub fn hold(&self, stream: &Stream) {
        let (state, turn) = (self.0.clone(), self.0.recorded());
        stream.push(move || {
            state.wait(turn);
            Ok(())
        });
    }

    /// Waits on the host.
    pub fn block(&self) {
        self.0.wait(self.0.recorded());
    }

    pub fn is_complete(&self) -> bool {
        let turns = lock(&self.0.turns);
        turns.reached >= turns.recorded
    }
}

/// The time between two points of a stream.
#[derive(Default)]
pub struct Timer(Arc<Mutex<(u64, u64)>>);

impl Timer {
    pub fn start(&self, stream: &Stream) {
        let times = self.0.clone();
        stream.push(move || {
            lock(&times).0 = now_ns();
            Ok(())
        });
    }

    pub fn stop(&self, stream: &Stream) {
        let times = self.0.clone();
        stream.push(move || {
            lock(&times).1 = now_ns();
            Ok(())
        });
    }

    pub fn nanoseconds(&self) -> u64 {
        let times = lock(&self.0);
        times.1.saturating_sub(times.0)
    }
}
