//! TensorFlow's own memory optimizer, a part of Grappler, to compare with.

use std::collections::HashSet;

use clap::ValueEnum;
use prost::Message;
use serde::Serialize;

use super::Recipe;
use crate::graph::{Graph, NodeId};
use crate::order::Step;
use crate::proto::tensorflow::rewriter_config::{MemOptType, Toggle};
use crate::proto::tensorflow::{ConfigProto, GraphDef, RewriterConfig};

/// What Grappler's memory optimizer is to do to a graph. By default it only does what the graph itself is marked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum GrapplerMemory {
    /// Swap tensors to the host where its estimate of memory is above the device's.
    Swapping,
    /// Run cheap ops again for the gradients; it takes those under `gradients/` for gradients.
    Recomputation,
    /// Both, and ordering ops.
    Heuristics,
}

impl GrapplerMemory {
    /// Has a session do it.
    ///
    /// Grappler leaves graphs alone of which only what runs is placed, so all of the graph is placed: give it one that has
    /// nothing else ([`only_what_trains`]).
    pub fn apply_to(self, config: &mut ConfigProto) {
        let memory_optimization = match self {
            GrapplerMemory::Swapping => MemOptType::SwappingHeuristics,
            GrapplerMemory::Recomputation => MemOptType::RecomputationHeuristics,
            GrapplerMemory::Heuristics => MemOptType::Heuristics,
        };
        let options = config.graph_options.get_or_insert_default();
        options.place_pruned_graph = false;
        options.rewrite_options = Some(RewriterConfig {
            memory_optimization: memory_optimization.into(),
            // It would keep the zeros that optimizers begin with in the GPU's memory: 144 MiB of 64 x 64 ResNet50.
            constant_folding: Toggle::Off.into(),
            ..RewriterConfig::default()
        });
    }
}

/// A graph without what neither a step nor initialization needs, as ops that save and restore. These name the CPU, and placed with
/// the others drag the variables along.
///
/// # Errors
///
/// If the content is no GraphDef.
pub fn only_what_trains(
    content: &[u8],
    graph: &Graph,
    recipe: &Recipe,
) -> Result<Vec<u8>, prost::DecodeError> {
    let initial = recipe.variables.iter().filter_map(|variable| variable.initial.as_ref());
    let variables = initial.flat_map(|initial| [&initial.initializer, &initial.value]);
    let ops = [&recipe.init_ops, &recipe.table_init_ops, &recipe.train_ops].into_iter().flatten();
    let wanted: HashSet<&str> = ops
        .chain(&recipe.loss)
        .chain(variables)
        .map(|name| name.split_once(':').map_or(name.as_str(), |(node, _)| node))
        .collect();
    let targets: Vec<NodeId> = graph.node_ids().filter(|&node| wanted.contains(graph.name(node))).collect();
    let needed = Step::of(graph, &targets);
    let names: HashSet<&str> =
        graph.node_ids().filter(|&node| needed.contains(node)).map(|node| graph.name(node)).collect();
    let mut def = GraphDef::decode(content)?;
    def.node.retain(|node| names.contains(node.name.as_str()));
    Ok(def.encode_to_vec())
}
