//! What goes to the host for the whole step: weights, and the accumulators of loops.
//!
//! A weight on the host is copied to the GPU in each step, and an accumulator's elements there and back, which costs link time. So only as
//! many go as the places need at which too much is taken, in the natural order of the step: the large ones first, as few copies are better
//! than many, and of those of one size such as are far from one another, so that copies and computing overlap. How much room there must be
//! for a plan to be found, only trying tells.

use super::rank;
use crate::graph::NodeId;
use crate::order::Place;
use crate::plan::{Draft, Weight};
use crate::simulate::{Accumulation, Outline, Program};
use crate::tune::planned::timeline::{Course, Position, Room, natural};
use crate::tune::{Found, Judge, StrategyError};

/// What part of the memory that which stays may fill, with all else that is there at the same time.
const FILLS: [f64; 6] = [1.0, 0.9, 0.8, 0.65, 0.4, 0.0];

/// How long before its reader a copy is taken to be there, in parts of the step.
const LEAD_PARTS: u32 = 64;

/// The best plan with something on the host, or `found`, the one with nothing there, if that is better or the only one. `find` looks for a
/// plan with certain ops on the host.
pub(in crate::tune::planned) fn find(
    judge: &mut Judge,
    what: What,
    found: Option<Found>,
    find: impl Fn(&mut Judge) -> Result<Option<Found>, StrategyError>,
) -> Result<Option<Found>, StrategyError> {
    let mut best = found;
    for host_ops in tries(judge, what) {
        match (with_host_ops(judge, &host_ops, &find)?, &best) {
            (Some(new), Some(old)) if rank(&new.outcome) >= rank(&old.outcome) => {
                // More copies will not be faster.
                if !old.draft.host_ops.is_empty() {
                    break;
                }
            }
            (Some(new), _) => best = Some(new),
            (None, _) => {}
        }
    }
    Ok(best)
}

/// The first plan that is found with something on the host.
pub(in crate::tune::planned) fn find_any(
    judge: &mut Judge,
    what: What,
    find: impl Fn(&mut Judge) -> Option<Found>,
) -> Option<Found> {
    tries(judge, what).into_iter().find_map(|host_ops| with_host_ops(judge, &host_ops, &find))
}

/// Looks for plans with certain ops on the host.
fn with_host_ops<R>(judge: &mut Judge, host_ops: &[NodeId], find: impl Fn(&mut Judge) -> R) -> R {
    let moved = judge.outline().with_host_ops(host_ops);
    let mut other = judge.of(&moved);
    let found = find(&mut other);
    judge.add_simulations(other.simulations());
    found
}

/// What may be on the host.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::tune::planned) enum What {
    /// Accumulators of loops.
    Accumulators,
    /// These, and weights.
    WeightsToo,
}

impl What {
    fn weights(self, outline: &Outline) -> Vec<Weight> {
        if self == What::WeightsToo { outline.weights() } else { Vec::new() }
    }

    /// All ops that may go.
    pub fn ops(self, outline: &Outline) -> Vec<NodeId> {
        let weights = self.weights(outline).into_iter().flat_map(|weight| weight.ops);
        let accumulators = outline.accumulations().into_iter().flat_map(|of| of.accumulator.ops);
        let mut ops: Vec<NodeId> = weights.chain(accumulators).collect();
        ops.sort_unstable();
        ops.dedup();
        ops
    }
}

/// What is tried on the host, the least first.
fn tries(judge: &Judge, what: What) -> Vec<Vec<NodeId>> {
    let candidates = Candidates::of(judge, what);
    let mut tries: Vec<Vec<NodeId>> = Vec::new();
    for host_ops in FILLS.map(|fill| candidates.picked(fill)) {
        if !host_ops.is_empty() && tries.last() != Some(&host_ops) {
            tries.push(host_ops);
        }
    }
    tries
}

/// What may go, and the places between which its GPU then has more room.
struct Candidate {
    ops: Vec<NodeId>,
    bytes: i64,
    gpu: usize,
    frees: Vec<(Position, Position)>,
}

impl Candidate {
    /// An accumulator frees what is between the first op that adds to it and the last that reads what was taken off.
    fn of_loop(of: Accumulation, course: &Course) -> Option<Candidate> {
        let outline = course.outline;
        let graph = outline.analysis().graph;
        let Place::Gpu(gpu) = outline.placement().op(of.accumulator.first) else { return None };
        let made = |&tensor| Some(graph.producer(outline.made_in_loop(tensor)?));
        let makers = of.accumulator.added.iter().filter_map(made);
        let readers = of.accumulator.taken.iter().flat_map(|&tensor| graph.uses(tensor));
        let first = makers.filter_map(|node| course.place_of_node(node)).min()?;
        let end = readers.filter_map(|reader| course.place_of_node(reader.node)).max()?;
        let frees = vec![(first.next(), end)];
        Some(Candidate { ops: of.accumulator.ops, bytes: of.kept_bytes as i64, gpu: usize::from(gpu), frees })
    }

