//! Where variables lie in a GPU's pool when steps begin.
//!
//! A session that trains has first run an initializer, whose own tensors lay between the variables that it made: these leave
//! holes. Variables that begin as constants share the constants' memory, as do both moments of an optimizer that begin with the same
//! zeros, and get their own where there is room in the middle of the first step. So the pool of the second step is not one free region
//! behind the variables, and less memory is of use than it holds. A plan can let what is shared go to its variables by way of the host,
//! which gives each variable memory of its own from the start.
//!
//! What is assigned to a variable in a step, as Keras' optimizers with a momentum do, is the variable's memory from then on: such variables
//! move from step to step, and leave holes where they were.

use std::sync::Arc;

use rustc_hash::{FxHashMap as HashMap, FxHashSet as HashSet};

use super::memory::{Held, Memory};
use super::persistent::{Persistent, Variable};
use super::pool::CHUNK_BYTES;
use super::{Holes, Machine, Observer, OpCost, Outline, Program, simulate};
use crate::graph::{Graph, NodeId, ResourceVariables, TensorId};
use crate::ops::Fact;
use crate::order::{Place, Placement};
use crate::plan::{Analysis, Draft, movable};

/// How many small holes there are at most.
const SMALL_HOLES: usize = 64;

/// Of variables that are fewer than one part in so many of all, by bytes, it does not matter where they move.
const LITTLE_MOVED: u64 = 32;

/// What a session's pools look like when it has begun.
#[derive(Debug, Default)]
pub(super) struct Beginning {
    /// Where variables that begin as constants get their own memory in the first step.
    pub shared: Arc<Initial>,
    /// Where they have it from the start, because the constants go to them by way of the host.
    pub own: Arc<Initial>,
    /// These constants, and the ops that give them to the variables.
    pub values: Vec<(TensorId, NodeId)>,
}

/// What an initializer and the first step do to the pools.
#[derive(Debug, Default)]
pub(super) struct Initial {
    /// For each GPU what is taken and given back before the first step.
    pub events: Vec<Vec<PoolEvent>>,
    /// What the first step takes for good.
    pub late: TakenLate,
    /// The variables that a step gives other memory, by the op that does so, an entry of the step's programs.
    pub moved: HashMap<u32, Moved>,
}

/// A variable that an op gives other memory in place of its own: that of what it assigns, or some of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Moved {
    pub gpu: u16,
    /// What its memory is taken under before the first step.
    pub number: u32,
    pub bytes: u64,
    /// Whether the op takes memory for it: the first one that changes a variable to which the step assigns a constant, whose memory it has since.
    pub is_taken: bool,
}

/// Where variables lie that move, by the number that their memory is taken under.
pub(super) type Homes = HashMap<u32, Held>;

impl Initial {
    /// Does to a GPU's memory what is done before the first step, and says where the variables lie that move; if there is not enough of it,
    /// the error is the bytes that found no room.
    pub fn fill(&self, gpu: usize, memory: &mut Memory, holes: Holes) -> Result<Homes, u64> {
        let events = self.events.get(gpu).map_or(&[][..], |events| events);
        let goes: HashSet<u32> = match holes {
            Holes::OfInitializer => HashSet::default(),
            Holes::None | Holes::Small => events.iter().filter_map(PoolEvent::given).collect(),
        };
        let mut held: Vec<Option<(Held, u64)>> = Vec::with_capacity(events.len() + 1);
        let mut between = Vec::new();
        for &event in events {
            match event {
                PoolEvent::Take(number, _) if goes.contains(&number) => {}
                PoolEvent::Take(number, bytes) => {
                    // Numbers come in their order, each once; those of other GPUs are left out.
                    held.resize(number as usize, None);
                    held.push(Some((memory.allocate(bytes).ok_or(bytes)?, bytes)));
                    if holes == Holes::Small && between.len() < SMALL_HOLES {
                        between.extend(memory.allocate(CHUNK_BYTES));
                    }
                }
                PoolEvent::Give(number) => {
                    let given = held.get_mut(number as usize).and_then(Option::take);
                    given.into_iter().for_each(|(held, bytes)| memory.free(held, bytes));
                }
            }
        }
        between.into_iter().for_each(|held| memory.free(held, CHUNK_BYTES));
        let moved = self.moved.values().filter(|moved| usize::from(moved.gpu) == gpu);
        let home = |moved: &Moved| {
            let (held, _) = held.get(moved.number as usize).copied().flatten()?;
            Some((moved.number, held))
        };
        Ok(moved.filter_map(home).collect())
    }
}

