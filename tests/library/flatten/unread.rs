//! What nobody reads, and what hands several tensors on.

use tf_lms::flatten::flatten_whole;
use tf_lms::proto::tensorflow::attr_value::Value;
use tf_lms::proto::tensorflow::{FunctionDef, NodeDef};

use super::made::*;

/// A step of these nodes, with `b` as its effect, made flat.
fn step(nodes: Vec<NodeDef>, others: Vec<FunctionDef>) -> Vec<String> {
    let step = function("step", "x v", nodes, &[], "b");
    listing(&flat(&model(top(), [vec![step], others].concat()), "step").unwrap())
}

#[test]
fn what_others_only_wait_for_waits_itself() {
    let nodes = vec![
        float(node("a", "Neg", "x")),
        float(node("inner", "Exp", "a:y:0")),
        float(node("unread", "Neg", "inner:y:0 ^draw")),
        // It draws numbers that others do not get then.
        with(node("draw", "RandomUniform", "shape:output:0"), "dtype", Value::Type(FLOAT)),
        constant("shape", INT32),
        node("gate", "NoOp", "^unread ^kept"),
        float(node("kept", "Neg", "a:y:0")),
        assign("b", "v kept:y:0 ^gate"),
        // No step runs these.
        float(node("idle", "Neg", "unread:y:0")),
        float(node("idler", "Neg", "idle:y:0 ^gate")),
    ];
    assert_eq!(
        step(nodes, Vec::new()),
        [
            "x: Placeholder",
            "w: VarHandleOp",
            "a: Neg x",
            "inner: NoOp ^a",
            "unread: NoOp ^inner ^draw",
            "draw: RandomUniform shape",
            "shape: Const",
            "gate: NoOp ^unread ^kept",
            "kept: Neg a",
            "b: AssignAddVariableOp w kept ^gate",
            "train_step: NoOp ^b",
        ]
    );
}

/// As Grappler has it: whoever waits for a switch runs whether the branch is taken or not.
#[test]
fn in_a_branch_it_waits_for_what_runs_only_there() {
    let branch = with(node("if", "If", "ok:y:0 x x v"), "then_branch", called("yes"));
    let branch = with(with(branch, "else_branch", called("no")), "Tcond", Value::Type(10));
    let branch = lowered(with(with(branch, "Tin", list(&[FLOAT, FLOAT, RESOURCE])), "Tout", list(&[FLOAT])));
    let yes = vec![
        float(node("unread", "Exp", "x")),
        float(node("other", "Exp", "y")),
        float(node("sum", "AddV2", "y y ^unread ^other")),
        constant("one", FLOAT),
        assign("add", "v one:output:0 ^unread"),
    ];
    let no = vec![constant("zero", FLOAT)];
    let nodes = vec![
        with(node("ok", "IsFinite", "x"), "T", Value::Type(FLOAT)),
        branch,
        assign("b", "v if:output:0"),
    ];
    let others = vec![
        function("yes", "x y v", yes, &[("z", "sum:z:0")], "add"),
        function("no", "x y v", no, &[("z", "zero:output:0")], ""),
    ];
    let listing = step(nodes, others);
    let expected = [
        "if/then/start: Identity if/taken:1",
        "if/then/unread: NoOp ^if/switch_0/output_1",
        "if/then/other: NoOp ^if/switch_1/output_1",
        "if/then/sum: AddV2 if/switch_1:1 if/switch_1:1 ^if/then/unread ^if/then/other",
        "if/then/one: Const ^if/then/start",
        "if/then/add: AssignAddVariableOp w if/then/one ^if/then/unread",
        "if/switch_0/output_1: Identity if/switch_0:1",
        "if/switch_1/output_1: Identity if/switch_1:1",
    ];
    for line in expected {
        assert!(listing.iter().any(|found| found == line), "{line}: {listing:#?}");
    }
}

#[test]
fn what_hands_tensors_on_is_passed_by() {
    let both = with(node("both", "IdentityN", "a:y:0 x ^before"), "T", list(&[FLOAT, FLOAT]));
    let again = with(node("again", "IdentityN", "both:output:0 v"), "T", list(&[FLOAT, RESOURCE]));
    let nodes = vec![
        read("before", "v"),
        float(node("a", "Neg", "x")),
        both,
        again,
        float(node("stop", "StopGradient", "again:output:0")),
        float(node("c", "Neg", "stop:output:0")),
        float(node("d", "Neg", "both:output:1 ^again")),
        read("e", "again:output:1"),
        float(node("f", "AddV2", "d:y:0 e:value:0")),
        assign("b", "v f:z:0 ^c"),
    ];
    assert_eq!(
        step(nodes, Vec::new()),
        [
            "x: Placeholder",
            "w: VarHandleOp",
            "before: NoOp",
            "a: Neg x",
            // A handle says nothing of when it may be used.
            "again: IdentityN a w ^before",
            "c: NoOp ^a ^before",
            "d: Neg x ^again ^before",
            "e: ReadVariableOp again:1",
            "f: AddV2 d e",
            "b: AssignAddVariableOp w f ^c",
            "train_step: NoOp ^b",
        ]
    );
}

/// Who must be beside another op names it, and TensorFlow refuses a graph that does not have it.
#[test]
fn what_others_are_beside_is_not_left_out() {
    let beside = with(float(node("a", "Neg", "x")), "_class", strings(&["loc:@still"]));
    let nodes = vec![
        beside,
        float(node("still", "Exp", "x")),
        float(node("gone", "Exp", "still:y:0")),
        assign("b", "v a:y:0"),
    ];
    let expected =
        ["x: Placeholder", "w: VarHandleOp", "a: Neg x", "still: Exp x", "b: AssignAddVariableOp w a"];
    assert_eq!(step(nodes, Vec::new())[..expected.len()], expected);
}

#[test]
fn what_a_file_has_is_still_told() {
    let nodes = vec![float(node("unread", "Exp", "x")), assign("b", "v x ^unread")];
    let model = model(top(), vec![function("step", "x v", nodes, &[], "b")]);
    let whole = flatten_whole(&model, &registry(&model), "step").unwrap();
    assert!(listing(&whole).contains(&"unread: Exp x".to_string()));
    assert!(listing(&flat(&model, "step").unwrap()).contains(&"unread: NoOp".to_string()));
}

#[test]
fn long_chains_take_no_longer_than_they_are() {
    const LINKS: usize = 20_000;
    let mut nodes = vec![float(node("i0", "Neg", "x"))];
    for link in 1..LINKS {
        let hands_on = node(
            &format!("i{link}"),
            "IdentityN",
            &format!("i{}:{}:0 ^i{}", link - 1, if link == 1 { "y" } else { "output" }, link - 1),
        );
        nodes.push(with(hands_on, "T", list(&[FLOAT])));
    }
    nodes.push(float(node("unread", "Exp", &format!("i{}:output:0", LINKS - 1))));
    nodes.push(assign("b", "v x ^unread"));
    let listing = step(nodes, Vec::new());
    assert_eq!(listing.iter().filter(|line| line.contains(": NoOp")).count(), LINKS + 1);
}
