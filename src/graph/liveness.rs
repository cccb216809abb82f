//! Which ops a training step leaves out because their branch is not taken.

use prost::Message;
use rustc_hash::FxHashMap as HashMap;

use super::{Graph, NodeId, TensorId, origin};
use crate::ops::{Fact, Flow};
use crate::proto::tensorflow::attr_value::Value;
use crate::proto::tensorflow::{AttrValue, TensorProto};

/// The tensors that nobody makes in a step, and the ops that do not run, as far as that is known beforehand: where a
/// `Switch` goes by a constant, by Keras's learning phase, or by what is told.
///
/// Of a branch that only the run decides both sides count as alive: what is said of memory then holds for either.
#[derive(Debug, Clone)]
pub struct Liveness {
    dead_ops: Vec<bool>,
    /// For each op on a known predicate, the output that gets nothing.
    dead_outputs: Vec<Option<u32>>,
}

impl Liveness {
    /// `is_training` is what Keras's learning phase says, none if that is not known, and `known` what other predicates are.
    pub fn of(graph: &Graph, is_training: Option<bool>, known: &[(TensorId, bool)]) -> Liveness {
        let known: HashMap<TensorId, bool> = known.iter().copied().collect();
        let mut liveness =
            Liveness { dead_ops: vec![false; graph.len()], dead_outputs: vec![None; graph.len()] };
        for &node in graph.topological() {
            let dead = |input: &NodeId| input.index() < graph.len() && liveness.dead_ops[input.index()];
            let controls_are_dead = graph.control_inputs(node).iter().any(dead);
            let inputs = graph.data_inputs(node);
            let inputs_are_dead = match graph.flow(node) {
                Some(Flow::Merge) => {
                    let mut entering =
                        inputs.iter().filter(|&&input| !graph.is_back_edge(graph.producer(input), node));
                    entering.all(|&input| liveness.is_dead(graph, input))
                }
                _ => inputs.iter().any(|&input| liveness.is_dead(graph, input)),
            };
            liveness.dead_ops[node.index()] = controls_are_dead || inputs_are_dead;
            if graph.flow(node) == Some(Flow::Switch) {
                let taken = inputs.get(1).and_then(|&predicate| {
                    let predicate = origin(graph, predicate);
                    known.get(&predicate).copied().or_else(|| known_value(graph, predicate, is_training))
                });
                liveness.dead_outputs[node.index()] = taken.map(|taken| u32::from(!taken));
            }
        }
        liveness
    }

    /// Whether an op certainly does not run.
    pub fn is_dead_op(&self, node: NodeId) -> bool {
        self.dead_ops[node.index()]
    }

    /// Whether a tensor certainly is not made.
    pub fn is_dead(&self, graph: &Graph, tensor: TensorId) -> bool {
        let producer = graph.producer(tensor);
        producer.index() < self.dead_ops.len()
            && (self.dead_ops[producer.index()]
                || self.dead_outputs[producer.index()] == Some(graph.output_index(tensor)))
    }
}

/// The value of a predicate, if it is known before the step.
fn known_value(graph: &Graph, predicate: TensorId, is_training: Option<bool>) -> Option<bool> {
    let producer = graph.producer(predicate);
    if producer.index() >= graph.len() {
        return None;
    }
    if graph.op(producer).facts().has(Fact::Fed) {
        return is_training.filter(|_| graph.is_learning_phase(producer));
    }
    (graph.op(producer).name() == "Const").then(|| truth_value(graph, producer))?
}

/// The value of a constant truth value.
pub fn truth_value(graph: &Graph, node: NodeId) -> Option<bool> {
    let value = AttrValue::decode(graph.attrs(node).raw("value")?).ok()?.value?;
    let Value::Tensor(TensorProto { bool_val, tensor_content, .. }) = value else { return None };
    bool_val.first().copied().or_else(|| tensor_content.first().map(|&byte| byte != 0))
}
