//! Of which graphs TensorFlow turns images on a GPU.

use lms_testing::graphs::{Nodes, attr_type};
use prost::Message as _;
use tf_lms::format::{Model, ReadOptions};
use tf_lms::graph::Graph;
use tf_lms::ops::OpRegistry;
use tf_lms::pipeline::image_order_note;
use tf_lms::plan::Analysis;
use tf_lms::proto::tensorflow::attr_value::Value;
use tf_lms::shape::{Shapes, Sizes};

const FLOAT: i32 = 1;
const HALF: i32 = 19;

/// Whether there is a note on a step of these convolutions, each with a type and an order of channels.
fn is_turned(convolutions: &[(i32, &str)]) -> bool {
    let mut nodes = Nodes::default();
    let mut names = Vec::new();
    for (number, &(dtype, order)) in convolutions.iter().enumerate() {
        let [image, filter, map] = ["image", "filter", "map"].map(|name| format!("{name}{number}"));
        for input in [&image, &filter] {
            nodes.add(input, "Placeholder", &[], &[("dtype", attr_type(dtype))]);
        }
        let format = Value::S(order.as_bytes().to_vec());
        nodes.add(&map, "Conv2D", &[&image, &filter], &[("T", attr_type(dtype)), ("data_format", format)]);
        names.push(format!("^{map}"));
    }
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    nodes.add("train", "NoOp", &names, &[]);
    let content = nodes.graph().encode_to_vec();
    let model = Model::from_bytes("a graph", content, &ReadOptions::default()).unwrap();
    let graph = Graph::of_model(&model, OpRegistry::builtin()).unwrap();
    let target = graph.node_ids().find(|&node| graph.name(node) == "train").unwrap();
    let shapes = Shapes::declared(&graph);
    let sizes = Sizes::of(&graph, &shapes).unwrap();
    image_order_note(&Analysis::new(&graph, &[target], shapes, sizes)).is_some()
}

#[test]
fn images_are_turned_to_where_kernels_want_them() {
    assert!(is_turned(&[(FLOAT, "NHWC")]));
    assert!(!is_turned(&[(FLOAT, "NCHW")]));
    assert!(!is_turned(&[(HALF, "NHWC")]));
    assert!(is_turned(&[(HALF, "NCHW")]));
    assert!(!is_turned(&[]));
    // Half of them decide about all.
    assert!(is_turned(&[(HALF, "NHWC"), (FLOAT, "NCHW")]));
    assert!(is_turned(&[(HALF, "NHWC"), (FLOAT, "NHWC"), (FLOAT, "NHWC")]));
}
