//! A flat graph in the form in which Grappler leaves it where Python calls its function: what decides which op runs first of those that
//! are ready at the same time.
//!
//! TensorFlow's executor starts what becomes ready together in the order of its nodes, so independent parts of a step, as the tasks of a
//! meta-learner, run side by side or one behind the other by that order alone, and their peaks differ by half. Two things come from
//! Grappler's pruning, which is on unless all of Grappler is off:
//!
//! - The order. `SetTransitiveFaninGraph` goes through the graph from what must stay, in depth, and lists what it met backwards; then
//!   `TopologicalSort` lists each node once all is listed that it reads, first come, first served. The order in the file does not matter.
//! - An `Identity` that only hands on is gone (`IsTrivialIdentity`), and with it a turn in the executor's queue.
//!
//! What must stay are arguments, returns and stateful ops (`GrapplerItem::NodesToPreserve`), in the order of their names.

use std::collections::{HashMap, HashSet};

use super::{FlattenError, RETURNS};
use crate::dtype::DataType;
use crate::ops::OpRegistry;
use crate::proto::tensorflow::attr_value::Value;
use crate::proto::tensorflow::{GraphDef, NodeDef};

/// What Grappler calls the node of a return, behind its name.
const RETURN_SUFFIX: &str = "_RetVal";

/// Ops that lead into and out of branches and loops. What is between one of them and others tells whether a branch is taken.
const FLOW: [&str; 8] =
    ["Enter", "Exit", "LoopCond", "Merge", "NextIteration", "Switch", "_SwitchN", "RefSwitch"];

/// Brings a flat graph into the form in which a call from Python runs it.
///
/// # Errors
///
/// If a node reads what is not there.
pub fn as_run(graph: &mut GraphDef, registry: &OpRegistry) -> Result<(), FlattenError> {
    pass_by(&mut graph.node)?;
    let order = order_of(&graph.node, registry)?;
    let mut nodes: Vec<Option<NodeDef>> = std::mem::take(&mut graph.node).into_iter().map(Some).collect();
    graph.node = order.into_iter().filter_map(|node| nodes[node].take()).collect();
    Ok(())
}

/// The name of the node that an input is of.
fn node_name(input: &str) -> &str {
    let input = input.strip_prefix('^').unwrap_or(input);
    input.split_once(':').map_or(input, |(node, _)| node)
}

fn is_control(input: &str) -> bool {
    input.starts_with('^')
}

/// The places of nodes, by their names.
fn places(nodes: &[NodeDef]) -> HashMap<&str, usize> {
    (0..).zip(nodes).map(|(place, node)| (node.name.as_str(), place)).collect()
}

/// For each node the nodes that it reads, and waits for.
fn inputs_of(nodes: &[NodeDef]) -> Result<Vec<Vec<usize>>, FlattenError> {
    let places = places(nodes);
    let read = |node: &NodeDef, input: &String| {
        places.get(node_name(input)).copied().ok_or_else(|| FlattenError::BadInput {
            function: "flat graph".to_string(),
            reader: node.name.clone(),
            input: input.clone(),
        })
    };
    nodes.iter().map(|node| node.input.iter().map(|input| read(node, input)).collect()).collect()
}

/// Has who reads an `Identity` that only hands on read what that reads. Nobody reads it from then on.
fn pass_by(nodes: &mut [NodeDef]) -> Result<(), FlattenError> {
    let inputs = inputs_of(nodes)?;
    let is_flow = |node: usize| FLOW.contains(&nodes[node].op.as_str());
    let mut stays = vec![false; nodes.len()];
    for (reader, read) in inputs.iter().enumerate() {
        for (input, &from) in nodes[reader].input.iter().zip(read) {
            // Others wait for it, or it is what a branch or a loop hands out.
            stays[from] |= is_control(input) || is_flow(reader);
        }
    }
    let only_hands_on = |place: usize| {
        let node = &nodes[place];
        let ([input], [from]) = (&*node.input, &*inputs[place]) else { return false };
        node.op == "Identity"
            && !stays[place]
            && !is_control(input)
            && !is_flow(*from)
            && !node.name.starts_with(RETURNS)
            && node.device == nodes[*from].device
            && hands_on_numbers(node)
    };
    let passed: Vec<bool> = (0..nodes.len()).map(only_hands_on).collect();
    // Of what is passed by the first on the way: what that reads is what the last hands on.
    let mut first: Vec<usize> = (0..nodes.len()).collect();
    for place in (0..nodes.len()).filter(|&place| passed[place]) {
        let (mut way, mut at) = (vec![place], first[place]);
        while let Some(&before) = inputs[at].first().filter(|&&before| passed[before])
            && way.len() <= nodes.len()
        {
            way.push(at);
            at = first[before];
        }
        way.into_iter().for_each(|on_it| first[on_it] = at);
    }
    for reader in (0..nodes.len()).filter(|&reader| !passed[reader]) {
        for (input, &from) in inputs[reader].iter().enumerate().filter(|&(_, &from)| passed[from]) {
            let source = nodes[first[from]].input[0].clone();
            nodes[reader].input[input] = source;
        }
    }
    Ok(())
}

