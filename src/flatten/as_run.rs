//! A flat graph in the form in which Grappler leaves it where Python, or another function, calls its function: what decides which op runs
//! first of those that are ready at the same time.
//!
//! TensorFlow's executor starts what becomes ready together in the order of its nodes, so independent parts of a step, as the tasks of a
//! meta-learner, run side by side or one behind the other by that order alone, and their peaks differ by half. Two things come from
//! Grappler's pruning, which is on unless all of Grappler is off:
//!
//! - The order. `SetTransitiveFaninGraph` goes through the graph from what must stay, in depth, and lists what it met backwards; then
//!   `TopologicalSort` lists each node once all is listed that it reads, first come, first served. The order in the file does not matter.
//! - An `Identity` that only hands on is gone (`IsTrivialIdentity`), and with it a turn in the executor's queue.
//!
//! What must stay are returns and stateful ops (`GrapplerItem::NodesToPreserve`), in the order of their names; arguments are met on the way.
//! Where a function calls the step, its ops get the call's name in front, and it is the returns of the outer function that stay.
//!
//! By the time that it lists for good, Grappler's `DependencyOptimizer` has dropped all waiting that follows from other edges, and what it
//! dropped is not gone along. What an op waits for is in the order of names before that; then the last is where one was dropped. So the
//! effects of a step, which its end waits for, are gone back from in an order that looks like chance.
//!
//! What its other optimizers move by the way is not followed: where they make one op of several, the last nodes in the list take the places of
//! those that are gone.

use std::collections::{HashMap, HashSet};

use super::{FlattenError, RETURNS};
use crate::dtype::DataType;
use crate::ops::OpRegistry;
use crate::proto::tensorflow::attr_value::Value;
use crate::proto::tensorflow::{GraphDef, NodeDef};

/// What Grappler calls the node of a return, behind its name.
const RETURN_SUFFIX: &str = "_RetVal";

/// So many times the nodes of a graph are looked at, at most, in search of waiting that follows from other edges: some seconds of a large one.
const MOST_LOOKED_AT: usize = 300;

/// Ops that lead into and out of branches and loops. What is between one of them and others tells whether a branch is taken.
const FLOW: [&str; 8] =
    ["Enter", "Exit", "LoopCond", "Merge", "NextIteration", "Switch", "_SwitchN", "RefSwitch"];

/// Who calls the function.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Caller {
    /// Python does: arguments and returns are those of the step.
    Python,
    /// Another function, into which it is copied: Keras has one around its step, which gets the data.
    Function,
}

