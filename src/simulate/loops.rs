//! How often loops run, and what they keep from iteration to iteration.
//!
//! A loop's body is in a program once. What it pushes onto a stack or a list, or writes to a TensorArray, is there as often as the loop
//! ran, until somebody takes it off again: so the tensor counts that often, from the body to that op. A loop that keeps something and runs
//! nobody knows how often has no prediction.
//!
//! A list of TensorFlow 2 (`TensorList…`) is a value: each op that adds an element makes another list of it. The op that made the
//! first one stands for all of them.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

use crate::dtype::DataType;
use crate::graph::{FrameId, Graph, NodeId, TensorId};
use crate::ops::{Fact, Flow};
use crate::order::{Place, Placement};
use crate::plan::Analysis;
use crate::shape::{Growth, largest_value};

use super::exchanges::{Exchanges, Replacing, is_off_for_good};
use super::outline::output_bytes;
use super::pool::{CHUNK_BYTES, in_chunks};
use super::program::{Buffer, buffer};

/// A loop never runs more often: products of such numbers and sizes stay within 64 bits.
const MOST_TIMES: u64 = 1 << 24;

/// How far what leads to a loop's condition is followed.
const DEEPEST: usize = 64;

/// Loops of which somebody must say how often they run.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "how often the loop {} runs is not known, and it keeps {} bytes on a GPU in each iteration: say it with --iterations{}",
    loops.join(", nor "),
    bytes,
    if loops.len() > 1 { " LOOP=N for each" } else { " N" }
)]
pub struct UnknownIterations {
    /// The names of their frames.
    pub loops: Vec<String>,
    /// What they keep in each iteration, together.
    pub bytes: u64,
}

/// How often a loop runs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LoopTimes {
    /// The name of its frame.
    pub name: String,
    /// How often.
    pub times: u64,
    /// Whether it was found, not given.
    pub is_found: bool,
}

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
    /// For each op that takes something off, what that is.
    taken: HashMap<NodeId, Vec<TensorId>>,
    /// What is there as a whole only when its loop is done: with an op that then runs, and the bytes of it beyond one element.
    whole_behind: BTreeMap<TensorId, (NodeId, u64)>,
    /// The loops that keep something.
    pub found: Vec<LoopTimes>,
}

