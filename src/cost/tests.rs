use std::collections::HashMap;

use proptest::prelude::*;
use prost::Message;

use super::*;
use crate::format::{Model, ReadOptions};
use crate::ops::OpRegistry;
use crate::order::Step;
use crate::proto::tensorflow::attr_value::{ListValue, Value};
use crate::proto::tensorflow::tensor_shape_proto::Dim;
use crate::proto::tensorflow::{AttrValue, GraphDef, NodeDef, TensorShapeProto};

const FLOAT: i32 = 1;
const HALF: i32 = 19;

/// A graph node by node, all values of one type.
struct Nodes {
    dtype: i32,
    nodes: Vec<NodeDef>,
}

impl Nodes {
    fn new(dtype: i32) -> Nodes {
        Nodes { dtype, nodes: Vec::new() }
    }

    fn add(&mut self, name: &str, op: &str, input: &[&str], outputs: &[&[i64]]) -> &mut Nodes {
        let dim = |size: &i64| Dim { size: *size, name: String::new() };
        let shape =
            |sizes: &&[i64]| TensorShapeProto { dim: sizes.iter().map(dim).collect(), unknown_rank: false };
        let shapes = ListValue { shape: outputs.iter().map(shape).collect(), ..ListValue::default() };
        self.nodes.push(NodeDef {
            name: name.to_string(),
            op: op.to_string(),
            input: input.iter().map(ToString::to_string).collect(),
            ..NodeDef::default()
        });
        self.attr("_output_shapes", Value::List(shapes));
        for name in ["T", "dtype"] {
            self.attr(name, Value::Type(self.dtype));
        }
        self
    }

    fn attr(&mut self, name: &str, value: Value) -> &mut Nodes {
        let node = self.nodes.last_mut().expect("there is a node");
        node.attr.insert(name.to_string(), AttrValue { value: Some(value) });
        self
    }

    fn integers(&mut self, name: &str, values: &[i64]) -> &mut Nodes {
        self.attr(name, Value::List(ListValue { i: values.to_vec(), ..ListValue::default() }))
    }

    fn strings(&mut self, name: &str, value: &str) -> &mut Nodes {
        self.attr(name, Value::S(value.as_bytes().to_vec()))
    }

    /// Placeholders of these shapes, named `0`, `1` and so on.
    fn given(dtype: i32, shapes: &[&[i64]]) -> Nodes {
        let mut nodes = Nodes::new(dtype);
        for (number, shape) in shapes.iter().enumerate() {
            nodes.add(&format!("in{number}"), "Placeholder", &[], &[shape]);
        }
        nodes
    }

    /// What the last node costs.
    fn last(&self, profile: &DeviceProfile, measured: Option<&MeasuredOps>) -> Last {
        let graph_def = GraphDef { node: self.nodes.clone(), ..GraphDef::default() };
        let model =
            Model::from_bytes("test", graph_def.encode_to_vec(), &ReadOptions::default()).expect("a model");
        let graph = Graph::of_model(&model, OpRegistry::builtin()).expect("a graph");
        let shapes = Shapes::declared(&graph);
        let sizes = Sizes::of(&graph, &shapes).expect("sizes");
        let costs = Costs::of(&graph, &shapes, &sizes, profile, measured);
        let node = NodeId(self.nodes.len() as u32 - 1);
        Last {
            seconds: costs.seconds(node),
            scratch: costs.workspace(node).pieces().collect(),
            flops: costs.flops(node),
            source: costs.source(node),
        }
    }

    fn flops(&self) -> f64 {
        self.last(v100(), None).flops
    }
}

#[derive(Debug, PartialEq)]
struct Last {
    seconds: f64,
    /// The bytes of each piece.
    scratch: Vec<u64>,
    flops: f64,
    source: CostSource,
}

fn v100() -> &'static DeviceProfile {
    DeviceProfile::built_in("v100-nvlink2").expect("a built-in profile")
}

/// A graph of `testdata`, analysed.
fn with_testdata<R>(file: &str, then: impl FnOnce(&Graph, &Shapes, &Sizes) -> R) -> R {
    let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("testdata").join(file);
    let content = std::fs::read(&path).expect("testdata is in the repository");
    let model = Model::from_bytes(file, content, &ReadOptions::default()).expect("a model");
    let graph = Graph::of_model(&model, OpRegistry::builtin()).expect("a graph");
    let shapes = Shapes::declared(&graph);
    let sizes = Sizes::of(&graph, &shapes).expect("sizes");
    then(&graph, &shapes, &sizes)
}

