//! What a step of a graph runs, whatever a plan adds.

use std::borrow::Cow;
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::sync::{Arc, OnceLock};

use rustc_hash::{FxHashMap as HashMap, FxHashSet as HashSet};

use super::accumulations::{Accumulation, OnHost, Pace, accumulations};
use super::ahead::{Ahead, ahead};
use super::carried::Carried;
use super::cases::{Case, largest_made, only_input};
use super::changed_variables::ChangedVariables;
use super::constants;
use super::copied_reads::copied_reads;
use super::free_loops::{FreeLoop, free_loops, times_at_once};
use super::holders::root;
use super::initial::Beginning;
use super::iterations::{LoopTimes, UnknownIterations, endless_growth};
use super::late::Late;
use super::loops::Loops;
use super::merged::Equals;
use super::persistent::{Persistent, handle_bytes};
use super::pool::in_chunks;
use super::program::{Buffer, NONE, buffer};
use super::runs::Runs;
use super::unknown_sizes::{UnknownSizes, check_sizes, uncounted_feeds};
use super::wiring::Wiring;
use crate::cost::Workspace;
use crate::graph::{FrameId, Graph, Liveness, NodeId, ResourceVariables, TensorId};
use crate::ops::Flow;
use crate::order::{Place, Placement};
use crate::plan::{Accumulator, Analysis, Draft, Traffic, Weight, accumulators, weights};
use crate::shape::decided_conditions;

/// What a step of a graph runs, whatever a plan adds: to be made once for many plans.
#[derive(Debug)]
pub struct Outline<'a> {
    pub(super) analysis: &'a Analysis<'a>,
    pub(super) placement: Cow<'a, Placement>,
    /// The ops that are on the host although the graph puts them on a GPU, in the order of the file.
    pub(super) host_ops: Vec<NodeId>,
    /// Of each node whether no step runs it because it is the same in all.
    pub(super) constant: Vec<bool>,
    pub(super) liveness: Liveness,
    /// The ops of the step in the order in which TensorFlow lists them: each after all that it reads, else as in the file.
    pub(super) order: Vec<NodeId>,
    /// For each node its place in `order`.
    pub(super) place_of: Vec<u32>,
    pub(super) late: Late,
    pub(super) loops: Loops,
    /// The stacks and lists of loops that can be on the host.
    accumulators: Vec<Accumulator>,
    /// Those that are there.
    pub(super) on_host: OnHost,
    resources: Arc<ResourceVariables>,
    /// The reads of variables that make a tensor of their own.
    copied_reads: HashSet<NodeId>,
    /// The variables that the step reads and changes in place.
    changed_variables: Arc<ChangedVariables>,
    pub(super) seconds: Vec<f64>,
    pub(super) workspaces: Vec<Workspace>,
    pub(super) persistent: Vec<Vec<u64>>,
    pub(super) beginning: Beginning,
    runs: OnceLock<Runs>,
    wiring: OnceLock<Wiring>,
    equals: OnceLock<Equals>,
    carried: OnceLock<Carried>,
    free_loops: OnceLock<Vec<FreeLoop>>,
    /// How often tensors are there at a time whose loop's iterations are side by side.
    side_by_side: HashMap<TensorId, u64>,
    /// Which sides of branches are taken.
    pub(super) case: Case,
    /// The step in the other cases that there are.
    others: Vec<Outline<'a>>,
}

/// What is run.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Step,
    Initializer,
}

