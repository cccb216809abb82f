//! What loops keep from iteration to iteration.
//!
//! A loop's body is in a program once. What it pushes onto a stack or a list, or writes to a TensorArray, is there as often as the loop
//! ran, until somebody takes it off again. A stack that is made anew in each iteration of a loop around it, and that nothing keeps beyond
//! that, holds only what one of them pushes. A loop that keeps something and runs nobody knows how often has no prediction.
//!
//! A loop that takes off what another one pushed is in the program once too: as its first iteration, in which the most is still there. That
//! takes one element off, which goes when it has been read; the rest is there until that loop is done. So an op that makes such elements
//! makes one of them, and the rest.
//!
//! What is otherwise behind the first iteration [`super::balance`] says, and what branches within a loop keep [`super::choices`].

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

use crate::graph::{FrameId, Graph, NodeId, TensorId};
use crate::ops::{Attr, AttrLookup, Fact, Flow};
use crate::order::{Place, Placement};
use crate::plan::Analysis;

use super::ahead::Ahead;
use super::balance::{Balance, Later};
use super::choices::{Branch, Choices, Share};
use super::exchanges::{Exchanges, Replacing};
use super::holders::{Iteration, is_list, keeps, op_of, readers_of_buffer, roots};
use super::iterations::{Frames, LoopTimes, UnknownIterations};
use super::pool::{CHUNK_BYTES, in_chunks};
use super::program::buffer;

/// What is known of a graph's loops.
#[derive(Debug, Clone, Default)]
pub(super) struct Loops {
    /// For each node in a loop how often it runs in a step.
    times: HashMap<NodeId, u64>,
    /// For each output of a `Switch` that ends a loop how often it has something in a step.
    given: HashMap<TensorId, u64>,
    /// For each tensor that is kept, how often it is there, or what is there besides.
    kept: HashMap<TensorId, Kept>,
    /// For each tensor that is kept, what keeps it: the ops that made these stacks and lists.
    holders: BTreeMap<TensorId, BTreeSet<NodeId>>,
    /// For each op that has to run before an element goes, of what it is one.
    taken: HashMap<NodeId, Vec<TensorId>>,
    /// For each op that has to run before the rest goes, of what it is the rest.
    rest_taken: HashMap<NodeId, Vec<TensorId>>,
    /// What is there as a whole only when its loop is done.
    whole_behind: BTreeMap<TensorId, WholeBehind>,
    /// The loops that keep something.
    pub found: Vec<LoopTimes>,
}

/// An op that takes elements off.
#[derive(Debug, Clone, Copy)]
struct Taker {
    node: NodeId,
    /// The outermost loop in which it does and the list stays, if there is one.
    within: Option<FrameId>,
    /// What runs when that loop is done.
    loop_end: Option<NodeId>,
}

/// What is taken off the list that one op made, and added to that of another.
#[derive(Debug)]
struct HandedOn {
    from: NodeId,
    to: NodeId,
    /// The frame in which that list stays.
    held_in: FrameId,
    takers: Vec<Taker>,
}

/// What there is of a tensor when its loop is done, beyond one element.
#[derive(Debug, Clone, Copy)]
pub(super) struct WholeBehind {
    /// An op that then runs.
    pub exit: NodeId,
    pub bytes: u64,
    /// How many elements these are.
    pub count: u64,
}

/// For each tensor that is kept, in which branches all are that add it to something.
type AddedIn = HashMap<TensorId, BTreeSet<Branch>>;

/// The elements of a TensorArray that one op makes.
#[derive(Debug)]
struct Spread {
    flow_out: TensorId,
    kept: Kept,
    takers: Vec<Taker>,
    is_cleared_when_read: bool,
}

/// Notes a tensor under an op, once.
fn note(noted: &mut HashMap<NodeId, Vec<TensorId>>, node: NodeId, tensor: TensorId) {
    let tensors = noted.entry(node).or_default();
    if !tensors.contains(&tensor) {
        tensors.push(tensor);
    }
}

