//! Which ops others may be made to wait for.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};

use rustc_hash::FxHashSet as HashSet;

use crate::graph::{Condition, FrameId, Graph, NodeId};
use crate::ops::{Fact, Flow};
use crate::order::Place;
use crate::tune::outsiders::{Outsiders, is_hidden, is_left_of_loop};
use crate::tune::planned::timeline::{Course, Position, Table};

/// How many of the last ops that may hold up others are tried, one after the other.
const MOST_TRIED: usize = 16;

/// How many ops are looked at in search of one that an op needs anyway.
const MOST_SEARCHED: usize = 512;

/// Of how many branches, those with the most ops, the ops may hold up one another.
const MOST_BRANCHES: usize = 4;

/// How many nodes are visited, over all passes, to find out what ops need.
const MOST_VISITS: usize = 400_000_000;

/// Which ops of a step may hold up which others that did not need them.
///
/// What holds up others runs on a GPU in each step in which they run, so outside of loops and of other branches. An op waits only for what
/// has no effect, and comes after none, that the op does not come after anyway ([`Analysis::may_wait`]); and what reads a variable does not
/// wait for its update, before which TensorFlow would then copy it.
///
/// [`Analysis::may_wait`]: crate::plan::Analysis::may_wait
///
/// What is held up may be needed without the step too: gradients by others than the optimizer, the forward part by an
/// evaluation. A run of these must not be made to run what has effects or must be fed, and that it did not run before. So an
/// op only waits for what needs nothing of the kind that those outside of the step, who need the op, do not need too; or for what these
/// need anyway ([`Outsiders`]). All that the first rule allows is before a certain place, and so is what that waits for in turn. So
/// chains of edges of both kinds are allowed if each of their edges is.
#[derive(Debug)]
pub(in crate::tune::planned) struct Holds {
    /// For each GPU and place the last place up to it with an op that may hold up any other.
    last: Lasts,
    /// The same for what runs in a branch only.
    branches: Vec<(Condition, Lasts)>,
    /// For each node the first place that it must not be made to wait for, but for what `outsiders` allow; none if there is no such place.
    free_before: Vec<Option<Position>>,
    outsiders: Outsiders,
    matters: Table<Position, bool>,
    /// What reads a variable, with what changes it: the change behind the reader needs no copy of the variable.
    changes: HashSet<(NodeId, NodeId)>,
}

/// For each GPU and place the last place up to it with a certain op.
type Lasts = Vec<Table<Position, Option<Position>>>;

/// An op that may hold up others.
#[derive(Debug, Clone, Copy)]
struct HoldingOp {
    place: Position,
    gpu: u16,
    node: NodeId,
}

/// Which ops come into question to hold up others.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::tune::planned) enum Starters {
    /// All that run whenever the others do.
    All,
    /// Those that run in each step.
    InNoBranch,
}

impl Holds {
    /// Ops that touch no buffer of so many bytes hold up nothing.
    pub fn new(course: &Course, least_bytes: u64) -> Holds {
        let analysis = course.outline.analysis();
        let latest_needs = latest_needs(course);
        let mut holding: Vec<HoldingOp> = Vec::new();
        let mut in_loops: Vec<HoldingOp> = Vec::new();
        let mut matters = Table::default();
        for (place, &op) in course.order.numbered() {
            matters.push(touches(course, op, least_bytes));
            let (Some(node), Place::Gpu(gpu)) = (course.node_at(place), course.program.place(op)) else {
                continue;
            };
            let of = HoldingOp { place, gpu, node };
            let runs_in_place =
                || analysis.step.certainly_contains(node) && latest_needs[node.index()] == Some(place);
            if !is_outside_loops(course, node) {
                in_loops.push(of);
            } else if matters[place] && runs_in_place() {
                holding.push(of);
            }
        }
        let flow = &analysis.flow;
        let last = |runs: &dyn Fn(Condition) -> bool| {
            let mut last: Lasts = vec![Table::filled(None, course.order.len()); course.rooms.len()];
            for &HoldingOp { place, gpu, .. } in holding.iter().filter(|of| runs(flow.condition(of.node))) {
                last[usize::from(gpu)][place] = Some(place);
            }
            for last in &mut last {
                let mut latest = None;
                for place in last.iter_mut() {
                    latest = place.or(latest);
                    *place = latest;
                }
            }
            last
        };
        let of_branch = |branch| (branch, last(&|condition| flow.implies(branch, condition)));
        Holds {
            last: last(&|condition| condition == Condition::ALWAYS),
            branches: largest_branches(course, &holding).into_iter().map(of_branch).collect(),
            free_before: free_before(course, &merged(holding, in_loops)),
            outsiders: Outsiders::of(course.outline.analysis(), |node| {
                touches_gpu(course, node) || analysis.graph.flow(node) == Some(Flow::NextIteration)
            }),
            matters,
            changes: course.outline.readers_of_changed().into_iter().collect(),
        }
    }

    /// Whether the op at a place makes or reads a large buffer.
    pub fn matters(&self, place: Position) -> bool {
        self.matters[place]
    }