fn node_named(graph: &Graph, name: &str) -> NodeId {
    graph.node_ids().find(|&node| graph.name(node) == name).expect("the node is there")
}

const SIZES: &[i64] = &[4];

#[test]
fn the_three_products_of_a_convolution_take_the_same_arithmetic() {
    // 2·8·8·16 values, each a sum of 3·3·3 products.
    let expected = 2.0 * (2 * 8 * 8 * 16 * 27) as f64;
    let (image, filter, map): (&[i64], &[i64], &[i64]) = (&[2, 8, 8, 3], &[3, 3, 3, 16], &[2, 8, 8, 16]);
    let mut forward = Nodes::given(FLOAT, &[image, filter]);
    forward.add("c", "Conv2D", &["in0", "in1"], &[map]);
    assert_eq!(forward.flops(), expected);
    let mut input = Nodes::given(FLOAT, &[SIZES, filter, map]);
    input.nodes[0].attr.insert("dtype".into(), AttrValue { value: Some(Value::Type(3)) });
    input.add("c", "Conv2DBackpropInput", &["in0", "in1", "in2"], &[image]);
    assert_eq!(input.flops(), expected);
    let mut filter_gradient = Nodes::given(FLOAT, &[image, SIZES, map]);
    filter_gradient.add("c", "Conv2DBackpropFilter", &["in0", "in1", "in2"], &[filter]);
    assert_eq!(filter_gradient.flops(), expected);
}

#[test]
fn layout_strides_dilations_and_groups_are_in_the_shapes() {
    let flops = |image: &[i64], filter: &[i64], map: &[i64], format: &str, strides: i64, dilations: i64| {
        let mut nodes = Nodes::given(FLOAT, &[image, filter]);
        nodes
            .add("c", "Conv2D", &["in0", "in1"], &[map])
            .strings("data_format", format)
            .integers("strides", &[1, strides, strides, 1])
            .integers("dilations", &[1, dilations, dilations, 1]);
        nodes.flops()
    };
    let plain = 2.0 * (2 * 8 * 8 * 16 * 9 * 8) as f64;
    assert_eq!(flops(&[2, 8, 8, 8], &[3, 3, 8, 16], &[2, 8, 8, 16], "NHWC", 1, 1), plain);
    assert_eq!(flops(&[2, 8, 8, 8], &[3, 3, 8, 16], &[2, 16, 8, 8], "NCHW", 1, 1), plain);
    assert_eq!(flops(&[2, 8, 8, 8], &[3, 3, 8, 16], &[2, 8, 8, 16], "NHWC", 1, 4), plain);
    assert_eq!(flops(&[2, 8, 8, 8], &[3, 3, 8, 16], &[2, 4, 4, 16], "NHWC", 2, 1), plain / 4.0);
    assert_eq!(flops(&[2, 8, 8, 8], &[3, 3, 4, 16], &[2, 8, 8, 16], "NHWC", 1, 1), plain / 2.0);
}

#[test]
fn depthwise_convolutions_take_one_window_for_each_value() {
    let (image, filter, map): (&[i64], &[i64], &[i64]) = (&[2, 8, 8, 6], &[3, 5, 6, 2], &[2, 8, 8, 12]);
    let expected = 2.0 * (2 * 8 * 8 * 12 * 15) as f64;
    let mut forward = Nodes::given(FLOAT, &[image, filter]);
    forward.add("c", "DepthwiseConv2dNative", &["in0", "in1"], &[map]);
    assert_eq!(forward.flops(), expected);
    let mut gradient = Nodes::given(FLOAT, &[image, SIZES, map]);
    gradient.add("c", "DepthwiseConv2dNativeBackpropFilter", &["in0", "in1", "in2"], &[filter]);
    assert_eq!(gradient.flops(), expected);
    let mut gradient = Nodes::given(FLOAT, &[SIZES, filter, map]);
    gradient.add("c", "DepthwiseConv2dNativeBackpropInput", &["in0", "in1", "in2"], &[image]);
    assert_eq!(gradient.flops(), expected);
}

