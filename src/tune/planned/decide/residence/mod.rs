//! What is in memory when, with a plan in the making.

mod changes;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, HashSet};

use changes::Change;

use crate::graph::{FrameId, NodeId};
use crate::ops::Flow;
use crate::order::Place;
use crate::plan::NodeOrder;
use crate::simulate::Origin;
use crate::tune::planned::timeline::{
    BufferUse, Course, Gap, Life, LifeId, Position, Reader, Room, SecondRunId, Table,
};
use crate::tune::planned::waits::{Holds, Starters, Updates};

/// How a tensor comes back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::tune::planned) enum Comeback {
    /// By a copy.
    Swap,
    /// By a second run of its op.
    Again(SecondRunId),
}

/// A time between two uses in which a buffer is not in memory.
#[derive(Debug, Clone, Copy)]
pub(in crate::tune::planned) struct Absence {
    /// The place of the last use before it.
    pub after: Position,
    /// The place of the first use behind it.
    pub until: Position,
    /// The tensor that those behind it read in place of the original.
    pub tensor: u32,
    /// Whether they read others too that are in the buffer: each returns by a copy of its own.
    pub has_other_names: bool,
    pub comeback: Comeback,
    /// The place of the op that starts the return; memory is taken from the place behind it.
    pub trigger: Position,
    /// Whether it has to return by a copy: something else relies on that, or it leaves right before it is read.
    pub is_fixed: bool,
    /// The last place at which it has to be absent: `after`, if there is no other.
    pub gone_at: Position,
}

/// A second run of an op.
#[derive(Debug, Clone)]
pub(in crate::tune::planned) struct SecondRun {
    pub node: NodeId,
    /// What it makes, of the first run.
    pub tensor: u32,
    /// It runs right before the op at this place.
    pub place: Position,
    /// The op that starts it.
    pub trigger: Position,
    /// What it reads in a GPU's memory.
    pub reads: Vec<RunInput>,
}

/// An input of a second run.
#[derive(Debug, Clone, Copy)]
pub(in crate::tune::planned) struct RunInput {
    pub tensor: u32,
    /// The second run that makes it for this one alone; none if it is read from where it is.
    pub from: Option<SecondRunId>,
}

/// A plan in the making: which buffers are absent when, and what that leaves in memory.
///
/// Memory by place, absences and second runs belong together, so nobody changes one of them alone: each change is one of the methods below,
/// and [`Residence::attempt`] takes all changes back that come to nothing.
#[derive(Debug)]
pub(in crate::tune::planned) struct Residence<'a> {
    course: &'a Course<'a>,
    holds: &'a Holds,
    updates: &'a Updates,
    lives: Table<LifeId, Life>,
    /// For each life when it is absent, by place.
    absences: Table<LifeId, Vec<Absence>>,
    rooms: Vec<Room>,
    second_runs: Table<SecondRunId, SecondRun>,
    /// What keeps updates of variables behind them.
    orders: Vec<NodeOrder>,
    /// What second runs right before a place take for themselves.
    between: BTreeMap<Position, i64>,
    /// How many attempts are under way, one in the other, and what was changed since the first of them began.
    attempts: u32,
    changes: Vec<Change>,
}