/// What somebody must say before a step can be simulated.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Unpredictable {
    /// How large tensors are.
    #[error(transparent)]
    Sizes(#[from] UnknownSizes),
    /// How often loops run.
    #[error(transparent)]
    Iterations(#[from] UnknownIterations),
}

/// How long an op takes, and what it needs meanwhile.
#[derive(Debug, Clone, Copy, Default)]
pub struct OpCost {
    /// Seconds on its device.
    pub seconds: f64,
    /// Scratch memory.
    pub workspace: Workspace,
}

impl<'a> Outline<'a> {
    /// Finds out what a step runs.
    ///
    /// # Errors
    ///
    /// If sizes that matter are unknown, or how often loops run.
    pub fn new(
        analysis: &'a Analysis<'a>,
        placement: &'a Placement,
        cost: impl Fn(NodeId) -> OpCost,
    ) -> Result<Outline<'a>, Unpredictable> {
        Outline::of(analysis, placement, cost, Kind::Step)
    }

    /// The same for what a session runs before its first step.
    pub(super) fn of_initializer(
        analysis: &'a Analysis<'a>,
        placement: &'a Placement,
        cost: impl Fn(NodeId) -> OpCost,
    ) -> Result<Outline<'a>, Unpredictable> {
        Outline::of(analysis, placement, cost, Kind::Initializer)
    }

    fn of(
        analysis: &'a Analysis<'a>,
        placement: &'a Placement,
        cost: impl Fn(NodeId) -> OpCost,
        kind: Kind,
    ) -> Result<Outline<'a>, Unpredictable> {
        let graph = analysis.graph;
        let liveness = Liveness::of(graph, Some(true), &decided_conditions(graph, &analysis.shapes));
        let constant = constants::constant_ops(analysis, placement);
        let runs = |node: NodeId| {
            analysis.step.contains(node) && !liveness.is_dead_op(node) && !constant[node.index()]
        };
        let late = Late::of(graph, &analysis.flow, &constant, runs);
        let order = listing(graph, &late, runs);
        let mut place_of = vec![NONE; graph.len()];
        for (place, node) in order.iter().enumerate() {
            place_of[node.index()] = place as u32;
        }
        if let Err(unknown) = check_sizes(analysis, placement, &order) {
            // Perhaps they follow from how often loops run.
            return Err(endless_growth(analysis).map_or(unknown.into(), Unpredictable::from));
        }
        let loops = match kind {
            Kind::Step => Loops::of(analysis, placement, |node| place_of[node.index()] != NONE)?,
            Kind::Initializer => Loops::default(),
        };
        let costs = order.iter().map(|&node| {
            let once = cost(node);
            OpCost { seconds: once.seconds * loops.times(node) as f64, ..once }
        });
        let costs: Vec<OpCost> = costs.collect();
        let resources = ResourceVariables::of(graph);
        let mut outline = Outline {
            analysis,
            placement: Cow::Borrowed(placement),
            host_ops: Vec::new(),
            constant,
            persistent: Vec::new(),
            beginning: Beginning::default(),
            runs: OnceLock::new(),
            wiring: OnceLock::new(),
            equals: OnceLock::new(),
            carried: OnceLock::new(),
            free_loops: OnceLock::new(),
            side_by_side: HashMap::default(),
            liveness,
            place_of,
            late,
            loops,
            accumulators: accumulators(analysis, placement),
            on_host: OnHost::default(),
            copied_reads: copied_reads(graph, &resources, &order),
            changed_variables: Arc::new(ChangedVariables::of(
                graph,
                &resources,
                placement,
                &order,
                |variable| handle_bytes(graph, variable).map(in_chunks),
            )),
            resources: Arc::new(resources),
            seconds: costs.iter().map(|cost| cost.seconds).collect(),
            workspaces: costs.iter().map(|cost| cost.workspace).collect(),
            order,
            case: Case::default(),
            others: Vec::new(),
        };
        outline.find_persistent(kind);
        Ok(outline)
    }

    /// The step's ops as all programs begin with.
    pub(super) fn runs(&self) -> &Runs {
        self.runs.get_or_init(|| Runs::of(self))
    }

    /// What these read and wait for.
    pub(super) fn wiring(&self) -> &Wiring {
        self.wiring.get_or_init(|| Wiring::of(self))
    }

    /// Those of them that may be equal to others.
    pub(super) fn equals(&self) -> &Equals {
        self.equals.get_or_init(|| Equals::of(self))
    }

    /// The ops of loops that cannot run iterations ahead of others.
    pub fn carried(&self) -> &Carried {
        let Analysis { graph, flow, .. } = self.analysis;
        self.carried.get_or_init(|| Carried::of(graph, flow, &self.placement))
    }

    /// The loops whose iterations do not wait for one another.
    pub fn free_loops(&self) -> &[FreeLoop] {
        let runs = |node: NodeId| self.number(node).is_some();
        let buffer = |node: NodeId, made: TensorId| self.buffer(node, made);
        let find = || free_loops(self.analysis, &self.placement, (&self.loops, self.carried()), runs, buffer);
        self.free_loops.get_or_init(|| if self.has_loops() { find() } else { Vec::new() })
    }

    /// The same where iterations are side by side of the loops in which nothing keeps them from it, with a plan; none if there are none.
    pub(super) fn side_by_side(&self, draft: &Draft) -> Option<Outline<'a>> {
        let times = times_at_once(self.free_loops(), draft);
        (!times.is_empty())
            .then(|| Outline { side_by_side: times, ..self.alone(&draft.host_ops, &self.case) })
    }

    /// How often a tensor is there at a time.
    pub(super) fn times_side_by_side(&self, tensor: TensorId) -> u64 {
        self.side_by_side.get(&tensor).copied().unwrap_or(1)
    }

    /// For each tensor of a GPU that goes to or comes from the host in a loop how often it is there at a time.
    pub(super) fn copies_at_a_time(&self, draft: &Draft, pace: Pace) -> HashMap<TensorId, u64> {
        match self.on_host.accumulators() {
            [] => HashMap::default(),
            _ => self.on_host.at_a_time(self.analysis, &self.loops, self.carried(), draft, pace),
        }
    }

    /// Finds what is on the GPUs from step to step, and how it comes there.
    fn find_persistent(&mut self, kind: Kind) {
        let runs = |node: NodeId| self.number(node).is_some();
        // A session keeps the constants of all that it has run.
        let keeps_constants = |node: NodeId| {
            let is_in_turn = kind == Kind::Step && self.analysis.step.runs_in_turn(node);
            runs(node) || is_in_turn && !self.constant[node.index()]
        };
        let Outline { analysis, resources, placement, constant, .. } = &*self;
        let persistent = Persistent::of(analysis, resources, placement, constant, runs, keeps_constants);
        let beginning = match kind {
            Kind::Step => {
                Beginning::of(analysis, resources, placement, &persistent, |node| self.number(node))
            }
            Kind::Initializer => Beginning::default(),
        };
        self.persistent = persistent.sizes(self.placement.gpus().len());
        self.beginning = beginning;
    }

    /// The same with some ops on the host: weights, and accumulators of loops.
    pub fn with_host_ops(&self, host_ops: &[NodeId]) -> Outline<'a> {
        let others = self.others.iter().map(|other| other.with_host_ops(host_ops)).collect();
        Outline { others, ..self.alone(host_ops, &self.case) }
    }

    /// The same with these ops on the host, in one case, as if there were no other.
    pub(super) fn alone(&self, host_ops: &[NodeId], case: &Case) -> Outline<'a> {
        let graph = self.analysis.graph;
        let placement = match self.host_ops.is_empty() {
            true => self.placement.with_host_ops(graph, host_ops),
            false => Placement::of(graph).with_host_ops(graph, host_ops),
        };
        let on_host = OnHost::of(&self.accumulators, host_ops);
        // With less on the GPUs, nothing is asked of loops that was not asked before.
        let of_loops = Loops::of(self.analysis, &placement, |node| self.number(node).is_some());
        let mut outline = Outline {
            analysis: self.analysis,
            placement: Cow::Owned(placement),
            host_ops: host_ops.to_vec(),
            constant: self.constant.clone(),
            persistent: Vec::new(),
            beginning: Beginning::default(),
            runs: OnceLock::new(),
            wiring: OnceLock::new(),
            equals: self.equals.clone(),
            carried: OnceLock::new(),
            free_loops: OnceLock::new(),
            side_by_side: HashMap::default(),
            liveness: self.liveness.clone(),
            place_of: self.place_of.clone(),
            late: self.late.clone(),
            loops: of_loops.unwrap_or_else(|_| self.loops.clone()),
            accumulators: self.accumulators.clone(),
            on_host,
            resources: self.resources.clone(),
            copied_reads: self.copied_reads.clone(),
            changed_variables: self.changed_variables.clone(),
            seconds: self.seconds.clone(),
            workspaces: self.workspaces.clone(),
            order: self.order.clone(),
            case: case.clone(),
            others: Vec::new(),
        };
        outline.find_persistent(Kind::Step);
        outline
    }

    /// The same in the case that is the greatest as `size` has it, the first of several; none if no branch of the graph matters.
    pub fn in_greatest_case<T: Ord>(&self, size: impl Fn(&Outline) -> T) -> Option<Outline<'a>> {
        let runs = |node: NodeId| self.number(node).is_some();
        let cases = Case::all(self.analysis, &self.placement, &self.loops, runs);
        if cases.len() < 2 {
            return None;
        }
        let mut outlines: Vec<Outline> = cases.iter().map(|case| self.alone(&self.host_ops, case)).collect();
        let sizes: Vec<T> = outlines.iter().map(size).collect();
        // The last of the greatest is taken, so they come from behind.
        let greatest = (0..outlines.len()).rev().max_by_key(|&at| &sizes[at])?;
        let taken = outlines.swap_remove(greatest);
        Some(Outline { others: outlines, ..taken })
    }

    /// The same with both sides of all branches; none if it has them already.
    pub fn with_all_sides(&self) -> Option<Outline<'a>> {
        (!self.others.is_empty()).then(|| self.alone(&self.host_ops, &Case::default()))
    }

    /// The step in the other cases that there are.
    pub fn other_cases(&self) -> &[Outline<'a>] {
        &self.others
    }

    /// Whether a step runs an op, with the sides of branches that it takes.
    pub fn runs_op(&self, node: NodeId) -> bool {
        self.number(node).is_some() && !self.case.is_idle(node)
    }

    /// What branches go by, each with what it is taken to be, where the cases tell.
    pub fn chosen(&self) -> &[(TensorId, bool)] {
        self.case.chosen()
    }

    /// What may run iterations ahead of its loop.
    pub fn ahead(&self) -> Vec<Ahead> {
        let runs = |node: NodeId| self.number(node).is_some();
        let buffer = |node: NodeId, made: TensorId| self.buffer(node, made);
        match self.has_loops() {
            true => ahead(self.analysis, &self.placement, (&self.loops, self.carried()), runs, buffer),
            false => Vec::new(),
        }
    }

    /// The same where iterations of loops overlap as far as they may with a plan.
    pub fn with_iterations_ahead(&self, draft: &Draft) -> Outline<'a> {
        let runs = |node: NodeId| self.number(node).is_some();
        let orders = draft.ordered_pairs();
        let all = self.ahead();
        let free = all.iter().filter(|one| !one.is_paced(&orders));
        let mut ahead = self.alone(&self.host_ops, &self.case);
        ahead.loops = self.loops.with_iterations_ahead(self.analysis, &self.placement, free, runs);
        ahead
    }

    /// The ops that are on the host although the graph puts them on a GPU, in the order of the file.
    pub fn host_ops(&self) -> &[NodeId] {
        &self.host_ops
    }

    /// Whether an op is one of these.
    pub fn is_host_op(&self, node: NodeId) -> bool {
        self.host_ops.binary_search(&node).is_ok()
    }

    /// The weights that GPUs keep and that can be on the host.
    pub fn weights(&self) -> Vec<Weight> {
        weights(self.analysis, &self.placement, &self.constant)
    }

    /// The accumulators of loops that GPUs keep and that can be on the host, with what that frees.
    pub fn accumulations(&self) -> Vec<Accumulation> {
        accumulations(self.analysis, &self.loops, &self.accumulators)
    }

    /// Whether a stack or list has a tensor as long as its readers may take it off: then the memory is taken whatever becomes of other readers.
    pub fn is_in_list(&self, tensor: TensorId) -> bool {
        self.loops.holders().contains_key(&tensor)
    }

    /// The tensor that a loop's body makes and of which another one is the buffer, in this iteration or the next.
    pub fn made_in_loop(&self, tensor: TensorId) -> Option<TensorId> {
        root(self.analysis.graph, &self.analysis.sizes, tensor)
    }

    /// The accumulators of loops that are on the host with these ops.
    pub fn accumulators_among(&self, host_ops: &[NodeId]) -> Vec<Accumulator> {
        OnHost::of(&self.accumulators, host_ops).accumulators().to_vec()
    }

    /// What a step copies for accumulators that a plan has on the host, beyond what it copies as it is and what the plan's swaps copy: for
    /// each GPU.
    pub fn traffic_of_accumulators(&self, draft: &Draft) -> Vec<Traffic> {
        let on_host = OnHost::of(&self.accumulators, &draft.host_ops);
        on_host.traffic(self.analysis, &self.loops, &self.placement, draft)
    }

    /// What a node's kernel takes beside its outputs; nothing if no step runs it.
    pub fn workspace(&self, node: NodeId) -> Workspace {
        let place = self.place_of.get(node.index());
        place.and_then(|&place| self.workspaces.get(place as usize)).copied().unwrap_or_default()
    }

    /// The graph and what is known of it.
    pub fn analysis(&self) -> &'a Analysis<'a> {
        self.analysis
    }

    /// Where ops run and tensors lie.
    pub fn placement(&self) -> &Placement {
        &self.placement
    }

    /// The constants that variables begin with and share memory with until their first update, and the ops that give them to these.
    pub fn initial_values(&self) -> &[(TensorId, NodeId)] {
        &self.beginning.values
    }

    /// The step's ops in the order in which TensorFlow lists them.
    pub fn order(&self) -> &[NodeId] {
        &self.order
    }

    /// The seconds that an op of the step takes on its device.
    pub fn seconds(&self, node: NodeId) -> f64 {
        self.number(node).map_or(0.0, |op| self.seconds[op as usize])
    }

    /// The loops that keep something from iteration to iteration, and how often they run.
    pub fn loops(&self) -> &[LoopTimes] {
        &self.loops.found
    }

    /// Whether the step has loops at all.
    pub fn has_loops(&self) -> bool {
        let Analysis { graph, flow, .. } = self.analysis;
        graph.node_ids().any(|node| flow.frame(node) != FrameId::TOP && self.number(node).is_some())
    }

    /// How many tensors a step keeps on a GPU of which it is only known how large they are at most.
    pub fn bounded_tensors(&self) -> usize {
        let Analysis { graph, sizes, .. } = self.analysis;
        let is_kept = |&&tensor: &&TensorId| {
            let producer = graph.producer(tensor);
            self.number(producer).is_some()
                && self.placement.output(tensor) != Place::Host
                && buffer(graph, sizes, producer, tensor).may_be_own()
        };
        sizes.bounded().iter().filter(is_kept).count()
    }

    /// What is fed, copied to a GPU, and counts nothing, since nobody said how large it is.
    pub fn uncounted_feeds(&self) -> Vec<NodeId> {
        uncounted_feeds(self.analysis, &self.placement, &self.order)
    }

    /// The buffer of an output of an op.
    pub(super) fn buffer(&self, node: NodeId, tensor: TensorId) -> Buffer {
        let graph = self.analysis.graph;
        if self.copied_reads.contains(&node) {
            return Buffer::Own;
        }
        let sizes = &self.analysis.sizes;
        let of_op = buffer(graph, sizes, node, tensor);
        if graph.flow(node) != Some(Flow::Merge) || graph.output_index(tensor) != 0 {
            return of_op;
        }
        let is_absent = |input| self.case.is_absent(graph, input) || self.liveness.is_dead(graph, input);
        let made = || (of_op == Buffer::AnyInput).then(|| largest_made(graph, sizes, node, is_absent))?;
        only_input(graph, node, is_absent).or_else(made).map_or(of_op, Buffer::Input)
    }

    /// The variables that the step reads and changes in place.
    pub(super) fn changed_variables(&self) -> &Arc<ChangedVariables> {
        &self.changed_variables
    }

    /// Each op that reads what a variable of a GPU is, with each op of the step that changes that variable in place. If the second comes first,
    /// TensorFlow copies the variable.
    pub fn readers_of_changed(&self) -> Vec<(NodeId, NodeId)> {
        self.changed_variables.readers(self.analysis.graph, &self.order)
    }

    /// What certainly does not run.
    pub fn liveness(&self) -> &Liveness {
        &self.liveness
    }

    /// The entry that an op is in every program of this outline; none if no step runs it.
    pub fn entry(&self, node: NodeId) -> Option<u32> {
        self.number(node)
    }

    /// Variables and constants, in bytes, for each GPU.
    pub fn persistent_bytes(&self) -> impl Iterator<Item = u64> {
        self.persistent.iter().map(|sizes| sizes.iter().sum())
    }

    /// The place of an op among those of the step.
    pub(super) fn number(&self, node: NodeId) -> Option<u32> {
        self.place_of.get(node.index()).copied().filter(|&place| place != NONE)
    }
}

/// The ops that run, each after all that it waits for; among those that could come next, the first in the file.
///
/// So TensorFlow builds its graphs from files, and so its executor lists an op's readers.
fn listing(graph: &Graph, late: &Late, runs: impl Fn(NodeId) -> bool) -> Vec<NodeId> {
    let counts = |from: &NodeId, node: NodeId| {
        from.index() < graph.len() && runs(*from) && !graph.is_back_edge(*from, node)
    };
    let mut waits = vec![0u32; graph.len()];
    let mut ready = BinaryHeap::new();
    for node in graph.node_ids().filter(|&node| runs(node)) {
        let before = graph.predecessors(node).filter(|from| counts(from, node)).count();
        waits[node.index()] = (before + late.before(node).len()) as u32;
        if waits[node.index()] == 0 {
            ready.push(Reverse(node));
        }
    }
    let mut order = Vec::new();
    while let Some(Reverse(node)) = ready.pop() {
        order.push(node);
        let next = graph.successors(node).filter(|&next| runs(next) && !graph.is_back_edge(node, next));
        for next in next.chain(late.after(node).iter().copied()) {
            waits[next.index()] -= 1;
            if waits[next.index()] == 0 {
                ready.push(Reverse(next));
            }
        }
    }
    order
}
