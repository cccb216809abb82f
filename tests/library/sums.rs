//! Sums of three and what TensorFlow merges for them, from plan to rewrite.

use tf_lms::format::{Model, ReadOptions};
use tf_lms::graph::{Graph, NodeId};
use tf_lms::ops::OpRegistry;
use tf_lms::plan::{Analysis, Draft, NodeOrder, OrderReason, Plan};
use tf_lms::rewrite::{self, RewriteError};
use tf_lms::shape::{Shapes, Sizes};

/// Both gradients of `x * x`, which are one op to TensorFlow, in a sum with another one.
const GRAPH: &str = r#"
    node { name: "x" op: "Placeholder" attr { key: "dtype" value { type: DT_FLOAT } } }
    node { name: "sine" op: "Sin" input: "x" attr { key: "T" value { type: DT_FLOAT } } }
    node { name: "one" op: "Mul" input: "x" input: "sine" attr { key: "T" value { type: DT_FLOAT } } }
    node { name: "other" op: "Mul" input: "x" input: "sine" attr { key: "T" value { type: DT_FLOAT } } }
    node { name: "third" op: "Tanh" input: "x" attr { key: "T" value { type: DT_FLOAT } } }
    node { name: "sum" op: "AddN" input: "one" input: "other" input: "third" attr { key: "T" value { type: DT_FLOAT } } attr { key: "N" value { i: 3 } } }
"#;

#[test]
fn equal_ops_of_a_sum_wait_for_nothing() {
    let model = Model::from_bytes("a graph", GRAPH.as_bytes().to_vec(), &ReadOptions::default()).unwrap();
    let graph = Graph::of_model(&model, OpRegistry::builtin()).unwrap();
    let node = |name: &str| graph.node_ids().find(|&node| graph.name(node) == name).unwrap();
    let targets: Vec<NodeId> = vec![node("sum")];
    let shapes = Shapes::declared(&graph);
    let sizes = Sizes::of(&graph, &shapes).unwrap();
    let analysis = Analysis::new(&graph, &targets, shapes, sizes);
    for (after, is_allowed) in [("one", false), ("other", false), ("third", true)] {
        let order = NodeOrder { before: node("sine"), after: node(after), reason: OrderReason::Budget };
        assert_eq!(analysis.may_wait(order.after, order.before), is_allowed, "{after}");
        let mut plan = Plan::new(&analysis, "planned", "/cpu:0");
        Draft { orders: vec![order], ..Draft::default() }.write_to(&mut plan, &analysis);
        match rewrite::rewrite(&model, &graph, &plan) {
            Ok(_) => assert!(is_allowed, "{after}"),
            Err(RewriteError::OrderOfSum { node }) => assert!(!is_allowed && node == after, "{after}"),
            Err(error) => panic!("{after}: {error}"),
        }
    }
}
