//! In which order TensorFlow begins with the parts of a graph that it runs in several places.
//!
//! A session begins with that of the first op in the file, goes on with that of the first which is elsewhere, and so on (`Partition`, and two
//! hash tables that each turn the order round). What is fed comes behind all others there (`SubgraphRewriter`). A function that Python calls is
//! passed through one such table, so the part of its first op comes last; arguments are ops of it.

use rustc_hash::FxHashMap as HashMap;

use super::outline::Outline;
use crate::graph::NodeId;
use crate::ops::Fact;
use crate::order::Place;

/// The host's part, and each GPU's, in the order in which they begin.
#[derive(Debug, Clone, Default)]
pub(super) struct Parts {
    /// As predicted.
    pub predicted: Vec<Place>,
    /// As it may be too. What the host gives may be on a GPU before anything else is, since an input pipeline has threads of its own. In a session
    /// the host's part may also be the last where it is predicted to be the first: TensorFlow's optimizations may have changed the order.
    pub otherwise: Vec<Place>,
}

impl Parts {
    /// Those of a step.
    pub fn of(outline: &Outline) -> Parts {
        let graph = outline.analysis.graph;
        let is_function = outline.order.iter().any(|&node| graph.is_given_by_python(node));
        let is_listed = |node: NodeId| is_function || !graph.op(node).facts().has(Fact::Fed);
        let mut first: HashMap<Place, NodeId> = HashMap::default();
        for &node in outline.order.iter().filter(|&&node| is_listed(node)) {
            let first = first.entry(outline.placement.op(node)).or_insert(node);
            *first = node.min(*first);
        }
        let gpus = (0..outline.placement.gpus().len() as u16).map(Place::Gpu);
        let mut predicted: Vec<Place> = gpus.chain([Place::Host]).collect();
        // What has nothing but what is fed comes last.
        predicted.sort_by_key(|part| first.get(part).map_or(usize::MAX, |node| node.index()));
        if is_function {
            predicted.reverse();
        }
        let mut otherwise = predicted.clone();
        otherwise.retain(|part| *part != Place::Host);
        let is_last = !is_function && predicted.first() == Some(&Place::Host);
        otherwise.insert(if is_last { otherwise.len() } else { 0 }, Place::Host);
        Parts { predicted, otherwise }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::{Model, ReadOptions};
    use crate::graph::Graph;
    use crate::ops::OpRegistry;
    use crate::order::Placement;
    use crate::plan::Analysis;
    use crate::shape::{Shapes, Sizes};
    use crate::simulate::OpCost;

    /// In which order the parts begin of a graph that has ops on these devices in this order, as predicted and otherwise, behind what is fed: on
    /// the host, if it is no argument that is on a GPU.
    fn parts_of(devices: &[&str], fed: &str) -> [Vec<String>; 2] {
        let places = devices.iter().map(|device| (format!("/device:{device}"), "RandomUniform", ""));
        let fed_device = if fed.contains("_lms_argument") { "GPU:0" } else { "CPU:0" };
        let fed = (format!("/device:{fed_device}"), "Placeholder", fed);
        let nodes = std::iter::once(fed).chain(places).enumerate().map(|(number, (device, op, more))| {
            let input = if op == "Placeholder" { "" } else { "input: 'shape'" };
            format!(
                "node {{ name: 'op{number}' op: '{op}' {input} device: '{device}' attr {{ key: 'dtype' value {{ type: DT_FLOAT }} }} attr \
                 {{ key: 'T' value {{ type: DT_INT32 }} }} attr {{ key: '_output_shapes' value {{ list {{ shape {{ dim {{ size: 64 }} }} }} }} }} \
                 {more} }}\n"
            )
        });
        let mut text: String = nodes.collect();
        text += "node { name: 'shape' op: 'Placeholder' device: '/device:CPU:0' attr { key: 'dtype' value { type: DT_INT32 } } attr { key: \
                 '_output_shapes' value { list { shape { dim { size: 1 } } } } } }\n";
        let waits = (0..=devices.len()).map(|number| format!("input: '^op{number}' ")).collect::<String>();
        text += &format!("node {{ name: 'train' op: 'NoOp' device: '/device:CPU:0' {waits} }}");
        let model = Model::from_bytes("test.pbtxt", text.into_bytes(), &ReadOptions::default()).unwrap();
        let graph = Graph::of_model(&model, OpRegistry::builtin()).unwrap();
        let shapes = Shapes::declared(&graph);
        let sizes = Sizes::of(&graph, &shapes).unwrap();
        let train: Vec<NodeId> = graph.node_ids().filter(|&node| graph.name(node) == "train").collect();
        let analysis = Analysis::new(&graph, &train, shapes, sizes);
        let placement = Placement::of(&graph);
        let outline = Outline::new(&analysis, &placement, |_| OpCost::default()).unwrap();
        let name = |place: &Place| match place {
            Place::Gpu(gpu) => format!("GPU:{gpu}"),
            Place::Host => "CPU:0".to_string(),
        };
        let Parts { predicted, otherwise } = &outline.runs().parts;
        [predicted, otherwise].map(|parts| parts.iter().map(name).collect())
    }

    /// As two software GPUs showed, on which random numbers were made in each of these orders.
    #[test]
    fn a_session_begins_with_the_part_of_the_first_op_and_a_function_with_that_of_the_last() {
        let argument = "attr { key: '_lms_function' value { b: true } }";
        for devices in [["CPU:0", "GPU:0", "GPU:1"], ["GPU:0", "CPU:0", "GPU:1"], ["GPU:1", "GPU:0", "CPU:0"]]
        {
            assert_eq!(parts_of(&devices, "")[0], devices);
            let mut turned = devices;
            // An argument is the first op of the function.
            turned.sort_by_key(|device| *device != "CPU:0");
            turned.reverse();
            assert_eq!(parts_of(&devices, argument)[0], turned);
        }
    }

    #[test]
    fn the_part_of_the_host_may_come_first_and_in_a_session_last() {
        assert_eq!(parts_of(&["GPU:0", "CPU:0"], "")[1], ["CPU:0", "GPU:0"]);
        assert_eq!(parts_of(&["CPU:0", "GPU:0"], "")[1], ["GPU:0", "CPU:0"]);
        let [on_gpu, argument] = ["_lms_argument", "_lms_function"]
            .map(|key| format!("attr {{ key: '{key}' value {{ b: true }} }}"));
        assert_eq!(parts_of(&["GPU:0", "CPU:0"], &(argument + &on_gpu)), [["CPU:0", "GPU:0"]; 2]);
    }
}
