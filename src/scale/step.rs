//! One worker's step as those who reduce see it: from a simulation.

use super::ScaleError;
use crate::order::Place;
use crate::plan::Analysis;
use crate::simulate::{Machine, Observer, Origin, Program, simulate};

/// A step in which reducing itself takes no time.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Step {
    /// How long it takes.
    pub seconds: f64,
    /// For how long the link carries bytes in the direction that has more to carry.
    pub link_seconds: f64,
    /// What is reduced, in the order in which it is.
    pub buckets: Vec<Bucket>,
}

/// Gradients that travel together.
#[derive(Debug, Clone, PartialEq)]
pub struct Bucket {
    /// What becomes of them.
    pub reduces: Reduces,
    /// How many bytes each worker gives.
    pub bytes: u64,
    /// Whether they are reduced in the host's memory.
    pub is_on_host: bool,
    /// When this worker has them where they are reduced.
    pub ready_seconds: f64,
    /// The last bucket before it whose mean they depend on, by its place.
    pub behind: Option<usize>,
    /// How long it takes to copy to the GPU what depends on this bucket, and on none behind it.
    pub copied_in_seconds: f64,
    /// How long the GPU computes what depends on this bucket, and on none behind it.
    pub computed_seconds: f64,
    /// How long the host launches what depends on this bucket, and on none behind it.
    pub launched_seconds: f64,
    /// The longest chain of all that depends on this bucket.
    pub tail_seconds: f64,
}

/// What becomes of all workers' tensors.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reduces {
    /// Their mean, as large as one of them.
    Mean,
    /// All of their rows.
    Rows,
}

impl Step {
    /// Simulates a step, and finds the reduces in it. Where memory runs out it is simulated without an end of memory: whether it fits is
    /// another question.
    ///
    /// # Errors
    ///
    /// If the size of what is reduced is unknown.
    pub fn of(analysis: &Analysis, program: &Program, machine: &Machine) -> Result<Step, ScaleError> {
        let mut watcher = Watcher::new(program, machine);
        let outcome = simulate(program, machine, &mut watcher).or_else(|_| {
            watcher = Watcher::new(program, machine);
            simulate(program, &machine.with_memory(Vec::new()), &mut watcher)
        });
        // Memory without an end does not run out.
        let outcome = outcome.unwrap_or_default();
        let link_seconds =
            outcome.gpus.iter().map(|gpu| gpu.out_seconds.max(gpu.in_seconds)).fold(0.0, f64::max);
        let buckets = Finder::new(analysis, program, &watcher).buckets()?;
        Ok(Step { seconds: outcome.step_seconds, link_seconds, buckets })
    }

    /// How many bytes a worker gives.
    pub fn bytes(&self) -> u64 {
        self.buckets.iter().map(|bucket| bucket.bytes).sum()
    }
}

/// How long an entry keeps what busy.
#[derive(Debug, Clone, Copy, Default)]
struct Busy {
    started: Option<f64>,
    host: f64,
    compute: f64,
    out: f64,
    into: f64,
}

/// Watches how long each entry takes.
struct Watcher {
    busy: Vec<Busy>,
    notice_seconds: f64,
}

impl Watcher {
    fn new(program: &Program, machine: &Machine) -> Watcher {
        Watcher { busy: vec![Busy::default(); program.len()], notice_seconds: machine.notice_seconds }
    }

    /// How long after its start what waits for an entry can go on, at least.
    fn seconds(&self, op: u32, is_copy: bool, place: Place) -> f64 {
        let busy = &self.busy[op as usize];
        match (is_copy, place) {
            (true, _) => busy.out + busy.into + self.notice_seconds,
            (false, Place::Host) => busy.host,
            (false, Place::Gpu(_)) => busy.compute,
        }
    }
}

impl Observer for Watcher {
    fn launch(&mut self, op: u32, start_seconds: f64, end_seconds: f64) {
        let busy = &mut self.busy[op as usize];
        busy.host = end_seconds - start_seconds;
        // What a GPU runs starts when the GPU comes to it, which was told before.
        busy.started.get_or_insert(start_seconds);
    }

    fn compute(&mut self, op: u32, _: Place, start_seconds: f64, end_seconds: f64) {
        let busy = &mut self.busy[op as usize];
        (busy.started, busy.compute) = (Some(start_seconds), end_seconds - start_seconds);
    }

    fn copy(&mut self, op: u32, _: Place, is_out: bool, start_seconds: f64, end_seconds: f64) {
        let busy = &mut self.busy[op as usize];
        *(if is_out { &mut busy.out } else { &mut busy.into }) = end_seconds - start_seconds;
    }
}

/// Finds the reduces of a program, and what lies behind each.
struct Finder<'a> {
    analysis: &'a Analysis<'a>,
    program: &'a Program,
    watcher: &'a Watcher,
    /// All entries, each behind those that it waits for.
    order: Vec<u32>,
}