#[test]
fn convolutions_in_three_dimensions_have_a_third_side_to_their_window() {
    let mut nodes = Nodes::given(FLOAT, &[&[1, 4, 8, 8, 8], &[3, 3, 3, 4, 16]]);
    nodes.add("c", "Conv3D", &["in0", "in1"], &[&[1, 16, 8, 8, 8]]).strings("data_format", "NCDHW");
    assert_eq!(nodes.flops(), 2.0 * (16 * 512 * 27 * 4) as f64);
}

#[test]
fn products_of_matrices_sum_over_the_side_that_is_not_transposed_away() {
    let product = |op: &str, left: &[i64], right: &[i64], output: &[i64], transposed: Option<&str>| {
        let mut nodes = Nodes::given(FLOAT, &[left, right]);
        nodes.add("p", op, &["in0", "in1"], &[output]);
        if let Some(attr) = transposed {
            nodes.attr(attr, Value::B(true));
        }
        nodes.flops()
    };
    let expected = 2.0 * (5 * 7 * 3) as f64;
    assert_eq!(product("MatMul", &[5, 7], &[7, 3], &[5, 3], None), expected);
    assert_eq!(product("MatMul", &[7, 5], &[7, 3], &[5, 3], Some("transpose_a")), expected);
    assert_eq!(product("MatMul", &[5, 7], &[3, 7], &[5, 3], Some("transpose_b")), expected);
    let batch = 4.0 * expected;
    assert_eq!(product("BatchMatMulV2", &[2, 2, 5, 7], &[7, 3], &[2, 2, 5, 3], None), batch);
    assert_eq!(product("BatchMatMulV2", &[2, 2, 7, 5], &[7, 3], &[2, 2, 5, 3], Some("adj_x")), batch);
}

#[test]
fn an_einsum_multiplies_once_for_each_combination_of_labels() {
    let mut nodes = Nodes::given(FLOAT, &[&[2, 3, 5, 7], &[2, 3, 7, 11]]);
    nodes.add("e", "Einsum", &["in0", "in1"], &[&[2, 3, 5, 11]]);
    nodes.attr("N", Value::I(2)).strings("equation", "...ij,...jk->...ik");
    assert_eq!(nodes.flops(), 2.0 * (6 * 5 * 7 * 11) as f64);
    nodes.strings("equation", "abij,abjk->abik");
    assert_eq!(nodes.flops(), 2.0 * (6 * 5 * 7 * 11) as f64);
}

#[test]
fn steps_of_a_recurrent_net_wait_for_one_another() {
    let mut nodes =
        Nodes::given(FLOAT, &[&[], &[10, 4, 32], &[4, 16], &[4, 16], &[48, 64], &[16], &[16], &[16], &[64]]);
    nodes.nodes[0].attr.insert("dtype".into(), AttrValue { value: Some(Value::Type(9)) });
    let inputs = ["in0", "in1", "in2", "in3", "in4", "in5", "in6", "in7", "in8"];
    nodes.add("l", "BlockLSTM", &inputs, &[&[10, 4, 16][..]; 7]);
    let cost = nodes.last(v100(), None);
    assert_eq!(cost.flops, 2.0 * (10 * 4 * 48 * 64) as f64);
    assert!(cost.seconds >= 10.0 * v100().launch_seconds);
}

#[test]
fn resnet50_takes_the_arithmetic_that_is_known_of_it() {
    // 3.86 · 10⁹ pairs for an image of 224x224, as published for the version that strides in the first of each three
    // convolutions; all sides of the feature maps are in proportion to the image's.
    let expected = 2.0 * 3.86e9 * 2.0 * (64.0 * 64.0) / (224.0 * 224.0);
    with_testdata("resnet50_64_b2.meta", |graph, shapes, sizes| {
        let costs = Costs::of(graph, shapes, sizes, v100(), None);
        let total = |op: &str| -> f64 {
            let nodes = graph.node_ids().filter(|&node| graph.op(node).name() == op);
            nodes.map(|node| costs.flops(node)).sum()
        };
        let forward = total("Conv2D");
        assert!((forward / expected - 1.0).abs() < 0.01, "{forward:e}, expected {expected:e}");
        assert_eq!(total("Conv2DBackpropFilter"), forward);
        let step = Step::of(graph, &[node_named(graph, "train")]);
        let is_unknown =
            |&node: &NodeId| step.contains(node) && costs.source(node) == CostSource::UnknownSize;
        let unknown: Vec<_> = graph.node_ids().filter(is_unknown).map(|node| graph.name(node)).collect();
        assert!(unknown.is_empty(), "{unknown:?}");
    });
}

