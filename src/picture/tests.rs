use std::collections::HashSet;
use std::path::Path;

use fastrand::Rng;
use proptest::prelude::*;
use prost::Message;
use serde_json::Value as Json;

use super::*;
use crate::chart::{Chart, Engine, Timeline};
use crate::cost::{Costs, DeviceProfile};
use crate::dtype::DataType;
use crate::format::{Model, ReadOptions, Source};
use crate::graph::{Graph, NodeId};
use crate::ops::OpRegistry;
use crate::order::{Place, Placement};
use crate::plan::{Analysis, Draft, tflms};
use crate::proto::tensorflow::attr_value::{ListValue, Value};
use crate::proto::tensorflow::tensor_shape_proto::Dim;
use crate::proto::tensorflow::{AttrValue, GraphDef, NodeDef, TensorShapeProto};
use crate::shape::{Shapes, Sizes};
use crate::simulate::{Machine, OpCost, Origin, Outline, Program};

const MODELS: [&str; 5] =
    ["mnist_cnn.meta", "cond_cnn.meta", "googlenet_64_b2.meta", "resnet50_64_b2.meta", "unet3d_16_b1.meta"];

/// Reads a graph of testdata.
fn testdata(file: &str) -> Model {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("testdata").join(file);
    Source::Path(path).read(&ReadOptions::default()).unwrap()
}

/// A node with one output of floats.
fn node(name: &str, op: &str, input: &[&str], device: &str, sizes: &[i64]) -> NodeDef {
    let dim = sizes.iter().map(|&size| Dim { size, name: String::new() }).collect();
    let shape = TensorShapeProto { dim, unknown_rank: false };
    let shapes = Value::List(ListValue { shape: vec![shape], ..ListValue::default() });
    let float = Value::Type(DataType::FLOAT.number());
    let attrs = [("T", float.clone()), ("dtype", float), ("_output_shapes", shapes)];
    NodeDef {
        name: name.to_string(),
        op: op.to_string(),
        input: input.iter().map(ToString::to_string).collect(),
        device: device.to_string(),
        attr: attrs
            .into_iter()
            .map(|(name, value)| (name.to_string(), AttrValue { value: Some(value) }))
            .collect(),
        ..NodeDef::default()
    }
}

fn model(nodes: Vec<NodeDef>) -> Model {
    let content = GraphDef { node: nodes, ..GraphDef::default() }.encode_to_vec();
    Model::from_bytes("a graph", content, &ReadOptions::default()).unwrap()
}

/// A graph of so many ops on two GPUs and the host, of which the last needs all others.
fn random_graph(seed: u64, size: usize) -> Model {
    const OPS: [&str; 5] = ["Relu", "AddV2", "MatMul", "Softmax", "Identity"];
    const DEVICES: [&str; 4] = ["", "/gpu:0", "/gpu:1", "/cpu:0"];
    let mut rng = Rng::with_seed(seed);
    let mut nodes = vec![node("0", "Placeholder", &[], "", &[8, 64])];
    for number in 1..size {
        let op = OPS[rng.usize(..OPS.len())];
        let inputs = if matches!(op, "AddV2" | "MatMul") { 2 } else { 1 };
        let mut input: Vec<String> = (0..inputs).map(|_| rng.usize(..number).to_string()).collect();
        if number + 1 == size {
            input.extend((0..number).map(|before| format!("^{before}")));
        }
        let input: Vec<&str> = input.iter().map(String::as_str).collect();
        let device = DEVICES[rng.usize(..DEVICES.len())];
        nodes.push(node(&number.to_string(), op, &input, device, &[rng.i64(0..40), 64]));
    }
    model(nodes)
}

fn profile(synchronous: bool) -> &'static DeviceProfile {
    DeviceProfile::built_in(if synchronous { "soft" } else { "v100-pcie3" }).unwrap()
}

fn machine(outline: &Outline, synchronous: bool) -> Machine {
    Machine::new(profile(synchronous), outline.placement().gpus().len(), Vec::new())
}

