//! Conditions, switches and loops.

use tf_lms::graph::Graph;
use tf_lms::proto::tensorflow::NodeDef;
use tf_lms::proto::tensorflow::attr_value::{ListValue, Value};
use tf_lms::shape::Shapes;

use super::made::*;

/// A condition with one input and one result, of which TensorFlow makes branches.
fn condition(name: &str, inputs: &str, types: &[i32]) -> NodeDef {
    let node = with(node(name, "If", inputs), "then_branch", called("yes"));
    let node = with(with(node, "else_branch", called("no")), "Tcond", Value::Type(10));
    let node = with(with(node, "Tin", list(types)), "Tout", list(&[FLOAT]));
    lowered(node)
}

#[test]
fn a_condition_becomes_branches() {
    let yes = vec![call("twice", "double", "x", &[FLOAT], 2), assign("add", "v twice:output:0")];
    let no = vec![constant("zero", FLOAT)];
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
            "before: NoOp",
            "if/start: NoOp ^before",
            "if/taken: Switch ok ok ^if/start",
            "if/else/start: Identity if/taken",
            "if/then/start: Identity if/taken:1",
            "if/switch_0: Switch x ok ^if/start",
            "if/else/zero: Const ^if/else/start",
            "if/then/twice/sum: AddV2 if/switch_0:1 if/switch_0:1",
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
    assert_eq!(graph.len(), 19);
}

#[test]
fn a_loop_becomes_a_frame_that_handles_are_led_into() {
    let again = with(node("while", "While", "x v ^ok"), "T", list(&[FLOAT, RESOURCE]));
    let again = with(with(again, "cond", called("small")), "body", called("more"));
    let shapes = ListValue { shape: vec![shape(&[4]), shape(&[])], ..ListValue::default() };
    let again = with(again, "output_shapes", Value::List(shapes));
    let again = lowered(again);
    let small = vec![constant("one", FLOAT), float(node("less", "Less", "x one:output:0"))];
    let more =
        vec![read("value", "v"), float(node("sum", "AddV2", "x value:value:0")), assign("add", "v sum:z:0")];
    let nodes = vec![
        with(node("ok", "IsFinite", "x"), "T", Value::Type(FLOAT)),
        again,
        float(node("loss", "Neg", "while:output:0")),
        assign("after", "while:output:1 loss:y:0"),
    ];
    let model = model(
        top(),
        vec![
            function("small", "x v", small, &[("y", "less:z:0")], ""),
            function("more", "x v", more, &[("y", "sum:z:0"), ("v_again", "v")], "add"),
            function("step", "x v", nodes, &[("loss", "loss:y:0")], "while after"),
        ],
    );
    let flat = flat(&model, "step").unwrap();
    assert_eq!(
        listing(&flat),
        [
            "x: Placeholder",
            "w: VarHandleOp",
            "ok: NoOp",
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
            "after: AssignAddVariableOp while/result_1 loss",
            "returns/loss: Identity loss ^while ^after",
            "train_step: NoOp ^while ^after ^returns/loss",
        ]
    );
    let registry = registry(&model);
    let graph = Graph::of_model(&flat.model, &registry).unwrap();
    let known = Shapes::declared(&graph);
    let merge = graph.node_ids().find(|&node| graph.name(node) == "while/merge_0").unwrap();
    let shapes: Vec<_> = graph.outputs(merge).map(|tensor| known.get(tensor).map(<[i64]>::to_vec)).collect();
    assert_eq!(shapes, [Some(vec![4]), Some(vec![])]);
}

/// What others read too may be gone through before what it is given to, when a graph that calls the function looks for shapes.
#[test]
fn in_a_loop_each_op_is_given_shapes_by_a_node_of_its_own() {
    let again = with(node("while", "While", "x"), "T", list(&[FLOAT]));
    let again = lowered(with(with(again, "cond", called("small")), "body", called("more")));
    let small = vec![constant("one", FLOAT), float(node("less", "Less", "x one:output:0"))];
    let reshape = |name, inputs| float(with(node(name, "Reshape", inputs), "Tshape", Value::Type(INT32)));
    let more = vec![
        float(node("shape", "Shape", "x")),
        constant("given", INT32),
        constant("own", INT32),
        reshape("first", "x shape:output:0"),
        reshape("second", "first:output:0 given:output:0"),
        reshape("third", "second:output:0 given:output:0"),
        reshape("fourth", "third:output:0 own:output:0"),
    ];
    let nodes =
        vec![again, reshape("loss", "while:output:0 shape:output:0"), float(node("shape", "Shape", "x"))];
    let functions = vec![
        function("small", "x", small, &[("y", "less:z:0")], ""),
        function("more", "x", more, &[("y", "fourth:output:0")], ""),
        function("step", "x", nodes, &[("loss", "loss:output:0")], ""),
    ];
    let flat = flat(&model(nothing(), functions), "step").unwrap();
    let written = listing(&flat);
    let reshaped: Vec<&str> = written
        .iter()
        .map(String::as_str)
        .filter(|node| node.contains("Reshape") || node.contains("/shape_"))
        .collect();
    assert_eq!(
        reshaped,
        [
            "while/body/first/shape_1: Identity while/body/shape",
            "while/body/first: Reshape while/switch_0:1 while/body/first/shape_1",
            "while/body/second/shape_1: Identity while/body/given",
            "while/body/second: Reshape while/body/first while/body/second/shape_1",
            "while/body/third/shape_1: Identity while/body/given",
            "while/body/third: Reshape while/body/second while/body/third/shape_1",
            "while/body/fourth: Reshape while/body/third while/body/own",
            "loss: Reshape while/result_0 shape",
        ]
    );
}

#[test]
fn a_switch_of_many_ways_becomes_a_row_of_forks() {
    let case =
        with(node("case", "Case", "which:output:0 x"), "branches", functions(&["negative", "same", "twice"]));
    let case = with(with(case, "Tin", list(&[FLOAT])), "Tout", list(&[FLOAT]));
    let case = lowered(case);
    let nodes = vec![constant("which", INT32), case, assign("b", "v case:output:0")];
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

/// What is wrong with a loop from `x` and `v` of these types.
fn wrong_loop(inputs: &str, types: &[i32], returns: &[(&str, &str)]) -> String {
    let again = with(with(node("while", "While", inputs), "cond", called("small")), "body", called("more"));
    let again = lowered(with(again, "T", list(types)));
    let names =
        ["x", "v"].map(|name| if types.contains(&FLOAT) || name == "v" { name } else { "" }).join(" ");
    let small = function("small", &names, vec![constant("yes", 10)], &[("y", "yes:output:0")], "");
    let more = function(
        "more",
        &names,
        vec![assign("add", "v one:output:0"), constant("one", FLOAT)],
        returns,
        "add",
    );
    let step = function("step", "x v", vec![again], &[], "while");
    flat(&model(top(), vec![small, more, step]), "step").unwrap_err().to_string()
}

#[test]
fn a_damaged_loop_is_said_in_one_sentence() {
    let loops = [
        wrong_loop("v", &[RESOURCE], &[("v_again", "v")]),
        wrong_loop("x", &[FLOAT, RESOURCE], &[("y", "x"), ("v_again", "v")]),
        wrong_loop("x v", &[FLOAT, RESOURCE], &[]),
    ];
    let how = [
        "carries handles of resources alone, and nothing that changes",
        "has fewer inputs than types",
        "has a body that returns less than it takes",
    ];
    for (found, how) in loops.iter().zip(how) {
        assert_eq!(*found, format!("function \"step\": the loop \"while\" {how}"));
    }
}
