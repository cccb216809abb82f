//! How a tensor can be made again: which ops run a second time, one after the other, and what they read.

use serde::{Deserialize, Serialize};

use super::decisions::{Decision, Decisions};
use super::residence::{Absence, Comeback, Residence};
use crate::graph::NodeId;
use crate::plan::NodeOrder;
use crate::simulate::Buffer;
use crate::tune::planned::timeline::{Gap, LifeId, Position};
use crate::tune::planned::waits::Starters;

/// What ops that run again for one tensor may be.
///
/// None is better for all graphs: with longer chains less is copied, and what is made on the way keeps other second runs from their
/// room.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(in crate::tune::planned) enum Chains {
    /// Few; what they read and what returns later by a copy is brought back earlier; all that is made on the way counts together.
    Short,
    /// More; what they read and what returns later is made again too, if it can be; what is made on the way counts while it is read.
    Long,
    /// The same, of still more ops: a transformer's layer has more than long chains.
    Longest,
}

impl Chains {
    /// How many ops run again for one tensor at most. Twelve reach from one residual block's sum to that before it;
    /// a transformer's layer has more.
    fn longest(self) -> usize {
        match self {
            Chains::Short => 6,
            Chains::Long => 12,
            Chains::Longest => 32,
        }
    }

    /// How many ops are looked at in search of a recipe. What is tried in vain and then copied after all would else be tried again by each
    /// way that leads there.
    fn most_tried(self) -> u32 {
        match self {
            Chains::Short | Chains::Long => 64,
            Chains::Longest => 256,
        }
    }
}

/// How to make a tensor again at a place: the ops to run, each after those that it reads, and what they read.
#[derive(Debug)]
pub(in crate::tune::planned) struct Recipe {
    pub place: Position,
    /// The ops of the graph that wait for it.
    pub waiting: Vec<NodeId>,
    pub runs: Vec<RecipeRun>,
    /// The gaps that a copy must end earlier.
    pub pulled: Vec<Gap>,
    /// What keeps updates of variables behind.
    pub orders: Vec<NodeOrder>,
    seconds: f64,
    tried: u32,
}

/// A second run in a recipe.
#[derive(Debug)]
pub(in crate::tune::planned) struct RecipeRun {
    pub node: NodeId,
    pub tensor: u32,
    pub inputs: Vec<RecipeInput>,
}

/// What a run of a recipe reads.
#[derive(Debug, Clone, Copy)]
pub(in crate::tune::planned) struct RecipeInput {
    pub tensor: u32,
    /// The run of the recipe that makes it, counted from the first; none if it is read from where it is.
    pub from: Option<usize>,
}

/// How far a recipe had come.
struct Mark {
    runs: usize,
    pulled: usize,
    orders: usize,
    seconds: f64,
}

/// What a recipe may do.
#[derive(Debug, Clone, Copy)]
pub(in crate::tune::planned) struct Allowance<'a> {
    /// How long all of its runs may take.
    pub seconds: f64,
    pub chains: Chains,
    /// What is to be copied is not made again on the way, if it can be copied early enough.
    pub decisions: &'a Decisions,
}

impl Recipe {
    /// How to make a tensor again right before a place, for these ops; none if that is not allowed or not possible.
    pub fn for_tensor(
        residence: &Residence,
        (tensor, place): (u32, Position),
        waiting: Vec<NodeId>,
        allowance: Allowance,
    ) -> Option<Recipe> {
        let mut recipe = Recipe {
            place,
            waiting,
            runs: Vec::new(),
            pulled: Vec::new(),
            orders: Vec::new(),
            seconds: 0.0,
            tried: 0,
        };
        recipe.make(residence, tensor, allowance, allowance.chains.longest())?;
        Some(recipe)
    }

    /// Adds what it takes to make a tensor, with so many ops one after the other at most.
    fn make(&mut self, residence: &Residence, tensor: u32, allowance: Allowance, depth: usize) -> Option<()> {
        let course = residence.course();
        let node = course.cheap_ops[tensor as usize]?;
        self.tried += 1;
        self.seconds += course.outline.seconds(node);
        let is_too_long =
            self.runs.len() >= allowance.chains.longest() || self.tried > allowance.chains.most_tried();
        if self.seconds > allowance.seconds || is_too_long {
            return None;
        }
        let depth = depth.checked_sub(1)?;
        self.orders.extend(residence.updates().behind(course, residence.holds(), node, self.place)?);
        let entry = course.outline.entry(node)?;
        let mut inputs: Vec<RecipeInput> = Vec::new();
        for tensor in course.program.reads(entry).flatten() {
            // Variables, and what is in the host's memory, are there anyway.
            if course.life_of[tensor as usize].is_none() || inputs.iter().any(|input| input.tensor == tensor)
            {
                continue;
            }
            if !self.runs.iter().any(|run| run.tensor == tensor) {
                self.provide(residence, tensor, allowance, depth)?;
            }
            let from = self.runs.iter().position(|run| run.tensor == tensor);
            inputs.push(RecipeInput { tensor, from });
        }
        self.runs.push(RecipeRun { node, tensor, inputs });
        Some(())
    }