/// For each loop an op that runs when it is done.
fn exits(analysis: &Analysis, runs: impl Fn(NodeId) -> bool) -> HashMap<FrameId, NodeId> {
    let Analysis { graph, flow, .. } = analysis;
    let is_exit = |node: &NodeId| graph.flow(*node) == Some(Flow::Exit) && runs(*node);
    let mut exits = HashMap::new();
    for node in graph.node_ids().filter(is_exit) {
        exits.entry(flow.frame(node)).or_insert(node);
    }
    exits
}

/// What is there of a tensor.
#[derive(Debug, Clone, Copy)]
struct Kept {
    /// How often it is there.
    times: u64,
    /// What else is there each time, as long as the tensor itself.
    more_bytes: u64,
    /// What else is there each time, until it is taken, and in how many tensors.
    apart_bytes: u64,
    apart_count: u64,
}

impl Kept {
    /// It alone, so often.
    fn times(times: u64) -> Kept {
        Kept { times, more_bytes: 0, apart_bytes: 0, apart_count: 0 }
    }

    /// What there is of it, given the memory of one in whole chunks.
    fn bytes(&self, once: u64) -> u64 {
        self.last_bytes(once).saturating_add(self.apart_bytes).saturating_mul(self.times)
    }

    /// What there is of the last one, as long as that is there.
    fn last_bytes(&self, once: u64) -> u64 {
        once.saturating_add(in_chunks(self.more_bytes))
    }
}

/// Whether a TensorArray gives its elements away as they are read. Those of gradients always do.
fn is_cleared_when_read(graph: &Graph, holder: NodeId) -> bool {
    graph.attrs(holder).attr("clear_after_read") != Some(Attr::Bool(false))
}

