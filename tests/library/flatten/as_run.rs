//! The form in which Python runs a flat graph.

use tf_lms::flatten::{Caller, as_run};
use tf_lms::ops::OpRegistry;
use tf_lms::proto::tensorflow::attr_value::Value;
use tf_lms::proto::tensorflow::{GraphDef, NodeDef};

use super::made::{FLOAT, RESOURCE, assign, float, handle, node, processor_seconds, read, with};

fn run(nodes: Vec<NodeDef>) -> Vec<NodeDef> {
    run_for(Caller::Python, nodes)
}

fn run_for(caller: Caller, nodes: Vec<NodeDef>) -> Vec<NodeDef> {
    let mut graph = GraphDef { node: nodes, ..GraphDef::default() };
    as_run(&mut graph, OpRegistry::builtin(), caller).unwrap();
    graph.node
}

fn names(nodes: &[NodeDef]) -> Vec<&str> {
    nodes.iter().map(|node| node.name.as_str()).collect()
}

/// `y = relu(x w)`, of which both gradients wait for the same: that of the weights is the second in the program.
fn step() -> Vec<NodeDef> {
    vec![
        with(node("x", "Placeholder", ""), "dtype", Value::Type(FLOAT)),
        handle("w", &[4, 4]),
        handle("u", &[4, 4]),
        read("w/read", "w"),
        float(node("matmul", "MatMul", "x w/read")),
        float(node("relu", "Relu", "matmul")),
        read("u/read", "u"),
        float(node("matmul_1", "MatMul", "relu u/read")),
        float(node("grad", "Square", "matmul_1")),
        float(node("grad/matmul_1/MatMul", "MatMul", "grad u/read")),
        float(node("grad/matmul_1/MatMul_1", "MatMul", "relu grad")),
        float(node("grad/relu", "ReluGrad", "grad/matmul_1/MatMul relu")),
        float(node("grad/matmul/MatMul", "MatMul", "x grad/relu")),
        assign("AssignSub", "w grad/matmul/MatMul"),
        assign("AssignSub_1", "u grad/matmul_1/MatMul_1"),
        float(node("returns/y", "Identity", "matmul_1 ^AssignSub ^AssignSub_1")),
        node("train_step", "NoOp", "^returns/y ^AssignSub ^AssignSub_1"),
    ]
}

#[test]
fn the_order_of_the_file_does_not_matter() {
    let listed = run(step());
    let mut random = fastrand::Rng::with_seed(7);
    for _ in 0..20 {
        let mut nodes = step();
        random.shuffle(&mut nodes);
        assert_eq!(run(nodes), listed);
    }
}

/// Of two things that an update needs, the second is gone back from first, but for what it waits for, which comes before both; unless it
/// needs that anyway.
#[test]
fn waiting_that_follows_from_other_edges_changes_nothing() {
    let listed = |waits: &str| {
        run(vec![
            float(node("x", "Placeholder", "")),
            handle("w", &[4, 4]),
            float(node("first", "Relu", "x")),
            float(node("second", "Tanh", "x")),
            float(node("other", "Square", "x")),
            float(node("sum", "AddV2", "first second")),
            assign("update", &format!("w sum{waits}")),
            node("train_step", "NoOp", "^update"),
        ])
    };
    let places = |waits: &str| {
        let nodes = listed(waits);
        ["first", "second", "other"].map(|name| nodes.iter().position(|node| node.name == name).unwrap())
    };
    assert_eq!(places(" ^second ^first"), places(""));
    let [first, second, other] = places(" ^other");
    assert!(first < second && second < other);
    let [first, second, other] = places("");
    assert!(other < first && first < second);
}

/// The end waits for four effects, of which `c` waits for `b`, so that the end has no need to: `d`, the last, takes its place.
#[test]
fn the_last_of_what_an_op_waits_for_takes_the_place_of_what_follows() {
    let order = |waits_of_c: &str| {
        let mut nodes = vec![float(node("x", "Placeholder", ""))];
        for name in ["a", "b", "c", "d"] {
            let waits = if name == "c" { waits_of_c } else { "" };
            nodes.push(handle(&format!("w_{name}"), &[4, 4]));
            nodes.push(float(node(&format!("value_{name}"), "Relu", "x")));
            nodes.push(assign(name, &format!("w_{name} value_{name}{waits}")));
        }
        nodes.push(node("NoOp", "NoOp", "^a ^b ^c ^d"));
        nodes.push(float(node("Identity", "Identity", "x ^NoOp")));
        nodes.push(float(node("returns/x", "Identity", "Identity ^a ^b ^c ^d")));
        let listed = run_for(Caller::Function, nodes);
        names(&listed).iter().filter_map(|name| name.strip_prefix("value_")).collect::<String>()
    };
    assert_eq!(order(""), "abcd");
    assert_eq!(order(" ^b"), "adcb");
}