    /// Sees to it that a tensor is there to be read.
    fn provide(
        &mut self,
        residence: &Residence,
        tensor: u32,
        allowance: Allowance,
        depth: usize,
    ) -> Option<()> {
        let course = residence.course();
        let life = course.life_of[tensor as usize]?;
        let of = residence.life(life);
        let last = of.uses.iter().rev().find(|read| read.tensor == tensor).map(|read| read.place);
        if last.is_none_or(|last| last < self.place) {
            // It is not read any more: it must be made again too.
            return self.make(residence, tensor, allowance, depth);
        }
        match residence.absence_before(life, self.place).copied() {
            // It is there from before, or has come back.
            None => Some(()),
            Some(absence) if absence.until <= self.place => {
                let at = (absence.trigger, absence.trigger);
                let holds = residence.holds();
                let trigger = holds.last_for(course, of.gpu, at, &self.waiting, Starters::InNoBranch);
                (absence.tensor == tensor && trigger.is_some()).then_some(())
            }
            // It comes back later.
            Some(absence) => {
                let decided = allowance.decisions.of(Gap { life, after: absence.after });
                if decided == Some(Decision::Copy) && self.pull(residence, tensor, (life, &absence)).is_some()
                {
                    return Some(());
                }
                if allowance.chains != Chains::Short && self.remake(residence, tensor, allowance, depth) {
                    return Some(());
                }
                self.pull(residence, tensor, (life, &absence))
            }
        }
    }

    /// Makes what comes back later, if that goes; else leaves the recipe as it was.
    fn remake(&mut self, residence: &Residence, tensor: u32, allowance: Allowance, depth: usize) -> bool {
        let Mark { runs, pulled, orders, seconds } = Mark {
            runs: self.runs.len(),
            pulled: self.pulled.len(),
            orders: self.orders.len(),
            seconds: self.seconds,
        };
        let is_made = self.make(residence, tensor, allowance, depth).is_some();
        if !is_made {
            self.runs.truncate(runs);
            self.pulled.truncate(pulled);
            self.orders.truncate(orders);
            self.seconds = seconds;
        }
        is_made
    }

    /// Brings what comes back later by a copy back earlier.
    fn pull(
        &mut self,
        residence: &Residence,
        tensor: u32,
        (life, absence): (LifeId, &Absence),
    ) -> Option<()> {
        if absence.comeback != Comeback::Swap || absence.tensor != tensor {
            return None;
        }
        residence.course().tensor_ids[tensor as usize]?;
        let gap = Gap { life, after: absence.after };
        if !self.pulled.contains(&gap) {
            self.pulled.push(gap);
        }
        Some(())
    }

    /// The bytes that are taken on the way, beside what is made in the end.
    ///
    /// Of long chains, the most that are taken at a time. TensorFlow may run what only hangs on the trigger first, or keep to the order
    /// of the recipe: the larger of both counts.
    pub fn transient_bytes(&self, residence: &Residence, chains: Chains) -> i64 {
        if chains == Chains::Short {
            return self.all_bytes(residence);
        }
        let listed: Vec<usize> = (0..self.runs.len()).collect();
        // How many runs one after the other lead to each.
        let mut ranks: Vec<usize> = Vec::with_capacity(self.runs.len());
        for run in &self.runs {
            let before = run.inputs.iter().filter_map(|input| input.from).map(|from| ranks[from] + 1);
            ranks.push(before.max().unwrap_or(0));
        }
        let mut by_rank = listed.clone();
        by_rank.sort_by_key(|&run| ranks[run]);
        self.most_bytes(residence, &listed).max(self.most_bytes(residence, &by_rank))
    }

    /// The bytes of all that is made on the way, but for what is written over.
    fn all_bytes(&self, residence: &Residence) -> i64 {
        let program = residence.course().program;
        let bytes = |run: &RecipeRun| {
            let bytes = program.tensor_bytes(run.tensor);
            let reads = |other: &&RecipeRun| other.inputs.iter().any(|input| input.tensor == run.tensor);
            let mut readers = self.runs.iter().filter(reads);
            let is_written_over = readers.next().is_some_and(|reader| {
                program.tensor_bytes(reader.tensor) == bytes && program.buffer(reader.tensor) != Buffer::Own
            });
            if is_written_over && readers.next().is_none() { 0 } else { bytes as i64 }
        };
        self.runs.iter().rev().skip(1).map(bytes).sum()
    }

    /// The most that are taken at a time if the runs come in this order.
    fn most_bytes(&self, residence: &Residence, order: &[usize]) -> i64 {
        let Some(last) = self.runs.len().checked_sub(1) else { return 0 };
        let mut readers = vec![0usize; self.runs.len()];
        for from in self.runs.iter().flat_map(|run| &run.inputs).filter_map(|input| input.from) {
            readers[from] += 1;
        }
        let bytes = |run: usize| match run == last {
            true => 0,
            false => residence.course().program.tensor_bytes(self.runs[run].tensor) as i64,
        };
        let (mut here, mut most) = (0, 0);
        for &run in order {
            // What is written over is not there twice.
            let over = self.written_over(residence, run, &readers);
            here += bytes(run) - over.map_or(0, bytes);
            most = most.max(here);
            for from in self.runs[run].inputs.iter().filter_map(|input| input.from) {
                readers[from] -= 1;
                if readers[from] == 0 && over != Some(from) {
                    here -= bytes(from);
                }
            }
        }
        most
    }

    /// The run whose buffer another one takes over, of which nobody else is to read what it makes.
    fn written_over(&self, residence: &Residence, run: usize, readers: &[usize]) -> Option<usize> {
        let program = residence.course().program;
        let tensor = self.runs[run].tensor;
        let bytes = program.tensor_bytes(tensor);
        if program.buffer(tensor) == Buffer::Own {
            return None;
        }
        let from = self.runs[run].inputs.iter().filter_map(|input| input.from);
        from.filter(|&from| readers[from] == 1)
            .find(|&from| program.tensor_bytes(self.runs[from].tensor) == bytes)
    }
}
