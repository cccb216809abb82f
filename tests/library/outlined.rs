//! Graphs with all that is known of them, for a check.

use tf_lms::format::{Model, ReadOptions};
use tf_lms::graph::{Graph, NodeId};
use tf_lms::ops::OpRegistry;
use tf_lms::order::Placement;
use tf_lms::plan::Analysis;
use tf_lms::shape::{Shapes, Sizes};
use tf_lms::simulate::{OpCost, Outline};

/// A graph whose ops take so many seconds each; none if it has unknown sizes, for it is tested elsewhere that such are refused.
pub fn with_costs<R>(
    model: &Model,
    targets: &[&str],
    seconds: f64,
    check: impl FnOnce(&Outline) -> R,
) -> Option<R> {
    let graph = Graph::of_model(model, OpRegistry::builtin()).unwrap();
    let targets: Vec<NodeId> = graph.node_ids().filter(|&node| targets.contains(&graph.name(node))).collect();
    let shapes = Shapes::declared(&graph);
    let sizes = Sizes::of(&graph, &shapes).unwrap();
    let analysis = Analysis::new(&graph, &targets, shapes, sizes);
    let placement = Placement::of(&graph);
    let cost = |_| OpCost { seconds, ..OpCost::default() };
    let outline = Outline::new(&analysis, &placement, cost).ok()?;
    Some(check(&outline))
}

/// A step that ends with the op `train`, whose sizes are known.
pub fn with_step<R>(nodes: &str, check: impl FnOnce(&Outline) -> R) -> R {
    let content = nodes.as_bytes().to_vec();
    let model = Model::from_bytes("a step", content, &ReadOptions::default()).unwrap();
    with_costs(&model, &["train"], 1e-5, check).unwrap()
}