/// GPU and bytes by the op that takes them, an entry of the step's programs.
type TakenLate = HashMap<u32, (u16, u64)>;

/// What happens to a pool.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum PoolEvent {
    /// So many bytes are taken under a number.
    Take(u32, u64),
    /// They are given back.
    Give(u32),
}

impl PoolEvent {
    /// What is given back.
    fn given(&self) -> Option<u32> {
        match *self {
            PoolEvent::Give(number) => Some(number),
            PoolEvent::Take(..) => None,
        }
    }
}

impl Beginning {
    /// Follows the initializer of a graph: all first assignments that do not read a file or what is fed. `entry` is an op's entry in
    /// the step's programs.
    pub fn of(
        analysis: &Analysis,
        variables: &ResourceVariables,
        placement: &Placement,
        persistent: &Persistent,
        entry: impl Fn(NodeId) -> Option<u32>,
    ) -> Beginning {
        let graph = analysis.graph;
        let assigns = first_assigns(graph, &entry);
        let mut recorder = Recorder::new(placement.gpus().len());
        for &(gpu, bytes) in &persistent.initial_constants {
            recorder.keep(gpu, bytes);
        }
        let is_shared: HashSet<NodeId> =
            persistent.variables.iter().filter(|variable| variable.is_shared).map(|of| of.node).collect();
        // What goes to the host leaves nothing behind, and what is shared is there.
        let has_own = |&(variable, assign): &(&NodeId, &NodeId)| {
            !placement.names_host(*assign) && !is_shared.contains(variable)
        };
        let targets = assigns.iter().filter(has_own).map(|(_, &assign)| assign).collect();
        let assigned = recorder.run(analysis, placement, targets);
        let mut late = TakenLate::default();
        // The same without those that can have memory of their own from the start.
        let mut still_late = TakenLate::default();
        let mut values: Vec<(TensorId, NodeId)> = Vec::new();
        let mut own: Vec<(u16, u64)> = Vec::new();
        let mut kept: HashMap<NodeId, Moved> = HashMap::default();
        for variable in &persistent.variables {
            let assign = assigns.get(&variable.node).copied();
            if !variable.is_shared {
                if assign.is_none_or(|assign| !assigned.contains(&assign)) {
                    recorder.keep(variable.gpu, variable.bytes);
                    let &Variable { gpu, bytes, .. } = variable;
                    kept.insert(variable.node, Moved { gpu, number: recorder.count, bytes, is_taken: false });
                }
                continue;
            }
            let Some(update) = first_update(variables, variable.node, &entry) else { continue };
            let add_to =
                |late: &mut TakenLate| late.entry(update).or_insert((variable.gpu, 0)).1 += variable.bytes;
            add_to(&mut late);
            let value = assign.and_then(|assign| Some((*graph.data_inputs(assign).get(1)?, assign)));
            match value.filter(|&(tensor, _)| movable(graph, tensor).is_ok()) {
                Some(value) => {
                    values.push(value);
                    own.push((variable.gpu, variable.bytes));
                }
                None => add_to(&mut still_late),
            }
        }
        let moved = moved(graph, variables, &kept, persistent, &entry);
        let constants = |mut recorder: Recorder| {
            for &(gpu, bytes) in &persistent.constants {
                recorder.keep(gpu, bytes);
            }
            recorder.events
        };
        let mut with_own = recorder.clone();
        for (gpu, bytes) in own {
            with_own.keep(gpu, bytes);
        }
        Beginning {
            shared: Arc::new(Initial { events: constants(recorder), late, moved: moved.clone() }),
            own: Arc::new(Initial { events: constants(with_own), late: still_late, moved }),
            values,
        }
    }
}

