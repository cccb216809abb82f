//! Sums of three numbers or more, and what decides about the order in which they add.
//!
//! `AddN` writes its result over the first of its inputs that nobody else reads any more, and adds the others to that one
//! ([`Fact::OrderDepends`]). Of three inputs or more the last bit depends on the order, and so on who reads what. TensorFlow also merges
//! ops that are equal ([`super::equal`]). Both gradients of `x * x` are one op to it, and a sum of both reads that one twice. Who waits for something, or reads something else, is not equal any more: then
//! the sum has two inputs that nobody else reads, and adds in another order.

use super::equal::{Classes, Likeness};
use super::{Graph, NodeId, TensorId};
use crate::ops::Fact;

/// What the sums of a graph depend on.
#[derive(Debug, Clone, Default)]
pub struct Sums {
    /// For each node whether it has to stay equal to others. Nothing, if there are no such sums.
    stays_equal: Vec<bool>,
}

impl Sums {
    /// Finds out what they depend on.
    pub fn of(graph: &Graph) -> Sums {
        if !graph.node_ids().any(|node| is_long_sum(graph, node)) {
            return Sums::default();
        }
        let classes = Classes::of(graph, Likeness::Possible);
        let mut decides = vec![false; classes.len()];
        for &node in graph.topological().iter().rev() {
            let Some(own) = classes.shared(node) else { continue };
            let readers = || graph.outputs(node).flat_map(|tensor| graph.uses(tensor));
            decides[own] |= readers().any(|reader| {
                is_long_sum(graph, reader.node)
                    || classes.get(reader.node).is_some_and(|class| decides[class])
            });
        }
        let decides = |node| classes.get(node).is_some_and(|class| decides[class]);
        Sums { stays_equal: graph.node_ids().map(decides).collect() }
    }

    /// Whether TensorFlow merges an op with equal ones, and a sum adds in another order if it does not: the op must wait for nothing that
    /// it does not wait for, and read nothing else.
    pub fn stays_equal(&self, node: NodeId) -> bool {
        self.stays_equal.get(node.index()) == Some(&true)
    }

    /// Whether sums add in the same order when some readers of a tensor read a copy of it, or have it later.
    pub fn allow_copy(&self, graph: &Graph, tensor: TensorId) -> bool {
        let readers = || graph.uses(tensor).iter().map(|reader| reader.node);
        let has_others = readers().next().is_some_and(|first| readers().any(|reader| reader != first));
        let is_shared = has_others && readers().any(|reader| is_long_sum(graph, reader));
        !is_shared
            && !self.stays_equal(graph.producer(tensor))
            && !readers().any(|reader| self.stays_equal(reader))
    }

    /// Whether sums add in the same order when an op runs again.
    pub fn allow_second_run(&self, graph: &Graph, node: NodeId) -> bool {
        // What a sum reads too it may not be the last to read any more.
        let is_summed =
            |&tensor: &TensorId| graph.uses(tensor).iter().any(|reader| is_long_sum(graph, reader.node));
        !is_long_sum(graph, node)
            && !graph.data_inputs(node).iter().any(is_summed)
            && graph.outputs(node).all(|tensor| self.allow_copy(graph, tensor))
    }
}