/// What is there of a tensor.
#[derive(Debug, Clone, Copy)]
struct Kept {
    times: u64,
    more_bytes: u64,
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
        if graph.node_ids().all(|node| flow.frame(node) == FrameId::TOP) {
            return Ok(loops);
        }
        let frames = Frames::of(analysis);
        let mut unknown: BTreeMap<&str, u64> = BTreeMap::new();
        let mut keeping: BTreeSet<FrameId> = BTreeSet::new();
        let mut exchanges = Exchanges::default();
        let mut exits: HashMap<FrameId, NodeId> = HashMap::new();
        for node in graph.node_ids().filter(|&node| runs(node)) {
            let frame = flow.frame(node);
            if frame != FrameId::TOP
                && let Some(times) = frames.runs_of(analysis, node)
            {
                loops.times.insert(node, times);
            }
            loops.given.extend(frames.given(analysis, node));
            if graph.flow(node) == Some(Flow::Exit) {
                exits.entry(frame).or_insert(node);
            }
            let Some((holder, value)) = keeps(graph, node) else { continue };
            let holder = holder.map_or(Some(node), |handle| frames.holder_of(graph, handle));
            let Some(holder) = holder else { continue };
            // What is added on the host is there as a copy.
            if placement.op(node) == Place::Host {
                continue;
            }
            let takers = frames.takers.get(&holder).map_or(&[][..], Vec::as_slice);
            if graph.op(node).facts().has(Fact::Spreads) {
                let Some(flow_out) = graph.outputs(node).next() else { continue };
                if placement.output(flow_out) != Place::Host {
                    // Each element is a tensor of its own.
                    let elements =
                        analysis.shapes.get(value).and_then(|shape| shape.first()).copied().unwrap_or(0);
                    let rounding = CHUNK_BYTES * u64::try_from(elements).unwrap_or(0);
                    let more_bytes = analysis.sizes.bytes(value).unwrap_or(0).saturating_add(rounding);
                    loops.keep(graph, flow_out, Kept { times: 1, more_bytes }, takers);
                    loops.holders.entry(flow_out).or_default().insert(holder);
                }
                continue;
            }
            let Some(made) = root(graph, value) else { continue };
            let maker = graph.producer(made);
            let is_made = maker.index() < graph.len()
                && placement.output(made) != Place::Host
                && matches!(
                    buffer(graph, &analysis.sizes, maker, made),
                    Buffer::Own | Buffer::DyingInput | Buffer::AnyInput
                );
            let bytes = output_bytes(analysis, maker, made).unwrap_or(0);
            if !is_made || bytes == 0 {
                continue;
            }
            let frame = flow.frame(maker);
            keeping.insert(frame);
            match frames.times(analysis, frame) {
                Some(times) => {
                    loops.keep(graph, made, Kept { times, more_bytes: 0 }, takers);
                    loops.holders.entry(made).or_default().insert(holder);
                    let kept = in_chunks(bytes).saturating_mul(times);
                    exchanges.add(analysis, (frame, times), (made, placement.output(made)), kept, takers);
                }
                None => {
                    for name in frames.unknown(analysis, frame) {
                        *unknown.entry(name).or_default() += in_chunks(bytes);
                    }
                }
            }
        }
        if !unknown.is_empty() {
            return Err(UnknownIterations {
                bytes: unknown.values().copied().max().unwrap_or(0),
                loops: unknown.into_keys().map(str::to_string).collect(),
            });
        }
        for Replacing { tensor, behind } in exchanges.replacing() {
            let once = in_chunks(output_bytes(analysis, graph.producer(tensor), tensor).unwrap_or(0));
            let more = loops.bytes(tensor, once).saturating_sub(once);
            match behind.map(|frame| exits.get(&frame)) {
                None => {}
                Some(Some(&exit)) => _ = loops.whole_behind.insert(tensor, (exit, more)),
                Some(None) => continue,
            }
            loops.kept.insert(tensor, Kept { times: 1, more_bytes: 0 });
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

    /// A tensor is kept until all have run that take it off, and all that read it then: an op that takes something off has little to
    /// wait for, and runs iterations ahead of those that read it.
    fn keep(&mut self, graph: &Graph, tensor: TensorId, kept: Kept, takers: &[NodeId]) {
        self.kept.insert(tensor, kept);
        for &taker in takers {
            let gives = graph.op(taker).facts().has(Fact::GivesElement);
            let elements = graph.outputs(taker).filter(|&output| gives && !is_list(graph, output));
            let readers = elements.flat_map(|element| graph.uses(element)).map(|reader| reader.node);
            for node in std::iter::once(taker).chain(readers) {
                let taken = self.taken.entry(node).or_default();
                if !taken.contains(&tensor) {
                    taken.push(tensor);
                }
            }
        }
    }

    /// How often an op runs in a step.
    pub fn times(&self, node: NodeId) -> u64 {
        self.times.get(&node).copied().unwrap_or(1)
    }

    /// How often an output of an op has something in a step, at most.
    pub fn times_given(&self, graph: &Graph, tensor: TensorId) -> u64 {
        self.given.get(&tensor).copied().unwrap_or_else(|| self.times(graph.producer(tensor)))
    }

    /// The memory of a tensor, given that of one in whole chunks.
    pub fn bytes(&self, tensor: TensorId, bytes: u64) -> u64 {
        match self.kept.get(&tensor) {
            Some(kept) => bytes.saturating_mul(kept.times).saturating_add(in_chunks(kept.more_bytes)),
            None => bytes,
        }
    }

    /// The tensors that loops keep, each with the ops that made the stacks and lists that keep it.
    pub fn holders(&self) -> &BTreeMap<TensorId, BTreeSet<NodeId>> {
        &self.holders
    }

    /// The tensors that are there as a whole only when their loop is done: each with an op that then runs, and the bytes of it beyond one
    /// element.
    pub fn whole_behind(&self) -> impl Iterator<Item = (TensorId, NodeId, u64)> {
        self.whole_behind.iter().map(|(&tensor, &(exit, bytes))| (tensor, exit, bytes))
    }

    /// The tensors that are there until an op has run that takes them off.
    pub fn taken(&self, node: NodeId) -> &[TensorId] {
        self.taken.get(&node).map_or(&[], Vec::as_slice)
    }
}

/// The tensors that a graph's loops make longer in each iteration, where it is known how often these run. What is kept on a stack or a
/// list is none of them.
pub fn growths(analysis: &Analysis) -> Vec<Growth> {
    let frames = Frames::of(analysis);
    let known = |(merge, growth): (NodeId, Growth)| {
        let times = frames.own_times(analysis, analysis.flow.frame(merge), 0)?;
        Some(Growth { times, ..growth })
    };
    carried_and_joined(analysis).into_iter().filter_map(known).collect()
}

/// The loops that make a tensor longer, and of which it is not known how often they run.
pub(super) fn endless_growth(analysis: &Analysis) -> Option<UnknownIterations> {
    let frames = Frames::of(analysis);
    let mut unknown: BTreeMap<&str, u64> = BTreeMap::new();
    for (merge, growth) in carried_and_joined(analysis) {
        let added: u64 = growth.parts.iter().filter_map(|&part| analysis.sizes.bytes(part)).sum();
        for name in frames.unknown(analysis, analysis.flow.frame(merge)) {
            *unknown.entry(name).or_default() += added;
        }
    }
    let bytes = unknown.values().copied().max()?;
    Some(UnknownIterations { bytes, loops: unknown.into_keys().map(str::to_string).collect() })
}

/// What loops carry around and join with something else in each iteration, each with its `Merge`.
fn carried_and_joined(analysis: &Analysis) -> Vec<(NodeId, Growth)> {
    let graph = analysis.graph;
    let growth = |merge: NodeId| {
        let tensor = graph.outputs(merge).next()?;
        let (first, back) = carried(graph, tensor)?;
        let concat = graph.producer(body(graph, back));
        if op_of(graph, concat)? != "ConcatV2" {
            return None;
        }
        let (_axis, joined) = inputs_of(graph, concat).split_last()?;
        let (own, parts): (Vec<TensorId>, Vec<TensorId>) =
            joined.iter().partition(|&&part| graph.producer(body(graph, part)) == merge);
        (own.len() == 1).then_some((merge, Growth { tensor, first, concat, parts, times: 0 }))
    };
    let is_in_loop =
        |&node: &NodeId| graph.flow(node) == Some(Flow::Merge) && analysis.flow.frame(node) != FrameId::TOP;
    graph.node_ids().filter(is_in_loop).filter_map(growth).collect()
}

/// The stack, list or TensorArray to which an op adds a tensor, none if it makes one of it, and that tensor.
fn keeps(graph: &Graph, node: NodeId) -> Option<(Option<TensorId>, TensorId)> {
    let inputs = inputs_of(graph, node);
    let facts = graph.op(node).facts();
    match facts.adds() {
        Some(value) => Some((Some(*inputs.first()?), *inputs.get(value)?)),
        None => facts.has(Fact::MakesList).then(|| Some((None, *inputs.first()?)))?,
    }
}

/// Whether a tensor is a list.
fn is_list(graph: &Graph, tensor: TensorId) -> bool {
    graph.output_type(tensor).dtype == DataType::VARIANT
}

/// The op that made a handle, or the first of a row of lists.
fn holder_of(graph: &Graph, handle: TensorId) -> Option<NodeId> {
    let mut node = graph.producer(root(graph, handle)?);
    // Where a loop carries a list, what it began with.
    let mut seen = BTreeSet::new();
    while node.index() < graph.len() && seen.insert(node) {
        let facts = graph.op(node).facts();
        if !facts.has(Fact::SameList) && facts.passes_on(0).is_none() {
            return Some(node);
        }
        let inputs = inputs_of(graph, node);
        let first = inputs.iter().find(|&&input| !graph.is_back_edge(graph.producer(input), node));
        node = graph.producer(*first?);
    }
    None
}

/// The tensor whose buffer another one is: of what a loop carries around, the one that the body makes.
pub(super) fn root(graph: &Graph, mut tensor: TensorId) -> Option<TensorId> {
    let mut seen = BTreeSet::new();
    loop {
        let node = graph.producer(tensor);
        if node.index() >= graph.len() || !seen.insert(tensor) {
            return Some(tensor);
        }
        let inputs = inputs_of(graph, node);
        let back = inputs.iter().find(|&&input| graph.is_back_edge(graph.producer(input), node));
        let passed = graph.op(node).facts().passes_on(graph.output_index(tensor));
        match (back, passed) {
            (Some(&back), _) => tensor = back,
            (None, Some(slot)) => tensor = *inputs.get(slot as usize)?,
            (None, None) => return Some(tensor),
        }
    }
}

/// The loops of a graph.
struct Frames {
    names: HashMap<FrameId, String>,
    conditions: HashMap<FrameId, NodeId>,
    takers: HashMap<NodeId, Vec<NodeId>>,
    /// The ops of loops that come behind a `Switch`, and so run only if the loop goes on. The others say whether it does.
    bodies: HashSet<NodeId>,
    /// For each op that asks for the TensorArray of a gradient, the first that asks for the same.
    gradients: HashMap<NodeId, NodeId>,
}

impl Frames {
    fn of(analysis: &Analysis) -> Frames {
        let Analysis { graph, flow, .. } = analysis;
        let mut frames = Frames {
            names: HashMap::new(),
            conditions: HashMap::new(),
            takers: HashMap::new(),
            bodies: bodies(analysis),
            gradients: gradients(graph),
        };
        for node in graph.node_ids() {
            match graph.flow(node) {
                Some(Flow::Enter) => {
                    if let Some(name) = graph.attrs(node).string("frame_name") {
                        let name = String::from_utf8_lossy(name).into_owned();
                        frames.names.insert(flow.output_frame(node), name);
                    }
                }
                Some(Flow::LoopCond) => {
                    frames.conditions.insert(flow.frame(node), node);
                }
                _ if graph.op(node).facts().has(Fact::TakesOff) => {
                    let handle = inputs_of(graph, node).first();
                    if let Some(holder) = handle.and_then(|&handle| frames.holder_of(graph, handle)) {
                        frames.takers.entry(holder).or_default().push(node);
                    }
                }
                _ => {}
            }
        }
        frames
    }

