//! Simulating steps of random graphs, with random plans.

use lms_testing::graphs::{Nodes, attr_type, shape};
use lms_testing::machine::machine;
use proptest::prelude::*;
use prost::Message as _;
use tf_lms::cost::Workspace;
use tf_lms::format::{Model, ReadOptions};
use tf_lms::graph::{Graph, NodeId};
use tf_lms::ops::Flow;
use tf_lms::ops::OpRegistry;
use tf_lms::order::Placement;
use tf_lms::plan::{Analysis, Draft, NodeOrder, OrderReason, TensorSwap, TensorUse, tflms};
use tf_lms::proto::tensorflow::TensorProto;
use tf_lms::proto::tensorflow::attr_value::{ListValue, Value};
use tf_lms::shape::{Shapes, Sizes};
use tf_lms::simulate::{
    Allocator, CHUNK_BYTES, Holder, Machine, NoObserver, Observer, OpCost, Origin, Outline, Program,
    Scenario, floors, simulate, simulate_in,
};
use tf_lms::tune::Judge;

fn parameters() -> impl Strategy<Value = tflms::Parameters> {
    (0u32..8, 0u32..6, 0u32..5, 0u8..4).prop_map(|(threshold, ahead, groupby, sync)| tflms::Parameters {
        swapout_threshold: threshold,
        swapin_ahead: ahead,
        swapin_groupby: groupby,
        sync_mode: sync.try_into().unwrap(),
        ..tflms::Parameters::default()
    })
}

/// Analyses a random graph and hands it on.
fn with_outline(
    seed: u64,
    size: usize,
    check: impl FnOnce(&Outline) -> Result<(), TestCaseError>,
) -> Result<(), TestCaseError> {
    with_outline_of(lms_testing::random_graph::random_graph(seed, size), check)
}