#[test]
fn what_only_renames_takes_no_time() {
    let mut nodes = Nodes::given(FLOAT, &[&[1000, 1000]]);
    nodes.add("i", "Identity", &["in0"], &[&[1000, 1000]]);
    assert_eq!(nodes.last(v100(), None).source, CostSource::Free);
    nodes.add("r", "Relu", &["in0"], &[&[1000, 1000]]);
    let relu = nodes.last(v100(), None);
    let expected = 8e6 / (v100().memory_bytes_per_second * v100().memory_efficiency);
    assert!((relu.seconds / expected - 1.0).abs() < 1e-12, "{relu:?}");
    nodes.add("s", "Shape", &["in0"], &[&[2]]);
    assert_eq!(nodes.last(v100(), None).seconds, 0.0);
}

#[test]
fn a_sum_over_no_axes_takes_no_time() {
    let mut nodes = Nodes::given(FLOAT, &[&[1000, 1000], &[0]]);
    nodes.add("s", "Sum", &["in0", "in1"], &[&[1000, 1000]]);
    assert_eq!(nodes.last(v100(), None).source, CostSource::Free);
    let mut nodes = Nodes::given(FLOAT, &[&[1000, 1000], &[1]]);
    nodes.add("s", "Sum", &["in0", "in1"], &[&[1000]]);
    assert_eq!(nodes.last(v100(), None).source, CostSource::Estimated);
}

#[test]
fn sums_of_shapes_are_the_hosts() {
    let mut nodes = Nodes::given(3, &[&[4]]);
    nodes.add("a", "AddV2", &["in0", "in0"], &[&[4]]);
    assert_eq!(nodes.last(v100(), None).source, CostSource::Free);
    let mut nodes = Nodes::given(FLOAT, &[&[4]]);
    nodes.add("a", "AddV2", &["in0", "in0"], &[&[4]]);
    assert_eq!(nodes.last(v100(), None).seconds, v100().launch_seconds);
}

#[test]
fn an_optimizer_reads_and_writes_its_variable_and_slots() {
    let mut nodes = Nodes::given(FLOAT, &[&[], &[1 << 20]]);
    for handle in ["var", "accum"] {
        nodes.add(handle, "VarHandleOp", &[], &[&[]]);
    }
    nodes.add("u", "ResourceApplyMomentum", &["var", "accum", "in0", "in1", "in0"], &[]);
    let update = nodes.last(v100(), None);
    let expected =
        5.0 * 4.0 * f64::from(1 << 20) / (v100().memory_bytes_per_second * v100().memory_efficiency);
    assert!((update.seconds / expected - 1.0).abs() < 1e-12, "{update:?}");
}

#[test]
fn an_unknown_size_leaves_the_least_time() {
    let mut nodes = Nodes::given(FLOAT, &[&[-1, 8]]);
    nodes.add("r", "Relu", &["in0"], &[&[-1, 8]]);
    let relu = nodes.last(v100(), None);
    assert_eq!((relu.seconds, relu.source), (v100().launch_seconds, CostSource::UnknownSize));
}

#[test]
fn what_was_measured_counts() {
    let times = MeasuredOps::from_json(
        "p.json",
        br#"{"schema": 1, "model": "m", "ops": [{"name": "r", "device": "GPU", "start_us": 0, "duration_us": 42, "output_bytes": []}]}"#,
    )
    .expect("a profile");
    let mut nodes = Nodes::given(FLOAT, &[&[8]]);
    nodes.add("r", "Relu", &["in0"], &[&[8]]);
    let relu = nodes.last(v100(), Some(&times));
    assert_eq!((relu.seconds, relu.source), (42.0 * 1e-6, CostSource::Measured));
    nodes.add("other", "Relu", &["in0"], &[&[8]]);
    assert_eq!(nodes.last(v100(), Some(&times)).source, CostSource::Estimated);
}

