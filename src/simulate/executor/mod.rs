//! TensorFlow's executor, with the clocks of a host and its GPUs.
//!
//! One thread of the host takes tasks from a queue. The first of them are the parts of the graph, each GPU's before the host's, or behind it
//! where Python calls a function: all that a part begins with goes through the thread's hands, and what becomes ready by a launch comes behind
//! that. What is expensive, as a copy from the host is, the thread does not do at once, but puts at the front of the queue for others to take.
//! What becomes ready by the end of a copy comes to the end of the queue. So do, if that thread is the only one, at the start of a step, the ops of the host that receive what comes from a GPU,
//! behind all that the GPU can begin with: until one of them has had its turn, its copy does not start, and the tensor stays in the GPU's
//! memory.
//!
//! A GPU has three engines that work in order, each on its own: compute, copies out, copies in. An op's outputs are allocated when it
//! is launched, and its inputs given up as soon as it is launched, since whoever gets their memory runs behind it on the same engine.
//! A copy gives its source up when it is done.
//!
//! `turns` says what the host does next, `threads` are its threads if it has several, `room` is where memory is taken and given back, and
//! `values` has what variables were before they were changed.

mod room;
mod threads;
mod turns;
mod values;

use std::borrow::Cow;
use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

use super::buffers::BufferTracker;
use super::initial::Homes;
use super::memory::{Held, Memory};
use super::outcome::{GpuOutcome, NoObserver, Observer, OutOfMemory, Outcome};
use super::program::{Op, Origin, Program};
use super::{Machine, Scenario};
use crate::order::Place;
use threads::Threads;
use turns::Task;
use values::Values;

/// So many steps are gone through before the one that is looked at, where variables move from step to step.
const STEPS_MOVED: u32 = 4;

/// Runs a step: one of those behind the first, which is gone through before where memory is limited, as it decides what lies where.
///
/// # Errors
///
/// If memory runs out and nothing that is under way will free any, or ops wait for one another for ever.
pub fn simulate(
    program: &Program,
    machine: &Machine,
    observer: &mut impl Observer,
) -> Result<Outcome, OutOfMemory> {
    simulate_in(program, machine, &Scenario::PREDICTED, observer)
}

/// The same where not all is as predicted.
///
/// # Errors
///
/// If memory runs out and nothing that is under way will free any, or ops wait for one another for ever.
pub fn simulate_in(
    program: &Program,
    machine: &Machine,
    scenario: &Scenario,
    observer: &mut impl Observer,
) -> Result<Outcome, OutOfMemory> {
    let ground = Ground { program, machine: &scenario.machine(machine), scenario };
    let mut begun = ground.initial_memories()?;
    let is_limited = begun.iter().any(|begun| begun.memory.is_limited());
    if is_limited && !program.initial.late.is_empty() {
        begun = ground.run(begun, true, &mut NoObserver)?.end();
    }
    if is_limited && !program.initial.moved.is_empty() {
        for _ in 0..STEPS_MOVED {
            begun = ground.run(begun, false, &mut NoObserver)?.end();
        }
    }
    ground.run(begun, false, observer)?.outcome()
}

/// A GPU's memory when a step begins.
struct Begun {
    memory: Memory,
    /// Where variables lie that move.
    homes: Homes,
}

/// What is run, and on what.
#[derive(Clone, Copy)]
struct Ground<'a> {
    program: &'a Program,
    /// The machine as it is in the scenario.
    machine: &'a Machine,
    scenario: &'a Scenario,
}

impl<'a> Ground<'a> {
    /// Goes through a step.
    fn run<O: Observer>(
        self,
        begun: Vec<Begun>,
        is_first: bool,
        observer: &'a mut O,
    ) -> Result<Run<'a, O>, OutOfMemory> {
        let mut run = Run::new(self, begun, is_first, observer);
        run.begin();
        loop {
            while run.act()? {}
            if run.complete_next() {
                continue;
            }
            let Some(op) = run.held_back.pop_front() else { break };
            run.launch(op)?;
        }
        Ok(run)
    }

    /// The memory of each GPU when the first step begins.
    fn initial_memories(self) -> Result<Vec<Begun>, OutOfMemory> {
        let mut memories = Vec::with_capacity(self.program.persistent.len());
        for (gpu, sizes) in self.program.persistent.iter().enumerate() {
            let Some(limit) = self.machine.memory_bytes(gpu) else {
                let memory = Memory::Counted { used_bytes: sizes.iter().sum(), limit_bytes: None };
                memories.push(Begun { memory, homes: Homes::default() });
                continue;
            };
            let mut memory = Memory::new(self.machine.allocator, limit);
            let homes =
                self.program.initial.fill(gpu, &mut memory, self.scenario.holes).map_err(|wanted_bytes| {
                    let used_bytes = memory.used_bytes();
                    OutOfMemory { gpu, op: None, wanted_bytes, used_bytes, pieces: Vec::new() }
                })?;
            memories.push(Begun { memory, homes });
        }
        Ok(memories)
    }
}

