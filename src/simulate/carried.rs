//! What a loop computes from iteration to iteration on a GPU.
//!
//! TensorFlow begins an iteration as soon as it is known that there is one, and a counter on the host knows that far ahead. What reads only
//! counters, lists and what came from outside may so run iterations ahead of the rest. An op that reads what the iteration before
//! computed from the one before that cannot: it waits for all of them.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use crate::graph::{ControlFlow, FrameId, Graph, NodeId, TensorId};
use crate::ops::Flow;
use crate::order::{Place, Placement};

use super::holders::is_list;

/// How many ops are looked at in search of what leads into the next iteration.
const MOST_SEARCHED: usize = 256;

/// The ops of loops that cannot run ahead.
#[derive(Debug, Clone)]
pub struct Carried {
    waits: Vec<bool>,
}

impl Carried {
    /// Those of a graph.
    pub(super) fn of(graph: &Graph, flow: &ControlFlow, placement: &Placement) -> Carried {
        let mut inside: BTreeMap<FrameId, Vec<NodeId>> = BTreeMap::new();
        for node in graph.node_ids() {
            let frames = std::iter::successors(Some(flow.frame(node)), |&frame| Some(flow.around(frame)));
            for frame in frames.take_while(|&frame| frame != FrameId::TOP) {
                inside.entry(frame).or_default().push(node);
            }
        }
        let mut carried = Carried { waits: vec![false; graph.len()] };
        let mut unmet: Vec<Option<u32>> = vec![None; graph.len()];
        for (frame, nodes) in inside {
            nodes.iter().for_each(|node| unmet[node.index()] = Some(0));
            let leads = |tensor: TensorId, reader: NodeId| {
                let maker = graph.producer(tensor);
                matches!(placement.output(tensor), Place::Gpu(_))
                    && !is_list(graph, tensor)
                    && (!graph.is_back_edge(maker, reader)
                        || flow.frame(reader) == frame && !stays_the_same(graph, reader, tensor))
            };
            let is_inside = |unmet: &[Option<u32>], node: NodeId| {
                unmet.get(node.index()).is_some_and(|unmet| unmet.is_some())
            };
            for &node in &nodes {
                let before = graph
                    .data_inputs(node)
                    .iter()
                    .filter(|&&tensor| is_inside(&unmet, graph.producer(tensor)) && leads(tensor, node));
                unmet[node.index()] = Some(before.count() as u32);
            }
            // What never gets all of its inputs is part of a circle, or behind one.
            let mut ready: Vec<NodeId> =
                nodes.iter().copied().filter(|node| unmet[node.index()] == Some(0)).collect();
            while let Some(node) = ready.pop() {
                for tensor in graph.outputs(node) {
                    for reader in graph.uses(tensor).iter().map(|reader| reader.node) {
                        if is_inside(&unmet, reader) && leads(tensor, reader) {
                            let left = unmet[reader.index()].map(|left| left.saturating_sub(1));
                            unmet[reader.index()] = left;
                            ready.extend((left == Some(0)).then_some(reader));
                        }
                    }
                }
            }
            for node in nodes {
                let left = unmet[node.index()].take();
                carried.waits[node.index()] |= flow.frame(node) == frame && left != Some(0);
            }
        }
        carried
    }

    /// The op that leads into the next iteration what an op of a loop waits for, if one is found near it.
    pub fn next_iteration(graph: &Graph, flow: &ControlFlow, from: NodeId) -> Option<NodeId> {
        let frame = flow.frame(from);
        let mut seen = BTreeSet::from([from]);
        let mut queue = VecDeque::from([from]);
        while let Some(node) = queue.pop_front().filter(|_| seen.len() < MOST_SEARCHED) {
            for before in graph.predecessors(node).filter(|before| before.index() < graph.len()) {
                if graph.is_back_edge(before, node) {
                    return Some(before);
                }
                if flow.frame(before) == frame && seen.insert(before) {
                    queue.push_back(before);
                }
            }
        }
        None
    }

    /// Whether an op of a loop waits for what the iteration before computed on a GPU, and that for the one before it.
    pub fn waits(&self, node: NodeId) -> bool {
        self.waits.get(node.index()).copied().unwrap_or(false)
    }
}

