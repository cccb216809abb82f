//! All that a strategy may know about a graph.

use crate::graph::{ControlFlow, Graph, NodeId, RefVariables, TensorId};
use crate::order::{Effects, Levels, Step};
use crate::shape::{Shapes, Sizes};

/// A graph with its control flow, levels, shapes, sizes and step.
#[derive(Debug, Clone)]
pub struct Analysis<'a> {
    /// The graph.
    pub graph: &'a Graph<'a>,
    /// Frames and conditions.
    pub flow: ControlFlow,
    /// Variables whose buffers ops share.
    pub ref_variables: RefVariables,
    /// The categorized topological sort.
    pub levels: Levels,
    /// Which ops a step runs.
    pub step: Step,
    /// Which effects come with an op.
    pub effects: Effects,
    /// The shapes of all tensors.
    pub shapes: Shapes,
    /// The bytes of all tensors.
    pub sizes: Sizes,
    /// How often loops run, where that was given.
    pub iterations: Iterations,
    /// The function that the graph is the body of, if it is one of a file's.
    pub function: Option<String>,
    /// Whether the graph is the top level of a file, with the calls in it made flat.
    pub is_lowered: bool,
    /// The ops of the step that run functions whose bodies are not in the graph: nobody knows what these need.
    pub calls: Vec<NodeId>,
    /// Why they are not, where that is known.
    pub why_calls_stay: Option<String>,
}

/// How often loops run, as somebody says who knows.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Iterations {
    /// All that are not named.
    pub others: Option<u64>,
    /// Some, by the names of their frames.
    pub named: Vec<(String, u64)>,
}

/// How often loops run, by the names of their frames; none names all others. Of what is said twice the last counts.
impl FromIterator<(Option<String>, u64)> for Iterations {
    fn from_iter<T: IntoIterator<Item = (Option<String>, u64)>>(said: T) -> Iterations {
        let mut given = Iterations::default();
        for (frame, times) in said {
            match frame {
                Some(frame) => given.named.push((frame, times)),
                None => given.others = Some(times),
            }
        }
        given
    }
}

impl Iterations {
    /// How often a loop runs, if that was given.
    pub fn of(&self, frame: &str) -> Option<u64> {
        // The last one given counts.
        let named = self.named.iter().rev().find(|(name, _)| name == frame);
        named.map(|&(_, times)| times).or(self.others)
    }
}

impl<'a> Analysis<'a> {
    /// Analyses a graph. `targets` are the ops that a step is run for, if they are known.
    pub fn new(graph: &'a Graph<'a>, targets: &[NodeId], shapes: Shapes, sizes: Sizes) -> Analysis<'a> {
        Analysis::with_step(graph, Step::of(graph, targets), shapes, sizes)
    }

    /// Analyses a graph of which it is known what a step runs.
    pub fn with_step(graph: &'a Graph<'a>, step: Step, shapes: Shapes, sizes: Sizes) -> Analysis<'a> {
        Analysis::with_effects(graph, step, Effects::of(graph), (shapes, sizes))
    }

    /// The same of a graph that is a function, which always runs as a whole: nobody fetches a part of it.
    pub fn of_function(graph: &'a Graph<'a>, step: Step, shapes: Shapes, sizes: Sizes) -> Analysis<'a> {
        let effects = Effects::of_function(graph, &step);
        Analysis::with_effects(graph, step, effects, (shapes, sizes))
    }

    fn with_effects(
        graph: &'a Graph<'a>,
        step: Step,
        effects: Effects,
        (shapes, sizes): (Shapes, Sizes),
    ) -> Analysis<'a> {
        let runs_function = |node: &NodeId| step.contains(*node) && graph.op(*node).runs_functions();
        let calls = graph.node_ids().filter(runs_function).collect();
        Analysis {
            graph,
            function: None,
            is_lowered: false,
            calls,
            why_calls_stay: None,
            flow: ControlFlow::of(graph),
            ref_variables: RefVariables::of(graph),
            levels: Levels::of(graph),
            step,
            effects,
            shapes,
            sizes,
            iterations: Iterations::default(),
        }
    }

    /// The same graph with one run of a train op as its step.
    pub fn of_run(&self, run: usize) -> Analysis<'a> {
        let step = self.step.of_run(self.graph, run);
        let calls = self.calls.iter().copied().filter(|&node| step.contains(node)).collect();
        Analysis { step, calls, ..self.clone() }
    }

    /// The ops that a run is run for, as a name.
    pub fn name_of_run(&self, run: usize) -> String {
        let names: Vec<&str> = self.step.targets(run).iter().map(|&node| self.graph.name(node)).collect();
        names.join(", ")
    }

    /// The same where it is known how often loops run.
    pub fn with_iterations(self, iterations: Iterations) -> Analysis<'a> {
        Analysis { iterations, ..self }
    }

    /// Whether an op may be made to wait for another one that it did not need, as far as effects, the runs of other train ops and the order
    /// of sums go: no run then does what it did not do.
    pub fn may_wait(&self, op: NodeId, other: NodeId) -> bool {
        self.effects.may_wait(op, other)
            && self.step.runs_whenever(other, op)
            && !self.graph.sums().stays_equal(op)
    }

    /// How many pairs of ops there are of which one reads the other.
    pub fn edge_count(&self) -> usize {
        let mut edges = 0;
        let mut producers = Vec::new();
        for node in self.graph.node_ids() {
            producers.clear();
            producers.extend(self.graph.data_inputs(node).iter().map(|&tensor| self.graph.producer(tensor)));
            producers.sort_unstable();
            producers.dedup();
            edges += producers.len();
        }
        edges
    }

    /// The op of the step with the most bytes in its inputs and outputs together, as far as these are known. An input that it
    /// reads twice counts once.
    pub fn largest_op(&self) -> Option<(NodeId, u64)> {
        let mut largest: Option<(NodeId, u64)> = None;
        for node in self.graph.node_ids().filter(|&node| self.step.may_run(node)) {
            let bytes = self.op_bytes(node);
            if bytes > largest.map_or(0, |(_, most)| most) {
                largest = Some((node, bytes));
            }
        }
        largest
    }

    /// The tensors of the step whose size is not known, in the order of the file.
    pub fn unknown_tensors(&self) -> Vec<TensorId> {
        let of_step = |tensor: &TensorId| self.step.may_run(self.graph.producer(*tensor));
        self.sizes.unknown().iter().copied().filter(of_step).collect()
    }

    /// The bytes of an op's inputs and outputs, as far as these are known.
    pub fn op_bytes(&self, node: NodeId) -> u64 {
        let mut inputs: Vec<TensorId> = self.graph.data_inputs(node).to_vec();
        inputs.sort_unstable();
        inputs.dedup();
        let touched = inputs.into_iter().chain(self.graph.outputs(node));
        touched.filter_map(|tensor| self.sizes.bytes(tensor)).fold(0, u64::saturating_add)
    }
}
