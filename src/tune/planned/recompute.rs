//! What comes back by running its op again.

use super::course::{Course, NONE, Reader, Use};
use super::holds::Starters;
use super::residence::{Absence, Comeback, Read, Residence, SecondRun};
use crate::graph::{NodeId, TensorId};
use crate::plan::{NodeOrder, recomputable};
use crate::simulate::{Buffer, Machine};

/// Ops that give the same bits each time, and whose second run may take less time than a copy of what they make: on a PCIe
/// link even convolutions do. (Their gradients are not among them: libraries add these up in no certain order.)
const CHEAP: [&str; 62] = [
    "Abs",
    "Add",
    "AddN",
    "AddV2",
    "AvgPool",
    "AvgPool3D",
    "BiasAdd",
    "Cast",
    "Concat",
    "ConcatV2",
    "Conv2D",
    "Conv3D",
    "DepthwiseConv2dNative",
    "MatMul",
    "Div",
    "Elu",
    "Equal",
    "Erf",
    "Exp",
    "ExpandDims",
    "FusedBatchNorm",
    "FusedBatchNormV2",
    "FusedBatchNormV3",
    "Greater",
    "GreaterEqual",
    "Identity",
    "LeakyRelu",
    "Less",
    "LessEqual",
    "Log",
    "Log1p",
    "LogSoftmax",
    "MaxPool",
    "MaxPool3D",
    "Maximum",
    "Merge",
    "Minimum",
    "Mul",
    "Neg",
    "Pad",
    "PadV2",
    "Pow",
    "RealDiv",
    "Reciprocal",
    "Relu",
    "Relu6",
    "Reshape",
    "ResizeBilinear",
    "ResizeNearestNeighbor",
    "Rsqrt",
    "Select",
    "SelectV2",
    "Selu",
    "Sigmoid",
    "Softmax",
    "Softplus",
    "Sqrt",
    "Square",
    "Squeeze",
    "Sub",
    "Switch",
    "Tanh",
];

/// How many ops run again for one tensor at most.
const LONGEST_CHAIN: usize = 6;

/// For each tensor of the program the op that makes it, if running that again is cheap and safe.
pub(super) fn cheap_ops(course: &Course) -> Vec<Option<NodeId>> {
    let analysis = course.outline.analysis();
    let cheap_op = |id: TensorId| {
        let node = analysis.graph.producer(id);
        let is_cheap = CHEAP.contains(&analysis.graph.op(node).name())
            && recomputable(analysis.graph, &analysis.flow, &analysis.ref_variables, node).is_ok();
        is_cheap.then_some(node)
    };
    course.tensor_ids.iter().map(|&id| id.and_then(cheap_op)).collect()
}

/// For each life whether its last tensor could be made again in less than this part of the time that a copy takes.
pub(super) fn cheap_lives(course: &Course, machine: &Machine, below: f64) -> Vec<bool> {
    let mut cheap = vec![false; course.lives.len()];
    if below <= 0.0 {
        return cheap;
    }
    for (number, life) in course.lives.iter().enumerate() {
        let Some(last) = life.uses.last() else { continue };
        let Some(node) = course.cheap_ops[last.tensor as usize] else { continue };
        let seconds = course.outline.seconds(node);
        cheap[number] = seconds <= below * life.bytes as f64 / machine.in_bytes_per_second;
    }
    cheap
}

/// Decides for each return by a copy, from the first to the last, whether a second run is cheaper and there is room for it.
pub(super) fn recompute(residence: &mut Residence, machine: &Machine, limits: &[i64], below: f64) {
    let mut returns: Vec<(u32, u32, u32)> =
        residence.all().map(|(life, absence)| (absence.until, life, absence.after)).collect();
    returns.sort_unstable();
    for (until, life, after) in returns {
        let seconds = residence.lives[life as usize].bytes as f64 / machine.in_bytes_per_second;
        let Some(absence) = find(residence, life, after) else { continue };
        if absence.is_fixed || absence.until != until {
            continue;
        }
        let consumers = residence.consumers(life, &absence);
        let recipe = Recipe::for_tensor(residence, (absence.tensor, until), consumers, seconds * below);
        if let Some(recipe) = recipe {
            recipe.apply(residence, limits, life, &absence);
        }
    }
}

