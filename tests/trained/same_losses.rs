//! A rewritten graph trains with the losses of the original, to the bit, and TensorFlow keeps its swap ops.

use std::collections::{HashMap, HashSet};

use lms_testing::manifest::Manifest;
use lms_testing::training::{Trained, one_thread, train};
use prost::Message;
use tf_lms::format::{Model, Nodes, ReadOptions};
use tf_lms::graph::{Device, Graph, NodeId};
use tf_lms::ops::OpRegistry;
use tf_lms::plan::{
    Analysis, Plan, Recomputation, RecomputationInput, RecomputationOutput, Substitute, tflms,
};
use tf_lms::proto::tensorflow::rewriter_config::Toggle;
use tf_lms::proto::tensorflow::{ConfigProto, GraphDef, GraphOptions, NodeDef, RewriterConfig};
use tf_lms::rewrite;
use tf_lms::runtime::TensorFlow;
use tf_lms::shape::{Shapes, Sizes};
use tf_lms::verify::{self, CheckOptions};

const STEPS: usize = 10;

/// Two devices, so that swaps are copies between them: the second CPU stands for the GPU.
///
/// Grappler's arithmetic optimizer regroups sums, and finds other sums to regroup where a swap stands between: on GoogLeNet the
/// losses then differ in their last bit. So it is off, in both runs.
fn two_devices() -> ConfigProto {
    let rewrites =
        RewriterConfig { arithmetic_optimization: Toggle::Off.into(), ..RewriterConfig::default() };
    let options = GraphOptions { rewrite_options: Some(rewrites), ..GraphOptions::default() };
    ConfigProto {
        device_count: [("CPU".to_string(), 2)].into(),
        graph_options: Some(options),
        ..one_thread()
    }
}

/// The model with all that names no device on the second CPU.
fn on_second_cpu(graph_def: &[u8]) -> Model {
    let mut graph = GraphDef::decode(graph_def).unwrap();
    for node in graph.node.iter_mut().filter(|node| node.device.is_empty()) {
        node.device = "/device:CPU:1".to_string();
    }
    Model::from_bytes("placed", graph.encode_to_vec(), &ReadOptions::default()).unwrap()
}

/// Rewrites a model with a plan, and checks it.
fn rewritten(model: &Model, manifest: &Manifest, plan: impl FnOnce(&Analysis) -> Plan) -> Model {
    let graph = Graph::of_model(model, OpRegistry::builtin()).unwrap();
    let shapes = Shapes::declared(&graph);
    let sizes = Sizes::of(&graph, &shapes).unwrap();
    let train_op = manifest.train_op.clone().unwrap();
    let targets: Vec<_> = graph.node_ids().filter(|&node| graph.name(node) == train_op).collect();
    let analysis = Analysis::new(&graph, &targets, shapes, sizes);
    let edits = rewrite::rewrite(model, &graph, &plan(&analysis)).unwrap().edits;
    let bytes = model.edited(&edits, model.encoding()).unwrap().to_vec();
    let rewritten = Model::from_bytes("rewritten", bytes, &ReadOptions::default()).unwrap();
    let options = CheckOptions { train_ops: vec![train_op], ..CheckOptions::default() };
    verify::check_with(model, &rewritten, OpRegistry::builtin(), &options).unwrap();
    rewritten
}

fn train_placed(tensorflow: &'static TensorFlow, model: &Model, manifest: &Manifest) -> Trained {
    let placed = on_second_cpu(model.graph_def());
    train(tensorflow, &placed, manifest, &two_devices(), STEPS).unwrap()
}

/// The swap-ins of which TensorFlow kept a consumer but not the swap-in.
fn lost_swap_ins(rewritten: &Model, trained: &Trained) -> Vec<String> {
    let kept: HashSet<&str> = trained.nodes().map(|node| node.name.as_str()).collect();
    let nodes = rewritten.nodes();
    let by_name: HashMap<&str, usize> = (0..nodes.len()).map(|node| (nodes.name(node), node)).collect();
    let mut lost = Vec::new();
    for node in 0..nodes.len() {
        // Whoever was renamed or folded away by Grappler does not read any more.
        let reads = trained.nodes().find(|kept| kept.name == nodes.name(node));
        for input in nodes.inputs(node).filter(|input| input.starts_with("lms/swap_in/")) {
            let swap_in = input.trim_end_matches(":0");
            if reads.is_some() && !kept.contains(swap_in) && holds_back(nodes, &by_name, swap_in) {
                lost.push(format!("{input} of {}", nodes.name(node)));
            }
        }
    }
    lost
}