/// So many ops wait for others as in a step of 250,000 ops with an optimizer; a quadratic way would take minutes.
#[test]
fn large_graphs_take_no_longer_than_they_are_large() {
    let mut nodes = vec![float(node("x", "Placeholder", ""))];
    let mut effects = String::new();
    for layer in 0..62_500 {
        let input = if layer == 0 { "x".to_string() } else { format!("relu_{}", layer - 1) };
        let waits = if layer == 0 { String::new() } else { format!(" ^update_{}", layer - 1) };
        nodes.push(float(node(&format!("relu_{layer}"), "Relu", &input)));
        nodes.push(handle(&format!("w_{layer}"), &[4, 4]));
        nodes.push(float(node(&format!("grad_{layer}"), "Relu", &format!("relu_{layer} ^{input}"))));
        nodes.push(assign(&format!("update_{layer}"), &format!("w_{layer} grad_{layer}{waits}")));
        effects += &format!(" ^update_{layer}");
    }
    nodes.push(node("NoOp", "NoOp", effects.trim()));
    nodes.push(float(node("returns/y", "Identity", "relu_62499 ^NoOp")));
    let count = nodes.len();
    let before = processor_seconds();
    assert_eq!(run_for(Caller::Function, nodes).len(), count);
    let took = processor_seconds() - before;
    assert!(took < 10.0, "{took} s of the processor");
}

/// Python's caller has returns among the stateful ops, by name; where a function calls, they are those of the function, behind all others.
#[test]
fn who_calls_decides_where_returns_are() {
    let nodes = || {
        vec![
            float(node("x", "Placeholder", "")),
            handle("w", &[4, 4]),
            float(node("for_return", "Relu", "x")),
            float(node("for_update", "Tanh", "x")),
            float(node("returns/y", "Identity", "for_return")),
            assign("zero", "w for_update"),
            node("train_step", "NoOp", "^returns/y ^zero"),
        ]
    };
    let is_return_first = |caller: Caller| {
        let listed = run_for(caller, nodes());
        let place = |name: &str| listed.iter().position(|node| node.name == name).unwrap();
        place("for_return") < place("for_update")
    };
    assert!(is_return_first(Caller::Python));
    assert!(!is_return_first(Caller::Function));
}

#[test]
fn each_node_is_behind_what_it_reads() {
    let listed = run(step());
    assert_eq!(listed.len(), step().len());
    assert_eq!(listed.last().unwrap().name, "train_step");
    for (place, node) in listed.iter().enumerate() {
        for input in &node.input {
            let before = input.trim_start_matches('^');
            assert!(names(&listed[..place]).contains(&before), "{} reads {input}", node.name);
        }
    }
}

#[test]
fn what_only_hands_on_is_passed_by() {
    let identity = |name: &str, inputs: &str| float(node(name, "Identity", inputs));
    let mut nodes = step();
    nodes.retain(|node| node.name != "grad");
    nodes.extend([
        identity("call/first", "matmul_1"),
        identity("call/second", "call/first"),
        float(node("grad", "Square", "call/second")),
        // Somebody waits for it, it waits for somebody, and it is elsewhere.
        identity("waited", "relu"),
        identity("waits", "relu ^grad"),
        NodeDef { device: "/device:CPU:0".to_string(), ..identity("elsewhere", "relu") },
        float(node("reader", "AddN", "waited waits elsewhere ^waited")),
        with(node("handle", "Identity", "w"), "T", Value::Type(RESOURCE)),
        read("again", "handle"),
    ]);
    let listed = run(nodes);
    let inputs = |name: &str| listed.iter().find(|node| node.name == name).unwrap().input.join(" ");
    assert_eq!(inputs("grad"), "matmul_1");
    assert_eq!(inputs("reader"), "waited waits elsewhere ^waited");
    assert_eq!(inputs("again"), "handle");
    assert_eq!(inputs("train_step"), "^returns/y ^AssignSub ^AssignSub_1");
}

#[test]
fn loops_are_listed_whole_and_branches_keep_what_says_which_is_taken() {
    let nodes = vec![
        float(node("x", "Placeholder", "")),
        float(node("enter", "Enter", "x")),
        float(node("merge", "Merge", "enter next")),
        node("less", "Less", "merge merge"),
        node("goes_on", "LoopCond", "less"),
        float(node("switch", "Switch", "merge goes_on")),
        float(node("body", "Identity", "switch:1")),
        float(node("tanh", "Tanh", "body")),
        float(node("result", "Identity", "tanh")),
        float(node("next", "NextIteration", "result")),
        float(node("exit", "Exit", "switch")),
        float(node("returns/y", "Identity", "exit")),
    ];
    let listed = run(nodes.clone());
    assert_eq!(listed.len(), nodes.len());
    for node in &nodes {
        let same = listed.iter().find(|other| other.name == node.name).unwrap();
        assert_eq!(same.input, node.input, "{}", node.name);
    }
}

#[test]
fn what_reads_nothing_that_is_there_is_an_error() {
    let mut graph = GraphDef { node: vec![float(node("y", "Relu", "x"))], ..GraphDef::default() };
    let refused = as_run(&mut graph, OpRegistry::builtin(), Caller::Python).unwrap_err().to_string();
    assert!(refused.contains("\"y\" reads \"x\", which is not there"), "{refused}");
}