#[test]
fn scratch_is_bounded_and_none_on_the_software_gpu() {
    let conv = |size: i64| {
        let mut nodes = Nodes::given(FLOAT, &[&[1, size, size, 64], &[3, 3, 64, 64]]);
        nodes.add("c", "Conv2D", &["in0", "in1"], &[&[1, size, size, 64]]).integers("strides", &[1, 1, 1, 1]);
        nodes
    };
    let value = |count: i64| (count * 4) as u64;
    let (turned, filter) = (|size: i64| value(size * size * 64), value(9 * 64 * 64));
    let tiles = value(36 * 2 * 32 * 32 * 64 / 16 + 4 * 9 * 64 * 64);
    // Each tensor in the other order is a piece, and what cuDNN asks for another one.
    assert_eq!(conv(32).last(v100(), None).scratch, [turned(32), filter, turned(32), tiles]);
    let limited = v100().workspace_bytes - filter;
    assert_eq!(conv(4096).last(v100(), None).scratch, [turned(4096), filter, turned(4096), limited]);
    let mut first = conv(32);
    first.strings("data_format", "NCHW");
    assert_eq!(first.last(v100(), None).scratch, [filter, tiles]);
    let soft = DeviceProfile::built_in("soft").expect("a built-in profile");
    assert!(conv(32).last(soft, None).scratch.is_empty());
}

#[test]
fn scratch_on_matrix_units_is_what_an_h200_took() {
    let h200 = DeviceProfile::built_in("h200").expect("a built-in profile");
    let conv = |op: &str, shapes: [&[i64]; 3], output: &[i64]| {
        let mut nodes = Nodes::given(FLOAT, &shapes);
        nodes.add("c", op, &["in0", "in1", "in2"][..if op == "Conv2D" { 2 } else { 3 }], &[output]);
        nodes.last(h200, None).scratch
    };
    let value = |count: i64| (count * 4) as u64;
    // Of ResNet50 at 2000²: `conv2_block1_2_conv`, whose three took 0.14, 61.18 and 2.11 MiB.
    let (image, filter): (&[i64], &[i64]) = (&[1, 500, 500, 64], &[3, 3, 64, 64]);
    let of_filter = value(9 * 64 * 64);
    assert_eq!(conv("Conv2D", [image, filter, &[]], image), [of_filter]);
    let image_gradient = conv("Conv2DBackpropInput", [SIZES, filter, image], image);
    assert_eq!(image_gradient, [of_filter, value(500 * 500 * 64)]);
    let filter_gradient = |image: &[i64]| conv("Conv2DBackpropFilter", [image, SIZES, image], filter);
    assert_eq!(filter_gradient(image), [of_filter, of_filter, 12 << 20]);
    assert_eq!(filter_gradient(&[1, 4, 4, 64]), [of_filter, of_filter, value(2 * 4 * 4 * 64)]);
    // DeepLabv3+'s first, of three channels, took 64.76 MiB for the image with a fourth.
    let took = conv("Conv2D", [&[16, 515, 515, 3], &[3, 3, 3, 32], &[]], &[16, 257, 257, 32]);
    assert_eq!(took, [value(16 * 515 * 515 * 4), value(27 * 32)]);
    // A product of matrices.
    assert!(conv("Conv2D", [image, &[1, 1, 64, 256], &[]], &[1, 500, 500, 256]).is_empty());
}

#[test]
fn batch_norm_and_softmax_take_copies() {
    let h200 = DeviceProfile::built_in("h200").expect("a built-in profile");
    let soft = DeviceProfile::built_in("soft").expect("a built-in profile");
    let image: &[i64] = &[2, 8, 8, 16];
    let norm = |format: &str, trains: bool| {
        let mut nodes = Nodes::given(FLOAT, &[image, &[16], &[16], &[16], &[16]]);
        let inputs = ["in0", "in1", "in2", "in3", "in4"];
        nodes.add("n", "FusedBatchNormV3", &inputs, &[image, &[16], &[16], &[16], &[16], &[]]);
        nodes
            .attr("U", Value::Type(FLOAT))
            .strings("data_format", format)
            .attr("is_training", Value::B(trains));
        (nodes.last(h200, None).scratch, nodes.last(soft, None).scratch)
    };
    let bytes = 2 * 8 * 8 * 16 * 4;
    assert_eq!(norm("NHWC", true), (vec![bytes; 2], vec![]));
    assert_eq!(norm("NHWC", false), (vec![], vec![]));
    assert_eq!(norm("NCHW", true), (vec![], vec![]));
    let mut gradient = Nodes::given(FLOAT, &[image, image, &[16], &[16], &[16], &[16]]);
    let inputs = ["in0", "in1", "in2", "in3", "in4", "in5"];
    gradient.add("g", "FusedBatchNormGradV3", &inputs, &[image, &[16], &[16], &[], &[]]);
    gradient.attr("U", Value::Type(FLOAT));
    assert_eq!(gradient.last(h200, None).scratch, [bytes; 3]);
    for (dtype, bytes_of_values) in [(FLOAT, [4, 4]), (HALF, [2, 4])] {
        let mut nodes = Nodes::given(dtype, &[&[5, 7]]);
        nodes.add("s", "Softmax", &["in0"], &[&[5, 7]]);
        assert_eq!(nodes.last(h200, None).scratch, bytes_of_values.map(|bytes| 35 * bytes));
    }
}