    /// A weight frees all but what is between its first reader and its last; none if no GPU keeps it.
    fn of_weight(weight: Weight, course: &Course) -> Option<Candidate> {
        let outline = course.outline;
        let graph = outline.analysis().graph;
        let Place::Gpu(gpu) = outline.placement().op(*weight.ops.first()?) else { return None };
        let readers = weight.tensors.iter().flat_map(|&tensor| graph.uses(tensor));
        let places: Vec<Position> = readers.filter_map(|reader| course.place_of_node(reader.node)).collect();
        let lead = course.order.len() as u32 / LEAD_PARTS + 1;
        let (first, end) = (places.iter().min()?.minus(lead), places.iter().max()?.next());
        let frees = vec![(Position::new(0), first), (end, course.end())];
        Some(Candidate { ops: weight.ops, bytes: weight.bytes as i64, gpu: usize::from(gpu), frees })
    }

    /// Whether any place at which it frees memory has more than so many bytes.
    fn is_in_the_way(&self, rooms: &[Room], limit: i64) -> bool {
        let room = &rooms[self.gpu];
        self.frees.iter().any(|&(first, end)| room.most(first, end) > limit)
    }

    /// Takes its bytes so many times where it frees them.
    fn add_to(&self, rooms: &mut [Room], times: i64) {
        let room = &mut rooms[self.gpu];
        self.frees.iter().for_each(|&(first, end)| room.add(first, end, self.bytes * times));
    }
}

/// What may go, the first to go first.
struct Candidates {
    all: Vec<Candidate>,
    /// What is taken at each place with all of it on the GPUs.
    rooms: Vec<Room>,
    /// The bytes of each GPU.
    memory: Vec<u64>,
}

impl Candidates {
    fn of(judge: &Judge, what: What) -> Candidates {
        let (outline, machine) = (judge.outline(), judge.machine());
        let program = Program::new(outline, &Draft::default());
        let order = natural(&program, machine);
        let course = Course::new(outline, &program, order, machine.host_op_seconds);
        let weights = what.weights(outline).into_iter();
        let accumulations = outline.accumulations().into_iter();
        let mut all: Vec<Candidate> = weights
            .filter_map(|weight| Candidate::of_weight(weight, &course))
            .chain(accumulations.filter_map(|of| Candidate::of_loop(of, &course)))
            .collect();
        // By where they are needed: of weights, from where the first part that they free ends.
        all.sort_by_key(|candidate| {
            candidate.frees.first().map(|&(_, end)| (end, candidate.frees.last().copied()))
        });
        // The numbers with their bits reversed are far apart one after the other.
        let mut ranked: Vec<(i64, u32, Candidate)> =
            (0u32..).zip(all).map(|(number, one)| (-one.bytes, number.reverse_bits(), one)).collect();
        ranked.sort_by_key(|&(bytes, number, _)| (bytes, number));
        let memory = |gpu| machine.memory_bytes(gpu).unwrap_or(i64::MAX as u64);
        Candidates {
            all: ranked.into_iter().map(|(_, _, candidate)| candidate).collect(),
            memory: (0..course.rooms.len()).map(memory).collect(),
            rooms: course.rooms,
        }
    }

    /// The ops of what must go so that no place has more than a part of the memory, as far as they can see to that.
    fn picked(&self, fill: f64) -> Vec<NodeId> {
        let limit = |gpu: usize| (self.memory[gpu] as f64 * fill) as i64;
        let mut rooms = self.rooms.clone();
        let mut picked: Vec<&Candidate> = Vec::new();
        for candidate in &self.all {
            if candidate.is_in_the_way(&rooms, limit(candidate.gpu)) {
                candidate.add_to(&mut rooms, -1);
                picked.push(candidate);
            }
        }
        // What came first may be less than what came later saw to. The small ones are copied for little.
        let mut ops: Vec<NodeId> = Vec::new();
        for candidate in picked.into_iter().rev() {
            if candidate.is_in_the_way(&rooms, limit(candidate.gpu) - candidate.bytes) {
                ops.extend(&candidate.ops);
            } else {
                candidate.add_to(&mut rooms, 1);
            }
        }
        ops.sort_unstable();
        ops
    }
}