/// The ops of a step that give variables of a GPU other memory, of those that were kept from the beginning; none if that is little of what
/// stays in memory, which then hardly changes where anything lies.
fn moved(
    graph: &Graph,
    variables: &ResourceVariables,
    kept: &HashMap<NodeId, Moved>,
    persistent: &Persistent,
    entry: impl Fn(NodeId) -> Option<u32>,
) -> HashMap<u32, Moved> {
    let mut moved: HashMap<u32, Moved> = HashMap::default();
    for (&variable, &home) in kept {
        let moves = |&update: &NodeId| graph.op(update).facts().has(Fact::MovesVariable);
        let updates = || variables.writers(variable).iter().copied();
        moved.extend(updates().filter(moves).filter_map(&entry).map(|update| (update, home)));
        // Sums that are set back to zero have the memory of the zeros until something is added.
        let is_reset = |update: NodeId| {
            let value = graph.data_inputs(update).get(1).map(|&value| graph.producer(value));
            value.is_some_and(|value| value.index() < graph.len() && graph.op(value).name() == "Const")
        };
        if updates().any(|update| moves(&update) && entry(update).is_some() && is_reset(update)) {
            let changes = updates().filter(|update| !moves(update)).filter_map(&entry);
            moved.extend(changes.min().map(|update| (update, Moved { is_taken: true, ..home })));
        }
    }
    let bytes: u64 = moved.values().map(|moved| moved.bytes).sum();
    let all: u64 = persistent.variables.iter().map(|variable| variable.bytes).sum();
    if bytes < all / LITTLE_MOVED { HashMap::default() } else { moved }
}

/// The first op of a step that writes to a resource variable.
fn first_update(
    variables: &ResourceVariables,
    variable: NodeId,
    entry: impl Fn(NodeId) -> Option<u32>,
) -> Option<u32> {
    variables.writers(variable).iter().copied().filter_map(entry).min()
}

/// For each variable the first op of the file that assigns to it outside of a step, with what neither is read from a file nor fed.
fn first_assigns(graph: &Graph, entry: impl Fn(NodeId) -> Option<u32>) -> HashMap<NodeId, NodeId> {
    let mut is_external = vec![false; graph.len()];
    for &node in graph.topological() {
        let op = graph.op(node);
        let reads = |from: NodeId| from.index() >= graph.len() || is_external[from.index()];
        is_external[node.index()] = op.name().starts_with("Restore")
            || op.facts().has(Fact::Fed)
            || graph.predecessors(node).any(reads);
    }
    let mut assigns = HashMap::default();
    for node in graph.node_ids() {
        let is_assign = graph.op(node).facts().has(Fact::Assigns);
        if is_assign
            && entry(node).is_none()
            && !is_external[node.index()]
            && let Some(&variable) = graph.data_inputs(node).first()
        {
            assigns.entry(graph.producer(variable)).or_insert(node);
        }
    }
    assigns
}

/// Writes down what happens to the pools.
#[derive(Clone)]
struct Recorder {
    events: Vec<Vec<PoolEvent>>,
    count: u32,
}

impl Recorder {
    fn new(gpus: usize) -> Recorder {
        Recorder { events: vec![Vec::new(); gpus], count: 0 }
    }

    /// Takes memory for good.
    fn keep(&mut self, gpu: u16, bytes: u64) {
        self.count += 1;
        self.events[usize::from(gpu)].push(PoolEvent::Take(self.count, bytes));
    }

    /// Runs the assignments. Which of them gave their variable the memory of what they read.
    fn run(
        &mut self,
        analysis: &Analysis,
        placement: &Placement,
        mut targets: Vec<NodeId>,
    ) -> HashSet<NodeId> {
        // With no targets, all ops would run.
        if targets.is_empty() {
            return HashSet::default();
        }
        targets.sort_unstable();
        let (shapes, sizes) = (analysis.shapes.clone(), analysis.sizes.clone());
        let initializer = Analysis::new(analysis.graph, &targets, shapes, sizes);
        // An initializer of unknown sizes leaves the variables as they are listed.
        let Ok(outline) = Outline::of_initializer(&initializer, placement, |_| OpCost::default()) else {
            return HashSet::default();
        };
        let program = Program::new(&outline, &Draft::default());
        let assigns: HashMap<u32, NodeId> =
            targets.iter().filter_map(|&node| Some((outline.entry(node)?, node))).collect();
        let mut watch = Watch {
            recorder: self,
            assigns,
            assigned: HashSet::default(),
            turn: 0,
            held: HashMap::default(),
        };
        // Counting memory without a limit cannot run out of it.
        let _ = simulate(&program, &Machine::idle(), &mut watch);
        watch.assigned
    }
}

/// Sees what an initializer takes and gives back.
struct Watch<'a> {
    recorder: &'a mut Recorder,
    assigns: HashMap<u32, NodeId>,
    assigned: HashSet<NodeId>,
    turn: u32,
    held: HashMap<u32, (usize, u32)>,
}

