//! Functions made flat and written back.

use prost::Message;
use tf_lms::flatten::{Entry, Flat, FlattenError, find_entry, flatten, restored, write_back};
use tf_lms::format::{Edits, Encoding, Model, ReadOptions, Source};
use tf_lms::graph::{Device, Graph, NodeId};
use tf_lms::ops::OpRegistry;
use tf_lms::plan::{Analysis, tflms};
use tf_lms::proto::tensorflow::attr_value::{ListValue, Value};
use tf_lms::proto::tensorflow::op_def::ArgDef;
use tf_lms::proto::tensorflow::tensor_shape_proto::Dim;
use tf_lms::proto::tensorflow::{
    AttrValue, FunctionDef, FunctionDefLibrary, GraphDef, NameAttrList, NodeDef, OpDef, OpList, SavedModel,
    TensorShapeProto,
};
use tf_lms::rewrite::rewrite;
use tf_lms::shape::{Shapes, Sizes};
use tf_lms::verify::{self, VerifyError};

const FLOAT: i32 = 1;
const RESOURCE: i32 = 20;

/// A node; inputs apart by blanks.
fn node(name: &str, op: &str, inputs: &str) -> NodeDef {
    NodeDef {
        name: name.to_string(),
        op: op.to_string(),
        input: inputs.split_whitespace().map(str::to_string).collect(),
        ..NodeDef::default()
    }
}

fn with(mut node: NodeDef, name: &str, value: Value) -> NodeDef {
    node.attr.insert(name.to_string(), AttrValue { value: Some(value) });
    node
}

fn on(mut node: NodeDef, device: &str) -> NodeDef {
    node.device = device.to_string();
    node
}

fn float(node: NodeDef) -> NodeDef {
    with(node, "T", Value::Type(FLOAT))
}

fn read(name: &str, inputs: &str) -> NodeDef {
    let shape = ListValue { shape: vec![shape(&[4])], ..ListValue::default() };
    let node = with(node(name, "ReadVariableOp", inputs), "dtype", Value::Type(FLOAT));
    with(node, "_output_shapes", Value::List(shape))
}

fn assign(name: &str, inputs: &str) -> NodeDef {
    with(node(name, "AssignAddVariableOp", inputs), "dtype", Value::Type(FLOAT))
}

