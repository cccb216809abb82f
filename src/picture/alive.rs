//! Which tensors are in memory at a time.

use std::cmp::Reverse;
use std::collections::BTreeSet;

use super::recorder::{Cause, Change};
use super::{Names, Recording};
use crate::graph::Graph;
use crate::order::Place;
use crate::simulate::Program;

/// The tensors alive in one memory, the largest first.
#[derive(Debug)]
pub(super) struct Alive<'a> {
    program: &'a Program,
    tensors: BTreeSet<(Reverse<u64>, u32)>,
}

impl<'a> Alive<'a> {
    pub(super) fn new(program: &'a Program) -> Alive<'a> {
        Alive { program, tensors: BTreeSet::new() }
    }

    /// Goes past a change of the memory.
    pub(super) fn pass(&mut self, change: &Change) {
        let entry = |tensor: u32| (Reverse(self.program.tensor_bytes(tensor)), tensor);
        match change.cause {
            Cause::Allocated(tensor) => {
                self.tensors.insert(entry(tensor));
            }
            Cause::Freed(tensor) => {
                self.tensors.remove(&entry(tensor));
            }
            Cause::Persistent | Cause::Scratch => {}
        }
    }

    /// The tensors with their bytes.
    pub(super) fn largest(&self) -> impl Iterator<Item = (u32, u64)> {
        self.tensors.iter().map(|&(Reverse(bytes), tensor)| (tensor, bytes))
    }
}

impl Recording<'_> {
    /// The largest tensors that are alive when a GPU's memory is at its peak, with their bytes: the largest first, equal ones
    /// by name. Among them is the scratch memory of the op that runs, if that makes the peak.
    ///
    /// Together, and with what is persistent, they are the peak, if memory has no end. In a pool some bytes of a chunk may
    /// lie idle.
    pub fn alive_at_peak(&self, graph: &Graph, gpu: u16, most: usize) -> Vec<(String, u64)> {
        let place = Place::Gpu(gpu);
        let Some(peak) = self.peak(place) else { return Vec::new() };
        let mut alive = Alive::new(self.program());
        for change in self.changes(place) {
            alive.pass(change);
            if std::ptr::eq(change, peak) {
                break;
            }
        }
        let names = Names::new(graph, self.program());
        let mut tensors: Vec<(String, u64)> =
            alive.largest().map(|(tensor, bytes)| (names.tensor(tensor), bytes)).collect();
        if let (Cause::Scratch, Some(op)) = (peak.cause, peak.op) {
            let scratch = self.program().workspace_bytes(op);
            tensors.push((format!("scratch memory of {}", names.entry(op)), scratch));
        }
        tensors.sort_by(|(name, bytes), (other_name, other)| other.cmp(bytes).then(name.cmp(other_name)));
        tensors.truncate(most);
        tensors
    }
}