/// Brings a flat graph into the form in which it is run for a caller.
///
/// # Errors
///
/// If a node reads what is not there.
pub fn as_run(graph: &mut GraphDef, registry: &OpRegistry, caller: Caller) -> Result<(), FlattenError> {
    pass_by(&mut graph.node)?;
    let order = order_of(&graph.node, registry, caller)?;
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
fn order_of(nodes: &[NodeDef], registry: &OpRegistry, caller: Caller) -> Result<Vec<usize>, FlattenError> {
    let inputs = inputs_of(nodes)?;
    let order = sorted(&(0..nodes.len()).collect::<Vec<_>>(), nodes, &inputs);
    let needed = needed_inputs(nodes, &inputs, &order);
    let listed = backwards(ends_of(nodes, registry, caller), &needed);
    Ok(sorted(&listed, nodes, &inputs))
}

/// All nodes, what must stay behind all others, each in the order in which they are gone back from, the first last.
fn ends_of(nodes: &[NodeDef], registry: &OpRegistry, caller: Caller) -> Vec<usize> {
    let mut stateful: Vec<(String, usize)> = Vec::new();
    let mut returns: Vec<usize> = Vec::new();
    for (place, node) in nodes.iter().enumerate() {
        match (node.name.strip_prefix(RETURNS), caller) {
            (Some(name), Caller::Python) => stateful.push((format!("{name}{RETURN_SUFFIX}"), place)),
            // They are behind one node, whose name in small letters is behind those of calls.
            (Some(_), Caller::Function) => returns.push(place),
            (None, _) if is_stateful(node, registry) => stateful.push((node.name.clone(), place)),
            (None, _) => {}
        }
    }
    stateful.sort();
    // What stands for the end of a step is nothing that TensorFlow knows, and what nobody reads is gone there.
    let others = (0..nodes.len()).rev();
    others.chain(stateful.into_iter().map(|(_, place)| place)).chain(returns).collect()
}

/// Whether Grappler keeps an op though nobody reads it. What holds a variable stands for an argument.
fn is_stateful(node: &NodeDef, registry: &OpRegistry) -> bool {
    node.op != "VarHandleOp" && registry.get(&node.op).is_some_and(|op| op.is_stateful())
}

/// For each node what it reads, and of what it waits for what does not follow from that, in the order in which Grappler has them.
///
/// `order` has each node behind all that it reads.
fn needed_inputs(nodes: &[NodeDef], inputs: &[Vec<usize>], order: &[usize]) -> Vec<Vec<usize>> {
    let follows = waits_that_follow(nodes, inputs, order);
    (0..nodes.len())
        .map(|node| {
            // What a return waits for are effects of the function, which TensorFlow has beside its returns.
            let stands_for_effects = nodes[node].name.starts_with(RETURNS);
            let is_wait = |input: usize| is_control(&nodes[node].input[input]);
            let (mut waits, mut needed): (Vec<usize>, Vec<usize>) =
                (0..inputs[node].len()).partition(|&input| is_wait(input));
            if stands_for_effects {
                waits.clear();
            }
            waits.sort_by_key(|&input| &nodes[inputs[node][input]].name);
            // From the last to the first, what goes is replaced by the last of those that are left.
            for place in (0..waits.len()).rev() {
                if follows[node][waits[place]] {
                    waits.swap_remove(place);
                }
            }
            needed.extend(waits);
            needed.into_iter().map(|input| inputs[node][input]).collect()
        })
        .collect()
}

/// For each node and what it reads or waits for, whether that is waiting that follows from what else it reads or waits for
/// (`TransitiveReduction`).
///
/// From each node that waits it is gone back through what it needs, as far as to the first of those that it waits for. Mostly that is near;
/// where it is far too often, as much is looked at as a few hundred times the graph, and what is not found by then stays.
fn waits_that_follow(nodes: &[NodeDef], inputs: &[Vec<usize>], order: &[usize]) -> Vec<Vec<bool>> {
    // Of what leads into and out of loops Grappler does not follow, nor of what comes from one of two branches.
    let changes_frame = |node: usize| matches!(&*nodes[node].op, "Enter" | "Exit" | "NextIteration");
    let is_followed =
        |node: usize, from: usize| !changes_frame(node) && !changes_frame(from) && nodes[from].op != "Merge";
    let mut position = vec![0; nodes.len()];
    for (place, &node) in order.iter().enumerate() {
        position[node] = place;
    }
    // What is sought, met and found for a node has its number.
    let nobody = vec![usize::MAX; nodes.len()];
    let (mut sought, mut met, mut found) = (nobody.clone(), nobody.clone(), nobody);
    let mut steps_left = MOST_LOOKED_AT.saturating_mul(nodes.len());
    let mut follows: Vec<Vec<bool>> = Vec::with_capacity(nodes.len());
    for (node, read) in inputs.iter().enumerate() {
        let is_wait =
            |&input: &usize| is_control(&nodes[node].input[input]) && is_followed(node, read[input]);
        let waits: Vec<usize> = (0..read.len()).filter(is_wait).collect();
        follows.push(vec![false; read.len()]);
        let first = waits.iter().map(|&input| position[read[input]]).min();
        let Some(first) = first.filter(|_| read.len() > 1 && !nodes[node].name.starts_with(RETURNS)) else {
            continue;
        };
        let mut left = 0;
        for &input in &waits {
            left += usize::from(std::mem::replace(&mut sought[read[input]], node) != node);
        }
        let mut open: Vec<usize> = read.iter().copied().filter(|&from| is_followed(node, from)).collect();
        open.iter().for_each(|&from| met[from] = node);
        while let Some(at) = open.pop().filter(|_| left > 0 && steps_left > 0) {
            steps_left -= 1;
            for &from in inputs[at].iter().filter(|&&from| position[from] >= first && is_followed(at, from)) {
                left -=
                    usize::from(sought[from] == node && std::mem::replace(&mut found[from], node) != node);
                if std::mem::replace(&mut met[from], node) != node {
                    open.push(from);
                }
            }
        }
        for input in waits {
            follows[node][input] = found[read[input]] == node;
        }
    }
    follows
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