struct Gpu {
    memory: Memory,
    /// Where variables lie that move.
    homes: Homes,
    /// When each engine is free.
    compute: f64,
    out: f64,
    into: f64,
    outcome: GpuOutcome,
}

/// How far a copy has come that has not started. It starts when it was sent and is expected.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Meeting {
    Neither,
    Sent,
    Expected,
}

/// The end of a copy: when, in which order among equals, which.
type Event = Reverse<(u64, u32, u32)>;

struct Run<'a, O> {
    /// Whether variables that begin as constants get their own memory in this step.
    is_first: bool,
    program: &'a Program,
    machine: &'a Machine,
    scenario: &'a Scenario,
    observer: &'a mut O,
    waits: Vec<u32>,
    buffers: BufferTracker<'a>,
    values: Values<'a>,
    held: Vec<Held>,
    gpus: Vec<Gpu>,
    /// For each op how far it has come, if it is a copy.
    meetings: Vec<Meeting>,
    scheduled: VecDeque<Task>,
    inline: VecDeque<u32>,
    /// The parts of the graph that have begun.
    begun: Vec<Place>,
    /// Copies that were sent to GPUs whose parts had not begun.
    sent_early: Vec<u32>,
    /// What became ready together; empty but while an op tells those that wait for it.
    ready: Vec<u32>,
    /// The host's threads, if there are several; `scheduled` and `inline` are of the only one.
    threads: Option<Threads<Task>>,
    /// The ops of the GPU that comes after all else that are ready.
    held_back: VecDeque<u32>,
    events: BinaryHeap<Event>,
    event_count: u32,
    host_seconds: f64,
    host_bytes: u64,
    host_peak_bytes: u64,
    finished: u32,
}

impl<'a, O: Observer> Run<'a, O> {
    fn new(
        Ground { program, machine, scenario }: Ground<'a>,
        begun: Vec<Begun>,
        is_first: bool,
        observer: &'a mut O,
    ) -> Self {
        let mut gpus = Vec::with_capacity(begun.len());
        for (number, Begun { memory, homes }) in begun.into_iter().enumerate() {
            let outcome = GpuOutcome::default();
            let mut gpu = Gpu { memory, homes, compute: 0.0, out: 0.0, into: 0.0, outcome };
            gpu.outcome.persistent_bytes = gpu.memory.used_bytes();
            gpu.outcome.peak_bytes = gpu.memory.used_bytes();
            observer.memory(0.0, Place::Gpu(number as u16), gpu.memory.used_bytes());
            gpus.push(gpu);
        }
        let tensors = program.tensors.len();
        Run {
            is_first,
            program,
            machine,
            scenario,
            observer,
            waits: program.ops.iter().map(|op| op.waits).collect(),
            buffers: BufferTracker::new(program),
            values: Values::new(program),
            held: vec![Held::Nowhere; tensors],
            gpus,
            meetings: program.ops.iter().map(|op| Meeting::at_first(op, machine)).collect(),
            scheduled: VecDeque::new(),
            inline: VecDeque::new(),
            begun: Vec::new(),
            sent_early: Vec::new(),
            ready: Vec::new(),
            threads: (scenario.threads > 1).then(|| Threads::new(usize::from(scenario.threads))),
            held_back: VecDeque::new(),
            events: BinaryHeap::new(),
            event_count: 0,
            host_seconds: 0.0,
            host_bytes: 0,
            host_peak_bytes: 0,
            finished: 0,
        }
    }

    /// The memories as they are when all of the step's tensors are gone.
    fn end(mut self) -> Vec<Begun> {
        for tensor in 0..self.held.len() as u32 {
            self.free(tensor);
        }
        self.gpus.into_iter().map(|Gpu { memory, homes, .. }| Begun { memory, homes }).collect()
    }