    /// The op that made a handle, or the first of a row of lists; of those that ask for the TensorArray of the same gradient, the first.
    fn holder_of(&self, graph: &Graph, handle: TensorId) -> Option<NodeId> {
        let holder = holder_of(graph, handle)?;
        Some(self.gradients.get(&holder).copied().unwrap_or(holder))
    }

    /// How often what is in a frame runs in a step: as often as its loop in each iteration of those around it.
    fn times(&self, analysis: &Analysis, mut frame: FrameId) -> Option<u64> {
        let mut times = 1u64;
        while frame != FrameId::TOP {
            times = times.saturating_mul(self.own_times(analysis, frame, 0)?).min(MOST_TIMES);
            frame = analysis.flow.around(frame);
        }
        Some(times)
    }

    /// How often an op of a loop runs in a step: what says whether the loop goes on runs once more than the rest.
    fn runs_of(&self, analysis: &Analysis, node: NodeId) -> Option<u64> {
        let frame = analysis.flow.frame(node);
        let around = || self.times(analysis, analysis.flow.around(frame));
        if analysis.graph.flow(node) == Some(Flow::Exit) {
            return around();
        }
        let times = self.times(analysis, frame)?;
        match self.bodies.contains(&node) {
            true => Some(times),
            false => Some(times.saturating_add(around()?)),
        }
    }