fn with_outline_of(
    content: Vec<u8>,
    check: impl FnOnce(&Outline) -> Result<(), TestCaseError>,
) -> Result<(), TestCaseError> {
    let model = Model::from_bytes("a random graph", content, &ReadOptions::default()).unwrap();
    let graph = Graph::of_model(&model, OpRegistry::builtin()).unwrap();
    let targets: Vec<NodeId> =
        graph.node_ids().filter(|&node| graph.name(node) == lms_testing::random_graph::TRAIN_OP).collect();
    let shapes = Shapes::declared(&graph);
    let sizes = Sizes::of(&graph, &shapes).unwrap();
    let analysis = Analysis::new(&graph, &targets, shapes, sizes);
    let placement = Placement::of(&graph);
    // Ops take so long that copies overlap many of them.
    let cost = |_| OpCost { seconds: 1e-5, workspace: Workspace::in_pieces([768, 256]) };
    // A graph of unknown sizes is refused, which is tested elsewhere.
    let Ok(outline) = Outline::new(&analysis, &placement, cost) else { return Ok(()) };
    check(&outline)
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(300) })]

    /// Several threads do all that one does, each op once, also on a GPU whose ops they compute themselves.
    #[test]
    fn several_threads_do_the_same(
        seed: u64, size in 2usize..150, parameters in parameters(), threads in 2u16..5, by_chance: bool, synchronous: bool,
    ) {
        with_outline(seed, size, |outline| {
            let draft = tflms::draft(outline.analysis(), &parameters).unwrap();
            let program = Program::new(outline, &draft);
            let machine = Machine { synchronous, ..machine(Vec::new()) };
            let run = |threads| {
                let scenario = if by_chance { Scenario::by_chance(seed, 1) } else { Scenario::PREDICTED };
                simulate_in(&program, &machine, &Scenario { threads, ..scenario }, &mut NoObserver).unwrap()
            };
            let (one, several) = (run(1), run(threads));
            prop_assert_eq!(&several, &run(threads));
            for (one, several) in one.gpus.iter().zip(&several.gpus) {
                prop_assert_eq!((one.out_bytes, one.in_bytes), (several.out_bytes, several.in_bytes));
                prop_assert!((one.compute_seconds - several.compute_seconds).abs() <= 1e-9 * one.compute_seconds);
                prop_assert!(several.peak_bytes >= several.persistent_bytes);
            }
            Ok(())
        })?;
    }

    /// Every op has its turn (the simulator asserts that), twice the same, and what is swapped moves.
    #[test]
    fn a_step_comes_to_its_end(seed: u64, size in 2usize..150, parameters in parameters()) {
        with_outline(seed, size, |outline| {
            let draft = tflms::draft(outline.analysis(), &parameters).unwrap();
            let program = Program::new(outline, &draft);
            let run = || simulate(&program, &machine(Vec::new()), &mut NoObserver).unwrap();
            let outcome = run();
            prop_assert_eq!(&outcome, &run());
            let out: u64 = outcome.gpus.iter().map(|gpu| gpu.out_bytes).sum();
            let without = simulate(&Program::new(outline, &Draft::default()), &machine(Vec::new()), &mut NoObserver).unwrap();
            let out_without: u64 = without.gpus.iter().map(|gpu| gpu.out_bytes).sum();
            // A `Switch` follows what it reads to the host, and what it hands on to an op there is copied no more.
            let graph = outline.analysis().graph;
            let is_switched = |tensor| {
                let mut readers = graph.uses(tensor).iter().map(|reader| reader.node);
                readers.any(|reader| graph.flow(reader) == Some(Flow::Switch))
            };
            if !draft.swaps.iter().any(|swap| is_switched(swap.tensor)) {
                prop_assert!(out >= out_without);
            }
            for gpu in &outcome.gpus {
                prop_assert!(gpu.peak_bytes >= gpu.persistent_bytes);
                prop_assert!(outcome.step_seconds >= gpu.compute_seconds.max(gpu.out_seconds).max(gpu.in_seconds) - 1e-12);
            }
            Ok(())
        })?;
    }

    /// No step goes below its floors, with or without a plan.
    #[test]
    fn floors_hold(seed: u64, size in 2usize..150, parameters in parameters()) {
        with_outline(seed, size, |outline| {
            let machine = machine(Vec::new());
            let original = Program::new(outline, &Draft::default());
            let before = simulate(&original, &machine, &mut NoObserver).unwrap();
            let draft = tflms::draft(outline.analysis(), &parameters).unwrap();
            let after = simulate(&Program::new(outline, &draft), &machine, &mut NoObserver).unwrap();
            for (number, floor) in floors(&original, &before).iter().enumerate() {
                prop_assert!(floor.memory_bytes <= before.gpus[number].peak_bytes);
                prop_assert!(floor.memory_bytes <= after.gpus[number].peak_bytes);
                prop_assert!(floor.step_seconds <= after.step_seconds + 1e-12);
            }
            Ok(())
        })?;
    }

    /// Memory that is in no pieces suffices if it is as much as is in use at a time, whatever lies where; what is there in each step needs
    /// room too.
    #[test]
    fn memory_in_no_pieces_ends_at_its_limit(seed: u64, size in 2usize..100, parameters in parameters()) {
        with_outline(seed, size, |outline| {
            let draft = tflms::draft(outline.analysis(), &parameters).unwrap();
            let program = Program::new(outline, &draft);
            let unlimited = simulate(&program, &machine(Vec::new()), &mut NoObserver).unwrap();
            let peak = unlimited.peak_bytes();
            let in_pages = |bytes| machine(vec![bytes]).with_allocator(Allocator::Async);
            let within = simulate(&program, &in_pages(peak), &mut NoObserver);
            prop_assert!(within.is_ok_and(|within| within.peak_bytes() <= peak));
            let persistent = outline.persistent_bytes().max().unwrap_or(0);
            if persistent > 0 {
                prop_assert!(simulate(&program, &in_pages(persistent - 1), &mut NoObserver).is_err());
            }
            Ok(())
        })?;
    }

    /// The least memory suffices, is no less than what is alive at a time where memory waits for nothing, and more is as good.
    #[test]
    fn the_least_memory_suffices(seed: u64, size in 2usize..100) {
        with_outline(seed, size, |outline| {
            let unlimited = machine(Vec::new());
            let draft = Draft::default();
            let least = Judge::new(outline, &unlimited).least_memory(&draft);
            let program = Program::new(outline, &draft);
            let peak = simulate(&program, &unlimited, &mut NoObserver).unwrap().gpus.iter().map(|gpu| gpu.persistent_bytes).max();
            prop_assert!(least >= peak.unwrap_or(0));
            for memory in [least, least * 4] {
                let outcome = simulate(&program, &machine(vec![memory]), &mut NoObserver);
                prop_assert!(outcome.is_ok(), "{:?} in {memory}", outcome.err());
                prop_assert!(outcome.unwrap().gpus.iter().all(|gpu| gpu.peak_bytes <= memory));
            }
            Ok(())
        })?;
    }

    /// In whatever order and however fast, the same is run and moved.
    #[test]
    fn chance_decides_only_when(seed: u64, size in 2usize..100, parameters in parameters(), seed_of_chance in 0u64..1000) {
        with_outline(seed, size, |outline| {
            let program = Program::new(outline, &tflms::draft(outline.analysis(), &parameters).unwrap());
            let run = |scenario: Scenario| {
                let mut launched = Launched::default();
                let outcome = simulate_in(&program, &machine(Vec::new()), &scenario, &mut launched).unwrap();
                let moved: Vec<_> = outcome.gpus.iter().map(|gpu| (gpu.out_bytes, gpu.in_bytes)).collect();
                launched.0.sort_unstable();
                (launched.0, moved)
            };
            let gpus = outline.placement().gpus().len();
            prop_assert_eq!(run(Scenario::by_chance(seed_of_chance, gpus)), run(Scenario::PREDICTED));
            Ok(())
        })?;
    }

    /// What suffices whenever copies end is no less than what suffices if they end as predicted, and suffices if they do not.
    #[test]
    fn slow_and_uneven_copies_need_no_more(seed: u64, size in 2usize..100, parameters in parameters()) {
        with_outline(seed, size, |outline| {
            let draft = tflms::draft(outline.analysis(), &parameters).unwrap();
            let unlimited = machine(Vec::new());
            let mut judge = Judge::new(outline, &unlimited);
            let least = judge.least_memory(&draft);
            let whenever = judge.least_memory_whenever_copies_end(&draft, least);
            prop_assert!(whenever >= least);
            // With nothing planned, no copies are tried.
            let judged = Judge::new(outline, &machine(vec![whenever])).judge(&draft);
            prop_assert!(draft.is_empty() || judged.is_ok(), "{:?} in {whenever}, {least} as predicted", judged.err());
            Ok(())
        })?;
    }
}