    fn receive(&mut self, copy: u32) -> Result<(), OutOfMemory> {
        self.host_seconds += self.machine.host_op_seconds;
        match std::mem::replace(&mut self.meetings[copy as usize], Meeting::Expected) {
            Meeting::Sent => self.start_copy(copy),
            Meeting::Neither | Meeting::Expected => Ok(()),
        }
    }

    /// Whether the part of the graph that a copy is for has not begun.
    fn begins_later(&self, copy: &Op) -> bool {
        let is_for_gpu = copy.receiver != Place::Host && copy.receiver != copy.from;
        self.machine.one_thread && is_for_gpu && !self.begun.contains(&copy.receiver)
    }

    fn launch(&mut self, op: u32) -> Result<(), OutOfMemory> {
        self.observer.turns_to(op);
        let entry = &self.program.ops[op as usize];
        if entry.is_copy {
            let start = self.host_seconds;
            self.host_seconds += self.machine.host_op_seconds;
            self.observer.launch(op, start, self.host_seconds);
            return match std::mem::replace(&mut self.meetings[op as usize], Meeting::Sent) {
                Meeting::Expected if self.begins_later(entry) => {
                    self.sent_early.push(op);
                    Ok(())
                }
                Meeting::Expected => self.start_copy(op),
                Meeting::Neither | Meeting::Sent => Ok(()),
            };
        }
        let unread = self.make_outputs(op)?;
        if self.is_first
            && let Some(&(gpu, bytes)) = self.program.initial.late.get(&op)
        {
            self.allocate(op, Place::Gpu(gpu), bytes)?;
        }
        self.copy_changed(op)?;
        let workspace = self.take_workspace(op, entry)?;
        let start = self.host_seconds;
        match entry.from {
            Place::Gpu(_) if self.computes_itself(op) => self.host_seconds += self.machine.host_op_seconds,
            Place::Host => self.host_seconds += self.machine.host_op_seconds.max(entry.seconds.min(1e-3)),
            Place::Gpu(gpu) => {
                let engine = &mut self.gpus[usize::from(gpu)];
                self.host_seconds += self.machine.host_op_seconds;
                if self.machine.synchronous {
                    self.host_seconds += entry.seconds;
                    engine.compute = self.host_seconds;
                    self.observer.compute(op, entry.from, start, self.host_seconds);
                } else {
                    let start = engine.compute.max(self.host_seconds);
                    engine.compute = start + entry.seconds;
                    self.observer.compute(op, entry.from, start, engine.compute);
                }
                engine.outcome.compute_seconds += entry.seconds;
            }
        }
        self.observer.launch(op, start, self.host_seconds);
        self.finished += 1;
        workspace.into_iter().for_each(|(held, bytes)| self.give_back(entry.from, held, bytes));
        if unread {
            for tensor in entry.first_tensor..entry.first_tensor + entry.tensors {
                if self.program.tensors[tensor as usize].uses == 0
                    && self.buffers.buffer_of(tensor) == Some(tensor)
                {
                    self.free(tensor);
                }
            }
        }
        let program = self.program;
        if let Some(&moved) = program.initial.moved.get(&op) {
            self.move_variable(op, moved)?;
        }
        for &tensor in program.reads.row(op as usize) {
            self.give_up(tensor);
        }
        let mut ready = std::mem::take(&mut self.ready);
        for &next in &*self.successors(op) {
            self.waits[next as usize] -= 1;
            if self.waits[next as usize] == 0 {
                ready.push(next);
            }
        }
        self.make_ready(&ready);
        ready.clear();
        self.ready = ready;
        Ok(())
    }