fn find(residence: &Residence, life: u32, after: u32) -> Option<Absence> {
    residence.absences[life as usize].iter().copied().find(|absence| absence.after == after)
}

/// How to make a tensor again at a place: the ops to run, each after those that it reads, and what they read.
#[derive(Debug, Default)]
struct Recipe {
    place: u32,
    /// The ops of the graph that are to read it.
    consumers: Vec<NodeId>,
    seconds: f64,
    runs: Vec<Run>,
    /// Buffers whose return by a copy must be earlier: life and absence.
    pulled: Vec<(u32, u32)>,
    /// What keeps updates of variables behind.
    orders: Vec<NodeOrder>,
}

/// A second run in a recipe. Its reads name other runs by their places in the recipe.
#[derive(Debug)]
struct Run {
    node: NodeId,
    tensor: u32,
    reads: Vec<Read>,
}

impl Recipe {
    fn for_tensor(
        residence: &Residence,
        (tensor, place): (u32, u32),
        consumers: Vec<NodeId>,
        most_seconds: f64,
    ) -> Option<Recipe> {
        let mut recipe = Recipe { place, consumers, ..Recipe::default() };
        recipe.make(residence, tensor, most_seconds, LONGEST_CHAIN)?;
        Some(recipe)
    }

    /// Adds what it takes to make a tensor, with so many ops one after the other at most.
    fn make(&mut self, residence: &Residence, tensor: u32, most_seconds: f64, depth: usize) -> Option<()> {
        let course = residence.course;
        let node = course.cheap_ops[tensor as usize]?;
        self.seconds += course.outline.seconds(node);
        if self.seconds > most_seconds || self.runs.len() >= LONGEST_CHAIN {
            return None;
        }
        let depth = depth.checked_sub(1)?;
        self.orders.extend(residence.updates.behind(course, residence.holds, node, self.place)?);
        let entry = course.outline.entry(node)?;
        let mut reads: Vec<Read> = Vec::new();
        for tensor in course.program.reads(entry).flatten() {
            // Variables, and what is in the host's memory, are there anyway.
            if course.life_of[tensor as usize] == NONE || reads.iter().any(|read| read.tensor == tensor) {
                continue;
            }
            if !self.runs.iter().any(|run| run.tensor == tensor) {
                self.provide(residence, tensor, most_seconds, depth)?;
            }
            let from = self.runs.iter().position(|run| run.tensor == tensor);
            reads.push(Read { tensor, from: from.map(|run| run as u32) });
        }
        self.runs.push(Run { node, tensor, reads });
        Some(())
    }

    /// Sees to it that a tensor is there to be read.
    fn provide(&mut self, residence: &Residence, tensor: u32, most_seconds: f64, depth: usize) -> Option<()> {
        let course = residence.course;
        let life = course.life_of[tensor as usize];
        let of = &residence.lives[life as usize];
        let last = of.uses.iter().rev().find(|read| read.tensor == tensor).map(|read| read.place);
        let absence = residence.absence_before(life, self.place).copied();
        if last.is_some_and(|last| last >= self.place) {
            return match absence {
                // It is there from before, or has come back.
                None => Some(()),
                Some(absence) if absence.until <= self.place => {
                    let at = (absence.trigger, absence.trigger);
                    let holds = residence.holds;
                    let trigger = holds.last_for(course, of.gpu, at, &self.consumers, Starters::InNoBranch);
                    (absence.tensor == tensor && trigger.is_some()).then_some(())
                }
                // It comes back later by a copy, which can be earlier.
                Some(absence) if absence.comeback == Comeback::Swap && absence.tensor == tensor => {
                    course.tensor_ids[tensor as usize]?;
                    let key = (life, absence.after);
                    if !self.pulled.contains(&key) {
                        self.pulled.push(key);
                    }
                    Some(())
                }
                Some(_) => None,
            };
        }
        // It is not read any more: it must be made again too.
        self.make(residence, tensor, most_seconds, depth)
    }