/// Whether a swap-in waits for anything that its tensor does not need anyway. If it does not, and reads a swap-out, Grappler lets
/// its consumers read that one, to the same effect.
fn holds_back(nodes: Nodes, by_name: &HashMap<&str, usize>, swap_in: &str) -> bool {
    let producer = |input: &str| {
        let name = input.trim_start_matches('^');
        by_name.get(name.rsplit_once(':').map_or(name, |(name, _)| name)).copied()
    };
    let inputs = || by_name.get(swap_in).into_iter().flat_map(|&node| nodes.inputs(node));
    let mut needed: HashSet<usize> = HashSet::new();
    let mut open: Vec<usize> =
        inputs().filter(|input| !input.starts_with('^')).filter_map(producer).collect();
    while let Some(node) = open.pop() {
        if needed.insert(node) {
            open.extend(nodes.inputs(node).filter_map(producer));
        }
    }
    let mut triggers = inputs().filter(|input| input.starts_with('^')).filter_map(producer);
    triggers.any(|trigger| !needed.contains(&trigger))
}

fn compare(names: &[&str], all_parameters: &[tflms::Parameters]) {
    let Some(tensorflow) = lms_testing::tensorflow() else { return };
    for name in names {
        let manifest = Manifest::of(name);
        let original = manifest.model();
        let expected = train_placed(tensorflow, &original, &manifest);
        for parameters in all_parameters {
            let rewritten = rewritten(&original, &manifest, |analysis| {
                let plan = tflms::plan(analysis, parameters, &Device::parse("/cpu:0").unwrap()).unwrap();
                assert!(plan.swaps.len() > 3, "{name}: {} swaps", plan.swaps.len());
                plan
            });
            let trained = train_placed(tensorflow, &rewritten, &manifest);
            assert_eq!(trained.loss_bits, expected.loss_bits, "{name}: {:?}", trained.losses);
            let lost = lost_swap_ins(&rewritten, &trained);
            assert!(lost.is_empty(), "{name}: lost {lost:?}");
            let swaps = trained.nodes().filter(|node| node.name.starts_with("lms/swap_in/")).count();
            assert!(swaps > 3, "{name}: {swaps} swap-ins ran");
        }
    }
}

fn synchronized() -> tflms::Parameters {
    tflms::Parameters { sync_mode: 3.try_into().unwrap(), ..tflms::Parameters::default() }
}

#[test]
fn small_models_with_branches_loops_and_ref_variables() {
    let shared_and_serialized = tflms::Parameters {
        swapout_threshold: 3,
        swapin_ahead: 5,
        swapin_groupby: 20,
        serialization: vec![":".parse().unwrap()],
        ..tflms::Parameters::default()
    };
    let names =
        ["mnist_cnn", "mnist_cnn_ref_momentum", "mnist_cnn_bN_sgd", "cond_cnn", "cond_cnn_ref", "while_rnn"];
    compare(&names, &[tflms::Parameters::default(), synchronized(), shared_and_serialized]);
}

#[test]
fn a_transformer() {
    compare(&["bert_32_b8"], &[tflms::Parameters::default(), synchronized()]);
}

#[test]
fn the_models_of_the_articles() {
    compare(&["resnet50_64_b2", "unet3d_16_b1", "unet3d_16_b1_deconv", "googlenet_64_b2"], &[synchronized()]);
}