impl Loops {
    /// Finds out what the loops of a step keep.
    ///
    /// # Errors
    ///
    /// If a loop keeps something and it is not known how often it runs.
    pub fn of(
        analysis: &Analysis,
        placement: &Placement,
        runs: impl Fn(NodeId) -> bool,
    ) -> Result<Loops, UnknownIterations> {
        let Analysis { graph, flow, .. } = analysis;
        let mut loops = Loops::default();
        let keeps_something =
            |node: NodeId| flow.frame(node) != FrameId::TOP || graph.op(node).facts().has(Fact::GivesElement);
        if !graph.node_ids().any(keeps_something) {
            return Ok(loops);
        }
        let frames = Frames::of(analysis);
        let mut unknown: BTreeMap<&str, u64> = BTreeMap::new();
        let mut keeping: BTreeSet<FrameId> = BTreeSet::new();
        let mut exchanges = Exchanges::default();
        let mut handed_on: Vec<HandedOn> = Vec::new();
        let mut copied: HashSet<TensorId> = HashSet::new();
        let mut added_in = AddedIn::new();
        let mut balance = Balance::default();
        let mut spread: Vec<Spread> = Vec::new();
        let exits = exits(analysis, &runs);
        let within =
            |node: NodeId, held_in: FrameId| frames.outermost_within(analysis, flow.frame(node), held_in);
        let loop_end = |node: NodeId, held_in: FrameId| exits.get(&within(node, held_in)?).copied();
        let taker = |node: NodeId, held_in: FrameId| Taker {
            node,
            within: within(node, held_in),
            loop_end: loop_end(node, held_in),
        };
        for node in graph.node_ids().filter(|&node| analysis.step.contains(node)) {
            // Also of what TensorFlow computes beforehand: it is copied in each iteration in which it is read elsewhere.
            if flow.frame(node) != FrameId::TOP
                && let Some(times) = frames.runs_of(analysis, node)
            {
                loops.times.insert(node, times);
            }
        }
        for node in graph.node_ids().filter(|&node| runs(node)) {
            let frame = flow.frame(node);
            loops.given.extend(frames.given(analysis, node));
            let Some((holder, value)) = keeps(graph, node) else { continue };
            let holder = holder.map_or(Some(node), |handle| frames.holders.holder_of(graph, handle));
            let Some(holder) = holder else { continue };
            // What is added on the host is there as a copy.
            if placement.op(node) == Place::Host {
                continue;
            }
            let held_in = flow.frame(frames.holders.outermost(holder));
            let all_takers = frames.holders.takers_with_around(holder);
            let takers: Vec<Taker> = all_takers.map(|node| taker(node, held_in)).collect();
            if graph.op(node).facts().has(Fact::Spreads) {
                let Some(flow_out) = graph.outputs(node).next() else { continue };
                if placement.output(flow_out) != Place::Host {
                    // Each element is a tensor of its own.
                    let elements =
                        analysis.shapes.get(value).and_then(|shape| shape.first()).copied().unwrap_or(0);
                    let rounding = CHUNK_BYTES * u64::try_from(elements).unwrap_or(0);
                    let times = frames.times_within(analysis, frame, held_in).unwrap_or(1);
                    let bytes = in_chunks(analysis.sizes.bytes(value).unwrap_or(0).saturating_add(rounding));
                    // A list has them as long as it is there itself, a TensorArray until they are read.
                    if is_list(graph, flow_out) {
                        let kept = Kept { more_bytes: bytes, ..Kept::times(times) };
                        loops.keep(analysis, flow_out, kept, &takers, Iteration::Same);
                    } else {
                        let is_cleared_when_read = is_cleared_when_read(graph, holder);
                        for taker in &takers {
                            taker.within.into_iter().for_each(|frame| balance.takes(flow_out, frame, bytes));
                            let times = loops.times(taker.node).max(1);
                            balance.takes_at_once(flow_out, flow.frame(taker.node), bytes / times);
                        }
                        let apart_count = u64::try_from(elements).unwrap_or(0);
                        let kept = Kept { apart_bytes: bytes, apart_count, ..Kept::times(times) };
                        spread.push(Spread { flow_out, kept, takers, is_cleared_when_read });
                    }
                    loops.holders.entry(flow_out).or_default().insert(holder);
                }
                continue;
            }
            // What is made on the host, as shapes are, is copied for the list in each iteration: one copy for all lists. (It is not noted
            // who holds these copies: so no list goes to the host for them, where they would not be made, but as they are, they are.)
            if let Some(list) = graph.outputs(node).next()
                && placement.output(value) == Place::Host
                && placement.output(list) != Place::Host
                && analysis.sizes.bytes(value) != Some(0)
                && copied.insert(value)
            {
                let more_bytes = analysis.sizes.bytes(value).unwrap_or(0);
                keeping.insert(frame);
                let Some(times) = frames.times_within(analysis, frame, held_in) else {
                    for name in frames.unknown(analysis, frame) {
                        *unknown.entry(name).or_default() += in_chunks(more_bytes);
                    }
                    continue;
                };
                let kept = Kept { more_bytes, ..Kept::times(times) };
                loops.keep(analysis, list, kept, &takers, Iteration::Same);
                continue;
            }
            for (made, iteration) in roots(graph, &analysis.sizes, value) {
                let maker = graph.producer(made);
                if let Some(from) = frames.holders.given_by(graph, made) {
                    handed_on.push(HandedOn { from, to: holder, held_in, takers: takers.clone() });
                    continue;
                }
                let is_made = maker.index() < graph.len()
                    && placement.output(made) != Place::Host
                    && buffer(graph, &analysis.sizes, maker, made).may_be_own();
                let bytes = analysis.sizes.bytes(made).unwrap_or(0);
                if !is_made || bytes == 0 {
                    continue;
                }
                let frame = flow.frame(maker);
                keeping.insert(frame);
                let Some(times) = frames.times_within(analysis, frame, held_in) else {
                    for name in frames.unknown(analysis, frame) {
                        *unknown.entry(name).or_default() += in_chunks(bytes);
                    }
                    continue;
                };
                let branches: BTreeSet<Branch> = flow.branches_of(flow.condition(node)).collect();
                added_in
                    .entry(made)
                    .and_modify(|common| common.retain(|branch| branches.contains(branch)))
                    .or_insert(branches);
                loops.keep(analysis, made, Kept::times(times), &takers, iteration);
                if takers.is_empty()
                    && let Some(end) = loop_end(maker, held_in)
                {
                    note(&mut loops.rest_taken, end, made);
                }
                loops.holders.entry(made).or_default().insert(holder);
                if iteration == Iteration::None {
                    continue;
                }
                let kept = in_chunks(bytes).saturating_mul(times);
                within(maker, held_in).into_iter().for_each(|frame| balance.adds(made, frame, kept));
                for taker in &takers {
                    taker.within.into_iter().for_each(|frame| balance.takes(made, frame, kept));
                    balance.takes_at_once(made, flow.frame(taker.node), in_chunks(bytes));
                }
                let place = placement.output(made);
                exchanges.add(analysis, (frame, times), (made, place), kept, frames.holders.takers(holder));
            }
        }
        loops.keep_spread(analysis, &balance, spread);
        loops.keep_what_is_handed_on(analysis, &frames, &handed_on);
        if !unknown.is_empty() {
            return Err(UnknownIterations {
                bytes: unknown.values().copied().max().unwrap_or(0),
                loops: unknown.into_keys().map(str::to_string).collect(),
            });
        }
        for Replacing { tensor, behind } in exchanges.replacing() {
            let once = in_chunks(analysis.sizes.bytes(tensor).unwrap_or(0));
            let more = loops.bytes(tensor, once).saturating_sub(once);
            match behind.map(|frame| exits.get(&frame)) {
                None => {}
                Some(Some(&exit)) => {
                    let behind = WholeBehind { exit, bytes: more, count: loops.rest_count(tensor) };
                    loops.whole_behind.insert(tensor, behind);
                }
                Some(None) => continue,
            }
            loops.kept.insert(tensor, Kept::times(1));
        }
        loops.choose_branches(analysis, placement, &added_in);
        let is_kept = |tensor| loops.kept.contains_key(&tensor);
        for Later { frame, first, more_bytes } in balance.later(analysis, placement, &runs, is_kept) {
            let Some(&exit) = exits.get(&frame) else { continue };
            loops.kept.insert(first, Kept { apart_bytes: more_bytes, apart_count: 1, ..Kept::times(1) });
            note(&mut loops.rest_taken, exit, first);
        }
        for frame in keeping.into_iter().filter(|&frame| frame != FrameId::TOP) {
            let (Some(name), Some(times)) = (frames.names.get(&frame), frames.times(analysis, frame)) else {
                continue;
            };
            let is_found = analysis.iterations.of(name).is_none();
            loops.found.push(LoopTimes { name: name.clone(), times, is_found });
        }
        Ok(loops)
    }