/// The allocator finds a place for each piece of scratch memory, one after the other.
#[test]
fn scratch_is_taken_piece_by_piece() {
    let mut nodes = Nodes::default();
    nodes.placeholder("x", &[4096]);
    nodes.add("y", "Relu", &["x"], &[("T", attr_type(1))]).declares("y", &[4096]);
    nodes.add(lms_testing::random_graph::TRAIN_OP, "NoOp", &["^y"], &[]);
    let checked = with_outline_of(nodes.graph().encode_to_vec(), |outline| {
        let program = Program::new(outline, &Draft::default());
        // Memory that is only counted is handed out to its last chunk.
        let counted = |memory| machine(memory).with_allocator(Allocator::Async);
        let step = |memory| simulate(&program, &counted(memory), &mut NoObserver);
        let peak = step(Vec::new()).unwrap().peak_bytes();
        let wanted = |bytes: u64| step(vec![bytes]).map_err(|shortage| shortage.wanted_bytes).err();
        // Of three chunks and of one.
        prop_assert_eq!(wanted(peak), None);
        prop_assert_eq!(wanted(peak - CHUNK_BYTES), Some(CHUNK_BYTES));
        prop_assert_eq!(wanted(peak - 2 * CHUNK_BYTES), Some(3 * CHUNK_BYTES));
        Ok(())
    });
    checked.unwrap();
}

