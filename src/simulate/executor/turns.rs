//! What the host does next: with its only thread, or with each of several in turn.

use std::cmp::Reverse;
use std::collections::VecDeque;

use super::threads::Kernel;
use super::{Meeting, Run};
use crate::order::Place;
use crate::simulate::outcome::{Observer, OutOfMemory};
use crate::simulate::parts::Parts;

/// What a thread of the host is to do.
#[derive(Debug, Clone, Copy)]
pub(super) enum Task {
    Launch(u32),
    /// Launches all that a GPU's part of the graph, or the host's, begins with.
    Begin(Place),
    /// Says that a copy from a GPU is expected on the host.
    Receive(u32),
}

impl<O: Observer> Run<'_, O> {
    /// Schedules what a step begins with.
    pub(super) fn begin(&mut self) {
        let Parts { predicted, otherwise } = &self.program.parts;
        let parts = if self.scenario.parts_otherwise { otherwise } else { predicted };
        let begins = parts.iter().copied().map(Task::Begin);
        match &mut self.threads {
            Some(threads) => begins.zip(0..).for_each(|(begin, number)| threads.give(number, begin, 0.0)),
            None => self.scheduled = begins.collect(),
        }
    }

    /// What waits for nothing, of the ops that run in such a place.
    fn begins_with(&self, is_there: impl Fn(Place) -> bool) -> Vec<u32> {
        let ready = (0u32..).zip(&self.program.ops).filter(|(_, op)| op.waits == 0 && is_there(op.from));
        self.scenario.shuffled(ready.map(|(number, _)| number).collect())
    }

    /// Has the host do the next thing that it can do. Whether there was one.
    pub(super) fn act(&mut self) -> Result<bool, OutOfMemory> {
        if self.threads.is_some() {
            return self.act_in_turn();
        }
        let Some(task) = self.next_task() else { return Ok(false) };
        self.complete_until(self.host_seconds);
        self.take_up(task)?;
        Ok(true)
    }

    fn next_task(&mut self) -> Option<Task> {
        loop {
            match self.inline.pop_front().map(Task::Launch).or_else(|| self.scheduled.pop_front())? {
                Task::Launch(op) if self.is_behind(op) => self.held_back.push_back(op),
                task => return Some(task),
            }
        }
    }

    /// Has the thread of several that has time first do what it does next. Whether there was anything to do.
    fn act_in_turn(&mut self) -> Result<bool, OutOfMemory> {
        let Some(threads) = &mut self.threads else { return Ok(false) };
        let Some((turn, seconds)) = threads.next() else { return Ok(false) };
        // What ends before may give others something to do before.
        if self.events.peek().is_some_and(|Reverse((end, _, _))| f64::from_bits(*end) <= seconds) {
            return Ok(self.complete_next());
        }
        let other = std::mem::replace(&mut threads.turn, turn);
        let before = std::mem::replace(&mut self.host_seconds, seconds);
        let thread = threads.current();
        match thread.kernel.take() {
            Some(Kernel::Computes(op)) => self.launch(op)?,
            Some(Kernel::Waits(op)) => self.compute(op),
            None => {
                let own = thread.inline.pop_front().map(Task::Launch);
                match own.or_else(|| threads.take(seconds)) {
                    Some(Task::Launch(op)) if self.is_behind(op) => self.held_back.push_back(op),
                    Some(Task::Launch(op)) if self.computes_itself(op) => self.compute(op),
                    Some(task) => self.take_up(task)?,
                    None => {}
                }
            }
        }
        if let Some(threads) = &mut self.threads {
            let thread = threads.current();
            thread.seconds = thread.seconds.max(self.host_seconds);
            threads.turn = other;
        }
        self.host_seconds = self.host_seconds.max(before);
        Ok(true)
    }

    /// Whether an op computes on the GPU that is stalled.
    pub(super) fn is_behind(&self, op: u32) -> bool {
        let entry = &self.program.ops[op as usize];
        self.scenario.stalled_gpu.is_some_and(|gpu| !entry.is_copy && entry.from == Place::Gpu(gpu))
    }

    fn take_up(&mut self, task: Task) -> Result<(), OutOfMemory> {
        match task {
            Task::Launch(op) => self.launch(op),
            Task::Begin(part) => {
                self.expect_copies(part)?;
                let begins = self.begins_with(|from| from == part);
                self.make_ready(&begins);
                Ok(())
            }
            Task::Receive(copy) => self.receive(copy),
        }
    }

    /// Expects what comes from other places: at once on a GPU, where that is among the first that runs, and on the host behind all else that
    /// it begins with, to which that is handed on.
    fn expect_copies(&mut self, part: Place) -> Result<(), OutOfMemory> {
        self.begun.push(part);
        if part == Place::Host {
            for copy in (0..self.program.ops.len() as u32).rev() {
                if Meeting::at_first(&self.program.ops[copy as usize], self.machine) == Meeting::Neither {
                    self.scheduled.push_front(Task::Receive(copy));
                }
            }
            return Ok(());
        }
        let ops = &self.program.ops;
        let early = self.sent_early.extract_if(.., |copy| ops[*copy as usize].receiver == part);
        early.collect::<Vec<u32>>().into_iter().try_for_each(|copy| self.start_copy(copy))
    }

    /// Puts ops that became ready together behind what the thread whose turn it is has in hand. Those that count as expensive it hands on to
    /// others, but the last if it has nothing else to do.
    pub(super) fn make_ready(&mut self, ready: &[u32]) {
        let mut expensive: Vec<u32> = Vec::new();
        for &op in ready {
            if self.program.ops[op as usize].is_expensive && self.hands_on() {
                expensive.push(op);
            } else {
                self.own_queue().push_back(op);
            }
        }
        if let Some(&last) = expensive.last()
            && self.own_queue().is_empty()
        {
            self.own_queue().push_back(last);
            expensive.pop();
        }
        for op in expensive {
            self.hand_on(Task::Launch(op));
        }
    }

    /// Whether threads hand anything on. One that stands for as many as there is work for has nobody to wait for.
    fn hands_on(&self) -> bool {
        self.threads.is_some() || self.machine.one_thread
    }

    /// Puts something before all else that the thread whose turn it is was given to do, where others may take it.
    fn hand_on(&mut self, task: Task) {
        match &mut self.threads {
            Some(threads) => threads.hand_on(task, self.host_seconds),
            None => self.scheduled.push_front(task),
        }
    }

    /// What the thread whose turn it is has in hand.
    fn own_queue(&mut self) -> &mut VecDeque<u32> {
        match &mut self.threads {
            Some(threads) => &mut threads.current().inline,
            None => &mut self.inline,
        }
    }

    /// Whether a thread of several computes an op itself, while others go on.
    pub(super) fn computes_itself(&self, op: u32) -> bool {
        let entry = &self.program.ops[op as usize];
        let is_kernel = !entry.is_copy && matches!(entry.from, Place::Gpu(_));
        self.threads.is_some() && self.machine.synchronous && is_kernel
    }

    /// Has the thread whose turn it is compute an op, or wait until the GPU is free for it. What the op makes gets memory at its end: the
    /// software GPU's kernels compute first.
    fn compute(&mut self, op: u32) {
        let entry = &self.program.ops[op as usize];
        let Place::Gpu(gpu) = entry.from else { return };
        let engine = &mut self.gpus[usize::from(gpu)];
        let start = self.host_seconds;
        let kernel = if engine.compute > start {
            self.host_seconds = engine.compute + self.scenario.wake_seconds(op);
            Kernel::Waits(op)
        } else {
            self.host_seconds += self.machine.host_op_seconds + entry.seconds;
            engine.compute = self.host_seconds;
            engine.outcome.compute_seconds += entry.seconds;
            self.observer.compute(op, entry.from, start, self.host_seconds);
            Kernel::Computes(op)
        };
        if let Some(threads) = &mut self.threads {
            threads.current().kernel = Some(kernel);
        }
    }

    /// One of those that an op waits for is done.
    pub(super) fn schedule(&mut self, op: u32, seconds: f64) {
        self.waits[op as usize] -= 1;
        if self.waits[op as usize] == 0 {
            match &mut self.threads {
                Some(threads) => threads.give(self.scenario.thread_of(op), Task::Launch(op), seconds),
                None => self.scheduled.push_back(Task::Launch(op)),
            }
        }
    }

    /// The thread whose turn it is waits for memory: the others do something meanwhile. Whether they did.
    pub(super) fn others_go_on(&mut self) -> Result<bool, OutOfMemory> {
        let Some(threads) = &mut self.threads else { return Ok(false) };
        threads.current().is_blocked = true;
        let went_on = self.act_in_turn()?;
        if let Some(threads) = &mut self.threads {
            threads.current().is_blocked = false;
        }
        Ok(went_on)
    }
}
