//! What only runs a second time.

use lms_testing::graphs::{Nodes, attr_type};
use tf_lms::format::{Model, ReadOptions};
use tf_lms::graph::{Graph, NodeId, TensorId};
use tf_lms::ops::OpRegistry;
use tf_lms::plan::{
    Analysis, Draft, NodeOrder, OpRecomputation, OrderReason, Substitute, TensorSwap, TensorUse, idle_ops,
    without_idle,
};
use tf_lms::shape::{Shapes, Sizes};

use prost::Message;

/// `one` and `two` are read one after the other, and `last` ends the step.
fn nodes() -> Nodes {
    let mut nodes = Nodes::default();
    nodes.placeholder("fed", &[4]);
    let floats = [("T", attr_type(1))];
    for (name, op, inputs) in [
        ("first", "Relu", &["fed"][..]),
        ("one", "Square", &["first"]),
        ("two", "Exp", &["one"]),
        ("middle", "Neg", &["first"]),
        ("last", "Mul", &["two", "middle"]),
    ] {
        nodes.add(name, op, inputs, &floats).declares(name, &[4]);
    }
    nodes
}

fn with_analysis(check: impl FnOnce(&Analysis, &dyn Fn(&str) -> NodeId)) {
    let content = nodes().graph().encode_to_vec();
    let model = Model::from_bytes("idle", content, &ReadOptions::default()).unwrap();
    let graph = Graph::of_model(&model, OpRegistry::builtin()).unwrap();
    let node = |name: &str| graph.node_ids().find(|&node| graph.name(node) == name).unwrap();
    let shapes = Shapes::declared(&graph);
    let sizes = Sizes::of(&graph, &shapes).unwrap();
    let analysis = Analysis::new(&graph, &[node("last")], shapes, sizes);
    check(&analysis, &node);
}

fn again(
    analysis: &Analysis,
    op: NodeId,
    inputs: Vec<(TensorId, Substitute)>,
    readers: Vec<NodeId>,
) -> OpRecomputation {
    let output = analysis.graph.outputs(op).next().unwrap();
    let outputs = if readers.is_empty() { Vec::new() } else { vec![(output, readers)] };
    OpRecomputation { op, triggers: Vec::new(), inputs, outputs }
}

/// Names, sorted.
fn idle(analysis: &Analysis, draft: &Draft) -> Vec<String> {
    let idle = idle_ops(analysis, draft);
    let mut names: Vec<String> = idle.iter().map(|&node| analysis.graph.name(node).to_string()).collect();
    names.sort();
    names
}

#[test]
fn an_op_whose_readers_all_read_its_second_run_is_idle() {
    with_analysis(|analysis, node| {
        let mut draft = Draft::default();
        assert!(idle(analysis, &draft).is_empty());
        draft.recomputations = vec![again(analysis, node("two"), Vec::new(), vec![node("last")])];
        assert_eq!(idle(analysis, &draft), ["two"]);
        // With what it reads made again as well, that is idle too.
        let one = analysis.graph.outputs(node("one")).next().unwrap();
        draft.recomputations[0].inputs = vec![(one, Substitute::Recomputation(1))];
        draft.recomputations.push(again(analysis, node("one"), Vec::new(), Vec::new()));
        assert_eq!(idle(analysis, &draft), ["one", "two"]);
    });
}

#[test]
fn what_something_waits_for_is_not_idle() {
    with_analysis(|analysis, node| {
        let recomputations = vec![again(analysis, node("two"), Vec::new(), vec![node("last")])];
        let order = |before: &str, after: &str| NodeOrder {
            before: node(before),
            after: node(after),
            reason: OrderReason::Budget,
        };
        let mut draft = Draft { recomputations, ..Draft::default() };
        draft.orders = vec![order("middle", "two")];
        assert_eq!(idle(analysis, &draft), ["two"]);
        draft.orders = vec![order("two", "middle")];
        assert!(idle(analysis, &draft).is_empty());
        // What only an idle op waits for is.
        draft.recomputations.push(again(analysis, node("middle"), Vec::new(), vec![node("last")]));
        assert_eq!(idle(analysis, &draft), ["middle", "two"]);
        draft.recomputations[0].triggers = vec![node("middle")];
        assert!(idle(analysis, &draft).is_empty());
    });
}

#[test]
fn nothing_returns_for_an_idle_op() {
    with_analysis(|analysis, node| {
        let recomputations = vec![again(analysis, node("two"), Vec::new(), vec![node("last")])];
        let tensor = analysis.graph.outputs(node("one")).next().unwrap();
        let uses = vec![TensorUse { consumers: vec![node("two")], triggers: Vec::new() }];
        let swaps = vec![TensorSwap { tensor, waiting: Vec::new(), uses }];
        let mut draft = Draft { recomputations, swaps, ..Draft::default() };
        assert!(without_idle(analysis, draft.clone()).swaps.is_empty());
        // The second run may need it.
        draft.recomputations[0].inputs = vec![(tensor, Substitute::SwapIn(0))];
        let less = without_idle(analysis, draft);
        assert_eq!((less.swaps.len(), less.swaps[0].uses[0].consumers.len()), (1, 0));
    });
}
