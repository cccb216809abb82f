//! A graph as a worker's server takes it.

use std::collections::HashSet;

use prost::Message;

use crate::plan::BROADCAST;
use crate::proto::tensorflow::attr_value::Value;
use crate::proto::tensorflow::{AttrValue, GraphDef};

/// How long a worker waits for the others, in seconds.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Timeouts {
    /// In a step.
    pub step: f64,
    /// In the broadcast, which is the first thing that all do together.
    pub start: f64,
}

/// The graph with these timeouts in its collectives, and without the devices of what saves and restores variables.
///
/// A server places all of a graph, not only what is run. What names the CPU and takes a variable of no device would drag the variable
/// there, with all that reads it.
///
/// # Errors
///
/// If the content is no GraphDef.
pub fn for_worker(content: &[u8], timeouts: Timeouts) -> Result<Vec<u8>, prost::DecodeError> {
    let mut graph = GraphDef::decode(content)?;
    let is_variable = |op: &str| matches!(op, "VarHandleOp" | "VariableV2" | "Variable");
    let free = graph.node.iter().filter(|node| is_variable(&node.op) && node.device.is_empty());
    let free: HashSet<String> = free.map(|node| node.name.clone()).collect();
    for node in &mut graph.node {
        if node.op.starts_with("Collective") {
            let seconds = if node.name.starts_with(BROADCAST) { timeouts.start } else { timeouts.step };
            let value = AttrValue { value: Some(Value::F(seconds as f32)) };
            node.attr.insert("timeout_seconds".to_string(), value);
        }
        let names_cpu = node.device.to_ascii_uppercase().contains("CPU");
        let takes =
            node.input.first().is_some_and(|input| free.contains(input.split(':').next().unwrap_or(input)));
        if names_cpu
            && takes
            && matches!(node.op.as_str(), "Assign" | "AssignVariableOp" | "ReadVariableOp" | "Identity")
        {
            node.device.clear();
        }
    }
    Ok(graph.encode_to_vec())
}