/// Where memory runs out, a piece is told by what was written into it last: what it was taken for may be long gone.
#[test]
fn pieces_are_told_by_what_is_in_them() {
    let mut nodes = Nodes::default();
    let float = || [("T", attr_type(1))];
    nodes.placeholder("x", &[4096, 1]);
    nodes.placeholder("y", &[1, 4096]);
    nodes.add("first", "Neg", &["x"], &float()).declares("first", &[4096, 1]);
    nodes.add("second", "Relu", &["first"], &float()).declares("second", &[4096, 1]);
    nodes.add("large", "MatMul", &["second", "y"], &float()).declares("large", &[4096, 4096]);
    nodes.add(lms_testing::random_graph::TRAIN_OP, "NoOp", &["^large"], &[]);
    let checked = with_outline_of(nodes.graph().encode_to_vec(), |outline| {
        let graph = outline.analysis().graph;
        let program = Program::new(outline, &Draft::default());
        let shortage = simulate(&program, &machine(vec![1 << 20]), &mut NoObserver).unwrap_err();
        let held = shortage.pieces.iter().filter_map(|piece| match piece.holder {
            Holder::Tensor(tensor) => Some(program.origin(program.maker(tensor))),
            Holder::Nobody | Holder::Other => None,
        });
        let mut names: Vec<&str> = held
            .filter_map(|origin| match origin {
                Origin::Op(node) => Some(graph.name(node)),
                _ => None,
            })
            .collect();
        names.sort_unstable();
        prop_assert_eq!(names, ["second"]);
        Ok(())
    });
    checked.unwrap();
}

/// A graph with a constant that waits for an op, and one that reads another op's output late.
fn with_late_constant() -> Nodes {
    let float = || attr_type(1);
    let mut nodes = Nodes::default();
    nodes.placeholder("x", &[4]);
    let value = TensorProto {
        dtype: 1,
        tensor_shape: Some(shape(&[4])),
        float_val: vec![1.0],
        ..TensorProto::default()
    };
    let attrs = [("dtype", float()), ("value", Value::Tensor(value))];
    nodes.add("late", "Const", &["^slow"], &attrs).declares("late", &[4]);
    nodes.add("later", "Neg", &["late"], &[("T", float())]).declares("later", &[4]);
    nodes.add("reader", "Mul", &["x", "later"], &[("T", float())]).declares("reader", &[4]);
    nodes.add("slow", "Relu", &["x"], &[("T", float())]).declares("slow", &[4]);
    nodes
}

/// A constant with a control input holds back who reads it, also through what is computed beforehand of it.
#[test]
fn constants_come_when_they_may() {
    let mut nodes = with_late_constant();
    nodes.add(lms_testing::random_graph::TRAIN_OP, "NoOp", &["^reader", "^slow"], &[]);
    let checked = with_outline_of(nodes.graph().encode_to_vec(), |outline| {
        let graph = outline.analysis().graph;
        let names: Vec<&str> = outline.order().iter().map(|&node| graph.name(node)).collect();
        prop_assert_eq!(names, ["x", "slow", "reader", lms_testing::random_graph::TRAIN_OP]);
        Ok(())
    });
    checked.unwrap();
}