/// Hands on what is known of a graph's step.
fn with_outline(model: &Model, target: &str, check: impl FnOnce(&Outline)) {
    let graph = Graph::of_model(model, OpRegistry::builtin()).unwrap();
    let targets: Vec<NodeId> = graph.node_ids().filter(|&node| graph.name(node) == target).collect();
    let shapes = Shapes::declared(&graph);
    let sizes = Sizes::of(&graph, &shapes).unwrap();
    let costs = Costs::of(&graph, &shapes, &sizes, profile(false), None);
    let analysis = Analysis::new(&graph, &targets, shapes, sizes);
    let placement = Placement::of(&graph);
    let cost = |node| OpCost {
        seconds: costs.seconds(node),
        // Random ops are too small to need scratch memory of their own.
        workspace_bytes: costs.workspace_bytes(node) + u64::from(node.0 % 3) * 4096,
    };
    check(&Outline::new(&analysis, &placement, cost).unwrap());
}

fn draft(outline: &Outline, swapout_threshold: u32, sync_mode: u8) -> Draft {
    let sync_mode = sync_mode.try_into().unwrap();
    let parameters = tflms::Parameters { swapout_threshold, sync_mode, ..tflms::Parameters::default() };
    tflms::draft(outline.analysis(), &parameters).unwrap()
}

/// Checks of a step that hold with any plan.
fn check_recording(outline: &Outline, recording: &Recording) {
    check_peaks(outline, recording);
    check_spans(recording);
}

fn check_peaks(outline: &Outline, recording: &Recording) {
    let machine = machine(outline, false);
    let chart = recording.memory_chart(Some(recording), outline, &machine, "a step");
    let outcome = recording.outcome();
    let peaks = outcome.gpus.iter().map(|gpu| gpu.peak_bytes).chain([outcome.host_peak_bytes]);
    assert_eq!(chart.panels.len(), outcome.gpus.len() + 1);
    for (panel, peak_bytes) in chart.panels.iter().zip(peaks) {
        for series in &panel.series {
            assert_eq!(
                series.points.iter().map(|point| point.bytes).max(),
                Some(peak_bytes),
                "{}",
                panel.name
            );
            assert_eq!(series.points.last().map(|point| point.seconds), Some(outcome.step_seconds));
            assert!(series.peak.as_ref().is_none_or(|peak| peak.bytes == peak_bytes));
        }
    }
    let names = Names::new(outline.analysis().graph, recording.program());
    for (number, gpu) in outcome.gpus.iter().enumerate() {
        let op = gpu.peak_op.map(|op| names.entry(op)).unwrap_or_default();
        let peak = chart.panels[number].series[0].peak.as_ref().unwrap();
        assert_eq!((&peak.op, peak.seconds), (&op, gpu.peak_seconds));
        let alive = recording.alive_at_peak(outline.analysis().graph, number as u16, usize::MAX);
        let bytes: u64 = alive.iter().map(|(_, bytes)| bytes).sum();
        assert_eq!(gpu.persistent_bytes + bytes, gpu.peak_bytes);
        assert!(alive.is_sorted_by(|a, b| (b.1, &a.0) <= (a.1, &b.0)));
    }
}

fn check_spans(recording: &Recording) {
    let mut spans: Vec<_> = recording.spans().to_vec();
    spans.sort_by(|a, b| (a.engine.cmp(&b.engine)).then(a.start_seconds.total_cmp(&b.start_seconds)));
    for pair in spans.windows(2).filter(|pair| pair[0].engine == pair[1].engine) {
        assert!(pair[0].end_seconds <= pair[1].start_seconds, "{pair:?}");
    }
    assert!(spans.iter().all(|span| span.start_seconds <= span.end_seconds));
    assert!(spans.iter().all(|span| span.end_seconds <= recording.outcome().step_seconds));
    let seconds = |wanted: fn(Engine) -> bool| -> f64 {
        let wanted = spans.iter().filter(|span| wanted(span.engine));
        wanted.map(|span| span.end_seconds - span.start_seconds).sum()
    };
    let out: f64 = recording.outcome().gpus.iter().map(|gpu| gpu.out_seconds).sum();
    let into: f64 = recording.outcome().gpus.iter().map(|gpu| gpu.in_seconds).sum();
    assert!((seconds(|engine| matches!(engine, Engine::CopyOut { .. })) - out).abs() < 1e-9);
    assert!((seconds(|engine| matches!(engine, Engine::CopyIn { .. })) - into).abs() < 1e-9);
}

fn events(timeline: &Timeline, phase: &str) -> Vec<Json> {
    let json = serde_json::to_value(timeline).unwrap();
    let events = json["traceEvents"].as_array().unwrap().iter();
    events.filter(|event| event["ph"] == phase).cloned().collect()
}