    /// What is taken off one list and added to another is there until it has been taken off that too.
    fn keep_what_is_handed_on(&mut self, analysis: &Analysis, frames: &Frames, handed_on: &[HandedOn]) {
        let mut kept_in: HashMap<NodeId, Vec<TensorId>> = HashMap::new();
        for (&tensor, holders) in &self.holders {
            for &holder in holders {
                kept_in.entry(holder).or_default().push(tensor);
            }
        }
        for HandedOn { from, to, held_in, takers } in handed_on {
            for tensor in kept_in.get(from).cloned().unwrap_or_default() {
                let Some(&kept) = self.kept.get(&tensor) else { continue };
                let frame = analysis.flow.frame(analysis.graph.producer(tensor));
                let times = frames.times_within(analysis, frame, *held_in).unwrap_or(1);
                let kept = Kept { times: times.max(kept.times), ..kept };
                // Of a tensor that was spread there is only the whole.
                let is_whole = kept.more_bytes > 0 || kept.apart_bytes > 0;
                let iteration = if is_whole { Iteration::None } else { Iteration::Before };
                self.keep(analysis, tensor, kept, takers, iteration);
                if self.holders.entry(tensor).or_default().insert(*to) {
                    kept_in.entry(*to).or_default().push(tensor);
                }
            }
        }
    }