    /// How often a `Switch` that ends a loop gives something to either side: to the outside when the loop is done, else to its body.
    fn given(&self, analysis: &Analysis, node: NodeId) -> Vec<(TensorId, u64)> {
        let Analysis { graph, flow, .. } = analysis;
        let frame = flow.frame(node);
        let ends_loop =
            |&condition: &TensorId| self.conditions.get(&frame) == Some(&graph.producer(condition));
        if graph.flow(node) != Some(Flow::Switch) || !inputs_of(graph, node).get(1).is_some_and(ends_loop) {
            return Vec::new();
        }
        let sides = [self.times(analysis, flow.around(frame)), self.times(analysis, frame)];
        graph.outputs(node).zip(sides).filter_map(|(output, times)| Some((output, times?))).collect()
    }

    /// The loops around a frame, and that itself, of which it is not known how often they run.
    fn unknown(&self, analysis: &Analysis, mut frame: FrameId) -> Vec<&str> {
        let mut unknown = Vec::new();
        while frame != FrameId::TOP {
            if self.own_times(analysis, frame, 0).is_none() {
                unknown.push(self.names.get(&frame).map_or("without a name", String::as_str));
            }
            frame = analysis.flow.around(frame);
        }
        unknown
    }

    /// How often a loop runs, at most.
    fn own_times(&self, analysis: &Analysis, frame: FrameId, depth: usize) -> Option<u64> {
        let given = self.names.get(&frame).and_then(|name| analysis.iterations.of(name));
        given.or_else(|| {
            let condition = *self.conditions.get(&frame)?;
            self.holds(analysis, *inputs_of(analysis.graph, condition).first()?, depth)
        })
    }