/// TensorFlow computes nothing beforehand from a constant that it has to copy to the GPU first, as one of `int32`, which lies on the
/// host. Its copy is among the first, as it begins with the GPU's ops, and what is fed with the host's.
#[test]
fn what_reads_a_constant_of_the_host_runs_in_each_step() {
    let mut nodes = Nodes::default();
    nodes.placeholder("x", &[4]);
    for (name, dtype, cast) in [("whole", 3, "from_host"), ("real", 1, "from_gpu")] {
        let value = TensorProto {
            dtype,
            tensor_shape: Some(shape(&[4])),
            tensor_content: vec![0; 16],
            ..TensorProto::default()
        };
        let attrs = [("dtype", attr_type(dtype)), ("value", Value::Tensor(value))];
        nodes.add(name, "Const", &[], &attrs).declares(name, &[4]);
        let attrs = [("SrcT", attr_type(dtype)), ("DstT", attr_type(1))];
        nodes.add(cast, "Cast", &[name], &attrs).declares(cast, &[4]);
    }
    let float = || [("T", attr_type(1))];
    nodes.add("of_fed", "Relu", &["x"], &float()).declares("of_fed", &[4]);
    nodes.add("sum", "AddV2", &["from_host", "from_gpu"], &float()).declares("sum", &[4]);
    nodes.add("end", "Mul", &["of_fed", "sum"], &float()).declares("end", &[4]);
    nodes.add(lms_testing::random_graph::TRAIN_OP, "NoOp", &["^end"], &[]);
    let checked = with_outline_of(nodes.graph().encode_to_vec(), |outline| {
        let graph = outline.analysis().graph;
        let mut launched = Launched::default();
        let program = Program::new(outline, &Draft::default());
        simulate(&program, &machine(Vec::new()), &mut launched).unwrap();
        let turn = |name: &str| {
            let entry = outline.order().iter().find(|&&node| graph.name(node) == name);
            entry.map(|&node| launched.0.iter().position(|&op| Some(op) == outline.entry(node)).unwrap())
        };
        prop_assert_eq!(turn("from_gpu"), None);
        prop_assert!(turn("from_host").unwrap() < turn("of_fed").unwrap());
        Ok(())
    });
    checked.unwrap();
}

/// Of what a GPU makes in the host's memory TensorFlow computes integers of 32 bits beforehand, and nothing else, as its constants of other
/// types are in the GPU's memory: a comparison of such integers runs in each step, and is copied.
#[test]
fn what_a_gpu_makes_on_the_host_runs_in_each_step() {
    let mut nodes = Nodes::default();
    nodes.placeholder("x", &[4]).declares("x", &[4]);
    let value = TensorProto {
        dtype: 3,
        tensor_shape: Some(shape(&[4])),
        tensor_content: vec![0; 16],
        ..TensorProto::default()
    };
    let attrs = [("dtype", attr_type(3)), ("value", Value::Tensor(value))];
    nodes.add("whole", "Const", &[], &attrs).declares("whole", &[4]);
    let whole = || [("T", attr_type(3))];
    nodes.add("twice", "AddV2", &["whole", "whole"], &whole()).declares("twice", &[4]);
    nodes.add("mask", "GreaterEqual", &["twice", "whole"], &whole()).declares("mask", &[4]);
    let attrs = [("SrcT", attr_type(10)), ("DstT", attr_type(1))];
    nodes.add("factor", "Cast", &["mask"], &attrs).declares("factor", &[4]);
    nodes.add("end", "Mul", &["x", "factor"], &[("T", attr_type(1))]).declares("end", &[4]);
    nodes.add(lms_testing::random_graph::TRAIN_OP, "NoOp", &["^end"], &[]);
    let checked = with_outline_of(nodes.graph().encode_to_vec(), |outline| {
        let graph = outline.analysis().graph;
        let names: Vec<&str> = outline.order().iter().map(|&node| graph.name(node)).collect();
        prop_assert_eq!(names, ["x", "mask", "factor", "end", lms_testing::random_graph::TRAIN_OP]);
        let program = Program::new(outline, &Draft::default());
        let outcome = simulate(&program, &machine(Vec::new()), &mut NoObserver).unwrap();
        // Four floats that are fed, and as many truth values.
        prop_assert_eq!(outcome.gpus[0].in_bytes, 16 + 4);
        Ok(())
    });
    checked.unwrap();
}

/// The ops of a step as they are launched.
#[derive(Default)]
struct Launched(Vec<u32>);

impl Observer for Launched {
    fn launch(&mut self, op: u32, _: f64, _: f64) {
        self.0.push(op);
    }
}

