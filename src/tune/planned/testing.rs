//! Networks for tests.

use crate::format::{ReadOptions, Source};
use crate::graph::{Graph, NodeId};
use crate::ops::OpRegistry;
use crate::order::Placement;
use crate::plan::Analysis;
use crate::shape::{Shapes, Sizes};
use crate::simulate::{OpCost, Outline};

/// The training step of a network of `testdata/`, whose ops take so many seconds each.
pub(super) fn with_outline(file: &str, seconds: f64, check: impl FnOnce(&Outline)) {
    let path = format!("{}/testdata/{file}.meta", env!("CARGO_MANIFEST_DIR"));
    let model = Source::Path(path.into()).read(&ReadOptions::default()).unwrap();
    let graph = Graph::of_model(&model, OpRegistry::builtin()).unwrap();
    let targets: Vec<NodeId> = graph.node_ids().filter(|&node| graph.name(node) == "train").collect();
    assert!(!targets.is_empty());
    let shapes = Shapes::declared(&graph);
    let sizes = Sizes::of(&graph, &shapes).unwrap();
    let analysis = Analysis::new(&graph, &targets, shapes, sizes);
    let placement = Placement::of(&graph);
    let cost = |_| OpCost { seconds, ..OpCost::default() };
    check(&Outline::new(&analysis, &placement, cost).unwrap());
}