/// A call of a function from as many values to as many as are given.
fn call(name: &str, function: &str, inputs: &str, types: &[i32], results: usize) -> NodeDef {
    let list = |types: Vec<i32>| Value::List(ListValue { r#type: types, ..ListValue::default() });
    let called = NameAttrList { name: function.to_string(), ..NameAttrList::default() };
    let node = with(node(name, "StatefulPartitionedCall", inputs), "f", Value::Func(called));
    with(with(node, "Tin", list(types.to_vec())), "Tout", list(vec![FLOAT; results]))
}

fn shape(sizes: &[i64]) -> TensorShapeProto {
    let dim = sizes.iter().map(|&size| Dim { size, ..Dim::default() }).collect();
    TensorShapeProto { dim, ..TensorShapeProto::default() }
}

fn handle(name: &str, sizes: &[i64]) -> NodeDef {
    let node = with(node(name, "VarHandleOp", ""), "dtype", Value::Type(FLOAT));
    with(node, "shape", Value::Shape(shape(sizes)))
}

fn argument(name: &str, r#type: i32) -> ArgDef {
    ArgDef { name: name.to_string(), r#type, ..ArgDef::default() }
}

/// A function of floats; an argument whose name begins with `v` is a variable's handle.
fn function(
    name: &str,
    arguments: &str,
    nodes: Vec<NodeDef>,
    results: &[(&str, &str)],
    effects: &str,
) -> FunctionDef {
    let dtype = |name: &str| if name.starts_with('v') { RESOURCE } else { FLOAT };
    FunctionDef {
        signature: Some(OpDef {
            name: name.to_string(),
            input_arg: arguments.split_whitespace().map(|name| argument(name, dtype(name))).collect(),
            output_arg: results.iter().map(|(name, _)| argument(name, FLOAT)).collect(),
            control_output: effects.split_whitespace().map(str::to_string).collect(),
            is_stateful: true,
            ..OpDef::default()
        }),
        node_def: nodes,
        ret: results.iter().map(|(name, from)| (name.to_string(), from.to_string())).collect(),
        control_ret: effects.split_whitespace().map(|name| (name.to_string(), name.to_string())).collect(),
        ..FunctionDef::default()
    }
}

fn model(nodes: Vec<NodeDef>, functions: Vec<FunctionDef>) -> Model {
    let library = Some(FunctionDefLibrary { function: functions, ..FunctionDefLibrary::default() });
    let graph = GraphDef { node: nodes, library, ..GraphDef::default() };
    Model::from_bytes("test", graph.encode_to_vec(), &ReadOptions::default()).unwrap()
}

fn registry(model: &Model) -> OpRegistry {
    let op = model.functions().unwrap().into_iter().map(|function| function.signature).collect();
    OpRegistry::with_extra(&OpList { op })
}

fn flat(model: &Model, function: &str) -> Result<Flat, FlattenError> {
    flatten(model, &registry(model), function)
}

/// What each node of a flat graph reads: `name: op inputs`.
fn listing(flat: &Flat) -> Vec<String> {
    let nodes = flat.model.nodes();
    let inputs = |node| nodes.inputs(node).collect::<Vec<_>>().join(" ");
    (0..nodes.len())
        .map(|node| {
            format!("{}: {} {}", nodes.name(node), nodes.op(node), inputs(node)).trim_end().to_string()
        })
        .collect()
}

/// A step that adds to `w` what a function makes of `x`, in a function in a function.
fn nested() -> Vec<FunctionDef> {
    vec![
        function(
            "double",
            "x",
            vec![float(node("sum", "AddV2", "x x")), float(node("unused", "Neg", "x"))],
            &[("y", "sum:z:0"), ("same", "x")],
            "",
        ),
        function(
            "update",
            "x v",
            vec![
                read("value", "v"),
                call("twice", "double", "x ^value", &[FLOAT], 2),
                float(node("both", "AddV2", "twice:output:0 twice:output:1")),
                assign("add", "v both:z:0 ^value"),
            ],
            &[("y", "twice:output:1")],
            "add",
        ),
        function(
            "step",
            "x v",
            vec![
                call("first", "update", "x v", &[FLOAT, RESOURCE], 1),
                call("second", "update", "first:output:0 v ^first", &[FLOAT, RESOURCE], 1),
                float(node("loss", "Neg", "second:output:0")),
            ],
            &[("loss", "loss:y:0")],
            "first second",
        ),
    ]
}

fn top() -> Vec<NodeDef> {
    vec![
        handle("w", &[4]),
        with(node("images", "Placeholder", ""), "dtype", Value::Type(FLOAT)),
        call("Call", "step", "images w", &[FLOAT, RESOURCE], 1),
    ]
}

/// A top level that calls nothing.
fn nothing() -> Vec<NodeDef> {
    vec![node("idle", "NoOp", "")]
}

#[test]
fn calls_in_calls_become_one_graph_in_which_all_waits_as_before() {
    let model = model(top(), nested());
    let flat = flat(&model, "step").unwrap();
    assert_eq!(
        listing(&flat),
        [
            "x: Placeholder",
            "w: VarHandleOp",
            "first/value: ReadVariableOp w",
            "first/twice/start: NoOp ^first/value",
            "first/twice/argument_0: Identity x ^first/twice/start",
            "first/twice/sum: AddV2 x x ^first/twice/start",
            "first/twice/unused: Neg x ^first/twice/start",
            "first/both: AddV2 first/twice/sum first/twice/argument_0",
            "first/add: AssignAddVariableOp w first/both ^first/value",
            "first: NoOp ^first/add",
            "second/start: NoOp ^first",
            "second/argument_0: Identity first/twice/argument_0 ^second/start",
            "second/value: ReadVariableOp w ^second/start",
            "second/twice/start: NoOp ^second/value",
            "second/twice/argument_0: Identity first/twice/argument_0 ^second/twice/start",
            "second/twice/sum: AddV2 first/twice/argument_0 first/twice/argument_0 ^second/twice/start",
            "second/twice/unused: Neg first/twice/argument_0 ^second/twice/start",
            "second/both: AddV2 second/twice/sum second/twice/argument_0",
            "second/add: AssignAddVariableOp w second/both ^second/value",
            "second: NoOp ^second/add ^second/start",
            "loss: Neg second/argument_0",
            "returns/loss: Identity loss ^first ^second",
            "train_step: NoOp ^first ^second ^returns/loss",
        ]
    );
    assert_eq!(flat.arguments, [("x".into(), "x".into()), ("w".to_string(), "v".to_string())]);
    assert_eq!((flat.train_step.as_str(), flat.calls), ("train_step", 4));
    let registry = registry(&model);
    let graph = Graph::of_model(&flat.model, &registry).unwrap();
    assert_eq!(graph.len(), 23);
}

/// A condition with one input and one result, of which TensorFlow makes branches.
fn condition(name: &str, inputs: &str, types: &[i32]) -> NodeDef {
    let list = |types: Vec<i32>| Value::List(ListValue { r#type: types, ..ListValue::default() });
    let called = |name: &str| Value::Func(NameAttrList { name: name.to_string(), ..NameAttrList::default() });
    let node = with(node(name, "If", inputs), "then_branch", called("yes"));
    let node = with(with(node, "else_branch", called("no")), "Tcond", Value::Type(10));
    let node = with(with(node, "Tin", list(types.to_vec())), "Tout", list(vec![FLOAT]));
    with(node, "_lower_using_switch_merge", Value::B(true))
}

#[test]
fn a_condition_becomes_branches() {
    let yes = vec![call("twice", "double", "x", &[FLOAT], 2), assign("add", "v twice:output:0")];
    let no = vec![with(
        with(node("zero", "Const", ""), "dtype", Value::Type(FLOAT)),
        "value",
        Value::Tensor(Default::default()),
    )];
    let nodes = vec![
        with(node("ok", "IsFinite", "x"), "T", Value::Type(FLOAT)),
        read("before", "v"),
        condition("if", "ok:y:0 x v ^before", &[FLOAT, RESOURCE]),
        float(node("loss", "Neg", "if:output:0")),
    ];
    let functions = vec![
        nested().remove(0),
        function("yes", "x v", yes, &[("y", "twice:output:1")], "add"),
        function("no", "x v", no, &[("y", "zero:output:0")], ""),
        function("step", "x v", nodes, &[("loss", "loss:y:0")], "if"),
    ];
    let model = model(top(), functions);
    let flat = flat(&model, "step").unwrap();
    assert_eq!(
        listing(&flat),
        [
            "x: Placeholder",
            "w: VarHandleOp",
            "ok: IsFinite x",
            "before: ReadVariableOp w",
            "if/start: NoOp ^before",
            "if/taken: Switch ok ok ^if/start",
            "if/else/start: Identity if/taken",
            "if/then/start: Identity if/taken:1",
            "if/switch_0: Switch x ok ^if/start",
            "if/else/zero: Const ^if/else/start",
            "if/then/twice/sum: AddV2 if/switch_0:1 if/switch_0:1",
            "if/then/twice/unused: Neg if/switch_0:1",
            "if/then/add: AssignAddVariableOp w if/then/twice/sum",
            "if/result_0: Merge if/else/zero if/switch_0:1",
            "if/else/done: Identity if/else/start",
            "if/then/done: Identity if/then/start ^if/then/add",
            "if: Merge if/else/done if/then/done",
            "loss: Neg if/result_0",
            "returns/loss: Identity loss ^if",
            "train_step: NoOp ^if ^returns/loss",
        ]
    );
    let registry = registry(&model);
    let graph = Graph::of_model(&flat.model, &registry).unwrap();
    assert_eq!(graph.len(), 20);
}

fn functions(names: &[&str]) -> Value {
    let called = |name: &&str| NameAttrList { name: name.to_string(), ..NameAttrList::default() };
    Value::List(ListValue { func: names.iter().map(called).collect(), ..ListValue::default() })
}

#[test]
fn a_loop_becomes_a_frame_that_handles_are_led_into() {
    let list = |types: &[i32]| Value::List(ListValue { r#type: types.to_vec(), ..ListValue::default() });
    let called = |name: &str| Value::Func(NameAttrList { name: name.to_string(), ..NameAttrList::default() });
    let again = with(node("while", "While", "x v ^ok"), "T", list(&[FLOAT, RESOURCE]));
    let again = with(with(again, "cond", called("small")), "body", called("more"));
    let shapes = ListValue { shape: vec![shape(&[4]), shape(&[])], ..ListValue::default() };
    let again = with(again, "output_shapes", Value::List(shapes));
    let again = with(again, "_lower_using_switch_merge", Value::B(true));
    let small = vec![
        with(
            with(node("one", "Const", ""), "dtype", Value::Type(FLOAT)),
            "value",
            Value::Tensor(Default::default()),
        ),
        float(node("less", "Less", "x one:output:0")),
    ];
    let more =
        vec![read("value", "v"), float(node("sum", "AddV2", "x value:value:0")), assign("add", "v sum:z:0")];
    let nodes = vec![
        with(node("ok", "IsFinite", "x"), "T", Value::Type(FLOAT)),
        again,
        float(node("loss", "Neg", "while:output:0")),
        read("after", "while:output:1"),
    ];
    let model = model(
        top(),
        vec![
            function("small", "x v", small, &[("y", "less:z:0")], ""),
            function("more", "x v", more, &[("y", "sum:z:0"), ("v_again", "v")], "add"),
            function("step", "x v", nodes, &[("loss", "loss:y:0")], "while"),
        ],
    );
    let flat = flat(&model, "step").unwrap();
    assert_eq!(
        listing(&flat),
        [
            "x: Placeholder",
            "w: VarHandleOp",
            "ok: IsFinite x",
            "while/start: NoOp ^ok",
            "while/enter_0: Enter x ^while/start",
            "while/merge_0: Merge while/enter_0 while/next_0",
            "while/enter_1: Enter w ^while/start",
            "while/decision: LoopCond while/condition/less",
            "while/switch_0: Switch while/merge_0 while/decision",
            "while/body/start: Identity while/switch_0:1",
            "while/condition/one: Const ^while/merge_0",
            "while/condition/less: Less while/merge_0 while/condition/one",
            "while/body/value: ReadVariableOp while/enter_1 ^while/body/start",
            "while/body/sum: AddV2 while/switch_0:1 while/body/value",
            "while/body/add: AssignAddVariableOp while/enter_1 while/body/sum",
            "while/next_0: NextIteration while/body/sum ^while/body/add",
            "while/result_0: Exit while/switch_0",
            "while/result_1: Identity w",
            "while: NoOp ^while/result_0",
            "loss: Neg while/result_0",
            "after: ReadVariableOp while/result_1",
            "returns/loss: Identity loss ^while",
            "train_step: NoOp ^while ^returns/loss",
        ]
    );
    let registry = registry(&model);
    let graph = Graph::of_model(&flat.model, &registry).unwrap();
    let known = Shapes::declared(&graph);
    let merge = graph.node_ids().find(|&node| graph.name(node) == "while/merge_0").unwrap();
    let shapes: Vec<_> = graph.outputs(merge).map(|tensor| known.get(tensor).map(<[i64]>::to_vec)).collect();
    assert_eq!(shapes, [Some(vec![4]), Some(vec![])]);
}

#[test]
fn a_switch_of_many_ways_becomes_a_row_of_forks() {
    let list = |types: &[i32]| Value::List(ListValue { r#type: types.to_vec(), ..ListValue::default() });
    let case =
        with(node("case", "Case", "which:output:0 x"), "branches", functions(&["negative", "same", "twice"]));
    let case = with(with(case, "Tin", list(&[FLOAT])), "Tout", list(&[FLOAT]));
    let case = with(case, "_lower_using_switch_merge", Value::B(true));
    let which = with(node("which", "Const", ""), "dtype", Value::Type(3));
    let nodes =
        vec![with(which, "value", Value::Tensor(Default::default())), case, assign("b", "v case:output:0")];
    let one =
        |name: &str, op: &str| function(name, "x", vec![float(node("y", op, "x"))], &[("y", "y:y:0")], "");
    let twice = function("twice", "x", vec![float(node("y", "AddV2", "x x"))], &[("y", "y:z:0")], "");
    let step = function("step", "x v", nodes, &[], "b");
    let model = model(top(), vec![one("negative", "Neg"), one("same", "Abs"), twice, step]);
    assert_eq!(
        listing(&flat(&model, "step").unwrap()),
        [
            "x: Placeholder",
            "w: VarHandleOp",
            "which: Const",
            "case/number_0: Const",
            "case/is_0: Equal which case/number_0",
            "case/taken_0: Switch which case/is_0",
            "case/number_1: Const",
            "case/is_1: Equal case/taken_0 case/number_1",
            "case/taken_1: Switch case/taken_0 case/is_1",
            "case/branch_0/start: Identity case/taken_0:1",
            "case/branch_1/start: Identity case/taken_1:1",
            "case/branch_2/start: Identity case/taken_1",
            "case/switch_0_0: Switch x case/is_0",
            "case/switch_0_1: Switch case/switch_0_0 case/is_1",
            "case/branch_0/y: Neg case/switch_0_0:1",
            "case/branch_1/y: Abs case/switch_0_1:1",
            "case/branch_2/y: AddV2 case/switch_0_1 case/switch_0_1",
            "case/result_0: Merge case/branch_0/y case/branch_1/y case/branch_2/y",
            "b: AssignAddVariableOp w case/result_0",
            "train_step: NoOp ^b",
        ]
    );
}

/// What a flat function says of itself, or why it is none.
fn why_not(nodes: Vec<NodeDef>, functions: Vec<FunctionDef>) -> String {
    flat(&model(nodes, functions), "step").map(|flat| listing(&flat).join("; ")).unwrap_err().to_string()
}

#[test]
fn what_cannot_be_flat_is_said_in_one_sentence() {
    let calls = |callee: &str| {
        function("step", "x v", vec![call("a", callee, "x", &[FLOAT], 1), assign("b", "v x")], &[], "b")
    };
    let inner = function("inner", "x", vec![call("c", "step", "x x", &[FLOAT, FLOAT], 1)], &[("y", "x")], "");
    assert_eq!(
        why_not(top(), vec![calls("inner"), inner]),
        "functions call each other in a circle, which no flat graph has: step → inner → step"
    );
    assert_eq!(
        why_not(top(), vec![calls("nothing")]),
        "function \"step\": node \"a\" calls \"nothing\", which the file does not have"
    );
    let idle = function("step", "x v", vec![read("r", "v")], &[("y", "r:value:0")], "");
    assert_eq!(why_not(top(), vec![idle]), "function \"step\" updates no variable: it is no training step");
    let update = || function("step", "x v", vec![assign("b", "v x")], &[], "b");
    let mut free = top();
    free[0] = handle("w", &[-1]);
    let unknown = "function \"step\": the size of the variable of its argument \"v\" cannot be found";
    assert_eq!(why_not(free, vec![update()]), unknown);
    assert_eq!(why_not(nothing(), vec![update()]), unknown);
    let dangling = function("step", "x v", vec![assign("b", "v c:y:0")], &[], "b");
    assert_eq!(
        why_not(top(), vec![dangling]),
        "function \"step\": \"b\" reads \"c:y:0\", which is not there"
    );
    let own = vec![call("a", "same", "a:output:0", &[FLOAT], 1), assign("b", "v a:output:0")];
    let same = function("same", "x", Vec::new(), &[("y", "x")], "");
    let circle = "function \"same\": its argument \"x\" is what the call returns for it";
    assert_eq!(why_not(top(), vec![function("step", "x v", own, &[], "b"), same]), circle);
}

#[test]
fn a_billion_nodes_from_a_few_functions_are_refused() {
    let mut functions = vec![function("f0", "x", vec![float(node("a", "Neg", "x"))], &[("y", "a:y:0")], "")];
    for level in 1..40 {
        let inner = format!("f{}", level - 1);
        let calls = vec![call("a", &inner, "x", &[FLOAT], 1), call("b", &inner, "a:output:0", &[FLOAT], 1)];
        functions.push(function(&format!("f{level}"), "x", calls, &[("y", "b:output:0")], ""));
    }
    let nodes = vec![call("a", "f39", "x", &[FLOAT], 1), assign("b", "v a:output:0")];
    functions.push(function("step", "x v", nodes, &[], "b"));
    assert!(why_not(top(), functions).starts_with("function \"step\" has more than"));
}

#[test]
fn a_variable_is_known_from_its_reads_where_no_call_leads_to_it() {
    let nodes = vec![read("r", "v"), assign("b", "v r:value:0")];
    let model = model(nothing(), vec![function("step", "x v", nodes, &[], "b")]);
    let flat = flat(&model, "step").unwrap();
    let registry = registry(&model);
    let graph = Graph::of_model(&flat.model, &registry).unwrap();
    assert_eq!(graph.op(NodeId(1)).name(), "VarHandleOp");
    assert_eq!(graph.attrs(NodeId(1)).shape("shape").unwrap(), [4]);
}

#[test]
fn what_is_not_to_be_inlined_stays_and_is_named() {
    let mut functions = nested();
    functions[0].attr.insert("_noinline".to_string(), AttrValue { value: Some(Value::B(true)) });
    let model = model(top(), functions);
    let flat = flat(&model, "step").unwrap();
    let kept: Vec<&str> = flat.kept.iter().map(|kept| kept.node.as_str()).collect();
    assert_eq!(kept, ["first/twice", "second/twice"]);
    let both = "first/both: AddV2 first/twice first/twice:1".to_string();
    assert!(listing(&flat).contains(&both));
    // What it calls is there.
    let inner = flat.model.functions().unwrap();
    assert!(inner.iter().any(|function| function.signature.name == "double"));
}

#[test]
fn devices_and_colocations_are_those_that_the_runtime_would_take() {
    let class = |names: &[&str]| {
        Value::List(ListValue {
            s: names.iter().map(|name| name.as_bytes().to_vec()).collect(),
            ..ListValue::default()
        })
    };
    let inner = vec![
        float(node("a", "Neg", "x")),
        on(float(node("b", "Neg", "a:y:0")), "/device:CPU:0"),
        with(
            on(float(node("c", "Neg", "b:y:0")), "/task:2"),
            "_class",
            class(&["loc:@a", "loc:@338", "loc:@x"]),
        ),
        with(float(node("d", "Neg", "c:y:0")), "_class", class(&["loc:@x"])),
    ];
    let callee = function("inner", "x", inner, &[("y", "d:y:0")], "");
    let nodes = vec![
        on(call("p", "inner", "x", &[FLOAT], 1), "/job:worker/device:GPU:1"),
        assign("b", "v p:output:0"),
    ];
    let model = model(top(), vec![callee, function("step", "x v", nodes, &[], "b")]);
    let flat = flat(&model, "step").unwrap();
    let nodes = flat.model.nodes();
    let device = |name: &str| nodes.device((0..nodes.len()).find(|&node| nodes.name(node) == name).unwrap());
    assert_eq!(device("p/a"), "/job:worker/device:GPU:1");
    assert_eq!(device("p/b"), "/job:worker/device:CPU:0");
    assert_eq!(device("p/c"), "/job:worker/task:2/device:GPU:1");
    assert_eq!(device("b"), "");
    let place = |name: &str| (0..nodes.len()).find(|&node| nodes.name(node) == name).unwrap();
    assert_eq!(nodes.attr(place("p/c"), "_class").unwrap().value.unwrap(), class(&["loc:@p/a"]));
    assert!(nodes.attr(place("p/d"), "_class").is_none());
}

#[test]
fn names_that_meet_are_kept_apart() {
    let inner = function("inner", "x", vec![float(node("b", "Neg", "x"))], &[("y", "b:y:0")], "");
    let nodes = vec![
        call("a", "inner", "x", &[FLOAT], 1),
        float(node("a/b", "Abs", "a:output:0")),
        float(node("w", "Abs", "a/b:y:0")),
        assign("train_step", "v w:y:0"),
    ];
    let model = model(top(), vec![inner, function("step", "x v", nodes, &[], "train_step")]);
    assert_eq!(
        listing(&flat(&model, "step").unwrap()),
        [
            "x: Placeholder",
            "w_1: VarHandleOp",
            "a/b_1: Neg x",
            "a/b: Abs a/b_1",
            "w: Abs a/b",
            "train_step: AssignAddVariableOp w_1 w",
            "train_step_1: NoOp ^train_step",
        ]
    );
}

/// As many calls as a step has that somebody wrote in small functions; a quadratic way would take minutes.
#[test]
fn fifty_thousand_nodes_in_five_thousand_calls_are_flat_at_once() {
    let inner: Vec<NodeDef> = (0..9)
        .map(|at| {
            let input = if at == 0 { "x".to_string() } else { format!("n{}:y:0", at - 1) };
            float(node(&format!("n{at}"), "Neg", &input))
        })
        .collect();
    let callee = function("inner", "x", inner, &[("y", "n8:y:0"), ("same", "x")], "");
    let mut nodes: Vec<NodeDef> = (0..5000)
        .map(|at| {
            let input = if at == 0 { "x".to_string() } else { format!("call{}:output:{}", at - 1, at % 2) };
            let wait = if at % 3 == 1 { format!(" ^call{}", at - 1) } else { String::new() };
            call(&format!("call{at}"), "inner", &(input + &wait), &[FLOAT], 2)
        })
        .collect();
    nodes.push(assign("update", "v call4999:output:0"));
    let model = model(top(), vec![callee, function("step", "x v", nodes, &[], "update")]);
    let flat = flat(&model, "step").unwrap();
    assert_eq!(flat.calls, 5000);
    assert!(flat.model.nodes().len() > 45_000);
}

fn mnist() -> (Model, OpRegistry, Flat) {
    let source = Source::Path("testdata/mnist_cnn_tf2".into());
    let model = source.read(&ReadOptions::default()).unwrap();
    let registry = registry(&model);
    let function = find_entry(&model, Entry::Training).unwrap().unwrap();
    let flat = flatten(&model, &registry, &function).unwrap();
    (model, registry, flat)
}

/// The bytes of the model with all of the step's activations swapped.
fn swapped(model: &Model, registry: &OpRegistry, flat: &Flat) -> Vec<u8> {
    let graph = Graph::of_model(&flat.model, registry).unwrap();
    let train = graph.node_ids().find(|&node| graph.name(node) == flat.train_step).unwrap();
    let shapes = Shapes::declared(&graph);
    let sizes = Sizes::of(&graph, &shapes).unwrap();
    let analysis = Analysis::new(&graph, &[train], shapes, sizes);
    let plan =
        tflms::plan(&analysis, &tflms::Parameters::default(), &Device::parse("/cpu:0").unwrap()).unwrap();
    assert!(plan.swaps.len() > 10);
    let edits = rewrite(&flat.model, &graph, &plan).unwrap().edits;
    let content = flat.model.edited(&edits, Encoding::Binary).unwrap().to_vec();
    let rewritten = Model::from_bytes("flat", content, &ReadOptions::default()).unwrap();
    let edits = write_back(model, flat, &rewritten, registry).unwrap();
    model.edited(&edits, Encoding::Binary).unwrap().to_vec()
}

#[test]
fn a_rewritten_step_is_proved_and_comes_out_again_to_the_byte() {
    let (model, registry, flat) = mnist();
    let content = swapped(&model, &registry, &flat);
    let written = Model::from_bytes("written", content.clone(), &ReadOptions::default()).unwrap();
    let verified = verify::check(&model, &written, &registry).unwrap();
    assert!(verified.swap_ins > 10);
    let back = written.edited(&restored(&written).unwrap().unwrap(), Encoding::Binary).unwrap().to_vec();
    let before = model.edited(&Edits::default(), Encoding::Binary).unwrap().to_vec();
    assert!(back == before);
    // It is not rewritten twice.
    let again = flatten(&written, &registry, &flat.function).unwrap();
    let graph = Graph::of_model(&again.model, &registry).unwrap();
    assert!(graph.node_ids().any(|node| graph.name(node).starts_with("lms/swap_in/")));
    assert!(write_back(&written, &again, &again.model, &registry).is_err());
}

/// What is changed in a body is seen, wherever it is.
#[test]
fn a_body_that_computes_something_else_is_refused() {
    // As our types write it, for they shall write what is changed.
    let content = std::fs::read("testdata/mnist_cnn_tf2/saved_model.pb").unwrap();
    let content = SavedModel::decode(content.as_slice()).unwrap().encode_to_vec();
    let model = Model::from_bytes("original", content, &ReadOptions::default()).unwrap();
    let registry = registry(&model);
    let function = find_entry(&model, Entry::Training).unwrap().unwrap();
    let flat = flatten(&model, &registry, &function).unwrap();
    let content = swapped(&model, &registry, &flat);
    let mut saved = SavedModel::decode(content.as_slice()).unwrap();
    let functions = |saved: &mut SavedModel| {
        let graph = saved.meta_graphs[0].graph_def.as_mut().unwrap();
        std::mem::take(&mut graph.library.as_mut().unwrap().function)
    };
    let intact = functions(&mut saved);
    let index = intact
        .iter()
        .position(|function| function.signature.as_ref().unwrap().name == flat.function)
        .unwrap();
    let check = |change: &dyn Fn(&mut Vec<FunctionDef>)| -> Result<(), VerifyError> {
        let mut changed = intact.clone();
        change(&mut changed);
        let mut saved = saved.clone();
        saved.meta_graphs[0].graph_def.as_mut().unwrap().library.as_mut().unwrap().function = changed;
        let written = Model::from_bytes("written", saved.encode_to_vec(), &ReadOptions::default()).unwrap();
        verify::check(&model, &written, &registry).map(|_| ())
    };
    check(&|_| {}).unwrap();
    let kinds = |result: Result<(), VerifyError>| -> Vec<&'static str> {
        result.unwrap_err().violations.iter().map(|violation| violation.kind.name()).collect()
    };
    let place =
        |name: &str| intact[index].node_def.iter().position(|node| node.name.ends_with(name)).unwrap();
    let relu = place("/Relu_1");
    let update = place("update_3/ResourceApplyKerasMomentum");
    assert!(
        kinds(check(&|all| {
            all[index].node_def.remove(relu);
        }))
        .iter()
        .all(|&kind| ["missing_node", "bad_input", "damaged"].contains(&kind))
    );
    let changed_op = check(&|all| all[index].node_def[relu].op = "Relu6".to_string());
    assert_eq!(kinds(changed_op), ["changed_node"]);
    let other_variable = check(&|all| {
        let handle = all[index].node_def[update].input[1].clone();
        all[index].node_def[update].input[0] = handle;
    });
    assert!(kinds(other_variable).contains(&"wrong_tensor"));
    let lost = check(&|all| {
        all[index].control_ret.clear();
    });
    assert_eq!(kinds(lost), ["surroundings"]);
    let elsewhere = check(&|all| {
        let first = all[index].control_ret.keys().next().unwrap().clone();
        let elsewhere = all[index].node_def[relu].name.clone();
        all[index].control_ret.insert(first, elsewhere);
    });
    assert!(kinds(elsewhere).contains(&"lost_control"));
    let other_result = check(&|all| {
        let results: Vec<String> = all[index].ret.keys().cloned().collect();
        let other = format!("{}:activations:0", all[index].node_def[relu].name);
        all[index].ret.insert(results[0].clone(), other);
    });
    assert!(kinds(other_result).contains(&"wrong_tensor"));
    let attribute = check(&|all| {
        all[index].attr.insert("_noinline".to_string(), AttrValue { value: Some(Value::B(true)) });
    });
    assert!(kinds(attribute).contains(&"surroundings"));
    // The copy of the original must be the original.
    let copy = check(&|all| {
        all.last_mut().unwrap().node_def.pop();
    });
    assert!(kinds(copy).contains(&"surroundings"));
    let other_function = check(&|all| {
        all[0].node_def.pop();
    });
    assert!(kinds(other_function).contains(&"surroundings"));
}