    /// Carries the recipe out if there is room for it.
    fn apply(self, residence: &mut Residence, limits: &[i64], life: u32, absence: &Absence) {
        let course = residence.course;
        let gpu = usize::from(residence.lives[life as usize].gpu);
        let Some(before) = self.place.checked_sub(1) else { return };
        let Some(trigger) = residence.holds.last_for(
            course,
            gpu as u16,
            (absence.after.max(absence.gone_at), before),
            &self.consumers,
            residence.starters(life),
        ) else {
            return;
        };
        let Some(pulls) = self.pulls(residence, before) else { return };
        pulls.iter().for_each(|pull| pull.take(residence));
        // All that is made on the way counts as there together, but for what is written over.
        let transient: i64 =
            self.runs.iter().rev().skip(1).map(|run| self.transient_bytes(residence, run.tensor)).sum();
        let already = residence.between.get(&self.place).copied().unwrap_or(0);
        let room = &residence.rooms[gpu];
        let here = room.at(self.place) - course.own_bytes[self.place as usize];
        let fits = here + transient + already <= limits[gpu]
            && (trigger == before || room.most(trigger + 1, self.place) + transient <= limits[gpu])
            && pulls.iter().all(|pull| room.most(pull.trigger + 1, pull.was.trigger + 1) <= limits[gpu]);
        if !fits {
            pulls.iter().for_each(|pull| pull.give_back(residence));
            return;
        }
        residence.orders.extend(self.orders);
        *residence.between.entry(self.place).or_default() += transient;
        for pull in pulls {
            residence.change(pull.life, pull.was.after, |known| {
                (known.trigger, known.until, known.is_fixed) = (pull.trigger, self.place, true);
            });
        }
        // The tensor is not there while it would have been on its way.
        let bytes = residence.lives[life as usize].bytes as i64;
        residence.rooms[gpu].add(absence.trigger + 1, trigger + 1, -bytes);
        let first = residence.second_runs.len() as u32;
        let last = first + self.runs.len() as u32 - 1;
        residence.change(life, absence.after, |known| {
            (known.trigger, known.comeback) = (trigger.max(known.trigger), Comeback::Again(last));
        });
        for (number, run) in (first..).zip(self.runs) {
            let mut reads = run.reads;
            for read in &mut reads {
                read.from = read.from.map(|run| run + first);
                if read.from.is_none() {
                    let read = Use { place: self.place, tensor: read.tensor, reader: Reader::Again(number) };
                    let life = &mut residence.lives[course.life_of[read.tensor as usize] as usize];
                    life.uses.insert(life.uses.partition_point(|other| other.place < self.place), read);
                }
            }
            residence.second_runs.push(SecondRun { node: run.node, place: self.place, trigger, reads });
        }
    }

    /// The returns by a copy that must be earlier; none if one cannot be.
    fn pulls(&self, residence: &Residence, before: u32) -> Option<Vec<Pull>> {
        let earlier = |&(life, after): &(u32, u32)| {
            let was = find(residence, life, after)?;
            let mut consumers = residence.consumers(life, &was);
            consumers.extend(&self.consumers);
            let gpu = residence.lives[life as usize].gpu;
            let trigger = residence.holds.last_for(
                residence.course,
                gpu,
                (after + 1, before),
                &consumers,
                Starters::InNoBranch,
            )?;
            (trigger <= was.trigger && trigger >= was.gone_at).then_some(Pull { life, was, trigger })
        };
        self.pulled.iter().map(earlier).collect()
    }

    /// What a tensor takes that is made only to make the next one; nothing if that is written over it.
    fn transient_bytes(&self, residence: &Residence, tensor: u32) -> i64 {
        let program = residence.course.program;
        let bytes = program.tensor_bytes(tensor);
        let reads = |run: &&Run| run.reads.iter().any(|read| read.tensor == tensor);
        let mut readers = self.runs.iter().filter(reads);
        let is_written_over = readers.next().is_some_and(|run| {
            program.tensor_bytes(run.tensor) == bytes && program.buffer(run.tensor) != Buffer::Own
        });
        if is_written_over && readers.next().is_none() { 0 } else { bytes as i64 }
    }
}

/// A return by a copy that is to be earlier.
struct Pull {
    life: u32,
    was: Absence,
    trigger: u32,
}

impl Pull {
    fn take(&self, residence: &mut Residence) {
        let bytes = residence.lives[self.life as usize].bytes as i64;
        residence.room(self.life).add(self.trigger + 1, self.was.trigger + 1, bytes);
    }

    fn give_back(&self, residence: &mut Residence) {
        let bytes = residence.lives[self.life as usize].bytes as i64;
        residence.room(self.life).add(self.trigger + 1, self.was.trigger + 1, -bytes);
    }
}
