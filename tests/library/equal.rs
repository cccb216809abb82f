//! Ops that TensorFlow takes for one, and what a plan makes of them.

use lms_testing::graphs::{Nodes, attr_type, shape};
use lms_testing::machine::machine;
use prost::Message as _;
use tf_lms::format::{Model, ReadOptions};
use tf_lms::graph::{Graph, NodeId};
use tf_lms::ops::OpRegistry;
use tf_lms::order::Placement;
use tf_lms::plan::{Analysis, Draft, Iterations, NodeOrder, OrderReason, TensorSwap, TensorUse};
use tf_lms::proto::tensorflow::TensorProto;
use tf_lms::proto::tensorflow::attr_value::Value;
use tf_lms::shape::{Shapes, Sizes};
use tf_lms::simulate::{NoObserver, OpCost, Outcome, Outline, Program, floors, simulate};

const FLOAT: i32 = 1;
const INT32: i32 = 3;
const BOOL: i32 = 10;

const BYTES: u64 = 4096;
const OP_SECONDS: f64 = 1e-3;

/// How often loops run.
const ITERATIONS: u64 = 5;

/// Ops by their names, kinds and inputs.
type Ops<'a> = &'a [(&'a str, &'a str, &'a [&'a str])];

/// `one` and `other` are equal, and so are `tanh` and `tanh_too`; what hangs on them is not.
const EQUAL: Ops = &[
    ("x", "Neg", &["fed"]),
    ("one", "Exp", &["x"]),
    ("other", "Exp", &["x"]),
    ("tanh", "Tanh", &["one"]),
    ("tanh_too", "Tanh", &["other"]),
    ("sigmoid", "Sigmoid", &["other"]),
    ("product", "Mul", &["tanh", "sigmoid"]),
    ("grown", "Mul", &["product", "tanh_too"]),
    ("end", "Mul", &["grown", "other"]),
];

fn graph(ops: Ops) -> Vec<u8> {
    let mut nodes = Nodes::default();
    nodes.placeholder("fed", &[1024]).declares("fed", &[1024]);
    for &(name, op, inputs) in ops {
        nodes.add(name, op, inputs, &[("T", attr_type(1))]).declares(name, &[1024]);
    }
    nodes.add("train", "NoOp", &["^end"], &[]);
    nodes.graph().encode_to_vec()
}

/// Hands on what a step of a graph runs whose train op is `train`.
fn with_outline<T>(content: Vec<u8>, look: impl FnOnce(&Graph, &Outline) -> T) -> T {
    let model = Model::from_bytes("a graph", content, &ReadOptions::default()).unwrap();
    let graph = Graph::of_model(&model, OpRegistry::builtin()).unwrap();
    let targets = [node(&graph, "train")];
    let shapes = Shapes::declared(&graph);
    let sizes = Sizes::of(&graph, &shapes).unwrap();
    let iterations = Iterations { others: Some(ITERATIONS), ..Iterations::default() };
    let analysis = Analysis::new(&graph, &targets, shapes, sizes).with_iterations(iterations);
    let placement = Placement::of(&graph);
    let cost = |node| {
        let seconds = if graph.op(node).name() == "NoOp" { 0.0 } else { OP_SECONDS };
        OpCost { seconds, ..OpCost::default() }
    };
    look(&graph, &Outline::new(&analysis, &placement, cost).unwrap())
}

/// What comes of a step with a plan, and of what has the names of ops and tensors.
fn outcome(draft: impl Fn(&Graph) -> Draft) -> Outcome {
    with_outline(graph(EQUAL), |graph, outline| {
        let program = Program::new(outline, &draft(graph));
        simulate(&program, &machine(Vec::new()), &mut NoObserver).unwrap()
    })
}

fn node(graph: &Graph, name: &str) -> NodeId {
    graph.node_ids().find(|&node| graph.name(node) == name).unwrap()
}