impl<'a> Finder<'a> {
    fn new(analysis: &'a Analysis<'a>, program: &'a Program, watcher: &'a Watcher) -> Finder<'a> {
        let entries = 0..program.len() as u32;
        let mut waits = vec![0u32; program.len()];
        for op in entries.clone() {
            program.successors(op).iter().for_each(|&next| waits[next as usize] += 1);
        }
        let mut order: Vec<u32> = entries.filter(|&op| waits[op as usize] == 0).collect();
        let mut at = 0;
        while let Some(&op) = order.get(at) {
            at += 1;
            for &next in program.successors(op) {
                waits[next as usize] -= 1;
                if waits[next as usize] == 0 {
                    order.push(next);
                }
            }
        }
        Finder { analysis, program, watcher, order }
    }

    fn reduces(&self, op: u32) -> Option<Reduces> {
        let Origin::Op(node) = self.program.origin(op) else { return None };
        match self.analysis.graph.op(node).name() {
            "CollectiveReduceV2" => Some(Reduces::Mean),
            "CollectiveGatherV2" => Some(Reduces::Rows),
            _ => None,
        }
    }

    fn buckets(&self) -> Result<Vec<Bucket>, ScaleError> {
        let started = |op: u32| self.watcher.busy[op as usize].started.unwrap_or(0.0);
        let found = self.order.iter().filter_map(|&op| Some((op, self.reduces(op)?)));
        let mut found: Vec<(u32, Reduces)> = found.collect();
        // Equal times stay in the order of who waits for whom.
        found.sort_by(|(one, _), (other, _)| started(*one).total_cmp(&started(*other)));
        let mut place = vec![None; self.program.len()];
        for (number, &(op, _)) in found.iter().enumerate() {
            place[op as usize] = Some(number);
        }
        let mut buckets = Vec::with_capacity(found.len());
        for &(op, reduces) in &found {
            buckets.push(Bucket {
                reduces,
                bytes: self.bytes(op)?,
                is_on_host: self.program.place(op) == Place::Host,
                ready_seconds: started(op),
                behind: None,
                copied_in_seconds: 0.0,
                computed_seconds: 0.0,
                launched_seconds: 0.0,
                tail_seconds: 0.0,
            });
        }
        self.put_behind(&place, &mut buckets);
        self.follow(&place, &mut buckets);
        Ok(buckets)
    }

    fn bytes(&self, op: u32) -> Result<u64, ScaleError> {
        let Origin::Op(node) = self.program.origin(op) else { return Ok(0) };
        let Analysis { graph, sizes, .. } = self.analysis;
        let Some(&tensor) = graph.data_inputs(node).first() else { return Ok(0) };
        let unknown = || ScaleError::UnknownBytes { tensor: graph.tensor_name(tensor).to_string() };
        sizes.bytes(tensor).ok_or_else(unknown)
    }

    /// Whether an edge is there only so that reduces come in one order.
    fn is_of_order(&self, from: u32, to: u32) -> bool {
        let from = if let Origin::Signal(of) = self.program.origin(from) { of } else { from };
        self.reduces(from).is_some() && self.reduces(to).is_some()
    }

    /// Adds each entry to the last bucket that it depends on.
    fn put_behind(&self, place: &[Option<usize>], buckets: &mut [Bucket]) {
        let mut last: Vec<Option<usize>> = vec![None; self.program.len()];
        for &op in &self.order {
            let behind = last[op as usize];
            let own = place[op as usize];
            match (own, behind) {
                (Some(own), _) => buckets[own].behind = behind.filter(|&before| before < own),
                (None, Some(before)) => {
                    let busy = &self.watcher.busy[op as usize];
                    buckets[before].copied_in_seconds += busy.into;
                    buckets[before].computed_seconds += busy.compute;
                    buckets[before].launched_seconds += busy.host;
                }
                (None, None) => {}
            }
            let passed = own.max(behind);
            for &next in self.program.successors(op) {
                if !self.is_of_order(op, next) {
                    last[next as usize] = last[next as usize].max(passed);
                }
            }
        }
    }

    /// Finds the longest chain behind each bucket.
    fn follow(&self, place: &[Option<usize>], buckets: &mut [Bucket]) {
        let mut longest = vec![0.0_f64; self.program.len()];
        for &op in self.order.iter().rev() {
            let next = self.program.successors(op).iter().filter(|&&next| !self.is_of_order(op, next));
            let behind = next.map(|&next| longest[next as usize]).fold(0.0, f64::max);
            if let Some(own) = place[op as usize] {
                buckets[own].tail_seconds = behind;
            }
            let (is_copy, place) = (self.program.is_copy(op), self.program.place(op));
            longest[op as usize] = behind + self.watcher.seconds(op, is_copy, place);
        }
    }
}
