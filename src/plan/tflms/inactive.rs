//! Ops that take no part in the chosen mode.

use super::Mode;
use crate::graph::{FrameId, NodeId, TensorId};
use crate::ops::{Attr, AttrLookup, Fact, Flow, OpInfo, Traffic, WorkKind};
use crate::plan::Analysis;

/// Which ops do not run in the given mode, or run where swapping makes no sense.
///
/// In training: batch norm with fixed statistics, the body of each loop, and the branch that a Keras graph takes in
/// inference; then whatever gets nothing from the step but from such ops.
pub(super) fn inactive_ops(analysis: &Analysis, mode: Mode) -> Vec<bool> {
    let mut finder = Finder::new(analysis, mode);
    for &node in analysis.graph.topological() {
        finder.visit(node);
    }
    finder.inactive
}

struct Finder<'a> {
    analysis: &'a Analysis<'a>,
    mode: Mode,
    inactive: Vec<bool>,
}

impl<'a> Finder<'a> {
    fn new(analysis: &'a Analysis<'a>, mode: Mode) -> Finder<'a> {
        let inactive = vec![false; analysis.graph.len()];
        Finder { analysis, mode, inactive }
    }

    fn visit(&mut self, node: NodeId) {
        let gate = matches!(self.analysis.graph.flow(node), Some(Flow::Switch | Flow::Merge));
        self.inactive[node.index()] =
            self.is_fixed_batch_norm(node) || self.is_in_loop(node) || !gate && self.gets_nothing(node);
    }

    fn is_fixed_batch_norm(&self, node: NodeId) -> bool {
        let graph = self.analysis.graph;
        let work = || graph.op(node).facts().work();
        self.mode == Mode::Training
            && matches!(work(), WorkKind::Memory(Traffic::BatchNorm | Traffic::BatchNormGradient))
            && graph.attrs(node).attr("is_training") == Some(Attr::Bool(false))
    }

    fn is_in_loop(&self, node: NodeId) -> bool {
        self.analysis.flow.frame(node) != FrameId::TOP
            && !matches!(self.analysis.graph.flow(node), Some(Flow::Enter | Flow::Exit))
    }

    /// Whether all inputs come from inactive ops or the branch not taken, constants and variables aside.
    fn gets_nothing(&self, node: NodeId) -> bool {
        let graph = self.analysis.graph;
        let mut gets_any = false;
        for &input in graph.data_inputs(node) {
            let producer = graph.producer(input);
            if producer.index() >= graph.len() || is_state(graph.op(producer)) {
                continue;
            }
            gets_any = true;
            if !self.inactive[producer.index()] && !self.is_branch_not_taken(input) {
                return false;
            }
        }
        gets_any
    }

    /// Whether a tensor is the output of a `Switch` on Keras's learning phase that the mode does not take.
    fn is_branch_not_taken(&self, tensor: TensorId) -> bool {
        let graph = self.analysis.graph;
        let switch = graph.producer(tensor);
        if graph.flow(switch) != Some(Flow::Switch) {
            return false;
        }
        let &[_, mut predicate] = graph.data_inputs(switch) else { return false };
        // `cond` passes its predicate through Identity ops.
        while graph.producer(predicate).index() < graph.len() {
            let producer = graph.producer(predicate);
            match (graph.op(producer).name(), graph.data_inputs(producer)) {
                ("Identity", &[copied]) => predicate = copied,
                _ => break,
            }
        }
        let taken = u32::from(self.mode == Mode::Training);
        graph.is_learning_phase(graph.producer(predicate)) && graph.output_index(tensor) != taken
    }
}

/// Whether an op gives constants and variables.
fn is_state(op: &OpInfo) -> bool {
    op.facts().has(Fact::KeepsValue) || op.name() == "ReadVariableOp"
}
