//! Calls, and what cannot be flat.

use tf_lms::flatten::{Entry, Flat, find_entry, flatten_whole};
use tf_lms::graph::{Graph, NodeId};
use tf_lms::proto::tensorflow::attr_value::{ListValue, Value};
use tf_lms::proto::tensorflow::{AttrValue, FunctionDef, NodeDef};

use super::made::*;

#[test]
fn calls_in_calls_become_one_graph_in_which_all_waits_as_before() {
    let model = model(top(), nested());
    let flat = flat(&model, "step").unwrap();
    assert_eq!(
        listing(&flat),
        [
            "x: Placeholder",
            "w: VarHandleOp",
            // Nobody reads it, so it is not read.
            "first/value: NoOp",
            "first/twice/start: NoOp ^first/value",
            "first/twice/argument_0: Identity x ^first/twice/start",
            "first/twice/sum: AddV2 x x ^first/twice/start",
            "first/both: AddV2 first/twice/sum first/twice/argument_0",
            "first/add: AssignAddVariableOp w first/both ^first/value",
            "first: NoOp ^first/add",
            "second/start: NoOp ^first",
            "second/argument_0: Identity first/twice/argument_0 ^second/start",
            "second/value: NoOp ^second/start",
            "second/twice/start: NoOp ^second/value",
            "second/twice/argument_0: Identity first/twice/argument_0 ^second/twice/start",
            "second/twice/sum: AddV2 first/twice/argument_0 first/twice/argument_0 ^second/twice/start",
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
    assert_eq!(graph.len(), 21);
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
    // Flat it can be, for whoever plans for inference; a training step it is not.
    let idle = model(top(), vec![idle]);
    assert!(flat(&idle, "step").is_ok());
    assert_eq!(
        find_entry(&idle, Entry::Function("step")).unwrap_err().to_string(),
        "function \"step\" updates no variable: it is no training step"
    );
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
    // Both name the argument: they are in one place, wherever what is given for it is.
    assert_eq!(nodes.attr(place("p/d"), "_class").unwrap().value.unwrap(), class(&["loc:@p/c"]));
}

/// What is traced where there is no GPU asks for the CPU beside variables, and names what was there then; the placer puts all that names
/// one thing beside the variable that one of them works on, and a rewritten step must not be elsewhere.
#[test]
fn what_has_to_be_with_a_variable_is_where_that_is() {
    let class = |names: &[&str]| {
        let s = names.iter().map(|name| name.as_bytes().to_vec()).collect();
        Value::List(ListValue { s, ..ListValue::default() })
    };
    let gone = || class(&["loc:@gone"]);
    const CPU: &str = "/device:CPU:0";
    let inner = vec![
        with(on(float(node("a", "Neg", "x")), CPU), "_class", gone()),
        on(assign("update", "v a:y:0 ^alone"), CPU),
        on(float(node("alone", "Neg", "x")), CPU),
    ];
    let callee = function("inner", "x v", inner, &[("y", "a:y:0")], "update");
    let nodes = || {
        vec![
            call("p", "inner", "x v", &[FLOAT, RESOURCE], 1),
            with(on(float(node("b", "Neg", "p:output:0")), CPU), "_class", gone()),
            with(on(assign("c", "v b:y:0 ^p"), CPU), "_class", gone()),
        ]
    };
    let functions = || vec![callee.clone(), function("step", "x v", nodes(), &[], "c")];
    let places = |flat: &Flat| -> Vec<(String, String, Option<Value>)> {
        let nodes = flat.model.nodes();
        let place = |node| {
            let class = nodes.attr(node, "_class").and_then(|class| class.value);
            (nodes.name(node).to_string(), nodes.device(node).to_string(), class)
        };
        let names = ["p/a", "p/update", "p/alone", "b", "c"];
        (0..nodes.len()).map(place).filter(|(name, ..)| names.contains(&&**name)).collect()
    };
    let expected = |device: &str| -> Vec<(String, String, Option<Value>)> {
        let with = |name: &str, device: &str, class| (name.to_string(), device.to_string(), class);
        vec![
            with("p/a", device, Some(class(&["loc:@b"]))),
            with("p/update", device, None),
            with("p/alone", CPU, None),
            with("b", device, None),
            with("c", device, Some(class(&["loc:@b"]))),
        ]
    };
    let flat_with = |variable: NodeDef| {
        let mut top = top();
        top[0] = variable;
        flat(&model(top, functions()), "step").unwrap()
    };
    assert_eq!(places(&flat_with(handle("w", &[4]))), expected(""));
    const GPU: &str = "/job:localhost/device:GPU:1";
    assert_eq!(places(&flat_with(on(handle("w", &[4]), GPU))), expected(GPU));
    assert_eq!(places(&flat_with(on(handle("w", &[4]), CPU))), expected(CPU));
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
    let before = processor_seconds();
    let flat = flat(&model, "step").unwrap();
    let took = processor_seconds() - before;
    assert_eq!(flat.calls, 5000);
    let whole = flatten_whole(&model, &registry(&model), "step").unwrap();
    assert!(whole.model.nodes().len() > 45_000);
    assert!(took < 1.0, "{took} s of the processor");
}