/// The swaps that copy something: their tensors have bytes and lie on a GPU, and their consumers run in the step.
fn returns(outline: &Outline, draft: &Draft) -> usize {
    let Analysis { graph, sizes, .. } = outline.analysis();
    let copies = |swap: &&crate::plan::TensorSwap| {
        outline.entry(graph.producer(swap.tensor)).is_some()
            && !outline.liveness().is_dead(graph, swap.tensor)
            && sizes.bytes(swap.tensor).is_some_and(|bytes| bytes > 0)
            && outline.placement().output(swap.tensor) != Place::Host
    };
    let runs = |consumers: &[NodeId]| consumers.iter().any(|&node| outline.entry(node).is_some());
    let uses = draft.swaps.iter().filter(copies).flat_map(|swap| &swap.uses);
    uses.filter(|swap_in| runs(&swap_in.consumers)).count()
}

fn check_arrows(outline: &Outline, draft: &Draft, recording: &Recording) {
    let graph = outline.analysis().graph;
    let timeline = recording.timeline(graph).unwrap();
    let (starts, ends) = (events(&timeline, "s"), events(&timeline, "f"));
    assert_eq!(starts.len(), returns(outline, draft));
    let spans = events(&timeline, "X");
    let span_at = |arrow: &Json| {
        let same = |span: &&Json| ["pid", "tid", "ts"].iter().all(|key| span[key] == arrow[key]);
        spans.iter().find(same).unwrap()["name"].as_str().unwrap().to_string()
    };
    let mut pairs = HashSet::new();
    for (start, end) in starts.iter().zip(&ends) {
        assert_eq!(start["id"], end["id"]);
        let (from, to) = (span_at(start), span_at(end));
        assert_eq!(from.strip_prefix("swap-out of ").unwrap(), to.strip_prefix("swap-in of ").unwrap());
        pairs.insert(from);
    }
    let swapped = draft.swaps.iter().map(|swap| format!("swap-out of {}", graph.tensor_name(swap.tensor)));
    assert!(pairs.is_subset(&swapped.collect()));
}

/// Whatever is swapped is made, leaves, returns and is read, in this order.
fn check_explanations(outline: &Outline, draft: &Draft, before: &Recording, after: &Recording) {
    let mut copied_returns = 0;
    for swap in draft.swaps.iter().step_by(draft.swaps.len() / 40 + 1) {
        let explanation = explain(outline, draft, before, after, swap.tensor);
        let Fate::Swapped(life) = &explanation.fate else { panic!("{explanation}") };
        assert_eq!(life.returns.len(), swap.uses.len());
        let Some(leaves) = life.leaves else { continue };
        let before_or_at = |one: f64, other: f64| one <= other + 1e-12;
        if let Some(made) = explanation.made_after {
            assert!(before_or_at(made.end_seconds, leaves.start_seconds), "{explanation}");
        }
        if let Some(held) = explanation.held_after {
            assert!(before_or_at(held.start_seconds, leaves.start_seconds), "{explanation}");
            assert!(before_or_at(leaves.end_seconds, held.end_seconds), "{explanation}");
        }
        for (number, back) in life.returns.iter().enumerate() {
            let Some(copy) = back.copy else { continue };
            copied_returns += 1;
            assert!(leaves.end_seconds <= copy.start_seconds, "{explanation}");
            assert!(back.away_seconds.is_some_and(|away| away >= 0.0), "{explanation}");
            let readers: Vec<_> = explanation
                .consumers
                .iter()
                .filter(|consumer| consumer.reads_return == Some(number))
                .collect();
            assert!(!readers.is_empty(), "{explanation}");
            for runs in readers.iter().filter_map(|reader| reader.runs_after) {
                assert!(copy.end_seconds <= runs.start_seconds, "{explanation}");
            }
            for trigger in back.triggers.iter().filter_map(|trigger| trigger.runs) {
                assert!(trigger.start_seconds <= copy.start_seconds, "{explanation}");
            }
        }
        let order: Vec<_> = explanation.consumers.iter().filter_map(|consumer| consumer.runs_after).collect();
        assert!(order.is_sorted_by(|a, b| a.start_seconds <= b.start_seconds));
    }
    if draft.swaps.len() <= 40 {
        assert_eq!(copied_returns, returns(outline, draft));
    }
}