impl<'a> Residence<'a> {
    /// All buffers stay.
    pub fn new(course: &'a Course<'a>, holds: &'a Holds, updates: &'a Updates) -> Residence<'a> {
        Residence {
            course,
            holds,
            updates,
            lives: course.lives.clone(),
            absences: Table::filled(Vec::new(), course.lives.len()),
            rooms: course.rooms.clone(),
            second_runs: Table::default(),
            orders: Vec::new(),
            between: BTreeMap::new(),
            attempts: 0,
            changes: Vec::new(),
        }
    }

    /// The step, and its order.
    pub fn course(&self) -> &'a Course<'a> {
        self.course
    }

    /// Which ops may hold up which others.
    pub fn holds(&self) -> &'a Holds {
        self.holds
    }

    /// Which ops write to what an op reads.
    pub fn updates(&self) -> &'a Updates {
        self.updates
    }

    /// A buffer's life, with what second runs read of it.
    pub fn life(&self, life: LifeId) -> &Life {
        &self.lives[life]
    }

    /// The memory of a GPU.
    pub fn room(&self, gpu: usize) -> &Room {
        &self.rooms[gpu]
    }

    /// The memory of the GPU that a life is in.
    pub fn room_of(&self, life: LifeId) -> &Room {
        &self.rooms[usize::from(self.lives[life].gpu)]
    }

    /// All second runs.
    pub fn second_runs(&self) -> &Table<SecondRunId, SecondRun> {
        &self.second_runs
    }

    /// What keeps updates of variables behind second runs.
    pub fn orders(&self) -> &[NodeOrder] {
        &self.orders
    }

    /// What second runs right before a place take for themselves.
    pub fn bytes_between(&self, place: Position) -> i64 {
        self.between.get(&place).copied().unwrap_or(0)
    }

    /// How a buffer could be absent in a gap, at some place at least.
    pub fn possible_absence(&self, gap: Gap) -> Option<Absence> {
        self.possible_return(gap).filter(|absence| absence.trigger > gap.after)
    }

    /// How a buffer could leave at the beginning of a gap and be brought back for its end, even if that follows at once.
    pub fn possible_return(&self, Gap { life, after }: Gap) -> Option<Absence> {
        let of = &self.lives[life];
        let later = &of.uses[of.uses.partition_point(|read| read.place <= after)..];
        let until = later.first()?.place;
        // What is made later hangs on the return by itself.
        let mut before = later
            .iter()
            .filter(|read| self.course.made_at[read.tensor as usize].is_some_and(|made| made <= after));
        let tensor = before.next()?.tensor;
        let mut others: Vec<u32> = before.map(|read| read.tensor).filter(|&other| other != tensor).collect();
        others.sort_unstable();
        others.dedup();
        // Parts of the buffer take no more than it does; other names of the same take more, which is only counted once.
        let bytes = |tensor: &u32| self.course.program.tensor_bytes(*tensor);
        let all_bytes = bytes(&tensor) + others.iter().map(bytes).sum::<u64>();
        let is_admitted = others.is_empty() || all_bytes <= of.bytes || of.bytes <= self.course.small_bytes;
        if !is_admitted
            || !self.can_leave(of, tensor, later)
            || !others.iter().all(|&other| self.can_leave(of, other, later))
        {
            return None;
        }
        let consumers: Vec<NodeId> = later
            .iter()
            .filter(|read| read.tensor == tensor || others.contains(&read.tensor))
            .filter_map(|read| self.node(read.reader))
            .collect();
        let places = (after, until.previous()?);
        let starters = self.starters(life);
        let trigger = self.holds.last_for(self.course, of.gpu, places, &consumers, starters)?;
        Some(Absence {
            after,
            until,
            tensor,
            has_other_names: !others.is_empty(),
            comeback: Comeback::Swap,
            trigger,
            is_fixed: false,
            gone_at: after,
        })
    }

    /// Whether all these readers of a tensor can be given a copy of it.
    fn can_leave(&self, life: &Life, tensor: u32, later: &[BufferUse]) -> bool {
        let course = self.course;
        let analysis = course.outline.analysis();
        let graph = analysis.graph;
        let Some(id) = course.tensor_ids[tensor as usize].filter(|_| course.can_leave[tensor as usize])
        else {
            return false;
        };
        later.iter().filter(|read| read.tensor == tensor).all(|read| {
            let Some(node) = self.node(read.reader) else { return false };
            let reads = graph.data_inputs(node).iter().zip(course.outline.placement().inputs(node));
            analysis.flow.frame(node) == FrameId::TOP
                && graph.flow(node) != Some(Flow::Merge)
                && reads.filter(|(read, _)| **read == id).all(|(_, &place)| place == Place::Gpu(life.gpu))
        })
    }

    /// The op of the graph that reads; none if a copy does.
    pub fn node(&self, reader: Reader) -> Option<NodeId> {
        match reader {
            Reader::Again(number) => Some(self.second_runs[number].node),
            Reader::Entry(op) => match self.course.program.origin(op) {
                Origin::Op(node) => Some(node),
                _ => None,
            },
        }
    }

    /// What is read of a buffer behind an absence, and not made by then, up to the next absence.
    fn returned(&self, life: LifeId, absence: &Absence) -> impl Iterator<Item = &BufferUse> {
        let &Absence { after, until, tensor, has_other_names, .. } = absence;
        let next = self.absences[life].iter().map(|other| other.after).find(|&next| next > after);
        let is_name = move |name: u32| {
            name == tensor
                || (has_other_names && self.course.made_at[name as usize].is_some_and(|made| made <= after))
        };
        let uses = self.lives[life].uses.iter();
        uses.filter(move |read| read.place >= until && next.is_none_or(|next| read.place <= next))
            .filter(move |read| is_name(read.tensor))
    }

    /// The tensors that return by a copy at the end of an absence.
    pub fn names(&self, life: LifeId, absence: &Absence) -> Vec<u32> {
        let mut names = vec![absence.tensor];
        if absence.has_other_names {
            let others = self.returned(life, absence).map(|read| read.tensor);
            names.extend(others.filter(|&other| other != absence.tensor));
            names[1..].sort_unstable();
            names.dedup();
        }
        names
    }

    /// The ops of the graph that are to read what comes back, under whatever name.
    pub fn consumers(&self, life: LifeId, absence: &Absence) -> Vec<NodeId> {
        self.nodes_that_read(self.returned(life, absence))
    }

    /// The ops of the graph that wait for a return: those that read what comes back, under whatever name, and those that read what second
    /// runs make of it.
    pub fn waiting(&self, life: LifeId, absence: &Absence) -> Vec<NodeId> {
        let mut waiting = Vec::new();
        let mut runs: Vec<SecondRunId> = Vec::new();
        let mut reads: Vec<Reader> = self.returned(life, absence).map(|read| read.reader).collect();
        let mut looked_at = 0;
        loop {
            for reader in reads.drain(..) {
                match reader {
                    Reader::Entry(_) => waiting.extend(self.node(reader)),
                    Reader::Again(run) if !runs.contains(&run) => runs.push(run),
                    Reader::Again(_) => {}
                }
            }
            let Some(&run) = runs.get(looked_at) else { break };
            looked_at += 1;
            reads.extend(self.readers_of_run(run));
        }
        let mut seen = HashSet::new();
        waiting.retain(|&node| seen.insert(node));
        waiting
    }

    /// Who reads what a second run makes: those behind it in its own chain, and those that read it in place of the original.
    fn readers_of_run(&self, run: SecondRunId) -> impl Iterator<Item = Reader> {
        let SecondRun { tensor, place, .. } = self.second_runs[run];
        let behind = (run.number() + 1..self.second_runs.len() as u32).map(SecondRunId::new);
        let in_chain = behind
            .take_while(move |&next| self.second_runs[next].place == place)
            .filter(move |&next| self.second_runs[next].reads.iter().any(|read| read.from == Some(run)))
            .map(Reader::Again);
        let ended = self.course.life_of[tensor as usize].and_then(|life| {
            let mut absences = self.absences[life].iter();
            absences.find(|absence| absence.comeback == Comeback::Again(run)).map(|absence| (life, absence))
        });
        let reads = ended.into_iter().flat_map(|(life, absence)| self.returned(life, absence));
        let reads = reads.map(|read| read.reader);
        in_chain.chain(reads)
    }

    /// The places of all ops that a second run hangs on: what starts it, and what starts the returns of what it reads.
    pub fn triggers_behind(&self, run: SecondRunId) -> Vec<Position> {
        let mut triggers = Vec::new();
        let mut runs = vec![run];
        let mut looked_at = 0;
        while let Some(&run) = runs.get(looked_at) {
            looked_at += 1;
            let SecondRun { place, trigger, reads, .. } = &self.second_runs[run];
            triggers.push(*trigger);
            for read in reads {
                let back = || self.absence_before(self.course.life_of[read.tensor as usize]?, *place);
                let made_by = match (read.from, back()) {
                    (None, Some(absence)) => {
                        triggers.push(absence.trigger);
                        match absence.comeback {
                            Comeback::Again(run) => Some(run),
                            Comeback::Swap => None,
                        }
                    }
                    (from, _) => from,
                };
                runs.extend(made_by.filter(|run| !runs.contains(run)));
            }
        }
        triggers.sort_unstable();
        triggers.dedup();
        triggers
    }

    /// The ops of the graph that are to read a tensor that comes back.
    pub fn consumers_of(&self, tensor: u32, life: LifeId, absence: &Absence) -> Vec<NodeId> {
        self.nodes_that_read(self.returned(life, absence).filter(|read| read.tensor == tensor))
    }

    fn nodes_that_read<'b>(&self, reads: impl Iterator<Item = &'b BufferUse>) -> Vec<NodeId> {
        let mut consumers: Vec<NodeId> = reads
            .filter(|read| matches!(read.reader, Reader::Entry(_)))
            .filter_map(|read| self.node(read.reader))
            .collect();
        // An op may read it twice.
        let mut seen = HashSet::new();
        consumers.retain(|&node| seen.insert(node));
        consumers
    }

    /// Which ops may start the return of a buffer: if an op that runs again reads it, only those that are in no branch, as that may
    /// be in none.
    pub fn starters(&self, life: LifeId) -> Starters {
        let uses = &self.lives[life].uses;
        match uses.iter().any(|read| matches!(read.reader, Reader::Again(_))) {
            true => Starters::InNoBranch,
            false => Starters::All,
        }
    }

    /// The absence of a buffer in a gap.
    pub fn absence(&self, Gap { life, after }: Gap) -> Option<&Absence> {
        self.absences[life].iter().find(|absence| absence.after == after)
    }

    /// Whether a buffer leaves in a gap.
    pub fn is_absent(&self, gap: Gap) -> bool {
        self.absence(gap).is_some()
    }

    /// The absence that ends last before a place or covers it.
    pub fn absence_before(&self, life: LifeId, place: Position) -> Option<&Absence> {
        let absences = &self.absences[life];
        absences[..absences.partition_point(|absence| absence.after < place)].last()
    }

    /// When a buffer is absent, by place.
    pub fn absences(&self, life: LifeId) -> &[Absence] {
        &self.absences[life]
    }

    /// All that returns by a copy: the gap, how, and the tensor. In the order in which a plan has the uses of each tensor.
    pub fn copies(&self) -> impl Iterator<Item = (Gap, Absence, u32)> {
        let by_copy = self.all().filter(|(_, absence)| absence.comeback == Comeback::Swap);
        by_copy.flat_map(|(gap, absence)| {
            self.names(gap.life, &absence).into_iter().map(move |tensor| (gap, absence, tensor))
        })
    }

    /// All absences with their gaps, in the order of lives.
    pub fn all(&self) -> impl Iterator<Item = (Gap, Absence)> {
        self.absences.numbered().flat_map(|(life, absences)| {
            absences.iter().map(move |&absence| (Gap { life, after: absence.after }, absence))
        })
    }
}