    /// How often in turn a condition holds, at most.
    fn holds(&self, analysis: &Analysis, condition: TensorId, depth: usize) -> Option<u64> {
        let graph = analysis.graph;
        let node = graph.producer(condition);
        if node.index() >= graph.len() || depth > DEEPEST {
            return None;
        }
        let inputs = inputs_of(graph, node);
        match (graph.op(node).name(), inputs) {
            ("Identity", &[one]) => self.holds(analysis, one, depth + 1),
            // Both must hold.
            ("LogicalAnd", &[one, other]) => {
                let both = [self.holds(analysis, one, depth + 1), self.holds(analysis, other, depth + 1)];
                both.into_iter().flatten().min()
            }
            ("Less", &[counter, limit]) | ("Greater", &[limit, counter]) => {
                let (first, step) = counts_up(analysis, counter)?;
                let limit = match largest_value(graph, &analysis.shapes, limit) {
                    Some(limit) => limit.at_most,
                    // The loop of a gradient runs as often as the other ran.
                    None => {
                        i64::try_from(self.counted(analysis, began_with(graph, limit), depth + 1)?).ok()?
                    }
                };
                Some(u64::try_from(limit.checked_sub(first)?.max(0)).ok()?.div_ceil(step))
            }
            // The loop of a gradient goes back as often as the other went on.
            ("GreaterEqual", &[counter, limit]) => {
                let limit = largest_value(graph, &analysis.shapes, limit)?;
                if !limit.is_exact || limit.at_most < 1 {
                    return None;
                }
                self.counted(analysis, counts_down_from(graph, counter)?, depth + 1)
            }
            _ => None,
        }
    }

