//! The threads of the host that run ops, where it has several.
//!
//! TensorFlow runs a step in a pool of as many threads as the machine has cores. A GPU's part of the graph begins with one task: all that
//! waits for nothing, and what becomes ready by it, one after the other, since ops of a GPU count as cheap and stay with their thread. What
//! becomes ready by the end of a copy is a task for each op, of whoever has time. So while one thread does all that hangs on
//! variables alone, another one is in the forward pass already, and what they make comes to lie side by side.
//!
//! A task goes to the queue of some thread, which works it off from the front; who has nothing of its own takes from the back of another's.

use std::collections::VecDeque;

/// Something to do from a time on.
#[derive(Debug, Clone, Copy)]
pub(super) struct Queued<T> {
    pub task: T,
    pub seconds: f64,
}

/// An op of a GPU whose kernels the host's threads compute themselves, one at a time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kernel {
    /// It waits for its turn.
    Waits(u32),
    /// It has it, until its thread has time.
    Computes(u32),
}

/// A thread.
#[derive(Debug)]
pub(super) struct Thread<T> {
    /// What became ready by its ops.
    pub inline: VecDeque<u32>,
    /// What was given to it by others.
    pub tasks: VecDeque<Queued<T>>,
    pub kernel: Option<Kernel>,
    /// When it has time.
    pub seconds: f64,
    /// Whether it waits for memory.
    pub is_blocked: bool,
}

impl<T> Thread<T> {
    fn has_own(&self) -> bool {
        self.kernel.is_some() || !self.inline.is_empty()
    }
}

/// All threads.
#[derive(Debug)]
pub(super) struct Threads<T> {
    threads: Vec<Thread<T>>,
    /// Whose turn it is.
    pub turn: usize,
}

impl<T: Copy> Threads<T> {
    pub fn new(count: usize) -> Threads<T> {
        let thread = |_| Thread {
            inline: VecDeque::new(),
            tasks: VecDeque::new(),
            kernel: None,
            seconds: 0.0,
            is_blocked: false,
        };
        Threads { threads: (0..count).map(thread).collect(), turn: 0 }
    }

    /// The thread whose turn it is.
    pub fn current(&mut self) -> &mut Thread<T> {
        &mut self.threads[self.turn]
    }

    /// Gives the thread of this number, or of as much less as there are fewer, something to do.
    pub fn give(&mut self, number: u64, task: T, seconds: f64) {
        let number = (number % self.threads.len() as u64) as usize;
        self.threads[number].tasks.push_back(Queued { task, seconds });
    }

    /// Puts something to do before all else that the thread whose turn it is was given.
    pub fn hand_on(&mut self, task: T, seconds: f64) {
        self.current().tasks.push_front(Queued { task, seconds });
    }

    /// The thread that is the first to have something to do and time for it, and when that is.
    pub fn next(&self) -> Option<(usize, f64)> {
        let oldest = |thread: &Thread<T>| thread.tasks.front().map(|queued| queued.seconds);
        let any = self.threads.iter().filter_map(oldest).min_by(f64::total_cmp);
        let ready = self.threads.iter().enumerate().filter(|(_, thread)| !thread.is_blocked);
        let when = ready.filter_map(|(number, thread)| match thread.has_own() {
            true => Some((number, thread.seconds)),
            false => any.map(|given| (number, thread.seconds.max(given))),
        });
        when.min_by(|one, other| one.1.total_cmp(&other.1))
    }

    /// Takes a task that is there by then, for the thread whose turn it is.
    pub fn take(&mut self, seconds: f64) -> Option<T> {
        let is_there = |queued: &Queued<T>| queued.seconds <= seconds;
        let own = &mut self.threads[self.turn].tasks;
        if own.front().is_some_and(is_there) {
            return own.pop_front().map(|queued| queued.task);
        }
        for further in 1..self.threads.len() {
            let number = (self.turn + further) % self.threads.len();
            let tasks = &mut self.threads[number].tasks;
            if let Some(last) = tasks.iter().rposition(is_there) {
                return tasks.remove(last).map(|queued| queued.task);
            }
        }
        None
    }
}