/// A host with one thread copies the second of two fed tensors first: when the first is there, the second is in hand already, and the first
/// copy, which does not count as cheap, is put at the front of the queue. Threads to spare take each copy at once.
#[test]
fn one_thread_copies_the_last_of_what_is_fed_first() {
    let float = || [("T", attr_type(1))];
    let mut nodes = Nodes::default();
    for (fed, read) in [("x", "a"), ("y", "b"), ("z", "c")] {
        nodes.placeholder(fed, &[4]).add(read, "Relu", &[fed], &float()).declares(read, &[4]);
    }
    nodes.add(lms_testing::random_graph::TRAIN_OP, "NoOp", &["^a", "^b", "^c"], &[]);
    let checked = with_outline_of(nodes.graph().encode_to_vec(), |outline| {
        let graph = outline.analysis().graph;
        let program = Program::new(outline, &Draft::default());
        let copied = |one_thread: bool| {
            let mut launched = Launched::default();
            let machine = Machine { one_thread, ..machine(Vec::new()) };
            simulate(&program, &machine, &mut launched).unwrap();
            let tensors = launched.0.iter().filter_map(|&op| match program.origin(op) {
                Origin::Copy(tensor) => Some(graph.name(graph.producer(tensor)).to_string()),
                _ => None,
            });
            tensors.collect::<Vec<_>>()
        };
        prop_assert_eq!(copied(true), ["z", "y", "x"]);
        prop_assert_eq!(copied(false), ["x", "y", "z"]);
        Ok(())
    });
    checked.unwrap();
}

/// What a GPU begins with comes first, and what becomes ready by it behind all of that.
#[test]
fn what_a_gpu_begins_with_comes_first() {
    let float = || [("T", attr_type(1))];
    let mut nodes = Nodes::default();
    for (variable, read) in [("v", "read_v"), ("w", "read_w")] {
        let attrs = [("dtype", attr_type(1)), ("shape", Value::Shape(shape(&[4])))];
        nodes.add(variable, "VariableV2", &[], &attrs).declares(variable, &[4]);
        nodes.add(read, "Relu", &[variable], &float()).declares(read, &[4]);
    }
    nodes.add(lms_testing::random_graph::TRAIN_OP, "NoOp", &["^read_v", "^read_w"], &[]);
    let checked = with_outline_of(nodes.graph().encode_to_vec(), |outline| {
        let graph = outline.analysis().graph;
        let program = Program::new(outline, &Draft::default());
        let mut launched = Launched::default();
        simulate(&program, &machine(Vec::new()), &mut launched).unwrap();
        let names = launched.0.iter().filter_map(|&op| match program.origin(op) {
            Origin::Op(node) => Some(graph.name(node)),
            _ => None,
        });
        let names: Vec<&str> = names.filter(|name| *name != lms_testing::random_graph::TRAIN_OP).collect();
        prop_assert_eq!(names, ["v", "w", "read_v", "read_w"]);
        Ok(())
    });
    checked.unwrap();
}

/// TensorFlow begins a step in an order of each process' own, and so tells the readers of a tensor if they are more than eight. The
/// prediction has the file's.
#[test]
fn no_order_is_certain_among_many() {
    let mut nodes = Nodes::default();
    nodes.placeholder("x", &[4]).placeholder("y", &[4]);
    let readers = |of: &str, count: usize| (0..count).map(|n| format!("{of}{n}")).collect::<Vec<_>>();
    let all = [readers("x", 8), readers("y", 9)].concat();
    for (number, name) in (0i64..).zip(&all) {
        // They are not equal, and so not merged.
        let attrs = [("T", attr_type(1)), ("_number", Value::I(number))];
        nodes.add(name, "Relu", &[&name[..1]], &attrs).declares(name, &[4]);
    }
    let ends: Vec<String> = all.iter().map(|name| format!("^{name}")).collect();
    nodes.add(
        lms_testing::random_graph::TRAIN_OP,
        "NoOp",
        &ends.iter().map(String::as_str).collect::<Vec<_>>(),
        &[],
    );
    let checked = with_outline_of(nodes.graph().encode_to_vec(), |outline| {
        let graph = outline.analysis().graph;
        let program = Program::new(outline, &Draft::default());
        let order = |seed: Option<u64>| {
            let mut launched = Launched::default();
            let scenario = seed.map_or(Scenario::PREDICTED, |seed| Scenario::by_chance(seed, 1));
            simulate_in(&program, &machine(Vec::new()), &scenario, &mut launched).unwrap();
            let names = launched.0.iter().filter_map(|&op| match program.origin(op) {
                Origin::Op(node) => Some(graph.name(node).to_string()),
                _ => None,
            });
            names.filter(|name| name.len() == 2).collect::<Vec<_>>()
        };
        let among = |of: &str, order: &[String]| -> Vec<String> {
            order.iter().filter(|name| name.starts_with(of)).cloned().collect()
        };
        prop_assert_eq!(order(None), all);
        let orders: Vec<Vec<String>> = (0..20).map(|seed| order(Some(seed))).collect();
        prop_assert!(orders.iter().any(|order| order[0] == "x0"));
        prop_assert!(orders.iter().any(|order| order[0].starts_with('y')));
        prop_assert!(orders.iter().all(|order| among("x", order) == readers("x", 8)));
        prop_assert!(orders.iter().any(|order| among("y", order) != readers("y", 9)));
        prop_assert_eq!(order(Some(7)), order(Some(7)));
        Ok(())
    });
    checked.unwrap();
}