/// How many ops compute, but for those of the host.
fn computed(outcome: &Outcome) -> u64 {
    (outcome.gpus[0].compute_seconds / OP_SECONDS).round() as u64
}

#[test]
fn equal_ops_run_once() {
    let as_it_is = outcome(|_| Draft::default());
    // One op for `one` and `other`, and one for `tanh` and `tanh_too`.
    assert_eq!(computed(&as_it_is), 7);
    // What `other` makes is read until the end.
    let needed = as_it_is.gpus[0].peak_bytes - as_it_is.gpus[0].persistent_bytes;
    assert_eq!(needed, 3 * BYTES);
}

#[test]
fn who_waits_for_another_op_runs_by_itself() {
    let waits = |name: &'static str| {
        computed(&outcome(|graph| {
            let (before, after) = (node(graph, "sigmoid"), node(graph, name));
            Draft {
                orders: vec![NodeOrder { before, after, reason: OrderReason::Budget }],
                ..Draft::default()
            }
        }))
    };
    assert_eq!(waits("tanh_too"), 8);
    // Whoever waits for all of it is not concerned.
    assert_eq!(waits("grown"), 7);
}

#[test]
fn who_reads_a_copy_runs_by_itself() {
    let read = |consumers: &'static [&'static str]| {
        let outcome = outcome(|graph| {
            let tensor = graph.outputs(node(graph, "x")).next().unwrap();
            let consumers = consumers.iter().map(|name| node(graph, name)).collect();
            let uses = vec![TensorUse { consumers, triggers: Vec::new() }];
            Draft { swaps: vec![TensorSwap { tensor, waiting: Vec::new(), uses }], ..Draft::default() }
        });
        (computed(&outcome), outcome.gpus[0].out_bytes)
    };
    // What hangs on `other` is not equal either.
    assert_eq!(read(&["other"]), (9, BYTES));
    assert_eq!(read(&["one", "other"]), (7, BYTES));
}

#[test]
fn no_plan_needs_what_is_there_twice() {
    let ops: Ops = &[
        ("x", "Neg", &["fed"]),
        ("one", "Exp", &["x"]),
        ("other", "Exp", &["x"]),
        ("end", "Mul", &["one", "other"]),
    ];
    let model = Model::from_bytes("equal ops", graph(ops), &ReadOptions::default()).unwrap();
    let graph = Graph::of_model(&model, OpRegistry::builtin()).unwrap();
    let shapes = Shapes::declared(&graph);
    let sizes = Sizes::of(&graph, &shapes).unwrap();
    let analysis = Analysis::new(&graph, &[node(&graph, "train")], shapes, sizes);
    let placement = Placement::of(&graph);
    let outline = Outline::new(&analysis, &placement, |_| OpCost::default()).unwrap();
    let program = Program::with_least_memory(&outline, &[]);
    let unlimited = simulate(&program, &machine(Vec::new()), &mut NoObserver).unwrap();
    // Both inputs of the product are one tensor, in the place of which it is.
    assert_eq!(floors(&program, &unlimited)[0].memory_bytes, BYTES);
}

