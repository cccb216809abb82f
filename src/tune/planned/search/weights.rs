//! Which weights go to the host.
//!
//! A weight on the host is copied to the GPU in each step, which costs link time. So only as many go as the places need at which too
//! much is taken, in the natural order of the step: the large ones first, as few copies are better than many, and of those of one size
//! such as are far from one another, so that copies and computing overlap. How much room there must be for a plan to be found, only
//! trying tells.

use super::rank;
use crate::graph::NodeId;
use crate::order::Place;
use crate::plan::{Draft, Weight};
use crate::simulate::{Outline, Program};
use crate::tune::planned::timeline::{Course, Position, Room, natural};
use crate::tune::{Found, Judge, StrategyError};

/// What part of the memory the weights that stay may fill, with all else that is there at the same time.
const FILLS: [f64; 6] = [1.0, 0.9, 0.8, 0.65, 0.4, 0.0];

/// How long before its reader a copy is taken to be there, in parts of the step.
const LEAD_PARTS: u32 = 64;

/// The best plan with weights on the host, or `found`, the one with all weights on the GPUs, if that is better or the only one. `find`
/// looks for a plan with certain weights on the host.
pub(in crate::tune::planned) fn find(
    judge: &mut Judge,
    found: Option<Found>,
    find: impl Fn(&mut Judge) -> Result<Option<Found>, StrategyError>,
) -> Result<Option<Found>, StrategyError> {
    let outline = judge.outline();
    let candidates = Candidates::of(judge);
    let mut best = found;
    let mut tried: Vec<NodeId> = Vec::new();
    for fill in FILLS {
        let host_ops = candidates.picked(fill);
        if host_ops.is_empty() || host_ops == tried {
            continue;
        }
        let moved = outline.with_host_ops(&host_ops);
        let mut other = judge.of(&moved);
        let with_weights = find(&mut other)?;
        judge.add_simulations(other.simulations());
        tried = host_ops;
        match (with_weights, &best) {
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

/// The ops of all weights that may go to the host.
pub(in crate::tune::planned) fn all(outline: &Outline) -> Vec<NodeId> {
    let mut ops: Vec<NodeId> = outline.weights().into_iter().flat_map(|weight| weight.ops).collect();
    ops.sort_unstable();
    ops
}

/// A weight that may go, and the places between which it is needed on its GPU.
struct Candidate {
    ops: Vec<NodeId>,
    bytes: i64,
    gpu: usize,
    first: Position,
    end: Position,
}

impl Candidate {
    /// Finds out when a weight is read; none if no GPU keeps it.
    fn of(weight: Weight, course: &Course) -> Option<Candidate> {
        let outline = course.outline;
        let graph = outline.analysis().graph;
        let Place::Gpu(gpu) = outline.placement().op(*weight.ops.first()?) else { return None };
        let readers = weight.tensors.iter().flat_map(|&tensor| graph.uses(tensor));
        let places: Vec<Position> = readers.filter_map(|reader| course.place_of_node(reader.node)).collect();
        let lead = course.order.len() as u32 / LEAD_PARTS + 1;
        Some(Candidate {
            ops: weight.ops,
            bytes: weight.bytes as i64,
            gpu: usize::from(gpu),
            first: places.iter().min()?.minus(lead),
            end: places.iter().max()?.next(),
        })
    }

    /// Whether any place at which the weight is not needed has more than so many bytes.
    fn is_in_the_way(&self, rooms: &[Room], step_end: Position, limit: i64) -> bool {
        let room = &rooms[self.gpu];
        room.most(Position::new(0), self.first).max(room.most(self.end, step_end)) > limit
    }

    /// Takes the weight's bytes so many times where it is not needed.
    fn add_to(&self, rooms: &mut [Room], step_end: Position, times: i64) {
        let room = &mut rooms[self.gpu];
        room.add(Position::new(0), self.first, self.bytes * times);
        room.add(self.end, step_end, self.bytes * times);
    }
}

/// The weights that may go, the first to go first.
struct Candidates {
    all: Vec<Candidate>,
    /// The place behind the last.
    step_end: Position,
    /// What is taken at each place with all weights on the GPUs.
    rooms: Vec<Room>,
    /// The bytes of each GPU.
    memory: Vec<u64>,
}

impl Candidates {
    fn of(judge: &Judge) -> Candidates {
        let (outline, machine) = (judge.outline(), judge.machine());
        let program = Program::new(outline, &Draft::default());
        let order = natural(&program, machine);
        let course = Course::new(outline, &program, order, machine.host_op_seconds);
        let weights = outline.weights().into_iter();
        let mut all: Vec<Candidate> = weights.filter_map(|weight| Candidate::of(weight, &course)).collect();
        all.sort_by_key(|candidate| (candidate.first, candidate.end));
        // The numbers of the step's weights with their bits reversed are far apart one after the other.
        let mut ranked: Vec<(i64, u32, Candidate)> =
            (0u32..).zip(all).map(|(number, one)| (-one.bytes, number.reverse_bits(), one)).collect();
        ranked.sort_by_key(|&(bytes, number, _)| (bytes, number));
        let memory = |gpu| machine.memory_bytes(gpu).unwrap_or(i64::MAX as u64);
        Candidates {
            all: ranked.into_iter().map(|(_, _, candidate)| candidate).collect(),
            step_end: course.end(),
            memory: (0..course.rooms.len()).map(memory).collect(),
            rooms: course.rooms,
        }
    }

    /// The ops of the weights that must go so that no place has more than a part of the memory, as far as they can see to that.
    fn picked(&self, fill: f64) -> Vec<NodeId> {
        let limit = |gpu: usize| (self.memory[gpu] as f64 * fill) as i64;
        let mut rooms = self.rooms.clone();
        let mut picked: Vec<&Candidate> = Vec::new();
        for candidate in &self.all {
            if candidate.is_in_the_way(&rooms, self.step_end, limit(candidate.gpu)) {
                candidate.add_to(&mut rooms, self.step_end, -1);
                picked.push(candidate);
            }
        }
        // What came first may be less than what came later saw to. The small ones are copied for little.
        let mut ops: Vec<NodeId> = Vec::new();
        for candidate in picked.into_iter().rev() {
            let is_needed =
                candidate.is_in_the_way(&rooms, self.step_end, limit(candidate.gpu) - candidate.bytes);
            if is_needed {
                ops.extend(&candidate.ops);
            } else {
                candidate.add_to(&mut rooms, self.step_end, 1);
            }
        }
        ops.sort_unstable();
        ops
    }
}