fn check_graph(model: &Model, target: &str, swapout_threshold: u32, sync_mode: u8, synchronous: bool) {
    with_outline(model, target, |outline| {
        let machine = machine(outline, synchronous);
        let original = Program::new(outline, &Draft::default());
        let before = Recorder::record(&original, &machine).unwrap();
        check_recording(outline, &before);
        check_arrows(outline, &Draft::default(), &before);
        let draft = draft(outline, swapout_threshold, sync_mode);
        let program = Program::new(outline, &draft);
        let after = Recorder::record(&program, &machine).unwrap();
        check_recording(outline, &after);
        check_arrows(outline, &draft, &after);
        check_explanations(outline, &draft, &before, &after);
    });
}

#[test]
fn real_graphs_are_recorded_as_they_run() {
    for model in MODELS {
        for (threshold, sync_mode, synchronous) in [(1, 0, false), (5, 3, true)] {
            check_graph(&testdata(model), "train", threshold, sync_mode, synchronous);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(100) })]

    #[test]
    fn random_graphs_are_recorded_as_they_run(
        seed: u64, size in 2usize..60, threshold in 0u32..5, sync_mode in 0u8..4, synchronous: bool,
    ) {
        let target = (size - 1).to_string();
        check_graph(&random_graph(seed, size), &target, threshold, sync_mode, synchronous);
    }
}

#[test]
fn a_pool_has_the_peak_of_its_outcome() {
    with_outline(&testdata("mnist_cnn.meta"), "train", |outline| {
        let machine = machine(outline, false).with_memory(vec![1 << 30]);
        let program = Program::new(outline, &draft(outline, 1, 0));
        let recording = Recorder::record(&program, &machine).unwrap();
        let chart = recording.memory_chart(None, outline, &machine, "mnist_cnn");
        assert_eq!(chart.panels[0].budget_bytes, Some(1 << 30));
        let points = &chart.panels[0].series[0].points;
        let peak = recording.outcome().gpus[0].peak_bytes;
        assert_eq!(points.iter().map(|point| point.bytes).max(), Some(peak));
        assert!(Recorder::record(&program, &machine.with_memory(vec![peak / 2])).is_err());
    });
}

/// A chain with a reader far behind, a vector, an op on the host, and one that no step runs.
fn chain() -> Model {
    const SIZES: [i64; 2] = [1024, 256];
    model(vec![
        node("in", "Placeholder", &[], "", &SIZES),
        node("a", "Softmax", &["in"], "", &SIZES),
        node("b", "Softmax", &["a"], "", &SIZES),
        node("c", "Softmax", &["b"], "", &SIZES),
        node("renamed", "Identity", &["c"], "", &SIZES),
        node("vector", "Softmax", &["renamed"], "", &[256]),
        node("host", "Softmax", &["renamed"], "/cpu:0", &SIZES),
        node("far", "AddV2", &["a", "vector"], "", &SIZES),
        node("end", "AddV2", &["far", "host"], "", &SIZES),
        node("summary", "Softmax", &["a"], "", &SIZES),
    ])
}

/// Hands on the steps of the chain with a plan and without, on a machine of round numbers.
fn with_chain<T>(
    swapout_threshold: u32,
    check: impl FnOnce(&Outline, &Draft, &Recording, &Recording) -> T,
) -> T {
    let model = chain();
    let graph = Graph::of_model(&model, OpRegistry::builtin()).unwrap();
    let targets: Vec<NodeId> = graph.node_ids().filter(|&node| graph.name(node) == "end").collect();
    let shapes = Shapes::declared(&graph);
    let sizes = Sizes::of(&graph, &shapes).unwrap();
    let analysis = Analysis::new(&graph, &targets, shapes, sizes);
    let placement = Placement::of(&graph);
    let cost = |_| OpCost { seconds: 1e-3, workspace_bytes: 0 };
    let outline = Outline::new(&analysis, &placement, cost).unwrap();
    let machine = Machine {
        memory: Vec::new(),
        host_op_seconds: 1e-5,
        out_bytes_per_second: (1 << 30) as f64,
        in_bytes_per_second: (1 << 30) as f64,
        link_latency_seconds: 0.0,
        notice_seconds: 0.0,
        synchronous: false,
    };
    let draft = draft(&outline, swapout_threshold, 0);
    let (original, planned) = (Program::new(&outline, &Draft::default()), Program::new(&outline, &draft));
    let before = Recorder::record(&original, &machine).unwrap();
    let after = Recorder::record(&planned, &machine).unwrap();
    check(&outline, &draft, &before, &after)
}

fn explained(tensor: &str, swapout_threshold: u32) -> Explanation {
    with_chain(swapout_threshold, |outline, draft, before, after| {
        let graph = outline.analysis().graph;
        let named = graph.tensor_ids().find(|&id| graph.tensor_name(id).to_string() == tensor).unwrap();
        explain(outline, draft, before, after, named)
    })
}