/// What joins two branches runs again, with what it reads of either: in half of the steps the one is taken, in half the other.
#[test]
fn branches_run_again() {
    let Some(tensorflow) = lms_testing::tensorflow() else { return };
    let manifest = Manifest::of("cond_cnn");
    let original = manifest.model();
    let expected = train_placed(tensorflow, &original, &manifest);
    let again = |analysis: &Analysis| {
        let gradient = "gradients/block2/shrink/Conv2D_grad";
        let run = |op: &str| Recomputation {
            op: format!("block1/cond/{op}"),
            triggers: vec![format!("{gradient}/Conv2DBackpropInput")],
            inputs: Vec::new(),
            outputs: Vec::new(),
        };
        let from = |op: &str, number| RecomputationInput {
            tensor: format!("block1/cond/{op}:0"),
            from: Substitute::Recomputation(number),
        };
        let merge = Recomputation {
            inputs: vec![from("add", 0), from("Relu_2", 1)],
            outputs: vec![RecomputationOutput {
                tensor: "block1/cond/Merge:0".to_string(),
                consumers: vec![format!("{gradient}/Conv2DBackpropFilter")],
            }],
            ..run("Merge")
        };
        let mut plan = Plan::new(analysis, "by hand", "/cpu:0");
        plan.recomputations = vec![run("add"), run("Relu_2"), merge];
        plan
    };
    let trained = train_placed(tensorflow, &rewritten(&original, &manifest, again), &manifest);
    assert_eq!(trained.loss_bits, expected.loss_bits, "{:?}", trained.losses);
    let ran = trained.nodes().filter(|node| node.name.starts_with("lms/recompute/")).count();
    assert_eq!(ran, 3);
}

/// What attention weighs runs again behind the loss, for the gradients: products of batches, what is added to them, and their softmax.
#[test]
fn attention_runs_again() {
    let Some(tensorflow) = lms_testing::tensorflow() else { return };
    for name in ["bert_32_b8", "gpt_32_b4"] {
        let manifest = Manifest::of(name);
        let original = manifest.model();
        let expected = train_placed(tensorflow, &original, &manifest);
        let again = |analysis: &Analysis| {
            let mut plan = Plan::new(analysis, "by hand", "/cpu:0");
            plan.recomputations = attention_for_gradients(analysis.graph, &manifest.loss);
            plan
        };
        let trained = train_placed(tensorflow, &rewritten(&original, &manifest, again), &manifest);
        assert_eq!(trained.loss_bits, expected.loss_bits, "{name}: {:?}", trained.losses);
        let ran = |op: &str| {
            let is_it = |node: &&NodeDef| node.op == op && node.name.starts_with("lms/recompute/");
            trained.nodes().filter(is_it).count()
        };
        assert!(ran("Softmax") > 0 && ran("BatchMatMulV2") == ran("Softmax"), "{name}: {}", ran("Softmax"));
    }
}

/// Second runs, behind the loss, of each softmax of a product of batches that gradients read, and of what leads from that product to it.
fn attention_for_gradients(graph: &Graph, loss: &str) -> Vec<Recomputation> {
    let trigger = loss.split(':').next().unwrap_or(loss);
    let mut again = Vec::new();
    for node in graph.node_ids().filter(|&node| graph.op(node).name() == "Softmax") {
        let Some(tensor) = graph.outputs(node).next() else { continue };
        let readers = graph.uses(tensor).iter().map(|reader| graph.name(reader.node).to_string());
        let mut consumers: Vec<String> = readers.filter(|name| name.starts_with("gradients/")).collect();
        consumers.dedup();
        let before = again.len();
        run_again(graph, node, trigger, &mut again);
        let tensor = format!("{}:0", graph.name(node));
        match again[before..].iter().any(|run| run.op.contains("MatMul")) && !consumers.is_empty() {
            true => again.last_mut().unwrap().outputs.push(RecomputationOutput { tensor, consumers }),
            false => again.truncate(before),
        }
    }
    again
}

/// Adds second runs of an op and of those before it, as far back as there are products, sums and softmaxes; the number of its own.
fn run_again(graph: &Graph, node: NodeId, trigger: &str, again: &mut Vec<Recomputation>) -> Option<usize> {
    if !["Softmax", "AddV2", "BatchMatMulV2"].contains(&graph.op(node).name()) {
        return None;
    }
    let mut inputs = Vec::new();
    for &read in graph.data_inputs(node) {
        let producer = graph.producer(read);
        if let Some(number) = run_again(graph, producer, trigger, again) {
            let tensor = format!("{}:{}", graph.name(producer), graph.output_index(read));
            inputs.push(RecomputationInput { tensor, from: Substitute::Recomputation(number as u32) });
        }
    }
    let (op, triggers) = (graph.name(node).to_string(), vec![trigger.to_string()]);
    again.push(Recomputation { op, triggers, inputs, outputs: Vec::new() });
    Some(again.len() - 1)
}