    /// The same where what may run ahead of its loop does.
    ///
    /// Where a loop adds more to lists than that, and takes nothing off, it is gone when what is added is all there.
    pub fn with_iterations_ahead<'a>(
        &self,
        analysis: &Analysis,
        placement: &Placement,
        ahead: impl Iterator<Item = &'a Ahead>,
        runs: impl Fn(NodeId) -> bool,
    ) -> Loops {
        let Analysis { graph, flow, .. } = analysis;
        let mut loops = self.clone();
        let takes = |node: &NodeId| {
            let facts = graph.op(*node).facts();
            runs(*node) && facts.has(Fact::GivesElement) && placement.op(*node) != Place::Host
        };
        let taking: HashSet<FrameId> = graph.node_ids().filter(takes).map(|node| flow.frame(node)).collect();
        let mut added: HashMap<FrameId, u64> = HashMap::new();
        for &tensor in self.kept.keys() {
            let maker = graph.producer(tensor);
            let once = in_chunks(analysis.sizes.bytes(tensor).unwrap_or(0));
            let added = added.entry(flow.frame(maker)).or_default();
            *added = added.saturating_add(self.bytes(tensor, once));
        }
        let exits = exits(analysis, &runs);
        let mut of_frames: BTreeMap<FrameId, Vec<&Ahead>> = BTreeMap::new();
        ahead.for_each(|one| of_frames.entry(one.frame).or_default().push(one));
        for (frame, ahead) in of_frames {
            let Some(&exit) = exits.get(&frame) else { continue };
            let bytes = ahead.iter().map(|one| one.all_bytes).fold(0, u64::saturating_add);
            if !taking.contains(&frame) && bytes <= added.get(&frame).copied().unwrap_or(0) {
                continue;
            }
            for one in ahead {
                loops.kept.insert(one.made, Kept::times(one.times));
                note(&mut loops.rest_taken, exit, one.made);
            }
        }
        loops
    }

    /// Whether loops keep a tensor.
    pub fn keeps(&self, tensor: TensorId) -> bool {
        self.kept.contains_key(&tensor)
    }

    /// Has what branches keep count in as many iterations as their sides may be taken.
    fn choose_branches(&mut self, analysis: &Analysis, placement: &Placement, added_in: &AddedIn) {
        let Analysis { graph, flow, .. } = analysis;
        let mut choices = Choices::default();
        for &tensor in self.kept.keys() {
            let maker = graph.producer(tensor);
            let once = in_chunks(analysis.sizes.bytes(tensor).unwrap_or(0));
            let mut branches: BTreeSet<Branch> = flow.branches_of(flow.condition(maker)).collect();
            branches.extend(added_in.get(&tensor).into_iter().flatten());
            choices.add(tensor, placement.output(tensor), self.rest_bytes(tensor, once), &branches);
        }
        for (tensor, share) in choices.decide() {
            if let Some(kept) = self.kept.get_mut(&tensor) {
                kept.times = match share {
                    Share::None => 1,
                    Share::Half => kept.times.div_ceil(2),
                };
            }
        }
    }

    /// Has the elements of TensorArrays be there until they are read. In the loop that reads them one goes with each iteration, so they count
    /// where it begins if it adds no more than that, and else are gone by the time for which it counts.
    fn keep_spread(&mut self, analysis: &Analysis, balance: &Balance, spread: Vec<Spread>) {
        for Spread { flow_out, kept, mut takers, is_cleared_when_read } in spread {
            for taker in takers.iter_mut().filter(|_| is_cleared_when_read) {
                taker.loop_end =
                    taker.loop_end.filter(|_| taker.within.is_none_or(|frame| !balance.grows(frame)));
            }
            self.keep(analysis, flow_out, kept, &takers, Iteration::Same);
        }
    }

    /// An element is kept until all have run that take it off, and all that read it then: an op that takes something off has little to
    /// wait for, and runs iterations ahead of those that read it. If what is added is of the iteration before, what is taken off is not the
    /// last one.
    fn keep(
        &mut self,
        analysis: &Analysis,
        tensor: TensorId,
        kept: Kept,
        takers: &[Taker],
        iteration: Iteration,
    ) {
        let graph = analysis.graph;
        let known = self.kept.entry(tensor).or_insert(kept);
        known.times = known.times.max(kept.times);
        known.more_bytes = known.more_bytes.max(kept.more_bytes);
        known.apart_bytes = known.apart_bytes.max(kept.apart_bytes);
        known.apart_count = known.apart_count.max(kept.apart_count);
        for &Taker { node: taker, loop_end, .. } in takers {
            let gives = graph.op(taker).facts().has(Fact::GivesElement);
            let elements = graph.outputs(taker).filter(|&output| gives && !is_list(graph, output));
            let readers = elements.flat_map(|element| readers_of_buffer(graph, &analysis.sizes, element));
            // What is only looked up stays in its list, and what was added first is taken off last.
            let stays = op_of(graph, taker) == Some("TensorListGetItem") || iteration == Iteration::None;
            for node in std::iter::once(taker).chain(readers) {
                if iteration != Iteration::Before || loop_end.is_none() {
                    note(&mut self.taken, node, tensor);
                }
                note(&mut self.rest_taken, node, tensor);
            }
            if let Some(end) = loop_end {
                note(&mut self.rest_taken, end, tensor);
                if stays {
                    note(&mut self.taken, end, tensor);
                }
            }
        }
    }

    /// How often an op runs in a step.
    pub fn times(&self, node: NodeId) -> u64 {
        self.times.get(&node).copied().unwrap_or(1)
    }

    /// How often what an op makes may be there at a time where its loop has so many iterations under way at once; none if neither is known.
    pub fn times_at_once(&self, node: NodeId, at_once: Option<&u64>) -> Option<u64> {
        self.times.get(&node).into_iter().chain(at_once).min().copied()
    }

    /// How often an output of an op has something in a step, at most.
    pub fn times_given(&self, graph: &Graph, tensor: TensorId) -> u64 {
        self.given.get(&tensor).copied().unwrap_or_else(|| self.times(graph.producer(tensor)))
    }

    /// The memory of a tensor, given that of one in whole chunks.
    pub fn bytes(&self, tensor: TensorId, bytes: u64) -> u64 {
        self.kept.get(&tensor).map_or(bytes, |kept| kept.bytes(bytes))
    }

    /// The tensors that loops keep, each with the ops that made the stacks and lists that keep it.
    pub fn holders(&self) -> &BTreeMap<TensorId, BTreeSet<NodeId>> {
        &self.holders
    }

    /// The tensors that are there as a whole only when their loop is done.
    pub fn whole_behind(&self) -> impl Iterator<Item = (TensorId, WholeBehind)> {
        self.whole_behind.iter().map(|(&tensor, &behind)| (tensor, behind))
    }

    /// What else there is of a tensor beside the last one that was made, given the memory of one in whole chunks.
    pub fn rest_bytes(&self, tensor: TensorId, bytes: u64) -> u64 {
        self.kept.get(&tensor).map_or(0, |kept| kept.bytes(bytes).saturating_sub(kept.last_bytes(bytes)))
    }

    /// In how many tensors that is.
    pub fn rest_count(&self, tensor: TensorId) -> u64 {
        let count =
            |kept: &Kept| (kept.times.saturating_sub(1)).max(kept.apart_count.saturating_mul(kept.times));
        self.kept.get(&tensor).map_or(0, count)
    }

    /// The tensors of which the last one is there until an op has run.
    pub fn taken(&self, node: NodeId) -> &[TensorId] {
        self.taken.get(&node).map_or(&[], Vec::as_slice)
    }

    /// The tensors of which the rest is there until an op has run.
    pub fn rest_taken(&self, node: NodeId) -> &[TensorId] {
        self.rest_taken.get(&node).map_or(&[], Vec::as_slice)
    }
}