/// `a` is in the buffer that `in` was copied to, and `c` in that of `b`.
#[test]
fn what_is_alive_has_the_name_of_what_was_written_last() {
    let alive = |most| {
        with_chain(100, |outline, _, before, _| before.alive_at_peak(outline.analysis().graph, 0, most))
    };
    let largest = [("a:0", 1 << 20), ("c:0", 1 << 20), ("vector:0", 1 << 10)];
    assert_eq!(alive(9), largest.map(|(name, bytes)| (name.to_string(), bytes)));
    assert_eq!(alive(2), alive(9)[..2]);
}

#[test]
fn a_swapped_tensor_is_explained() {
    let explanation = explained("a:0", 3);
    let text = explanation.to_string();
    for line in [
        "a:0",
        "  made by      a (Softmax) on GPU 0 (/device:GPU:0)",
        "               which runs from 1.997 to 2.997 ms",
        "  size         1.00 MiB: float32 [1024, 256]",
        "  read by      b (Softmax) on GPU 0 (/device:GPU:0), 1 level away, from 2.997 to 3.997 ms",
        "  read by      1 op that no step runs",
        "  leaves       from 3.997 to 4.973 ms",
        "  returns      from 9.960 to 10.936 ms, after 4.987 ms away, for far",
        "               triggered by renamed (done at 5.997 ms)",
    ] {
        assert!(text.lines().any(|other| other == line), "{line:?} is not in\n{text}");
    }
    assert!(text.contains("5 levels away, from 10.946 to 11.946 ms, from return 1\n"), "{text}");
    let json = serde_json::to_value(&explanation).unwrap();
    assert_eq!(json["fate"]["swapped"]["returns"][0]["triggers"][0]["name"], "renamed");
    assert_eq!(json["place"]["gpu"]["number"], 0);
}

#[test]
fn what_stays_has_its_reason() {
    let reason = |tensor: &str| match explained(tensor, 3).fate {
        Fate::Stays(reason) => reason,
        Fate::Swapped(_) => panic!("{tensor} is swapped"),
    };
    assert_eq!(reason("b:0"), StayReason::ConsumersNear { levels_away: 1, swapped_from_levels: 5 });
    assert_eq!(reason("vector:0"), StayReason::FewDimensions { dimensions: Some(1) });
    assert_eq!(reason("in:0"), StayReason::NotOnGpu);
    let because = "it is in host memory already".to_string();
    assert_eq!(reason("host:0"), StayReason::NotSwappable { because });
    assert_eq!(reason("summary:0"), StayReason::NotInStep);
    assert_eq!(reason("end:0"), StayReason::NotRead);
    let Fate::Stays(reason) = explained("a:0", 100).fate else { panic!("nothing is far enough away") };
    assert_eq!(reason, StayReason::NothingSwapped);
}

#[test]
fn buffers_are_told_apart() {
    let buffer = |tensor: &str| explained(tensor, 100).buffer;
    assert_eq!(buffer("a:0"), BufferKind::TakenOver { of: "copy of in:0".to_string() });
    assert_eq!(buffer("b:0"), BufferKind::Own);
    assert_eq!(buffer("renamed:0"), BufferKind::PassedOn { of: "c:0".to_string() });
    assert_eq!(buffer("summary:0"), BufferKind::Nothing);
}

/// A page that names three tensors at each of many thousand points would be too large to send.
#[test]
fn pages_of_large_graphs_stay_small() {
    with_outline(&testdata("deeplabv3plus_513_b16.meta"), "train", |outline| {
        let machine = machine(outline, false);
        let (original, planned) =
            (Program::new(outline, &Draft::default()), Program::new(outline, &draft(outline, 20, 0)));
        let before = Recorder::record(&original, &machine).unwrap();
        let after = Recorder::record(&planned, &machine).unwrap();
        let chart = before.memory_chart(Some(&after), outline, &machine, "DeepLabV3+");
        let page = chart.html().unwrap();
        assert!(page.len() < 2 << 20, "{}", page.len());
        let named = chart.labels.iter().filter(|label| !label.largest_tensors.is_empty()).count();
        assert!(named > 0 && named < chart.labels.len() / 2);
        assert!((0..planned.len() as u32).any(|op| matches!(planned.origin(op), Origin::SwapIn(..))));
    });
}