    /// Whether the op at a place may hold up any other.
    pub fn may_hold(&self, gpu: u16, place: Position) -> bool {
        last(&self.last, gpu, place, place).is_some()
    }

    /// The branches in which ops may hold up one another.
    pub fn branches(&self) -> impl Iterator<Item = Condition> {
        self.branches.iter().map(|(branch, _)| *branch)
    }

    /// Whether the op at a place may hold up others of this branch of [`Holds::branches`].
    pub fn may_hold_within(&self, branch: usize, gpu: u16, place: Position) -> bool {
        self.branches.get(branch).is_some_and(|(_, lasts)| last(lasts, gpu, place, place).is_some())
    }

    /// Whether an op may be made to wait for the one at a place, if that one may hold up any.
    pub fn may_wait(&self, course: &Course, node: NodeId, place: Position) -> bool {
        let Some(other) = course.node_at(place) else { return false };
        let is_free = self.free_before[node.index()].is_none_or(|free| place < free)
            || self.outsiders.all_need(node, other);
        is_free && !self.changes.contains(&(node, other)) && course.outline.analysis().may_wait(node, other)
    }

    /// The last place up to this one, and not before `first`, whose op may hold up all of these; if there are none, any.
    pub fn last_for(
        &self,
        course: &Course,
        gpu: u16,
        (first, place): (Position, Position),
        consumers: &[NodeId],
        starters: Starters,
    ) -> Option<Position> {
        let flow = &course.outline.analysis().flow;
        let runs_all =
            |&branch: &Condition| consumers.iter().all(|&node| flow.implies(flow.condition(node), branch));
        let branch = match starters {
            Starters::All if !consumers.is_empty() => {
                self.branches.iter().find(|(branch, _)| runs_all(branch))
            }
            _ => None,
        };
        let lasts = branch.map_or(&self.last, |(_, lasts)| lasts);
        let latest = last(lasts, gpu, first, place)?;
        let earlier = |&found: &Position| last(lasts, gpu, first, found.previous()?);
        let all_may_wait =
            |&found: &Position| consumers.iter().all(|&node| self.may_wait(course, node, found));
        let mut tried = std::iter::successors(Some(latest), earlier).take(MOST_TRIED);
        if let Some(found) = tried.find(all_may_wait) {
            return Some(found);
        }
        // What they need in any case they may wait for too.
        let outsider = consumers.iter().copied().find(|&node| !self.may_wait(course, node, latest))?;
        let is_found = |place: Position| last(lasts, gpu, place, place).is_some();
        let found = latest_needed(course, outsider, first, |at| at <= place && is_found(at))?;
        let needed = |&node: &NodeId| {
            self.may_wait(course, node, found)
                || latest_needed(course, node, found, |at| at == found).is_some()
        };
        consumers.iter().all(needed).then_some(found)
    }
}

/// The last place up to this one, and not before `first`, that one of these lists has.
fn last(lasts: &Lasts, gpu: u16, first: Position, place: Position) -> Option<Position> {
    lasts[usize::from(gpu)].get(place).copied()?.filter(|&found| found >= first)
}

/// The branches that most of these ops are in.
fn largest_branches(course: &Course, holding: &[HoldingOp]) -> Vec<Condition> {
    let flow = &course.outline.analysis().flow;
    let mut counts: HashMap<Condition, (usize, NodeId)> = HashMap::new();
    for &HoldingOp { node, .. } in holding {
        counts.entry(flow.condition(node)).or_insert((0, node)).0 += 1;
    }
    counts.remove(&Condition::ALWAYS);
    let mut branches: Vec<(Reverse<usize>, NodeId, Condition)> =
        counts.into_iter().map(|(condition, (count, first))| (Reverse(count), first, condition)).collect();
    branches.sort_unstable_by_key(|&(count, first, _)| (count, first));
    branches.into_iter().take(MOST_BRANCHES).map(|(_, _, condition)| condition).collect()
}

/// Whether an entry makes or reads a buffer of at least so many bytes.
fn touches(course: &Course, op: u32, least_bytes: u64) -> bool {
    let program = course.program;
    let touched = program.outputs(op).chain(program.reads(op).flatten());
    let mut lives = touched.filter_map(|tensor| course.life_of(tensor));
    lives.any(|life| life.bytes >= least_bytes)
}

/// All that others may be made to wait for: what may hold up any, and ops of loops, which may hold up what leads into the next iteration.
fn merged(holding: Vec<HoldingOp>, in_loops: Vec<HoldingOp>) -> Vec<HoldingOp> {
    let mut all = [holding, in_loops].concat();
    all.sort_unstable_by_key(|of| of.place);
    all
}

/// For each node the first place that it must not be made to wait for, if these ops are waited for; none if there is none.
fn free_before(course: &Course, holding: &[HoldingOp]) -> Vec<Option<Position>> {
    let analysis = course.outline.analysis();
    let graph = analysis.graph;
    let missing = first_missing(course, holding);
    let mut free = vec![None; graph.len()];
    graph.until_stable(|| {
        let mut changes = false;
        for &node in graph.topological().iter().rev() {
            let first = graph.successors(node).filter_map(|next| {
                if analysis.step.contains(next) || is_hidden(analysis, next) {
                    free[next.index()]
                } else if is_left_of_loop(analysis, next) {
                    None
                } else {
                    missing[next.index()]
                }
            });
            let first = first.min();
            changes |= first != std::mem::replace(&mut free[node.index()], first);
        }
        changes
    });
    free
}

