//! Which ops wait for copies to be out, for an allocator that does not ([`Allocator::Async`]).
//!
//! TensorFlow's own allocator waits for the end of copies where it finds no room, so a plan counts on a buffer's memory from the last use
//! on. CUDA's gives up. So for that one, what needs the room of a buffer that may still be on its way waits for it, in the order in
//! which buffers leave; by then most are out long since.
//!
//! [`Allocator::Async`]: crate::simulate::Allocator::Async

use std::collections::VecDeque;

use rustc_hash::FxHashMap as HashMap;

use super::residence::Residence;
use crate::graph::{NodeId, TensorId};
use crate::order::Place;
use crate::plan::Draft;
use crate::tune::planned::timeline::Position;

/// How many of the ops before the one that needs room may wait in its place.
const MOST_BEFORE: u32 = 16;

/// A buffer that leaves by a copy.
#[derive(Debug, Clone, Copy)]
struct Leaving {
    /// The place of the last use before it leaves.
    after: Position,
    gpu: u16,
    tensor: TensorId,
    /// The place at which the tensor is made.
    made: Position,
    bytes: i64,
}

/// Lets ops wait for copies of a plan, so that each place has room whenever these end.
pub(in crate::tune::planned) fn wait_for_copies(residence: &Residence, budgets: &[i64], draft: &mut Draft) {
    let mut leaving = leaving(residence).into_iter().peekable();
    let mut under_way: Vec<VecDeque<Leaving>> = vec![VecDeque::new(); budgets.len()];
    let mut bytes_under_way = vec![0i64; budgets.len()];
    let mut waiting: HashMap<TensorId, NodeId> = HashMap::default();
    for place in residence.course().order.ids() {
        // What an op starts takes memory as soon as it was launched, and what it reads last is free no sooner.
        while let Some(buffer) = leaving.next_if(|buffer| buffer.after <= place) {
            bytes_under_way[usize::from(buffer.gpu)] += buffer.bytes;
            under_way[usize::from(buffer.gpu)].push_back(buffer);
        }
        for (gpu, &budget) in budgets.iter().enumerate() {
            let room = residence.room(gpu);
            let next = place.next().min(residence.course().end().minus(1));
            let taken = room.at(place).max(room.at(next));
            let mut later = VecDeque::new();
            while taken + bytes_under_way[gpu] > budget
                && let Some(buffer) = under_way[gpu].pop_front()
            {
                match waiter(residence, buffer, place) {
                    Some(node) => {
                        waiting.insert(buffer.tensor, node);
                        bytes_under_way[gpu] -= buffer.bytes;
                    }
                    None => later.push_back(buffer),
                }
            }
            later.extend(under_way[gpu].drain(..));
            under_way[gpu] = later;
        }
    }
    for swap in &mut draft.swaps {
        swap.waiting.extend(waiting.get(&swap.tensor));
    }
}

/// What leaves by a copy, by the place of its last use before that. A tensor is copied once: what comes back of it and leaves again is
/// let go.
fn leaving(residence: &Residence) -> Vec<Leaving> {
    let course = residence.course();
    let placement = course.outline.placement();
    let mut first: HashMap<TensorId, Leaving> = HashMap::default();
    for (gap, absence, name) in residence.copies() {
        let of = residence.life(gap.life);
        let Some(tensor) = course.tensor_ids[name as usize] else { continue };
        if placement.output(tensor) == Place::Host {
            continue;
        }
        let Some(made) = course.made_at[name as usize] else { continue };
        let buffer = Leaving { after: absence.after, gpu: of.gpu, tensor, made, bytes: of.bytes as i64 };
        let known = first.entry(tensor).or_insert(buffer);
        if buffer.after < known.after {
            *known = buffer;
        }
    }
    let mut all: Vec<Leaving> = first.into_values().collect();
    all.sort_unstable_by_key(|buffer| (buffer.after, buffer.tensor));
    all
}

/// The last op up to a place that may wait until a buffer is out.
fn waiter(residence: &Residence, buffer: Leaving, place: Position) -> Option<NodeId> {
    let (course, holds) = (residence.course(), residence.holds());
    let flow = &course.outline.analysis().flow;
    let producer = course.node_at(buffer.made)?;
    let branch = flow.condition(producer);
    let may_hold = |node: NodeId| {
        holds.may_hold(buffer.gpu, buffer.made)
            || holds.branches().enumerate().any(|(number, of)| {
                flow.implies(flow.condition(node), of)
                    && flow.implies(branch, of)
                    && holds.may_hold_within(number, buffer.gpu, buffer.made)
            })
    };
    let first = buffer.made.next().max(place.minus(MOST_BEFORE));
    let places = (first.number()..=place.number()).rev().map(Position::new);
    places.filter_map(|at| Some((at, course.node_at(at)?))).find_map(|(at, node)| {
        let is_here = course.program.place(course.order[at]) == Place::Gpu(buffer.gpu);
        let may_wait = is_here
            && holds.matters(at)
            && may_hold(node)
            && holds.may_wait(course, node, buffer.made)
            && flow.may_control(producer, node);
        may_wait.then_some(node)
    })
}
