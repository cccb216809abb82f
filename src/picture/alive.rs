//! Which tensors are in memory at a time.

use std::cmp::Reverse;
use std::collections::hash_map::Entry;
use std::collections::{BTreeMap, BTreeSet, HashMap};

use super::recorder::{Cause, Change, Takeover};
use super::{Names, Recording};
use crate::graph::{Graph, TensorId};
use crate::order::Place;
use crate::simulate::Program;

/// The tensors alive in one memory, the largest first.
#[derive(Debug)]
pub(super) struct Alive<'a> {
    program: &'a Program,
    /// The tensors whose buffers are in use.
    buffers: BTreeSet<(Reverse<u64>, u32)>,
    /// Of variables, by their numbers in the program, how often what they were is kept.
    kept: BTreeMap<u32, u64>,
    /// For each buffer the tensor that was last written to it.
    residents: Vec<u32>,
    /// What is still to be written over something.
    takeovers: &'a [Takeover],
}

impl<'a> Alive<'a> {
    pub(super) fn new(recording: &'a Recording) -> Alive<'a> {
        Alive {
            program: recording.program(),
            buffers: BTreeSet::new(),
            kept: BTreeMap::new(),
            residents: (0..recording.program().tensor_count() as u32).collect(),
            takeovers: recording.takeovers(),
        }
    }

    /// Goes past a change of the memory, which has this number among all changes.
    pub(super) fn pass(&mut self, number: usize, change: &Change) {
        while let [takeover, later @ ..] = self.takeovers
            && takeover.changes <= number
        {
            self.residents[takeover.buffer as usize] = takeover.tensor;
            self.takeovers = later;
        }
        let entry = |tensor: u32| (Reverse(self.program.tensor_bytes(tensor)), tensor);
        match change.cause {
            Cause::Allocated(tensor) => {
                self.buffers.insert(entry(tensor));
            }
            Cause::Freed(tensor) => {
                self.buffers.remove(&entry(tensor));
            }
            Cause::Kept(variable) => *self.kept.entry(variable).or_default() += 1,
            Cause::Dropped(variable) => {
                let times = self.kept.entry(variable).or_default();
                *times = times.saturating_sub(1);
            }
            Cause::Persistent | Cause::Scratch => {}
        }
    }

    /// What is kept of variables as they were, with its bytes.
    fn of_variables(&self, graph: &Graph) -> impl Iterator<Item = (String, u64)> {
        self.kept.iter().filter(|&(_, &times)| times > 0).map(|(&variable, &times)| {
            let (node, bytes) = self.program.changed_variable(variable);
            (format!("what {} was before its update", graph.name(node)), times * bytes)
        })
    }

    /// The tensors with their bytes, the largest first. What a loop keeps of one is told together.
    pub(super) fn largest(&self) -> Vec<(u32, u64)> {
        let mut kept: HashMap<TensorId, usize> = HashMap::new();
        let mut tensors: Vec<(u32, u64)> = Vec::with_capacity(self.buffers.len());
        for &(Reverse(bytes), buffer) in &self.buffers {
            let tensor = self.residents[buffer as usize];
            match self.program.rest_of(tensor).map(|of| kept.entry(of)) {
                Some(Entry::Occupied(at)) => tensors[*at.get()].1 += bytes,
                Some(Entry::Vacant(at)) => {
                    at.insert(tensors.len());
                    tensors.push((tensor, bytes));
                }
                None => tensors.push((tensor, bytes)),
            }
        }
        if !kept.is_empty() {
            tensors.sort_by_key(|&(_, bytes)| Reverse(bytes));
        }
        tensors
    }
}

impl Recording<'_> {
    /// The largest tensors that are alive when a GPU's memory is at its peak, with their bytes: the largest first, equal ones
    /// by name. Among them is the scratch memory of the op that runs, if that makes the peak, and what variables were that were changed
    /// before all had read them.
    ///
    /// Together, and with what is persistent, they are the peak, if memory has no end. In a pool some bytes of a chunk may
    /// lie idle.
    pub fn alive_at_peak(&self, graph: &Graph, gpu: u16, most: usize) -> Vec<(String, u64)> {
        let place = Place::Gpu(gpu);
        let Some((peak_number, peak)) = self.peak(place) else { return Vec::new() };
        let mut alive = Alive::new(self);
        for (number, change) in self.changes(place).take_while(|&(number, _)| number <= peak_number) {
            alive.pass(number, change);
        }
        let names = Names::new(graph, self.program());
        let mut tensors: Vec<(String, u64)> =
            alive.largest().into_iter().map(|(tensor, bytes)| (names.tensor(tensor), bytes)).collect();
        tensors.extend(alive.of_variables(graph));
        if let (Cause::Scratch, Some(op)) = (peak.cause, peak.op) {
            let scratch = self.program().workspace_bytes(op);
            tensors.push((format!("scratch memory of {}", names.entry(op)), scratch));
        }
        tensors.sort_by(|(name, bytes), (other_name, other)| other.cmp(bytes).then(name.cmp(other_name)));
        tensors.truncate(most);
        tensors
    }
}