#[test]
fn kernels_that_were_timed_take_what_they_took() {
    let h200 = DeviceProfile::built_in("h200").expect("a built-in profile");
    let seconds = |op: &str, shapes: &[&[i64]]| {
        let mut nodes = Nodes::given(FLOAT, shapes);
        nodes.add("o", op, &["in0", "in1"][..shapes.len()], &[shapes[0]]);
        nodes.last(h200, None).seconds
    };
    let (matrix, vector): (&[i64], &[i64]) = (&[4096, 4096], &[4096]);
    let bytes = f64::from(4096 * 4096 * 4);
    assert_eq!(seconds("Softmax", &[matrix]), 4.0 * bytes / h200.kernel_bytes_per_second["Softmax"]);
    let broadcast = h200.broadcast_bytes_per_second.expect("it was measured");
    assert_eq!(seconds("AddV2", &[matrix, vector]), (2.0 * bytes + 4096.0 * 4.0) / broadcast);
    let rate = h200.memory_bytes_per_second * h200.memory_efficiency;
    assert_eq!(seconds("AddV2", &[matrix, matrix]), 3.0 * bytes / rate);
    assert_eq!(seconds("Mul", &[matrix, &[]]), (2.0 * bytes + 4.0) / rate);
}

#[test]
fn scratch_that_was_measured_counts() {
    let profile = |device: &str, scratch_bytes: u64| {
        let row = |device: &str| serde_json::json!({"name": "c", "device": device, "start_us": 0, "duration_us": 1, "output_bytes": [], "scratch_bytes": scratch_bytes});
        let ops = [row("/device:GPU:0"), row(device)];
        let file = serde_json::json!({"schema": 1, "model": "m", "ops": ops}).to_string();
        MeasuredOps::from_json("p.json", file.as_bytes()).expect("a profile")
    };
    let mut nodes = Nodes::given(FLOAT, &[&[1, 32, 32, 64], &[3, 3, 64, 64]]);
    nodes.add("c", "Conv2D", &["in0", "in1"], &[&[1, 32, 32, 64]]);
    let estimated = nodes.last(v100(), None).scratch;
    let measured = |bytes: u64| nodes.last(v100(), Some(&profile("/device:GPU:0/stream:all", bytes))).scratch;
    // The first piece is the image in the other order.
    assert_eq!((measured(99), measured(estimated[0] + 99)), (vec![99], vec![estimated[0], 99]));
    let [first @ .., last] = &estimated[..] else { unreachable!("it takes several pieces") };
    let all: u64 = estimated.iter().sum();
    assert_eq!(measured(all + 99), [first, &[last + 99]].concat());
    // The software GPU has no streams.
    assert_eq!(nodes.last(v100(), Some(&profile("/device:CPU:0", 99))).scratch, estimated);
}

#[test]
fn costs_of_testdata_are_the_same_each_time() {
    for file in ["unet3d_16_b1.meta", "googlenet_64_b2.meta", "while_rnn.meta", "cond_cnn_ref.meta"] {
        with_testdata(file, |graph, shapes, sizes| {
            for name in DeviceProfile::names() {
                let profile = DeviceProfile::built_in(name).expect("it is one of the names");
                let costs = Costs::of(graph, shapes, sizes, profile, None);
                assert_eq!(costs, Costs::of(graph, shapes, sizes, profile, None));
                assert!(graph.node_ids().all(|node| costs.seconds(node).is_finite()));
            }
        });
    }
}