/// Whether an op adds up so many tensors that their order matters.
fn is_long_sum(graph: &Graph, node: NodeId) -> bool {
    graph.op(node).facts().has(Fact::OrderDepends) && graph.data_inputs(node).len() > 2
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::{Model, ReadOptions};
    use crate::ops::OpRegistry;

    /// Equal ops of equal ops, with equal constants, of which a sum reads the last ones; and others that are like them.
    const GRAPH: &str = r#"
        node { name: "x" op: "Placeholder" attr { key: "dtype" value { type: DT_FLOAT } } }
        node { name: "two" op: "Const" attr { key: "dtype" value { type: DT_FLOAT } } attr { key: "value" value { tensor { dtype: DT_FLOAT tensor_shape {} float_val: 2 } } } }
        node { name: "two_too" op: "Const" attr { key: "dtype" value { type: DT_FLOAT } } attr { key: "value" value { tensor { dtype: DT_FLOAT tensor_shape {} float_val: 2 } } } }
        node { name: "three" op: "Const" attr { key: "dtype" value { type: DT_FLOAT } } attr { key: "value" value { tensor { dtype: DT_FLOAT tensor_shape {} float_val: 3 } } } }
        node { name: "twice" op: "Mul" input: "x" input: "two" attr { key: "T" value { type: DT_FLOAT } } }
        node { name: "twice_too" op: "Mul" input: "x" input: "two_too" attr { key: "T" value { type: DT_FLOAT } } }
        node { name: "thrice" op: "Mul" input: "x" input: "three" attr { key: "T" value { type: DT_FLOAT } } }
        node { name: "one" op: "Relu" input: "twice" attr { key: "T" value { type: DT_FLOAT } } }
        node { name: "other" op: "Relu" input: "twice_too" attr { key: "T" value { type: DT_FLOAT } } }
        node { name: "third" op: "Relu" input: "thrice" attr { key: "T" value { type: DT_FLOAT } } }
        node { name: "sum" op: "AddN" input: "one" input: "other" input: "third" attr { key: "T" value { type: DT_FLOAT } } attr { key: "N" value { i: 3 } } }
        node { name: "sine" op: "Sin" input: "x" attr { key: "T" value { type: DT_FLOAT } } }
        node { name: "sine_too" op: "Sin" input: "x" attr { key: "T" value { type: DT_FLOAT } } }
        node { name: "short" op: "AddN" input: "sine" input: "sine_too" attr { key: "T" value { type: DT_FLOAT } } attr { key: "N" value { i: 2 } } }
        node { name: "alike" op: "Relu" input: "twice" attr { key: "T" value { type: DT_FLOAT } } }
        node { name: "random" op: "RandomUniform" input: "two" attr { key: "T" value { type: DT_FLOAT } } attr { key: "dtype" value { type: DT_FLOAT } } }
        node { name: "random_too" op: "RandomUniform" input: "two" attr { key: "T" value { type: DT_FLOAT } } attr { key: "dtype" value { type: DT_FLOAT } } }
        node { name: "noise" op: "AddN" input: "random" input: "random_too" input: "third" attr { key: "T" value { type: DT_FLOAT } } attr { key: "N" value { i: 3 } } }
    "#;

    #[test]
    fn what_is_merged_for_a_sum_stays_equal() {
        let model = Model::from_bytes("a graph", GRAPH.as_bytes().to_vec(), &ReadOptions::default()).unwrap();
        let graph = Graph::of_model(&model, OpRegistry::builtin()).unwrap();
        let stays = |node: &NodeId| graph.sums().stays_equal(*node);
        let names: Vec<&str> = graph.node_ids().filter(stays).map(|node| graph.name(node)).collect();
        // `alike` is one op with `one`, which others then read beside the sum.
        assert_eq!(names, ["two", "two_too", "twice", "twice_too", "one", "other", "alike"]);
    }

    #[test]
    fn who_reads_what_a_sum_reads_stays_the_same() {
        let model = Model::from_bytes("a graph", GRAPH.as_bytes().to_vec(), &ReadOptions::default()).unwrap();
        let graph = Graph::of_model(&model, OpRegistry::builtin()).unwrap();
        let node = |name: &str| graph.node_ids().find(|&node| graph.name(node) == name).unwrap();
        let output = |name: &str| graph.outputs(node(name)).next().unwrap();
        let may_leave = |name: &&str| graph.sums().allow_copy(&graph, output(name));
        let all = ["x", "two", "three", "twice", "thrice", "one", "third", "sine", "random"];
        let leave: Vec<&str> = all.into_iter().filter(may_leave).collect();
        // Two sums read `third`, and ops that stay equal read `x` and `two`.
        assert_eq!(leave, ["three", "thrice", "sine", "random"]);
        let may_run_again = |name: &&str| graph.sums().allow_second_run(&graph, node(name));
        let again: Vec<&str> =
            ["sum", "short", "thrice", "third", "sine"].into_iter().filter(may_run_again).collect();
        assert_eq!(again, ["short", "thrice", "sine"]);
    }
}