    /// Starts a copy as soon as its engine, and what was launched on the GPU so far, lets it.
    fn start_copy(&mut self, op: u32) -> Result<(), OutOfMemory> {
        self.observer.turns_to(op);
        self.make_outputs(op)?;
        let entry = &self.program.ops[op as usize];
        let copied = self.program.tensors.get(entry.first_tensor as usize).filter(|_| entry.tensors > 0);
        let bytes = copied.map_or(0, |tensor| tensor.content_bytes);
        let is_swap = bytes > 0;
        let unevenness = self.scenario.unevenness(op);
        let latency = self.machine.link_latency_seconds;
        let end = match (entry.from, entry.to) {
            (Place::Gpu(gpu), to) => {
                let rate = self.machine.out_bytes_per_second;
                let engine = &mut self.gpus[usize::from(gpu)];
                let start = self.host_seconds.max(engine.out).max(engine.compute);
                let seconds = (latency * entry.copies as f64 + bytes as f64 / rate) * unevenness;
                engine.out = start + seconds;
                engine.outcome.out_bytes += if to == Place::Host { bytes } else { 0 };
                if is_swap {
                    engine.outcome.out_seconds += seconds;
                    self.observer.copy(op, Place::Gpu(gpu), true, start, engine.out);
                }
                engine.out
            }
            (Place::Host, Place::Gpu(gpu)) => {
                let rate = self.machine.in_bytes_per_second;
                let engine = &mut self.gpus[usize::from(gpu)];
                let start = self.host_seconds.max(engine.into).max(engine.compute);
                let seconds = (latency * entry.copies as f64 + bytes as f64 / rate) * unevenness;
                engine.into = start + seconds;
                engine.outcome.in_bytes += bytes;
                if is_swap {
                    engine.outcome.in_seconds += seconds;
                    self.observer.copy(op, Place::Gpu(gpu), false, start, engine.into);
                }
                engine.into
            }
            (Place::Host, Place::Host) => self.host_seconds,
        };
        let noticed = end + self.machine.notice_seconds * unevenness;
        self.event_count += 1;
        // The bits of times that are not negative have the order of the times.
        self.events.push(Reverse((noticed.to_bits(), self.event_count, op)));
        Ok(())
    }

    /// Ends all copies that are done by a time.
    fn complete_until(&mut self, seconds: f64) {
        while let Some(Reverse((end, _, op))) = self.events.peek().copied() {
            if f64::from_bits(end) > seconds {
                return;
            }
            self.events.pop();
            self.complete(op, f64::from_bits(end));
        }
    }

    /// Waits for the next copy to end. Whether there was one.
    fn complete_next(&mut self) -> bool {
        let Some(Reverse((end, _, op))) = self.events.pop() else { return false };
        let seconds = f64::from_bits(end);
        self.host_seconds = self.host_seconds.max(seconds);
        self.complete(op, seconds);
        true
    }

    fn complete(&mut self, op: u32, seconds: f64) {
        self.observer.turns_to(op);
        self.finished += 1;
        let program = self.program;
        for &tensor in program.reads.row(op as usize) {
            self.give_up(tensor);
        }
        let successors = self.successors(op);
        let Op { origin, to, .. } = program.ops[op as usize];
        if matches!((origin, to), (Origin::Signal(_), Place::Host)) {
            // Traces show that the swaps behind one trigger start last first.
            successors.iter().rev().for_each(|&next| self.schedule(next, seconds));
        } else {
            successors.iter().for_each(|&next| self.schedule(next, seconds));
        }
    }

    /// Those that wait for an op, in the order in which they are told.
    fn successors(&self, op: u32) -> Cow<'a, [u32]> {
        self.scenario.in_order(op, self.program.successors.row(op as usize))
    }

    /// What came of it. A plan may have what a loop begins with wait for what it gives out: no memory is enough for that.
    fn outcome(self) -> Result<Outcome, OutOfMemory> {
        if self.finished as usize != self.program.ops.len() {
            let op = (0..).zip(&self.waits).find(|&(_, &waits)| waits > 0).map(|(op, _)| op);
            return Err(OutOfMemory { gpu: 0, op, wanted_bytes: 0, used_bytes: 0, pieces: Vec::new() });
        }
        let ends = self.gpus.iter().flat_map(|gpu| [gpu.compute, gpu.out, gpu.into]);
        Ok(Outcome {
            step_seconds: ends.fold(self.host_seconds, f64::max),
            host_peak_bytes: self.host_peak_bytes,
            gpus: self.gpus.into_iter().map(|gpu| gpu.outcome).collect(),
        })
    }
}

impl Meeting {
    /// What GPUs receive is among the first that they run, and so expected from their start; a host with threads to spare does as well.
    fn at_first(op: &Op, machine: &Machine) -> Meeting {
        match (op.is_copy, op.from, op.receiver) {
            (true, Place::Gpu(_), Place::Host) if machine.one_thread => Meeting::Neither,
            _ => Meeting::Expected,
        }
    }
}
