//! The threads of the host that run ops.
//!
//! TensorFlow has as many as the machine has cores. What becomes ready by an op its thread does itself; what a step begins with goes to
//! whichever has time. So while one thread is in the forward pass, another one may do all that hangs on variables alone, in
//! another order than one thread would, and has memory of its own meanwhile.

use std::collections::VecDeque;

use super::memory::Held;

/// An op that computes, and what it gives back at its end: its workspace on a GPU, and outputs that nobody reads.
#[derive(Debug)]
pub(super) struct Running {
    pub op: u32,
    pub workspace: Option<(u16, Held)>,
    pub unread: bool,
}

/// A thread.
#[derive(Debug, Default)]
pub(super) struct Thread {
    /// What became ready by its ops.
    pub inline: VecDeque<u32>,
    /// What it computes now.
    pub running: Option<Running>,
    /// When it has time. Of the thread whose turn it is, when it had its turn.
    seconds: f64,
}

impl Thread {
    fn has_work(&self) -> bool {
        self.running.is_some() || !self.inline.is_empty()
    }
}

/// All threads.
#[derive(Debug)]
pub(super) struct Host {
    threads: Vec<Thread>,
    /// Whose turn it is.
    turn: usize,
}

impl Host {
    pub fn new(threads: usize) -> Host {
        Host { threads: (0..threads).map(|_| Thread::default()).collect(), turn: 0 }
    }

    /// The thread whose turn it is.
    pub fn thread(&mut self) -> &mut Thread {
        &mut self.threads[self.turn]
    }

    /// Whether there is more than one.
    pub fn has_others(&self) -> bool {
        self.threads.len() > 1
    }

    /// Gives the turn to the first thread that has time, if the one that has it is busy until now; when that is.
    pub fn switch(&mut self, now: f64) -> f64 {
        if !self.has_others() {
            return now;
        }
        self.thread().seconds = now;
        let seconds = |thread: usize| self.threads[thread].seconds;
        let numbers = 0..self.threads.len();
        self.turn = numbers.min_by(|&one, &other| seconds(one).total_cmp(&seconds(other))).unwrap_or(0);
        self.threads[self.turn].seconds
    }

    /// The thread whose turn it is has nothing to do until another one has; when that is.
    pub fn wait_for_others(&mut self, now: f64) -> Option<f64> {
        let turn = self.turn;
        let others =
            self.threads.iter().enumerate().filter(|(number, thread)| *number != turn && thread.has_work());
        let first = others.map(|(_, thread)| thread.seconds).min_by(f64::total_cmp)?;
        // Whoever is as early as another one has its turn if its number is lower, and would have it again.
        self.thread().seconds = first.max(now).next_up();
        Some(self.thread().seconds)
    }

    /// All have nothing to do until then.
    pub fn wait_until(&mut self, seconds: f64) {
        for thread in &mut self.threads {
            thread.seconds = thread.seconds.max(seconds);
        }
    }

    /// The op of another thread that ends first, and when.
    pub fn first_of_others(&mut self) -> Option<(f64, Running)> {
        let turn = self.turn;
        let others = self
            .threads
            .iter_mut()
            .enumerate()
            .filter(|(number, thread)| *number != turn && thread.running.is_some());
        let first =
            others.map(|(_, thread)| thread).min_by(|one, other| one.seconds.total_cmp(&other.seconds))?;
        Some((first.seconds, first.running.take()?))
    }
}