/// Whether an op hands on what is in a GPU's memory. Handles lead to variables by it, and what says a shape has to be an op of its own in
/// loops (see [`super::given_shapes`]).
fn hands_on_numbers(node: &NodeDef) -> bool {
    let dtype = node.attr.get("T").and_then(|attr| match attr.value {
        Some(Value::Type(dtype)) => Some(DataType::new(dtype)),
        _ => None,
    });
    dtype.is_some_and(|dtype| {
        dtype.size_in_bytes().is_some() && ![DataType::INT32, DataType::INT64].contains(&dtype)
    })
}

/// The places of all nodes, in the order in which Grappler lists them.
fn order_of(nodes: &[NodeDef], registry: &OpRegistry) -> Result<Vec<usize>, FlattenError> {
    let inputs = inputs_of(nodes)?;
    let mut ends: Vec<(String, usize)> = Vec::new();
    for (place, node) in nodes.iter().enumerate() {
        if let Some(name) = node.name.strip_prefix(RETURNS) {
            ends.push((format!("{name}{RETURN_SUFFIX}"), place));
        } else if node.op == "Placeholder" || registry.get(&node.op).is_some_and(|op| op.is_stateful()) {
            ends.push((node.name.clone(), place));
        }
    }
    ends.sort();
    // What stands for the end of a step is nothing that TensorFlow knows, and what nobody reads is gone there.
    let open = (0..nodes.len()).rev().chain(ends.into_iter().map(|(_, place)| place)).collect();
    let listed = backwards(open, &inputs);
    Ok(sorted(&listed, nodes, &inputs))
}

/// All that is met from some nodes, in depth from the last of them, what is met last before all else.
fn backwards(mut open: Vec<usize>, inputs: &[Vec<usize>]) -> Vec<usize> {
    let mut is_met = vec![false; inputs.len()];
    let mut met = Vec::with_capacity(inputs.len());
    while let Some(node) = open.pop() {
        if !std::mem::replace(&mut is_met[node], true) {
            met.push(node);
            open.extend(&inputs[node]);
        }
    }
    met.reverse();
    met
}

/// The same nodes, each behind all that it reads, first come, first served.
fn sorted(listed: &[usize], nodes: &[NodeDef], inputs: &[Vec<usize>]) -> Vec<usize> {
    let mut number = vec![0; nodes.len()];
    for (place, &node) in listed.iter().enumerate() {
        number[node] = place;
    }
    let mut readers: Vec<Vec<usize>> = vec![Vec::new(); listed.len()];
    let mut missing = vec![0usize; listed.len()];
    for (place, &node) in listed.iter().enumerate() {
        // What a loop hands around is there only once its `Merge` was.
        let goes_around = |input: usize| nodes[node].op == "Merge" && nodes[input].op == "NextIteration";
        let read = inputs[node].iter().filter(|&&input| !goes_around(input)).map(|&input| number[input]);
        let read: HashSet<usize> = read.collect();
        missing[place] = read.len();
        read.into_iter().for_each(|input| readers[input].push(place));
    }
    let mut ready: Vec<usize> = (0..listed.len()).filter(|&place| missing[place] == 0).collect();
    let mut next = 0;
    while next < ready.len() {
        for &reader in &readers[ready[next]] {
            missing[reader] -= 1;
            if missing[reader] == 0 {
                ready.push(reader);
            }
        }
        next += 1;
    }
    // No graph that runs has circles.
    let in_circles = (0..listed.len()).filter(|&place| missing[place] > 0);
    let all: Vec<usize> = ready.iter().copied().chain(in_circles).collect();
    all.into_iter().map(|place| listed[place]).collect()
}