/// For each node the place of the first of these ops that needs an op with effects, or one to be fed, that the node does not need. So
/// all that those before that place need, the node needs too.
fn first_missing(course: &Course, holding: &[HoldingOp]) -> Vec<Option<Position>> {
    let analysis = course.outline.analysis();
    let graph = analysis.graph;
    let is_needy = |node: NodeId| graph.op(node).is_stateful() || graph.op(node).facts().has(Fact::Fed);
    let places = first_needed(graph, holding);
    let place_of_needy = |node: NodeId| Some((places[node.index()].filter(|_| is_needy(node))?, node));
    let mut needy: Vec<(Position, NodeId)> = graph.node_ids().filter_map(place_of_needy).collect();
    needy.sort_unstable();
    let mut first_missing: Vec<Option<Position>> = vec![None; graph.len()];
    let mut needs = vec![0u64; graph.len()];
    let mut visits = 0;
    for batch in needy.chunks(64) {
        visits += graph.len();
        if visits > MOST_VISITS {
            let (first, _) = batch[0];
            let or_first = |missing: Option<Position>| missing.map_or(first, |missing| missing.min(first));
            first_missing.iter_mut().for_each(|missing| *missing = Some(or_first(*missing)));
            break;
        }
        needs.fill(0);
        batch.iter().enumerate().for_each(|(bit, (_, node))| needs[node.index()] |= 1 << bit);
        for &node in graph.topological() {
            let before = graph.predecessors(node).filter(|&from| !graph.is_back_edge(from, node));
            let inherited = before
                .filter(|from| from.index() < graph.len())
                .fold(0, |bits, from| bits | needs[from.index()]);
            needs[node.index()] |= inherited;
            let missing = needs[node.index()].trailing_ones() as usize;
            if first_missing[node.index()].is_none() {
                first_missing[node.index()] = batch.get(missing).map(|&(place, _)| place);
            }
        }
    }
    first_missing
}

/// For each node the last place of all that it needs and itself. It is its own place, but for what runs before something that it
/// waits for as the graph is drawn: a `Merge` with an input from a branch that is not taken, and what reads it.
///
/// An edge from an op in its own place to a later one never closes a cycle, also not by way of ops that do not run.
fn latest_needs(course: &Course) -> Vec<Option<Position>> {
    let graph = course.outline.analysis().graph;
    let mut latest: Vec<Option<Position>> = vec![None; graph.len()];
    for &node in graph.topological() {
        let before = graph.predecessors(node).filter(|&from| !graph.is_back_edge(from, node));
        let needs =
            before.filter(|from| from.index() < graph.len()).filter_map(|from| latest[from.index()]).max();
        latest[node.index()] = course.place_of_node(node).max(needs);
    }
    latest
}

/// For each node the place of the first of these ops, which come in their order, that needs it or is it.
fn first_needed(graph: &Graph, holding: &[HoldingOp]) -> Vec<Option<Position>> {
    let mut first = vec![None; graph.len()];
    let mut open = Vec::new();
    for &HoldingOp { place, node, .. } in holding {
        open.push(node);
        while let Some(node) = open.pop() {
            if first[node.index()].is_none() {
                first[node.index()] = Some(place);
                open.extend(graph.predecessors(node).filter(|from| from.index() < graph.len()));
            }
        }
    }
    first
}

/// Whether an op makes or reads a buffer in a GPU's memory.
fn touches_gpu(course: &Course, node: NodeId) -> bool {
    let Some(entry) = course.outline.entry(node) else { return false };
    let mut touched = course.program.outputs(entry).chain(course.program.reads(entry).flatten());
    touched.any(|tensor| course.life_of[tensor as usize].is_some())
}

fn is_outside_loops(course: &Course, node: NodeId) -> bool {
    let flow = &course.outline.analysis().flow;
    flow.frame(node) == FrameId::TOP && flow.output_frame(node) == FrameId::TOP
}

/// The last of the ops that an op needs that is at or behind a place and pleases; none if the search for it takes long.
fn latest_needed(
    course: &Course,
    node: NodeId,
    first: Position,
    pleases: impl Fn(Position) -> bool,
) -> Option<Position> {
    let graph = course.outline.analysis().graph;
    let mut seen = HashSet::default();
    let mut open = BinaryHeap::new();
    let mut at = node;
    loop {
        for from in graph.predecessors(at).filter(|&from| !graph.is_back_edge(from, at)) {
            if let Some(place) = course.place_of_node(from)
                && place >= first
                && seen.insert(place)
            {
                open.push(place);
            }
        }
        let place = open.pop()?;
        if pleases(place) {
            return Some(place);
        }
        if seen.len() > MOST_SEARCHED {
            return None;
        }
        at = course.node_at(place)?;
    }
}
