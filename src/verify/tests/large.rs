//! Large graphs and real ones. Run by hand, in a release build:
//!
//!     cargo test --release --lib verify::tests::large -- --ignored --nocapture
//!
//! The second test reads the models whose paths are in `LMS_CHECK_MODELS`, parted by spaces.

use std::collections::HashMap;
use std::time::Instant;

use super::*;
use crate::verify::names::{Input, Task};

/// Swaps each tensor for all consumers that stand so many nodes behind its producer, triggered by the consumer's
/// other inputs.
fn swap_far(original: &GraphDef, distance: usize) -> GraphDef {
    let ops = OpRegistry::builtin();
    let mut graph = original.clone();
    let place: HashMap<&str, usize> =
        original.node.iter().enumerate().map(|(place, node)| (node.name.as_str(), place)).collect();
    let mut added = Vec::new();
    for (consumer, node) in original.node.iter().enumerate() {
        if node.op == "Merge" {
            continue;
        }
        let read = |input: &str| match Input::parse(input) {
            Some(Input::Data(name, output)) => Some((place[name], output)),
            _ => None,
        };
        let inputs: Vec<_> = node.input.iter().map_while(|input| read(input)).collect();
        for (slot, &(from, output)) in inputs.iter().enumerate() {
            let producer = &original.node[from];
            let port = ops.get(&producer.op).and_then(|op| op.output_ports(&producer.attr).ok());
            let Some(port) = port.and_then(|ports| ports.get(output as usize).copied()) else { continue };
            if consumer < from + distance || port.is_ref || port.dtype != DataType::FLOAT {
                continue;
            }
            let Task { job, replica, task } = Task::of(&producer.device);
            let name = format!("lms/swap_in/{}/{output}_{consumer}.{slot}", producer.name).replace('.', "00");
            let mut swap = NodeDef {
                name: name.clone(),
                op: "PreventGradient".to_string(),
                input: vec![node.input[slot].clone()],
                device: format!("/job:{job}/replica:{replica}/task:{task}/device:CPU:0"),
                ..NodeDef::default()
            };
            let dtype = AttrValue { value: Some(Value::Type(port.dtype.number())) };
            swap.attr.insert("T".to_string(), dtype);
            for &(trigger, _) in inputs.iter().filter(|&&(trigger, _)| trigger > from) {
                swap.input.push(format!("^{}", original.node[trigger].name));
            }
            added.push(swap);
            graph.node[consumer].input[slot] = name;
        }
    }
    graph.node.extend(added);
    graph
}

fn time(what: &str, original: &Model, rewritten: &Model) {
    // The registry is decoded once in a process.
    OpRegistry::builtin();
    let start = Instant::now();
    let result = check(original, rewritten, OpRegistry::builtin());
    let seconds = start.elapsed().as_secs_f64();
    match result {
        Ok(verified) => println!("{what}: {seconds:.3} s, {verified:?}"),
        Err(error) => println!("{what}: {seconds:.3} s, {error}"),
    }
}

/// A chain forth, and a chain back whose ops read the first one's; now and then a ref variable or a control edge.
fn chain_of(nodes: usize, variables: usize) -> Build {
    let mut build = Build::default();
    build.node("x", "Placeholder", "");
    let half = nodes / 2;
    let mut last = "x".to_string();
    for index in 0..half {
        let name = format!("forward/block_{}/layer_{index}", index / 100);
        build.node(&name, "Relu", &last);
        last = name;
    }
    for index in (0..half).rev() {
        let name = format!("gradients/block_{}/layer_{index}_grad", index / 100);
        let forward = format!("forward/block_{}/layer_{index}", index / 100);
        let wait = if index % 5 == 0 { format!(" ^{forward}") } else { String::new() };
        build.node(&name, "AddV2", &format!("{last} {forward}{wait}"));
        last = name;
        if variables > 0 && index % (half / variables) == 0 {
            build
                .node(&format!("v{index}"), "VariableV2", "")
                .node(&format!("v{index}/mul"), "Mul", &format!("{last} v{index}"))
                .node(&format!("v{index}/update"), "AssignSub", &format!("v{index} v{index}/mul"));
        }
    }
    build
}

#[test]
#[ignore = "takes long in a debug build"]
fn a_million_nodes() {
    for (nodes, variables) in [(100_000, 0), (1_000_000, 0), (1_000_000, 500)] {
        for train in [false, true] {
            let mut original = chain_of(nodes, variables);
            if train {
                let last = original.graph.node[original.graph.node.len() - 1].name.clone();
                original.train_op(&last);
            }
            let mut rewritten = original.clone();
            rewritten.graph = swap_far(&original.graph, 100);
            let what = format!("{nodes} nodes, {variables} variables, train op known: {train}");
            time(&what, &original.model(), &rewritten.model());
            time(&format!("{what}, unchanged"), &original.model(), &original.model());
        }
    }
}

#[test]
#[ignore = "reads the models that LMS_CHECK_MODELS names"]
fn real_models() {
    for path in std::env::var("LMS_CHECK_MODELS").unwrap_or_default().split_whitespace() {
        let original = model(std::fs::read(path).unwrap());
        let mut rewritten =
            Build { graph: GraphDef::decode(original.graph_def()).unwrap(), train_ops: Vec::new() };
        let before = rewritten.clone();
        rewritten.graph = swap_far(&before.graph, 100);
        time(&format!("{path}, unchanged"), &original, &original);
        time(path, &before.model(), &rewritten.model());
    }
}
