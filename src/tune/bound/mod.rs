//! How long a step takes at least, with any plan that runs the ops in the order in which a given plan does.
//!
//! What a plan may do is relaxed to a linear program ([`model`], [`linear`]): between two uses, any part of a buffer may stay, go to the
//! host and back, or be made again. Its bound holds for all plans with that order, so long as they are simulated:
//!
//! - A GPU computes one op at a time, and second runs in between; a link carries one byte after the other in each direction.
//! - What is read by an op is in memory when the op is launched, and a copy of it has come in by then. Copies in wait for all that was
//!   launched before them, so what has come in when an op begins to compute was in memory when it was launched.
//! - What is not in memory has gone out before, or is made again, by all ops that lead from what its buffer held first to what is read. What
//!   these ops read themselves costs nothing and takes no memory here, nor does fragmentation, the host, or a copy's latency.
//!
//! Small buffers take no memory here, nor do those that the host makes, and memory is only looked at where it is shortest. All of this makes
//! the bound lower, and never too high. What it does not know is another order of the ops.

mod linear;
mod model;

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use rustc_hash::FxHashMap;

use super::planned::{Course, Order, cheap_ops};
use crate::graph::NodeId;
use crate::order::Place;
use crate::plan::Draft;
use crate::simulate::{Machine, Observer, Origin, Outline, Program, simulate};

/// What no step goes below in the order of ops that a plan leads to, in seconds; with that on the host which the plan has there.
///
/// None if the plan does not fit, or the linear program is not solved.
pub fn step_bound(outline: &Outline, machine: &Machine, draft: &Draft) -> Option<f64> {
    let mut launches = Launches { program: &Program::new(outline, draft), places: FxHashMap::default() };
    let outcome = simulate(launches.program, machine, &mut launches).ok()?;
    let moved = outline.with_host_ops(&draft.host_ops);
    let program = Program::with_least_memory(&moved, &draft.host_ops);
    let order = as_launched(&program, &launches.places);
    let mut course = Course::new(&moved, &program, order, machine.host_op_seconds);
    course.cheap_ops = cheap_ops(&course);
    let bounds = (0..outcome.gpus.len()).map(|gpu| {
        let gpu = model::Gpu { course: &course, machine, number: gpu as u16 };
        gpu.bound(outcome.step_seconds)
    });
    bounds.collect::<Option<Vec<f64>>>()?.into_iter().reduce(f64::max)
}

/// Notes when each op of the graph is launched for the first time.
struct Launches<'a> {
    program: &'a Program,
    places: FxHashMap<NodeId, u32>,
}

impl Observer for Launches<'_> {
    fn launch(&mut self, op: u32, _: f64, _: f64) {
        if let Origin::Op(node) = self.program.origin(op) {
            let next = self.places.len() as u32;
            self.places.entry(node).or_insert(next);
        }
    }
}

/// The order of a program without a plan in which ops come as they were launched with one, and copies as soon as they can.
fn as_launched(program: &Program, launched: &FxHashMap<NodeId, u32>) -> Order {
    let mut waits = vec![0u32; program.len()];
    for op in 0..program.len() as u32 {
        program.successors(op).iter().for_each(|&next| waits[next as usize] += 1);
    }
    let rank = |op: u32| match program.origin(op) {
        Origin::Op(node) => launched.get(&node).map_or(u32::MAX, |place| place + 1),
        _ => 0,
    };
    let is_ready = |&op: &u32| waits[op as usize] == 0;
    let mut ready: BinaryHeap<Reverse<(u32, u32)>> =
        (0..program.len() as u32).filter(is_ready).map(|op| Reverse((rank(op), op))).collect();
    let mut order = Vec::with_capacity(program.len());
    while let Some(Reverse((_, op))) = ready.pop() {
        order.push(op);
        for &next in program.successors(op) {
            waits[next as usize] -= 1;
            if waits[next as usize] == 0 {
                ready.push(Reverse((rank(next), next)));
            }
        }
    }
    order
}

/// Whether an entry computes on a GPU.
fn computes_on(program: &Program, op: u32, gpu: u16) -> bool {
    program.place(op) == Place::Gpu(gpu) && !program.is_copy(op)
}
