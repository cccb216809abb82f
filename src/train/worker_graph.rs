//! A graph as a worker's server takes it.

use std::collections::HashSet;
use std::time::Duration;

use prost::Message;

use crate::plan::{BARRIER, BROADCAST};
use crate::proto::tensorflow::attr_value::Value;
use crate::proto::tensorflow::{AttrValue, GraphDef};

/// How the devices of a process begin that is in no cluster.
const LOCALHOST: &str = "/job:localhost/replica:0/task:0";

/// How long a worker waits for the others, in seconds.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Timeouts {
    /// In a step.
    pub step: f64,
    /// In the broadcast, which is the first thing that all do together, and in the first step, for which TensorFlow prepares the graph.
    pub start: f64,
}

impl Timeouts {
    /// How long a step may take when the longest before took so many seconds; none for the first, whose collectives have their own
    /// timeout.
    pub fn of_step(&self, longest_seconds: Option<f64>) -> Option<Duration> {
        Duration::try_from_secs_f64(self.step + longest_seconds?).ok()
    }
}

/// The graph with these timeouts in its collectives, and without the devices of what saves and restores variables.
///
/// A collective has one timeout for all steps, the longer one: a step with a shorter one is run with that.
///
/// A server places all of a graph, not only what is run. What names the CPU and takes a variable of no device would drag the variable
/// there, with all that reads it. And what names `localhost`, as what TensorFlow 2 traces does, means the process that runs it, whose job has
/// another name in a server.
///
/// # Errors
///
/// If the content is no GraphDef.
pub fn for_worker(content: &[u8], timeouts: Timeouts) -> Result<Vec<u8>, prost::DecodeError> {
    let mut graph = GraphDef::decode(content)?;
    let is_variable = |op: &str| matches!(op, "VarHandleOp" | "VariableV2" | "Variable");
    let free = graph.node.iter().filter(|node| is_variable(&node.op) && node.device.is_empty());
    let free: HashSet<String> = free.map(|node| node.name.clone()).collect();
    let functions = graph.library.iter_mut().flat_map(|library| &mut library.function);
    for node in functions.flat_map(|function| &mut function.node_def).chain(&mut graph.node) {
        if let Some(own) = node.device.strip_prefix(LOCALHOST) {
            node.device = own.to_string();
        }
        if node.op.starts_with("Collective") {
            let seconds = match node.name.as_str() {
                name if name.starts_with(BROADCAST) => timeouts.start,
                name if name.starts_with(BARRIER) => timeouts.step,
                _ => timeouts.start.max(timeouts.step),
            };
            let value = AttrValue { value: Some(Value::F(seconds as f32)) };
            node.attr.insert("timeout_seconds".to_string(), value);
        }
    }
    for node in &mut graph.node {
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::proto::tensorflow::NodeDef;

    #[test]
    fn a_reduce_has_the_longer_timeout_whichever_that_is() {
        let node = |name: &str| NodeDef {
            name: name.to_string(),
            op: "CollectiveReduceV2".to_string(),
            ..NodeDef::default()
        };
        let names = [BROADCAST, BARRIER, "lms/parallel/reduce"];
        let graph = GraphDef { node: names.map(node).to_vec(), ..GraphDef::default() }.encode_to_vec();
        for (step, start, of_reduce) in [(60.0, 120.0, 120.0), (60.0, 5.0, 60.0)] {
            let graph = for_worker(&graph, Timeouts { step, start }).unwrap();
            let nodes = GraphDef::decode(graph.as_slice()).unwrap().node;
            let seconds = nodes.iter().map(|node| node.attr["timeout_seconds"].value.clone());
            let expected = [start, step, of_reduce].map(|seconds| Some(Value::F(seconds as f32)));
            assert_eq!(seconds.collect::<Vec<_>>(), expected);
        }
    }

    #[test]
    fn each_step_may_be_as_long_as_the_longest_and_a_little_longer() {
        let timeouts = Timeouts { step: 60.0, start: 120.0 };
        assert_eq!(timeouts.of_step(None), None);
        assert_eq!(timeouts.of_step(Some(1.5)), Some(Duration::from_millis(61_500)));
        // For ever is no time.
        assert_eq!(Timeouts { step: 1e300, start: 1e300 }.of_step(Some(1.0)), None);
    }
}
