//! Ops that TensorFlow takes for one ([`crate::graph::equal`]).
//!
//! Whether it does depends on the plan: an op that reads a copy, or waits for what its equal does not wait for, is not equal any more. So
//! they are merged in the program, once all is connected. The op that does not run stays there as an entry that takes no time and reads
//! nothing: what it makes is in the buffer that the op which runs makes, and whoever reads it reads that.

use std::collections::hash_map::Entry;

use rustc_hash::FxHashMap as HashMap;

use super::outline::Outline;
use super::program::{Buffer, NONE, Op, Tensor};
use crate::cost::Workspace;
use crate::graph::Rows;
use crate::graph::equal::{Classes, Likeness};
use crate::ops::Flow;

/// The entries of a step that may be merged: each with the number of what it has in common with others, in the order of the step.
#[derive(Debug, Clone, Default)]
pub(super) struct Equals(Vec<(u32, u32)>);

impl Equals {
    /// Those of a step. Who begins or ends a loop, or ends a branch, is none of them: it makes nothing. Nor does a `Switch`, but several by
    /// one condition are one, and what waits for them is ready at once.
    pub fn of(outline: &Outline) -> Equals {
        let graph = outline.analysis.graph;
        let classes = Classes::of(graph, Likeness::Certain);
        let may_be = |node| graph.flow(node).is_none_or(|flow| flow == Flow::Switch);
        let shared = |node| classes.shared(node).filter(|_| may_be(node));
        let mut members = vec![0u32; classes.len()];
        for class in outline.order.iter().filter_map(|&node| shared(node)) {
            members[class] += 1;
        }
        let entries = (0u32..).zip(&outline.order);
        let several = entries.filter_map(|(entry, &node)| Some((entry, shared(node)?)));
        let several = several.filter(|&(_, class)| members[class] > 1);
        Equals(several.map(|(entry, class)| (entry, class as u32)).collect())
    }
}

/// Which entries of a program do not run, since others do that are equal: for each of them what it would read.
#[derive(Debug, Default)]
pub(super) struct Merged(HashMap<u32, Vec<u32>>);

impl Merged {
    /// What an entry would read if it ran; none if it does.
    pub fn reads(&self, entry: u32) -> Option<&[u32]> {
        self.0.get(&entry).map(Vec::as_slice)
    }
}

/// A program in the making, all connected.
pub(super) struct Connected<'a> {
    pub ops: &'a mut [Op],
    pub tensors: &'a mut [Tensor],
    pub reads: &'a mut Vec<(u32, u32)>,
    pub edges: &'a mut Vec<(u32, u32)>,
}

impl Connected<'_> {
    /// Merges what is equal in it.
    pub fn merge(mut self, equals: &Equals) -> Merged {
        let pairs = self.pairs(&equals.0);
        if pairs.is_empty() {
            return Merged::default();
        }
        let mut would_read: HashMap<u32, Vec<u32>> =
            pairs.iter().map(|&(entry, _)| (entry, Vec::new())).collect();
        let Connected { tensors, reads, edges, .. } = &mut self;
        reads.retain(|&(entry, tensor)| match would_read.get_mut(&entry) {
            Some(read) => {
                read.push(tensor);
                if let Some(tensor) = tensors.get_mut(tensor as usize) {
                    tensor.uses -= 1;
                }
                false
            }
            None => true,
        });
        edges.retain(|(_, entry)| !would_read.contains_key(entry));
        for &(entry, kept) in &pairs {
            self.pass_on(entry, kept);
        }
        Merged(would_read)
    }

    /// The entries that do not run, each with the one that runs in its place, which comes before it.
    fn pairs(&self, equals: &[(u32, u32)]) -> Vec<(u32, u32)> {
        if equals.is_empty() {
            return Vec::new();
        }
        let mut number_of = vec![NONE; self.ops.len()];
        for (number, &(entry, _)) in (0u32..).zip(equals) {
            number_of[entry as usize] = number;
        }
        let number = |entry: u32| {
            Some(number_of[entry as usize] as usize).filter(|_| number_of[entry as usize] != NONE)
        };
        let of_equals = |(entry, value): (u32, u32)| Some((number(entry)?, value));
        let read = Rows::group(equals.len(), || self.reads.iter().copied().filter_map(of_equals), NONE);
        let waits = || self.edges.iter().filter_map(|&(before, entry)| of_equals((entry, before)));
        let waits = Rows::group(equals.len(), waits, NONE);

        let mut pairs = Vec::new();
        let mut known: HashMap<Vec<u32>, u32> = HashMap::default();
        // For each entry and tensor that is not there the one that is there in its place.
        let (mut kept_entries, mut kept_tensors) = (HashMap::default(), HashMap::default());
        let kept = |kept: &HashMap<u32, u32>, value: u32| kept.get(&value).copied().unwrap_or(value);
        for (number, &(entry, class)) in equals.iter().enumerate() {
            let mut waits: Vec<u32> =
                waits.row(number).iter().map(|&before| kept(&kept_entries, before)).collect();
            waits.sort_unstable();
            waits.dedup();
            let mut key = vec![class];
            key.extend(read.row(number).iter().map(|&tensor| kept(&kept_tensors, tensor)));
            key.push(NONE);
            key.extend(waits);
            match known.entry(key) {
                Entry::Vacant(place) => {
                    place.insert(entry);
                }
                Entry::Occupied(first) if self.are_alike(*first.get(), entry) => {
                    let first = *first.get();
                    kept_entries.insert(entry, first);
                    kept_tensors.extend(self.tensors_of(entry).zip(self.tensors_of(first)));
                    pairs.push((entry, first));
                }
                Entry::Occupied(_) => {}
            }
        }
        pairs
    }

    fn tensors_of(&self, entry: u32) -> std::ops::Range<u32> {
        let Op { first_tensor, tensors, .. } = self.ops[entry as usize];
        first_tensor..first_tensor + tensors
    }

    /// Whether two entries run in one place and make as much.
    fn are_alike(&self, one: u32, other: u32) -> bool {
        let made = |entry| {
            let tensors =
                &self.tensors[self.tensors_of(entry).start as usize..self.tensors_of(entry).end as usize];
            tensors.iter().map(|tensor| (tensor.bytes, tensor.place))
        };
        let place = |entry: u32| self.ops[entry as usize].from;
        place(one) == place(other) && made(one).eq(made(other))
    }

    /// Has an entry not run, and what it makes be what another one makes.
    fn pass_on(&mut self, entry: u32, kept: u32) {
        for (tensor, same) in self.tensors_of(entry).zip(self.tensors_of(kept)) {
            let uses = std::mem::take(&mut self.tensors[tensor as usize].uses);
            self.tensors[tensor as usize].buffer = Buffer::Same(same);
            self.tensors[same as usize].uses += uses;
        }
        let op = &mut self.ops[entry as usize];
        (op.seconds, op.workspace) = (0.0, Workspace::NONE);
        self.edges.push((kept, entry));
    }
}