/// Zeros for before a loop and for in it, which TensorFlow computes beforehand.
fn zeros_around_a_loop(are_in_loop: bool) -> Nodes {
    let mut nodes = Nodes::default();
    let float = || [("T", attr_type(FLOAT))];
    let filled = || [("T", attr_type(FLOAT)), ("index_type", attr_type(INT32))];
    let enters = |dtype, is_constant| {
        let frame = Value::S(b"loop".to_vec());
        [("T", attr_type(dtype)), ("frame_name", frame), ("is_constant", Value::B(is_constant))]
    };
    let constants = |nodes: &mut Nodes, scope: &str, waits: &[&str]| {
        let tensor = |dtype, dimensions: &[i64], content: Vec<u8>| {
            let tensor_shape = Some(shape(dimensions));
            Value::Tensor(TensorProto {
                dtype,
                tensor_shape,
                tensor_content: content,
                ..TensorProto::default()
            })
        };
        let (size, nought) = (format!("{scope}size"), format!("{scope}nought"));
        let value = tensor(INT32, &[1], vec![4, 0, 0, 0]);
        nodes
            .add(&size, "Const", waits, &[("dtype", attr_type(INT32)), ("value", value)])
            .declares(&size, &[1]);
        let value = tensor(FLOAT, &[], vec![0; 4]);
        nodes
            .add(&nought, "Const", waits, &[("dtype", attr_type(FLOAT)), ("value", value)])
            .declares(&nought, &[]);
    };
    nodes.placeholder("x", &[4]);
    nodes.add(
        "go_on",
        "Placeholder",
        &[],
        &[("dtype", attr_type(BOOL)), ("shape", Value::Shape(shape(&[])))],
    );
    constants(&mut nodes, "", &[]);
    for zeros in ["first", "second"] {
        nodes.add(zeros, "Fill", &["size", "nought"], &filled()).declares(zeros, &[4]);
    }
    nodes.add("sum", "AddV2", &["x", "first"], &float()).declares("sum", &[4]);
    nodes.add("total", "Mul", &["sum", "second"], &float()).declares("total", &[4]);
    nodes.add("enter", "Enter", &["total"], &enters(FLOAT, false)).declares("enter", &[4]);
    nodes.add("go_on_in", "Enter", &["go_on"], &enters(BOOL, true)).declares("go_on_in", &[]);
    nodes.add("goes_on", "LoopCond", &["go_on_in"], &[]);
    nodes.add("merge", "Merge", &["enter", "next"], &[("T", attr_type(FLOAT)), ("N", Value::I(2))]);
    nodes.add("switch", "Switch", &["merge", "goes_on"], &float());
    nodes.add("start", "Identity", &["switch:1"], &float()).declares("start", &[4]);
    constants(&mut nodes, "in_loop_", &["^start"]);
    nodes.add("zeros", "Fill", &["in_loop_size", "in_loop_nought"], &filled()).declares("zeros", &[4]);
    let other = if are_in_loop { "zeros" } else { "start" };
    nodes.add("body", "Mul", &["start", other], &float()).declares("body", &[4]);
    nodes.add("next", "NextIteration", &["body"], &float()).declares("next", &[4]);
    nodes.add("exit", "Exit", &["switch"], &float()).declares("exit", &[4]);
    nodes.add("train", "NoOp", &["^exit"], &[]);
    nodes
}

/// TensorFlow compares equal constants with the first of them only, and that is the loop's, which waits for its iteration.
#[test]
fn zeros_of_a_loop_keep_equal_ones_apart() {
    let persistent = |nodes: Nodes| {
        with_outline(nodes.graph().encode_to_vec(), |_, outline| outline.persistent_bytes().sum::<u64>())
    };
    let (without, with) = (persistent(zeros_around_a_loop(false)), persistent(zeros_around_a_loop(true)));
    assert_eq!(with - without, 2 * 256, "{with} and {without}");
}

/// What a loop computes of constants on the host is there once, but goes to the GPU in each iteration in which that reads it.
#[test]
fn constants_of_a_loop_are_copied_in_each_iteration() {
    let outcome = |nodes: Nodes| {
        let mut graph = nodes.graph();
        let zeros = graph.node.iter_mut().find(|node| node.name == "zeros").unwrap();
        zeros.device = "/cpu:0".to_string();
        with_outline(graph.encode_to_vec(), |_, outline| {
            let program = Program::new(outline, &Draft::default());
            simulate(&program, &machine(Vec::new()), &mut NoObserver).unwrap().gpus.remove(0)
        })
    };
    let (without, with) = (outcome(zeros_around_a_loop(false)), outcome(zeros_around_a_loop(true)));
    assert_eq!(with.in_bytes - without.in_bytes, ITERATIONS * 16);
    // One copy is there at a time.
    assert!(with.peak_bytes <= without.peak_bytes + 256, "{} and {}", with.peak_bytes, without.peak_bytes);
}