/// What a function of TensorFlow 2 is given may be on the GPU before that begins with anything else.
#[test]
fn what_is_fed_may_come_first() {
    let mut nodes = Nodes::default();
    let attrs = [("dtype", attr_type(1)), ("shape", Value::Shape(shape(&[4])))];
    nodes.add("v", "VariableV2", &[], &attrs).declares("v", &[4]);
    nodes.placeholder("x", &[4]);
    for (name, input) in [("of_x", "x"), ("of_v", "v")] {
        nodes.add(name, "Relu", &[input], &[("T", attr_type(1))]).declares(name, &[4]);
    }
    nodes.add(lms_testing::random_graph::TRAIN_OP, "NoOp", &["^of_x", "^of_v"], &[]);
    let checked = with_outline_of(nodes.graph().encode_to_vec(), |outline| {
        let graph = outline.analysis().graph;
        let program = Program::new(outline, &Draft::default());
        let first = |scenario: Scenario| {
            let mut launched = Launched::default();
            simulate_in(&program, &machine(Vec::new()), &scenario, &mut launched).unwrap();
            let mut names = launched.0.iter().filter_map(|&op| match program.origin(op) {
                Origin::Op(node) => Some(graph.name(node)),
                _ => None,
            });
            names.next().unwrap().to_string()
        };
        prop_assert_eq!(first(Scenario::PREDICTED), "v");
        prop_assert_eq!(first(Scenario { parts_otherwise: true, ..Scenario::PREDICTED }), "x");
        let by_chance: Vec<String> = (0..20).map(|seed| first(Scenario::by_chance(seed, 1))).collect();
        prop_assert!(by_chance.contains(&"v".to_string()) && by_chance.contains(&"x".to_string()));
        Ok(())
    });
    checked.unwrap();
}

/// Nobody knows how far one GPU gets before another. What is sent to one that is behind is in its memory before it is needed.
#[test]
fn what_is_sent_may_come_before_its_time() {
    const BYTES: u64 = 4096;
    let mut nodes = Nodes::default();
    nodes.placeholder("x", &[1024]).declares("x", &[1024]);
    let multiplications = [
        ("own0", ["x", "x"]),
        ("own1", ["own0", "own0"]),
        ("own2", ["own0", "own1"]),
        ("sent", ["own0", "own0"]),
        ("end", ["own2", "sent"]),
    ];
    for (name, inputs) in multiplications {
        nodes.add(name, "Mul", &inputs, &[("T", attr_type(1))]).declares(name, &[1024]);
    }
    nodes.add(lms_testing::random_graph::TRAIN_OP, "NoOp", &["^end"], &[]);
    let mut graph = nodes.graph();
    let others = graph.node.iter_mut().filter(|node| node.name == "sent");
    others.for_each(|node| node.device = "/device:GPU:1".to_string());
    let checked = with_outline_of(graph.encode_to_vec(), |outline| {
        let program = Program::new(outline, &Draft::default());
        let peak = |scenario: Scenario| {
            let outcome = simulate_in(&program, &machine(Vec::new()), &scenario, &mut NoObserver).unwrap();
            outcome.gpus[0].peak_bytes - outcome.gpus[0].persistent_bytes
        };
        let most = (0..20).map(|seed| peak(Scenario::by_chance(seed, 2))).max().unwrap();
        // Two products, one of them in the place of what is fed, or what is sent, too; and less than as much again of workspace.
        prop_assert_eq!((peak(Scenario::PREDICTED) / BYTES, most / BYTES), (2, 3));
        Ok(())
    });
    checked.unwrap();
}

