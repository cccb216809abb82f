//! How often loops run.
//!
//! A condition tells, where a counter in it goes up to a limit that is known: a number, a size, or how often another loop ran. A loop
//! that nobody can count has none of that, and somebody must say it.

use std::collections::{BTreeMap, HashMap, HashSet};

use crate::dtype::DataType;
use crate::graph::{FrameId, Graph, NodeId, TensorId, truth_value};
use crate::ops::Flow;
use crate::plan::Analysis;
use crate::shape::{Counter, Growth, Iterated, largest_value};

use super::exchanges::is_off_for_good;
use super::holders::{Holders, inputs_of, keeps, op_of};

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

/// What a graph's loops count, and the tensors that they make longer in each iteration, where it is known how often they run. What is kept
/// on a stack or a list is none of these.
pub fn iterated(analysis: &Analysis) -> Iterated {
    let frames = Frames::of(analysis);
    let known = |(merge, growth): (NodeId, Growth)| {
        let times = frames.own_times(analysis, analysis.flow.frame(merge), 0)?;
        Some(Growth { times, ..growth })
    };
    Iterated {
        growths: carried_and_joined(analysis).into_iter().filter_map(known).collect(),
        counters: counters(analysis, &frames),
    }
}

/// The counters of loops of which it is known how often they run: at their `Merge` after the last iteration, and in their body in it.
fn counters(analysis: &Analysis, frames: &Frames) -> Vec<Counter> {
    let graph = analysis.graph;
    let of_merge = |merge: NodeId| {
        let tensor = graph.outputs(merge).next()?;
        let (first, _) = carried(graph, tensor)?;
        if !matches!(graph.output_type(tensor).dtype, DataType::INT32 | DataType::INT64)
            || analysis.shapes.rank(first) != Some(0)
        {
            return None;
        }
        let (_, step) = counts_up(analysis, tensor)?;
        let first = largest_value(graph, &analysis.shapes, first)?;
        let times = frames.own_times(analysis, analysis.flow.frame(merge), 0)?;
        let step = i64::try_from(step).ok()?;
        let after = step.checked_mul(i64::try_from(times).ok()?)?.checked_add(first.at_most)?;
        let counter = |tensor, at_most| Counter { tensor, at_most, is_size: first.is_size };
        let switches = graph.successors(merge).filter(|&node| graph.flow(node) == Some(Flow::Switch));
        let to_body = switches.filter_map(|switch| graph.outputs(switch).nth(1));
        let in_body = to_body.map(|tensor| counter(tensor, after - step));
        Some(in_body.chain([counter(tensor, after)]).collect::<Vec<_>>())
    };
    let is_in_loop =
        |&node: &NodeId| graph.flow(node) == Some(Flow::Merge) && analysis.flow.frame(node) != FrameId::TOP;
    graph.node_ids().filter(is_in_loop).filter_map(of_merge).flatten().collect()
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

/// The loops of a graph.
pub(super) struct Frames {
    pub names: HashMap<FrameId, String>,
    conditions: HashMap<FrameId, NodeId>,
    /// The ops of loops that come behind a `Switch`, and so run only if the loop goes on. The others say whether it does.
    bodies: HashSet<NodeId>,
    /// What they keep something in.
    pub holders: Holders,
}

impl Frames {
    pub fn of(analysis: &Analysis) -> Frames {
        let Analysis { graph, flow, .. } = analysis;
        let mut frames = Frames {
            names: HashMap::new(),
            conditions: HashMap::new(),
            bodies: bodies(analysis),
            holders: Holders::of(graph),
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
                _ => {}
            }
        }
        frames
    }

    /// How often what is in a frame runs in a step: as often as its loop in each iteration of those around it.
    pub fn times(&self, analysis: &Analysis, frame: FrameId) -> Option<u64> {
        self.times_within(analysis, frame, FrameId::TOP)
    }

    /// How often it runs in one iteration of a loop around it.
    pub fn times_within(&self, analysis: &Analysis, mut frame: FrameId, around: FrameId) -> Option<u64> {
        let mut times = 1u64;
        while frame != FrameId::TOP && frame != around {
            times = times.saturating_mul(self.own_times(analysis, frame, 0)?).min(MOST_TIMES);
            frame = analysis.flow.around(frame);
        }
        Some(times)
    }

    /// The outermost of the loops that a frame is in and that are within another frame.
    pub fn outermost_within(
        &self,
        analysis: &Analysis,
        mut frame: FrameId,
        around: FrameId,
    ) -> Option<FrameId> {
        let mut outermost = None;
        while frame != FrameId::TOP && frame != around {
            outermost = Some(frame);
            frame = analysis.flow.around(frame);
        }
        outermost.filter(|_| frame == around)
    }

    /// How often an op of a loop runs in a step: what says whether the loop goes on runs once more than the rest.
    pub fn runs_of(&self, analysis: &Analysis, node: NodeId) -> Option<u64> {
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
    pub fn given(&self, analysis: &Analysis, node: NodeId) -> Vec<(TensorId, u64)> {
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
    pub fn unknown(&self, analysis: &Analysis, mut frame: FrameId) -> Vec<&str> {
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
            ("Merge", &[one, other]) => {
                let sides = [
                    self.holds_beside(analysis, one, other, depth),
                    self.holds_beside(analysis, other, one, depth),
                ];
                sides.into_iter().flatten().min()
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

    /// How often in turn a branch gives true, at most, of which one side is always false, as AutoGraph makes it of a `break`: as long as the
    /// counter is below its limit, and then nobody leaves.
    fn holds_beside(
        &self,
        analysis: &Analysis,
        side: TensorId,
        other: TensorId,
        depth: usize,
    ) -> Option<u64> {
        let graph = analysis.graph;
        let never = graph.producer(body(graph, side));
        if op_of(graph, never)? != "Const" || truth_value(graph, never) != Some(false) {
            return None;
        }
        let begun = graph.control_inputs(never).iter().flat_map(|&start| inputs_of(graph, start)).copied();
        let taken = begun.chain([side]).find_map(|mut tensor| {
            while op_of(graph, graph.producer(tensor))? == "Identity" {
                tensor = *inputs_of(graph, graph.producer(tensor)).first()?;
            }
            (op_of(graph, graph.producer(tensor))? == "Switch").then_some(tensor)
        });
        let decides = taken
            .filter(|&taken| graph.output_index(taken) == 0)
            .and_then(|taken| inputs_of(graph, graph.producer(taken)).get(1).copied());
        let both = [Some(other), decides].map(|held| self.holds(analysis, held?, depth + 1));
        both.into_iter().flatten().min()
    }

    /// How often the loop ran that a tensor counted.
    fn counted(&self, analysis: &Analysis, count: TensorId, depth: usize) -> Option<u64> {
        let graph = analysis.graph;
        let mut node = graph.producer(count);
        // Off a stack, in a loop in a loop: what was pushed.
        if is_off_for_good(op_of(graph, node)) {
            let holder = self.holders.holder_of(graph, *inputs_of(graph, node).first()?)?;
            let pushes = graph.node_ids().filter_map(|node| {
                let (handle, value) = keeps(graph, node)?;
                (self.holders.holder_of(graph, handle?) == Some(holder)).then_some(value)
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

/// Whether an op is the way out of the counter of a gradient's loop of version 1, which goes down by one as long as it is one at least: so it
/// always gives 0.
pub fn gives_zero(analysis: &Analysis, exit: NodeId) -> bool {
    let graph = analysis.graph;
    let is_one = |tensor: TensorId| {
        largest_value(graph, &analysis.shapes, tensor)
            .is_some_and(|value| value.is_exact && value.at_most == 1)
    };
    let counts_to_zero = || {
        let switch = graph.producer(*inputs_of(graph, exit).first()?);
        let &[counter, goes_on] = inputs_of(graph, switch) else { return None };
        let condition = *inputs_of(graph, graph.producer(goes_on)).first()?;
        let &[compared, limit] = inputs_of(graph, graph.producer(condition)) else { return None };
        counts_down_from(graph, counter)?;
        let (_, back) = carried(graph, counter)?;
        let by = *inputs_of(graph, graph.producer(body(graph, back))).get(1)?;
        let is_counter = graph.producer(body(graph, compared)) == graph.producer(body(graph, counter));
        let goes_on_from_one = op_of(graph, graph.producer(condition)) == Some("GreaterEqual");
        Some(is_counter && goes_on_from_one && is_one(limit) && is_one(by))
    };
    flow_of(graph, exit) == Some(Flow::Exit) && counts_to_zero().unwrap_or(false)
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

/// What a node is in control flow; nothing if it is an argument of a function.
fn flow_of(graph: &Graph, node: NodeId) -> Option<Flow> {
    (node.index() < graph.len()).then(|| graph.flow(node))?
}