/// Whether a loop only hands a value on: whether what its `NextIteration` gives a `Merge` is what this gave.
fn stays_the_same(graph: &Graph, merge: NodeId, next: TensorId) -> bool {
    let passed_on = std::iter::successors(Some(next), |&tensor| {
        let maker = graph.producer(tensor);
        // The end of a branch may give something else.
        let is_joined = graph.flow(maker) == Some(Flow::Merge);
        let input = graph.op(maker).facts().passes_on(graph.output_index(tensor)).filter(|_| !is_joined)?;
        graph.data_inputs(maker).get(input as usize).copied()
    });
    passed_on.take(graph.len()).any(|tensor| graph.producer(tensor) == merge)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::{Model, ReadOptions};
    use crate::ops::OpRegistry;

    /// A node as `name op inputs`, of a type.
    fn node((name, op, inputs, dtype): &(&str, &str, &str, &str)) -> String {
        let inputs: String = inputs.split_whitespace().map(|input| format!("input: '{input}' ")).collect();
        let key = if *op == "Const" || *op == "Placeholder" { "dtype" } else { "T" };
        let typed = match *dtype {
            "" => String::new(),
            dtype => format!("attr {{ key: '{key}' value {{ type: {dtype} }} }}"),
        };
        let frame = match *op {
            "Enter" => "attr { key: 'frame_name' value { s: 'loop' } }",
            "Merge" => "attr { key: 'N' value { i: 2 } }",
            _ => "",
        };
        format!("node {{ name: '{name}' op: '{op}' {inputs} {typed} {frame} }}\n")
    }

    /// Of what a loop carries: a counter, a state that each iteration computes from the last one, what stays the same, and what an
    /// iteration computes anew.
    #[test]
    fn what_reads_the_state_cannot_run_ahead() {
        let mut nodes = vec![
            ("x", "Placeholder", "", "DT_FLOAT"),
            ("zero", "Const", "", "DT_INT32"),
            ("go_on", "LoopCond", "less", ""),
            ("less", "Less", "counter zero", "DT_INT32"),
            ("count", "AddV2", "counter_in:1 counter_in:1", "DT_INT32"),
            ("compute", "Tanh", "state_in:1", "DT_FLOAT"),
            ("of_same", "Tanh", "same_in:1", "DT_FLOAT"),
            ("of_fresh", "Tanh", "fresh_in:1", "DT_FLOAT"),
            ("reads_both", "AddV2", "compute of_same", "DT_FLOAT"),
            ("behind", "Exp", "reads_both", "DT_FLOAT"),
        ];
        let carried = [
            ["counter_enter", "counter", "counter_in", "counter_next", "zero", "count", "DT_INT32"],
            ["state_enter", "state", "state_in", "state_next", "x", "compute", "DT_FLOAT"],
            ["same_enter", "same", "same_in", "same_next", "x", "same_in:1", "DT_FLOAT"],
            ["fresh_enter", "fresh", "fresh_in", "fresh_next", "x", "of_same", "DT_FLOAT"],
        ];
        let inputs: Vec<[String; 2]> =
            carried.iter().map(|of| [format!("{} {}", of[0], of[3]), format!("{} go_on", of[1])]).collect();
        for ([enter, merge, switch, next, first, again, dtype], [merged, switched]) in
            carried.iter().zip(&inputs)
        {
            nodes.push((enter, "Enter", first, dtype));
            nodes.push((merge, "Merge", merged, dtype));
            nodes.push((switch, "Switch", switched, dtype));
            nodes.push((next, "NextIteration", again, dtype));
        }
        let text: String = nodes.iter().map(node).collect();
        let model = Model::from_bytes("test.pbtxt", text.into_bytes(), &ReadOptions::default()).unwrap();
        let graph = Graph::of_model(&model, OpRegistry::builtin()).unwrap();
        let flow = ControlFlow::of(&graph);
        let carried = Carried::of(&graph, &flow, &Placement::of(&graph));
        let mut waiting: Vec<&str> =
            graph.node_ids().filter(|&node| carried.waits(node)).map(|node| graph.name(node)).collect();
        waiting.sort_unstable();
        assert_eq!(waiting, ["behind", "compute", "reads_both", "state", "state_in", "state_next"]);

        let find = |name: &str| graph.node_ids().find(|&node| graph.name(node) == name).unwrap();
        let next = Carried::next_iteration(&graph, &flow, find("count"));
        assert_eq!(next.map(|node| graph.name(node)), Some("counter_next"));
    }
}