proptest! {
    #[test]
    fn larger_convolutions_never_take_less_time(
        sizes in prop::array::uniform5(1i64..300), which in 0usize..5, more in 1i64..100, half in any::<bool>(),
        profile in 0usize..7,
    ) {
        let name = DeviceProfile::names().nth(profile).expect("there are seven");
        let profile = DeviceProfile::built_in(name).expect("it is one of the names");
        let cost = |[batch, side, window, channels_in, channels_out]: [i64; 5]| {
            let dtype = if half { HALF } else { FLOAT };
            let mut nodes = Nodes::given(
                dtype, &[&[batch, side, side, channels_in], &[window, 3, channels_in, channels_out]],
            );
            nodes.add("c", "Conv2D", &["in0", "in1"], &[&[batch, side, side, channels_out]]);
            // Not by one, so that no algorithm is taken for one window alone.
            nodes.integers("strides", &[1, 2, 2, 1]);
            nodes.last(profile, None)
        };
        let mut larger = sizes;
        larger[which] += more;
        let (small, large) = (cost(sizes), cost(larger));
        prop_assert!(large.seconds >= small.seconds, "{small:?} {large:?}");
        prop_assert!(large.flops > small.flops);
    }

    #[test]
    fn larger_products_never_take_less_time(sizes in prop::array::uniform3(1i64..5000), which in 0usize..3) {
        let cost = |[rows, depth, columns]: [i64; 3]| {
            let mut nodes = Nodes::given(FLOAT, &[&[rows, depth], &[depth, columns]]);
            nodes.add("p", "MatMul", &["in0", "in1"], &[&[rows, columns]]);
            nodes.last(v100(), None).seconds
        };
        let mut larger = sizes;
        larger[which] *= 2;
        prop_assert!(cost(larger) >= cost(sizes));
    }
}

/// Prints what is predicted of models, for `docs/cost-model.md`. `LMS_COST_MODELS` lists files, `LMS_COST_PROFILES` profiles, each by
/// spaces; the models of `testdata` and all profiles are taken else.
#[test]
#[ignore = "a report"]
fn report() {
    let list = |name: &str, default: String| std::env::var(name).unwrap_or(default);
    let models = list(
        "LMS_COST_MODELS",
        "resnet50_2000_b1.meta deeplabv3plus_513_b16.meta googlenet_64_b2.meta unet3d_16_b1.meta".to_string(),
    );
    let profiles = list("LMS_COST_PROFILES", DeviceProfile::names().collect::<Vec<_>>().join(" "));
    for model in models.split_whitespace() {
        with_testdata(model, |graph, shapes, sizes| {
            let trains =
                |&node: &NodeId| ["train", "train_op", "training_1/group_deps"].contains(&graph.name(node));
            let step = Step::of(graph, &graph.node_ids().filter(trains).collect::<Vec<_>>());
            let members = || graph.node_ids().filter(|&node| step.contains(node));
            for name in profiles.split_whitespace() {
                let read;
                let profile = match DeviceProfile::built_in(name) {
                    Some(profile) => profile,
                    None => {
                        let json = std::fs::read(name).expect("a file");
                        read = DeviceProfile::from_json(name, &json).expect("a profile");
                        &read
                    }
                };
                let begin = std::time::Instant::now();
                let costs = Costs::of(graph, shapes, sizes, profile, None);
                let took = begin.elapsed();
                let seconds: f64 = members().map(|node| costs.seconds(node)).sum();
                let flops: f64 = members().map(|node| costs.flops(node)).sum();
                let scratch = members().map(|node| costs.workspace(node).bytes()).max().unwrap_or(0);
                let ops = members().filter(|&node| costs.seconds(node) > 0.0).count();
                let unknown = costs.count(CostSource::UnknownSize, |node| step.contains(node));
                println!(
                    "{model} on {name}: {seconds:.4} s, {flops:.4e} FLOPs, scratch {scratch}, {ops} ops of {}, {unknown} of \
                     unknown size; worked out in {took:?}",
                    graph.len()
                );
                let mut by_op: HashMap<&str, (f64, usize, f64)> = HashMap::new();
                for node in members() {
                    let entry = by_op.entry(graph.op(node).name()).or_default();
                    *entry = (entry.0 + costs.seconds(node), entry.1 + 1, entry.2 + costs.flops(node));
                }
                let mut by_op: Vec<_> = by_op.into_iter().collect();
                by_op.sort_by(|a, b| b.1.0.total_cmp(&a.1.0));
                for (op, (seconds, count, flops)) in by_op.into_iter().take(12) {
                    println!("  {op:36} {count:5} {seconds:.5} s {:.2} TFLOP/s", flops / seconds * 1e-12);
                }
            }
        });
    }
}