/// TensorFlow makes one of equal constants only if they are to be beside the same variable.
#[test]
fn equal_constants_beside_others_are_not_one() {
    let persistent = |beside: [&str; 2]| {
        let mut nodes = Nodes::default();
        nodes.placeholder("x", &[4]);
        for (name, beside) in ["first", "second"].iter().zip(beside) {
            let tensor_shape = Some(shape(&[4]));
            let value =
                TensorProto { dtype: 1, tensor_shape, tensor_content: vec![0; 16], ..TensorProto::default() };
            let places = ListValue { s: vec![format!("loc:@{beside}").into_bytes()], ..ListValue::default() };
            let attrs =
                [("dtype", attr_type(1)), ("value", Value::Tensor(value)), ("_class", Value::List(places))];
            nodes.add(name, "Const", &[], &attrs).declares(name, &[4]);
        }
        let float = || [("T", attr_type(1))];
        nodes.add("sum", "Mul", &["x", "first"], &float()).declares("sum", &[4]);
        nodes.add("end", "Mul", &["sum", "second"], &float()).declares("end", &[4]);
        nodes.add(lms_testing::random_graph::TRAIN_OP, "NoOp", &["^end"], &[]);
        let mut bytes = 0;
        let checked = with_outline_of(nodes.graph().encode_to_vec(), |outline| {
            let program = Program::new(outline, &Draft::default());
            bytes =
                simulate(&program, &machine(Vec::new()), &mut NoObserver).unwrap().gpus[0].persistent_bytes;
            Ok(())
        });
        checked.unwrap();
        bytes
    };
    assert_eq!(persistent(["x", "x"]), 256);
    assert_eq!(persistent(["x", "sum"]), 512);
}

/// Who is made to wait for a constant waits for what that waits for: as what starts a copy, the constant is as good as any op.
#[test]
fn constants_hold_back_whoever_waits_for_them() {
    let float = || attr_type(1);
    let mut nodes = with_late_constant();
    for (name, op, inputs) in
        [("kept", "Relu", &["x"][..]), ("end", "Mul", &["kept", "reader"]), ("free", "Relu", &["x"])]
    {
        nodes.add(name, op, inputs, &[("T", float())]).declares(name, &[4]);
    }
    nodes.add(lms_testing::random_graph::TRAIN_OP, "NoOp", &["^end", "^free"], &[]);
    let checked = with_outline_of(nodes.graph().encode_to_vec(), |outline| {
        let graph = outline.analysis().graph;
        let node = |name: &str| graph.node_ids().find(|&node| graph.name(node) == name).unwrap();
        let tensor = graph.outputs(node("kept")).next().unwrap();
        let uses = vec![TensorUse { consumers: vec![node("end")], triggers: vec![node("late")] }];
        let order = NodeOrder { before: node("late"), after: node("free"), reason: OrderReason::Budget };
        let draft = Draft {
            swaps: vec![TensorSwap { tensor, waiting: Vec::new(), uses }],
            orders: vec![order],
            ..Draft::default()
        };
        let program = Program::new(outline, &draft);
        let behind_slow: Vec<Origin> = (0..program.len() as u32)
            .filter(|&op| program.origin(op) == Origin::Op(node("slow")))
            .flat_map(|op| program.successors(op))
            .flat_map(|&op| {
                program.successors(op).iter().chain([&op]).map(|&op| program.origin(op)).collect::<Vec<_>>()
            })
            .collect();
        prop_assert!(behind_slow.contains(&Origin::Swap(tensor, 0)), "{:?}", behind_slow);
        prop_assert!(behind_slow.contains(&Origin::Op(node("free"))), "{:?}", behind_slow);
        Ok(())
    });
    checked.unwrap();
}
