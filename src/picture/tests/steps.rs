//! Steps of graphs, ready to be recorded.

use super::graphs::chain;
use crate::cost::{Costs, DeviceProfile, Workspace};
use crate::format::Model;
use crate::graph::{Graph, NodeId};
use crate::ops::OpRegistry;
use crate::order::Placement;
use crate::picture::{Recorder, Recording};
use crate::plan::{Analysis, Draft, tflms};
use crate::shape::{Shapes, Sizes};
use crate::simulate::{Allocator, Machine, OpCost, Outline, Program};

fn profile(synchronous: bool) -> &'static DeviceProfile {
    DeviceProfile::built_in(if synchronous { "soft" } else { "v100-pcie3" }).unwrap()
}

pub(super) fn machine(outline: &Outline, synchronous: bool) -> Machine {
    Machine::new(profile(synchronous), outline.placement().gpus().len(), Vec::new())
}

/// Hands on what is known of a graph's step.
pub(super) fn with_outline(model: &Model, target: &str, check: impl FnOnce(&Outline)) {
    let graph = Graph::of_model(model, OpRegistry::builtin()).unwrap();
    let targets: Vec<NodeId> = graph.node_ids().filter(|&node| graph.name(node) == target).collect();
    let shapes = Shapes::declared(&graph);
    let sizes = Sizes::of(&graph, &shapes).unwrap();
    let costs = Costs::of(&graph, &shapes, &sizes, profile(false), None);
    let analysis = Analysis::new(&graph, &targets, shapes, sizes);
    let placement = Placement::of(&graph);
    let cost = |node| OpCost {
        seconds: costs.seconds(node),
        // Random ops are too small to need scratch memory of their own.
        workspace: Workspace::in_pieces([costs.workspace(node).bytes(), u64::from(node.0 % 3) * 4096]),
    };
    check(&Outline::new(&analysis, &placement, cost).unwrap());
}

pub(super) fn draft(outline: &Outline, swapout_threshold: u32, sync_mode: u8) -> Draft {
    let sync_mode = sync_mode.try_into().unwrap();
    let parameters = tflms::Parameters { swapout_threshold, sync_mode, ..tflms::Parameters::default() };
    tflms::draft(outline.analysis(), &parameters).unwrap()
}

/// Hands on the steps of the chain with a plan and without, on a machine of round numbers.
pub(super) fn with_chain<T>(
    swapout_threshold: u32,
    check: impl FnOnce(&Outline, &Draft, &Recording, &Recording) -> T,
) -> T {
    let model = chain();
    let graph = Graph::of_model(&model, OpRegistry::builtin()).unwrap();
    let targets: Vec<NodeId> = graph.node_ids().filter(|&node| graph.name(node) == "end").collect();
    let shapes = Shapes::declared(&graph);
    let sizes = Sizes::of(&graph, &shapes).unwrap();
    let analysis = Analysis::new(&graph, &targets, shapes, sizes);
    let placement = Placement::of(&graph);
    let cost = |_| OpCost { seconds: 1e-3, ..OpCost::default() };
    let outline = Outline::new(&analysis, &placement, cost).unwrap();
    let machine = Machine {
        memory: Vec::new(),
        whole_memory: Vec::new(),
        host_op_seconds: 1e-5,
        out_bytes_per_second: (1 << 30) as f64,
        in_bytes_per_second: (1 << 30) as f64,
        link_latency_seconds: 0.0,
        notice_seconds: 0.0,
        one_thread: false,
        synchronous: false,
        allocator: Allocator::default(),
    };
    let draft = draft(&outline, swapout_threshold, 0);
    let (original, planned) = (Program::new(&outline, &Draft::default()), Program::new(&outline, &draft));
    let before = Recorder::record(&original, &machine).unwrap();
    let after = Recorder::record(&planned, &machine).unwrap();
    check(&outline, &draft, &before, &after)
}