impl Observer for Watch<'_> {
    fn turns_to(&mut self, op: u32) {
        self.turn = op;
    }

    fn allocated(&mut self, tensor: u32, place: Place, bytes: u64) {
        if let Place::Gpu(gpu) = place {
            self.recorder.keep(gpu, bytes);
            self.held.insert(tensor, (usize::from(gpu), self.recorder.count));
        }
    }

    fn freed(&mut self, tensor: u32) {
        let Some((gpu, number)) = self.held.remove(&tensor) else { return };
        match self.assigns.get(&self.turn) {
            // The variable takes the memory over.
            Some(&assign) => {
                self.assigned.insert(assign);
            }
            None => self.recorder.events[gpu].push(PoolEvent::Give(number)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::Allocator;
    use super::*;
    use crate::format::{Model, ReadOptions};
    use crate::ops::OpRegistry;

    /// The free chunks of a pool, but for the last.
    fn holes_with(holes: Holes) -> Vec<u64> {
        let take = |number, chunks: u64| PoolEvent::Take(number, chunks * CHUNK_BYTES);
        let events = vec![take(1, 4), take(2, 1), take(3, 2), PoolEvent::Give(1), take(4, 8)];
        let initial = Initial { events: vec![events], ..Initial::default() };
        let mut memory = Memory::new(Allocator::BestFit, 64 * CHUNK_BYTES);
        initial.fill(0, &mut memory, holes).unwrap();
        let Memory::Pool(pool) = memory else { unreachable!("a pool was made") };
        let free = pool.chunks().filter(|(_, chunk)| chunk.is_none()).map(|(bytes, _)| bytes / CHUNK_BYTES);
        let mut free: Vec<u64> = free.collect();
        // Behind all that is taken is the rest.
        free.pop();
        assert_eq!(pool.used_bytes(), 11 * CHUNK_BYTES);
        free
    }

    #[test]
    fn initializers_leave_holes_in_several_ways() {
        assert_eq!(holes_with(Holes::OfInitializer), [4]);
        assert!(holes_with(Holes::None).is_empty());
        assert_eq!(holes_with(Holes::Small), [1, 1]);
    }

    /// A sum, which is added to and set back to zero, and another one that only grows.
    const SUMS: &str = r#"
        node { name: "x" op: "Placeholder" attr { key: "dtype" value { type: DT_FLOAT } } }
        node { name: "zeros" op: "Const" attr { key: "dtype" value { type: DT_FLOAT } } }
        node { name: "sum" op: "VarHandleOp" attr { key: "dtype" value { type: DT_FLOAT } } attr { key: "shape" value { shape {} } } }
        node { name: "grows" op: "VarHandleOp" attr { key: "dtype" value { type: DT_FLOAT } } attr { key: "shape" value { shape {} } } }
        node { name: "add" op: "AssignAddVariableOp" input: "sum" input: "x" attr { key: "dtype" value { type: DT_FLOAT } } }
        node {
          name: "set_back" op: "AssignVariableOp" input: "sum" input: "zeros" input: "^add"
          attr { key: "dtype" value { type: DT_FLOAT } }
        }
        node { name: "add_to_other" op: "AssignAddVariableOp" input: "grows" input: "x" attr { key: "dtype" value { type: DT_FLOAT } } }
    "#;

    #[test]
    fn a_sum_that_is_set_back_takes_memory_when_it_grows_again() {
        let model = Model::from_bytes("a graph", SUMS.as_bytes().to_vec(), &ReadOptions::default()).unwrap();
        let graph = Graph::of_model(&model, OpRegistry::builtin()).unwrap();
        let find = |name: &str| graph.node_ids().find(|&node| graph.name(node) == name).unwrap();
        let home = |number| Moved { gpu: 0, number, bytes: CHUNK_BYTES, is_taken: false };
        let kept = HashMap::from_iter([(find("sum"), home(1)), (find("grows"), home(2))]);
        let entry = |node: NodeId| Some(node.index() as u32);
        let found = moved(&graph, &ResourceVariables::of(&graph), &kept, &Persistent::default(), entry);
        let mut found: Vec<(u32, u32, bool)> =
            found.into_iter().map(|(op, moved)| (op, moved.number, moved.is_taken)).collect();
        found.sort_unstable();
        let at = |name: &str| find(name).index() as u32;
        assert_eq!(found, [(at("add"), 1, true), (at("set_back"), 1, false)]);
    }
}
