//! Ops that take no part in the chosen mode.

use std::collections::HashSet;

use super::Mode;
use crate::graph::{FrameId, Graph, NodeId, TensorId};
use crate::ops::{Attr, AttrLookup, OpId};
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
    ops: Ops,
    inactive: Vec<bool>,
}

/// The ops that mean something here, by number.
struct Ops {
    batch_norm: HashSet<OpId>,
    loop_gates: HashSet<OpId>,
    switches: HashSet<OpId>,
    merges: HashSet<OpId>,
    state: HashSet<OpId>,
}

impl Ops {
    fn new(graph: &Graph) -> Ops {
        let ids = |names: &[&str]| names.iter().filter_map(|name| graph.registry().id(name)).collect();
        Ops {
            batch_norm: ids(&[
                "FusedBatchNorm",
                "FusedBatchNormV2",
                "FusedBatchNormV3",
                "FusedBatchNormGrad",
                "FusedBatchNormGradV2",
                "FusedBatchNormGradV3",
            ]),
            loop_gates: ids(&["Enter", "Exit", "RefEnter", "RefExit"]),
            switches: ids(&["Switch", "RefSwitch"]),
            merges: ids(&["Merge", "RefMerge"]),
            state: ids(&["Const", "Variable", "VariableV2", "VarHandleOp", "ReadVariableOp"]),
        }
    }
}

impl<'a> Finder<'a> {
    fn new(analysis: &'a Analysis<'a>, mode: Mode) -> Finder<'a> {
        let inactive = vec![false; analysis.graph.len()];
        Finder { analysis, mode, ops: Ops::new(analysis.graph), inactive }
    }

    fn visit(&mut self, node: NodeId) {
        let op = self.analysis.graph.op_id(node);
        let gate = self.ops.switches.contains(&op) || self.ops.merges.contains(&op);
        self.inactive[node.index()] =
            self.is_fixed_batch_norm(node) || self.is_in_loop(node) || !gate && self.gets_nothing(node);
    }

    fn is_fixed_batch_norm(&self, node: NodeId) -> bool {
        let graph = self.analysis.graph;
        self.mode == Mode::Training
            && self.ops.batch_norm.contains(&graph.op_id(node))
            && graph.attrs(node).attr("is_training") == Some(Attr::Bool(false))
    }

    fn is_in_loop(&self, node: NodeId) -> bool {
        self.analysis.flow.frame(node) != FrameId::TOP
            && !self.ops.loop_gates.contains(&self.analysis.graph.op_id(node))
    }

    /// Whether all inputs come from inactive ops or the branch not taken, constants and variables aside.
    fn gets_nothing(&self, node: NodeId) -> bool {
        let graph = self.analysis.graph;
        let mut gets_any = false;
        for &input in graph.data_inputs(node) {
            let producer = graph.producer(input);
            if producer.index() >= graph.len() || self.ops.state.contains(&graph.op_id(producer)) {
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
        if !self.ops.switches.contains(&graph.op_id(switch)) {
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