    /// How often the loop ran that a tensor counted.
    fn counted(&self, analysis: &Analysis, count: TensorId, depth: usize) -> Option<u64> {
        let graph = analysis.graph;
        let mut node = graph.producer(count);
        // Off a stack, in a loop in a loop: what was pushed.
        if is_off_for_good(op_of(graph, node)) {
            let holder = self.holder_of(graph, *inputs_of(graph, node).first()?)?;
            let pushes = graph.node_ids().filter_map(|node| {
                let (handle, value) = keeps(graph, node)?;
                (self.holder_of(graph, handle?) == Some(holder)).then_some(value)
            });
            let pushed: Vec<TensorId> = pushes.collect();
            let &[value] = &*pushed else { return None };
            node = graph.producer(value);
        }
        if flow_of(graph, node)? != Flow::Exit {
            return None;
        }
        let frame = analysis.flow.frame(node);
        let switch = graph.producer(*inputs_of(graph, node).first()?);
        let merge = *inputs_of(graph, switch).first()?;
        let (first, step) = counts_up(analysis, merge)?;
        (first == 0 && step == 1).then(|| self.own_times(analysis, frame, depth + 1))?
    }
}

/// For each op that asks for the TensorArray of a gradient, the first in the file that asks for the same: of the same TensorArray, under the same
/// name.
fn gradients(graph: &Graph) -> HashMap<NodeId, NodeId> {
    let mut first: HashMap<(NodeId, &[u8]), NodeId> = HashMap::new();
    let mut gradients = HashMap::new();
    for node in graph.node_ids().filter(|&node| graph.op(node).name().starts_with("TensorArrayGrad")) {
        let of = inputs_of(graph, node).first().and_then(|&handle| holder_of(graph, handle));
        if let (Some(of), Some(source)) = (of, graph.attrs(node).string("source")) {
            gradients.insert(node, *first.entry((of, source)).or_insert(node));
        }
    }
    gradients
}

/// The ops of loops behind a `Switch` of their loop.
fn bodies(analysis: &Analysis) -> HashSet<NodeId> {
    let Analysis { graph, flow, .. } = analysis;
    let mut bodies: HashSet<NodeId> = HashSet::new();
    for &node in graph.topological() {
        let frame = flow.frame(node);
        let is_behind = |before: NodeId| {
            before.index() < graph.len()
                && !graph.is_back_edge(before, node)
                && flow.frame(before) == frame
                && (bodies.contains(&before) || graph.flow(before) == Some(Flow::Switch))
        };
        if frame != FrameId::TOP && graph.predecessors(node).any(is_behind) {
            bodies.insert(node);
        }
    }
    bodies
}

/// Where a loop's counter begins at least, and by how much it grows in each iteration.
fn counts_up(analysis: &Analysis, counter: TensorId) -> Option<(i64, u64)> {
    let graph = analysis.graph;
    let (first, back) = carried(graph, counter)?;
    let next = graph.producer(body(graph, back));
    let (sum, true) = (inputs_of(graph, next), matches!(op_of(graph, next)?, "Add" | "AddV2")) else {
        return None;
    };
    let &[one, other] = sum else { return None };
    let from_counter = |tensor: TensorId| graph.producer(body(graph, tensor)) == graph.producer(counter);
    let step = if from_counter(one) {
        other
    } else if from_counter(other) {
        one
    } else {
        return None;
    };
    let step = largest_value(graph, &analysis.shapes, step).filter(|step| step.is_exact)?;
    let first = largest_value(graph, &analysis.shapes, first)?;
    // A counter that begins somewhere above zero begins at zero at least.
    let least = if first.is_exact { first.at_most } else { first.is_size.then_some(0)? };
    Some((least, u64::try_from(step.at_most).ok().filter(|&step| step > 0)?))
}

/// What a loop's counter begins with, if it goes down by one in each iteration.
fn counts_down_from(graph: &Graph, counter: TensorId) -> Option<TensorId> {
    let (first, back) = carried(graph, counter)?;
    let next = graph.producer(body(graph, back));
    let inputs = inputs_of(graph, next);
    let goes_down = op_of(graph, next)? == "Sub"
        && inputs.first().is_some_and(|&one| graph.producer(body(graph, one)) == graph.producer(counter));
    goes_down.then_some(first)
}

/// What a loop carries under a name: its first value, and what the body makes of it.
fn carried(graph: &Graph, merge: TensorId) -> Option<(TensorId, TensorId)> {
    let node = graph.producer(body(graph, merge));
    if flow_of(graph, node)? != Flow::Merge {
        return None;
    }
    let &[first, back] = inputs_of(graph, node) else { return None };
    let source = |tensor: TensorId| inputs_of(graph, graph.producer(tensor)).first().copied();
    let is_loop = flow_of(graph, graph.producer(first))? == Flow::Enter
        && flow_of(graph, graph.producer(back))? == Flow::NextIteration;
    is_loop.then(|| Some((source(first)?, source(back)?)))?
}

/// What a tensor was before it was led into loops that carry it around as it is.
fn began_with(graph: &Graph, mut tensor: TensorId) -> TensorId {
    for _ in 0..DEEPEST {
        let Some((first, back)) = carried(graph, tensor) else { break };
        if graph.producer(body(graph, back)) != graph.producer(body(graph, tensor)) {
            break;
        }
        tensor = first;
    }
    tensor
}

/// The loop's variable that a body's tensor is, behind `Switch` and `Identity`.
fn body(graph: &Graph, mut tensor: TensorId) -> TensorId {
    for _ in 0..DEEPEST {
        let node = graph.producer(tensor);
        match (op_of(graph, node), inputs_of(graph, node).first()) {
            (Some("Identity" | "Switch"), Some(&input)) => tensor = input,
            _ => break,
        }
    }
    tensor
}

/// The name of a node's op; none of an argument of a function.
pub(super) fn op_of<'a>(graph: &Graph<'a>, node: NodeId) -> Option<&'a str> {
    (node.index() < graph.len()).then(|| graph.op(node).name())
}

/// What a node is in control flow; nothing if it is an argument of a function.
fn flow_of(graph: &Graph, node: NodeId) -> Option<Flow> {
    (node.index() < graph.len()).then(|| graph.flow(node))?
}

/// What a node reads; nothing if it is an argument of a function.
fn inputs_of<'g>(graph: &'g Graph, node: NodeId) -> &'g [TensorId] {
    if node.index() < graph.len() { graph.data_inputs(node) } else { &[] }
}
