//! Recomputed ops are their originals again, and only what gives the same each time is run again.

use super::*;

const COPY: &str = "lms/recompute/b/0";

/// `e` and `d` read `b` long after it was made from `a`.
fn original() -> Build {
    Build::of(&[
        ("x", "Placeholder", ""),
        ("a", "Relu", "x"),
        ("gate", "Relu", "x"),
        ("b", "AddV2", "a x ^gate"),
        ("c", "Relu", "b"),
        ("d", "AddV2", "c b"),
        ("e", "AddV2", "d a"),
    ])
}

/// [`original`] where `d` reads a copy of `b` that waits for `c`.
fn recomputed() -> Build {
    let mut build = original();
    build.recompute("b", 0, "a x ^gate ^c").inputs("d", &format!("c {COPY}"));
    build
}

#[track_caller]
fn refuses_with(kind: ViolationKind, change: impl FnOnce(&mut Build)) -> VerifyError {
    let mut build = recomputed();
    change(&mut build);
    refuses(&original(), &build, kind, "")
}

#[test]
fn a_copy_stands_for_its_original() {
    let verified = accepts(&original(), &recomputed());
    assert_eq!((verified.recomputed_ops, verified.recomputed_nodes), (1, 1));
    assert_eq!((verified.rewired_inputs, verified.added_control_edges), (1, 1));
    assert_eq!(verified.swapped_tensors, 0);
    let mut build = recomputed();
    build.recompute("b", 1, "a x ^gate").recompute("a", 0, "x ^d").inputs("e", "d lms/recompute/a/0");
    let verified = accepts(&original(), &build);
    assert_eq!((verified.recomputed_ops, verified.recomputed_nodes), (3, 2));
}

#[test]
fn a_copy_reads_copies_and_swap_ins() {
    let mut build = recomputed();
    build.recompute("a", 0, "x ^c").inputs(COPY, "lms/recompute/a/0 x ^gate");
    accepts(&original(), &build);
    let mut build = recomputed();
    build.swap_out("a").swap_in("a", 0, "lms/swap_out/a/0 ^c").inputs(COPY, "lms/swap_in/a/0_0 x ^gate");
    accepts(&original(), &build);
}

#[test]
fn a_copy_reads_what_its_original_reads() {
    for inputs in ["x x", "x a", "a a", "a c", "a:1 x", "b x", "lms/recompute/b/0 x"] {
        let mut build = recomputed();
        build.inputs(COPY, &format!("{inputs} ^gate"));
        refuses(&original(), &build, ViolationKind::AddedInputs, COPY);
    }
    for inputs in ["", "a", "a x x"] {
        refuses_with(ViolationKind::AddedInputs, |build| _ = build.inputs(COPY, &format!("{inputs} ^gate")));
    }
    let error = refuses_with(ViolationKind::AddedInputs, |build| {
        build.recompute("gate", 0, "x").inputs(COPY, "lms/recompute/gate/0 x ^gate");
    });
    assert!(error.to_string().contains("`gate:0` by way of `lms/recompute/gate/0:0`"), "{error}");
}

#[test]
fn a_copy_keeps_the_control_inputs() {
    refuses_with(ViolationKind::LostControl, |build| _ = build.inputs(COPY, "a x ^c"));
    // What was added to the original is no order that the program asked for.
    let mut build = recomputed();
    build.inputs("b", "a x ^gate ^lms/order/0").node("lms/order/0", "NoOp", "^a");
    accepts(&original(), &build);
    build.inputs(COPY, "a x ^gate ^lms/order/0");
    accepts(&original(), &build);
}

#[test]
fn a_copy_waits_for_no_swap_in_and_no_copy() {
    refuses_with(ViolationKind::AddedInputs, |build| {
        build.recompute("a", 0, "x").inputs(COPY, "a x ^gate ^lms/recompute/a/0");
    });
    refuses_with(ViolationKind::AddedInputs, |build| {
        build.swap_in("a", 0, "a").inputs(COPY, "a x ^gate ^lms/swap_in/a/0_0");
    });
    refuses_with(ViolationKind::AddedInputs, |build| {
        build.recompute("a", 0, "x").swap_in("x", 0, "x ^lms/recompute/a/0");
    });
}

#[test]
fn a_swap_reads_no_copy() {
    refuses_with(ViolationKind::AddedInputs, |build| {
        build.swap_in("b", 0, COPY).inputs("d", "c lms/swap_in/b/0_0");
    });
    refuses_with(ViolationKind::AddedInputs, |build| {
        build.swap("lms/swap_out/b/0", COPY).swap_in("b", 0, "lms/swap_out/b/0");
    });
}

#[test]
fn the_name_says_which_node_and_number() {
    let rename = |build: &mut Build, name: &str| {
        build.get(COPY).name = name.to_string();
        build.inputs("d", &format!("c {name}"));
    };
    for name in ["b", "b/", "b/x", "b/00", "/0", "nobody/0", "lms/recompute/b/0/0", "lms/swap_in/a/0_0/0"] {
        let mut build = recomputed();
        build.swap_in("a", 0, "a");
        rename(&mut build, &format!("lms/recompute/{name}"));
        let error = verify(&original(), &build).expect_err(name);
        assert!(
            error.violations.iter().any(|violation| violation.kind == ViolationKind::AddedName),
            "{error}"
        );
    }
    // Another node of the same op and type.
    let mut build = recomputed();
    rename(&mut build, "lms/recompute/d/0");
    let error = verify(&original(), &build).unwrap_err();
    assert!(error.violations.iter().any(|violation| violation.kind == ViolationKind::AddedInputs), "{error}");
    assert!(error.violations.iter().any(|violation| violation.kind == ViolationKind::WrongTensor), "{error}");
}

#[test]
fn all_else_is_as_in_the_original_but_for_the_mark() {
    let mark = |number| Value::I(number);
    refuses_with(ViolationKind::AddedOp, |build| _ = build.get(COPY).attr.remove("_lms_recompute"));
    refuses_with(ViolationKind::AddedOp, |build| _ = build.attr(COPY, "_lms_recompute", mark(1)));
    refuses_with(ViolationKind::AddedOp, |build| _ = build.attr(COPY, "_lms_recompute", Value::B(false)));
    refuses_with(ViolationKind::AddedOp, |build| _ = build.attr(COPY, "_x", Value::B(false)));
    refuses_with(ViolationKind::AddedOp, |build| _ = build.get(COPY).attr.remove("T"));
    let half = Value::Type(DataType::HALF.number());
    refuses_with(ViolationKind::AddedOp, |build| _ = build.attr(COPY, "T", half));
    refuses_with(ViolationKind::AddedOp, |build| build.get(COPY).op = "Sub".into());
    refuses_with(ViolationKind::AddedOp, |build| {
        build.get(COPY).experimental_type = Some(Default::default());
    });
    for device in ["/device:GPU:0", "/cpu:0"] {
        refuses_with(ViolationKind::AddedDevice, |build| _ = build.device(COPY, device));
    }
    // An original that has the mark gives none to its copy.
    let (mut before, mut after) = (original(), recomputed());
    before.attr("b", "_lms_recompute", mark(0));
    after.attr("b", "_lms_recompute", mark(0));
    refuses(&before, &after, ViolationKind::AddedOp, COPY);
}

#[test]
fn what_the_original_has_is_copied_in_any_order() {
    let with = |mut build: Build| {
        let node = build.get("b");
        node.device = "/job:worker/task:1/device:GPU:0".into();
        node.attr.insert("_class".into(), AttrValue { value: Some(Value::S(b"loc:@a".to_vec())) });
        node.attr.insert("_z".into(), AttrValue { value: Some(Value::B(true)) });
        let names = vec!["b".to_string()];
        node.experimental_debug_info = Some(crate::proto::tensorflow::node_def::ExperimentalDebugInfo {
            original_node_names: names,
            ..Default::default()
        });
        build
    };
    let before = with(original());
    let mut after = before.clone();
    after.recompute("b", 0, "a x ^gate ^c").inputs("d", &format!("c {COPY}"));
    accepts(&before, &after);
    // The attributes behind the rest, and the last one first.
    let copy = after.graph.node.pop().unwrap();
    let mut bytes = after.encode();
    let mut node = NodeDef { attr: Default::default(), ..copy.clone() }.encode_to_vec();
    for attr in copy.attr.iter().rev() {
        let only = NodeDef { attr: [(attr.0.clone(), attr.1.clone())].into(), ..NodeDef::default() };
        node.extend(only.encode_to_vec());
    }
    prost::encoding::encode_key(1, prost::encoding::WireType::LengthDelimited, &mut bytes);
    prost::encoding::encode_varint(node.len() as u64, &mut bytes);
    bytes.extend(node);
    let result = check(&before.model(), &model(bytes), OpRegistry::builtin());
    assert!(result.is_ok(), "{}", result.unwrap_err());
    after.graph.node.push(NodeDef { experimental_debug_info: None, ..copy });
    refuses(&before, &after, ViolationKind::AddedOp, COPY);
}

#[test]
fn another_output_is_another_tensor() {
    refuses_with(ViolationKind::WrongTensor, |build| _ = build.inputs("d", &format!("c {COPY}:1")));
    refuses_with(ViolationKind::WrongTensor, |build| _ = build.inputs("e", &format!("d {COPY}")));
    let mut before = original();
    before.node("top", "TopKV2", "b x").attr("top", "sorted", Value::B(true)).node("low", "Relu", "top");
    let mut after = before.clone();
    after.recompute("top", 0, "b x ^d").inputs("low", "lms/recompute/top/0");
    accepts(&before, &after);
    refuses(&before, after.inputs("low", "lms/recompute/top/0:1"), ViolationKind::WrongTensor, "low");
}

#[test]
fn nothing_waits_for_itself_by_a_copy() {
    refuses_with(ViolationKind::Cycle, |build| _ = build.inputs(COPY, "a x ^gate ^d"));
    // A chain that reads itself.
    let mut build = original();
    build.recompute("b", 0, "lms/recompute/a/0 x ^gate").recompute("a", 0, "lms/recompute/b/0");
    assert!(verify(&original(), &build).is_err());
    let mut looped = original();
    looped.inputs("a", "b");
    assert!(verify(&looped, &build).is_err());
    // An original that waits for its copy would be run behind it, which no rewrite needs.
    refuses_with(ViolationKind::Cycle, |build| {
        build.inputs(COPY, "a x ^gate").inputs("b", &format!("a x ^gate ^{COPY}"));
    });
}

/// A graph in which `c` reads output 0 of `n`, a node with this op and these inputs, and the same with a copy of `n`.
fn copy_of(op: &str, inputs: &str) -> (Build, Build) {
    let mut original = Build::of(&[
        ("x", "Placeholder", ""),
        ("v", "VariableV2", ""),
        ("v/read", "Identity", "v"),
        ("v/swapped", "Relu", "v/read"),
        ("handle", "VarHandleOp", ""),
        ("value", "ReadVariableOp", "handle"),
        ("strange", "FrobnicateV9", "x"),
        ("string", "Const", ""),
        ("n", op, inputs),
        ("c", "Relu", "n"),
        ("step", "NoOp", "^c ^v/swapped ^value ^strange ^string"),
    ]);
    original.attr("string", "dtype", Value::Type(DataType::STRING.number())).train_op("step");
    let mut rewritten = original.clone();
    rewritten.recompute("n", 0, inputs).inputs("c", "lms/recompute/n/0");
    (original, rewritten)
}

#[test]
fn only_what_gives_the_same_each_time_is_run_again() {
    for (op, inputs) in
        [("Relu", "x"), ("Const", ""), ("Softmax", "v/swapped"), ("Relu", "value"), ("MatMul", "x x")]
    {
        let (original, rewritten) = copy_of(op, inputs);
        accepts(&original, &rewritten);
    }
    let (mut original, mut rewritten) = copy_of("StatelessRandomNormal", "x x");
    for build in [&mut original, &mut rewritten] {
        for node in ["n", "lms/recompute/n/0"] {
            if build.graph.node.iter().any(|found| found.name == node) {
                build.attr(node, "Tseed", Value::Type(DataType::INT32.number()));
            }
        }
    }
    accepts(&original, &rewritten);
    for (op, inputs) in [
        // Stateful.
        ("RandomUniform", "x"),
        ("ReadVariableOp", "handle"),
        ("VarHandleOp", ""),
        ("VariableV2", ""),
        ("Assert", "x"),
        // Fed.
        ("Placeholder", ""),
        ("PlaceholderWithDefault", "x"),
        // Not stateful by their definitions.
        ("FractionalMaxPool", "x"),
        ("BiasAddGrad", "x"),
        ("Conv2DBackpropInput", "x x x"),
        ("InplaceAdd", "x x x"),
        // Of control flow.
        ("Switch", "x x"),
        ("Merge", "x x"),
        ("Enter", "x"),
        ("NextIteration", "x"),
        // Functions.
        ("PartitionedCall", "x"),
        ("StatelessIf", "x x"),
        // References.
        ("RefIdentity", "v"),
        ("Assign", "v x"),
        // Nothing to read.
        ("NoOp", "^x"),
    ] {
        let (original, rewritten) = copy_of(op, inputs);
        refuses(&original, &rewritten, ViolationKind::Unrepeatable, "lms/recompute/n/0");
    }
    let (original, rewritten) = copy_of("FrobnicateV9", "x");
    refuses(&original, &rewritten, ViolationKind::UnknownOp, "lms/recompute/n/0");
    // Nothing is known of what it reads.
    let (original, rewritten) = copy_of("Relu", "strange");
    refuses(&original, &rewritten, ViolationKind::UnknownOp, "lms/recompute/n/0");
}

#[test]
fn only_numbers_are_recomputed() {
    for dtype in [DataType::STRING, DataType::VARIANT, DataType::RESOURCE] {
        let (mut original, mut rewritten) = copy_of("Identity", "string");
        for build in [&mut original, &mut rewritten] {
            build.attr("string", "dtype", Value::Type(dtype.number()));
            build.attr("n", "T", Value::Type(dtype.number())).attr("c", "T", Value::Type(dtype.number()));
        }
        rewritten.attr("lms/recompute/n/0", "T", Value::Type(dtype.number()));
        refuses(&original, &rewritten, ViolationKind::Unrepeatable, "lms/recompute/n/0");
    }
}

#[test]
fn who_hands_on_a_variables_buffer_is_not_run_again() {
    // A reference, and an op that hands the buffer on.
    let (original, rewritten) = copy_of("Relu", "v");
    refuses(&original, &rewritten, ViolationKind::Unrepeatable, "lms/recompute/n/0");
    let (original, rewritten) = copy_of("Identity", "v/read");
    refuses(&original, &rewritten, ViolationKind::Unrepeatable, "lms/recompute/n/0");
    // Who reads it may. A swap is of some moment.
    let (original, mut rewritten) = copy_of("Relu", "v/read");
    accepts(&original, &rewritten);
    rewritten.swap_in("v/read", 0, "v/read").inputs("lms/recompute/n/0", "lms/swap_in/v/read/0_0");
    refuses(&original, &rewritten, ViolationKind::Unrepeatable, "lms/recompute/n/0");
}

#[test]
fn where_an_op_writes_to_its_input_nothing_is_run_again() {
    let (mut original, mut rewritten) = copy_of("Relu", "x");
    for build in [&mut original, &mut rewritten] {
        build.node("later", "InplaceAdd", "x x x");
    }
    let error = refuses(&original, &rewritten, ViolationKind::Unrepeatable, "lms/recompute/n/0");
    assert!(error.to_string().contains("`later`"), "{error}");
}

#[test]
fn a_function_is_not_run_again() {
    use crate::proto::tensorflow::{FunctionDef, FunctionDefLibrary, OpDef, op_def::ArgDef};
    let (mut original, mut rewritten) = copy_of("f", "x");
    let arg =
        |name: &str| ArgDef { name: name.into(), r#type: DataType::FLOAT.number(), ..ArgDef::default() };
    let signature =
        OpDef { name: "f".into(), input_arg: vec![arg("x")], output_arg: vec![arg("y")], ..OpDef::default() };
    let function = FunctionDef { signature: Some(signature), ..FunctionDef::default() };
    for build in [&mut original, &mut rewritten] {
        build.graph.library =
            Some(FunctionDefLibrary { function: vec![function.clone()], ..FunctionDefLibrary::default() });
    }
    refuses(&original, &rewritten, ViolationKind::Unrepeatable, "lms/recompute/n/0");
}

/// A ref variable is read beside a copy, which waits; `update` writes to it.
fn with_reader(update: &str) -> (Build, Build) {
    let original = Build::of(&[
        ("v", "VariableV2", ""),
        ("v/read", "Identity", "v"),
        ("x", "Placeholder", ""),
        ("n", "Relu", "x"),
        ("c", "Relu", "n"),
        ("d", "MatMul", "n v/read"),
        ("update", "AssignSub", update),
    ]);
    let mut rewritten = original.clone();
    rewritten.recompute("n", 0, "x ^c").inputs("d", "lms/recompute/n/0 v/read");
    (original, rewritten)
}

#[test]
fn a_copy_delays_its_readers() {
    let (mut original, mut rewritten) = with_reader("v d");
    accepts(&original, &rewritten);
    accepts(original.train_op("update"), rewritten.train_op("update"));
    let (mut original, mut rewritten) = with_reader("v c");
    refuses(&original, &rewritten, ViolationKind::RefOrder, "d");
    refuses(original.train_op("update"), rewritten.train_op("update"), ViolationKind::RefOrder, "d");
}

#[test]
fn an_update_behind_a_copy_is_of_the_step() {
    // Nothing but the copy leads to the reader of `v` and to the update; no train op says that it is of the step.
    let mut original = Build::of(&[
        ("v", "VariableV2", ""),
        ("x", "Placeholder", ""),
        ("n", "Relu", "x"),
        ("d", "MatMul", "n v"),
        ("e", "Relu", "n"),
        ("update", "AssignSub", "v e"),
    ]);
    let mut rewritten = original.clone();
    rewritten.recompute("n", 0, "x").inputs("d", "lms/recompute/n/0 v").inputs("e", "lms/recompute/n/0");
    refuses(&original, &rewritten, ViolationKind::RefOrder, "d");
    original.inputs("update", "v d");
    accepts(&original, rewritten.inputs("update", "v d"));
}

#[test]
fn a_copy_brings_its_triggers() {
    let mut original = original();
    original
        .node("y", "Placeholder", "")
        .node("fed", "Relu", "y")
        .node("fixed", "Const", "")
        .node("group", "NoOp", "^e ^fed");
    let with = |trigger: &str| {
        let mut build = original.clone();
        build.recompute("b", 0, &format!("a x ^gate {trigger}")).inputs("d", &format!("c {COPY}"));
        build
    };
    for trigger in ["", "^c", "^fixed", "^x"] {
        accepts(&original, &with(trigger));
    }
    refuses(&original, &with("^fed"), ViolationKind::NewWork, "y");
    // By way of an order op, of a chain, of a swap that a copy reads.
    let mut build = with("^lms/order/0");
    refuses(&original, build.node("lms/order/0", "NoOp", "^fed"), ViolationKind::NewWork, "y");
    let chain = |mut build: Build, head: &str| {
        build.recompute("a", 0, head).inputs(COPY, "lms/recompute/a/0 x ^gate");
        build
    };
    accepts(&original, &chain(with(""), "x ^c"));
    refuses(&original, &chain(with(""), "x ^fed"), ViolationKind::NewWork, "y");
    let mut build = chain(with(""), "lms/swap_in/x/0_0");
    build.swap_in("x", 0, "x ^fed");
    refuses(&original, &build, ViolationKind::NewWork, "y");
    // What the step runs anyway is no new work for it.
    let step = |mut build: Build| build.train_op("group").clone();
    accepts(&step(original.clone()), &step(with("^fed")));
    accepts(&step(original.clone()), &step(chain(with(""), "x ^fed")));
    // And what it does not run is new, also behind several copies.
    let without = |build: Build| step(build).inputs("group", "^e").clone();
    refuses(&without(original.clone()), &without(with("^fed")), ViolationKind::NewWork, "y");
    let behind_two = without(chain(with(""), "x ^fed"));
    refuses(&without(original.clone()), &behind_two, ViolationKind::NewWork, "y");
}

#[test]
fn a_copy_brings_what_each_of_its_inputs_brings() {
    // `early` has the trigger of one of the two behind itself, and none has the other.
    let original = Build::of(&[
        ("x", "Placeholder", ""),
        ("y", "Placeholder", ""),
        ("fed", "Relu", "y"),
        ("a", "Relu", "x"),
        ("b", "Relu", "x"),
        ("c", "Relu", "x"),
        ("n", "AddV2", "a b"),
        ("early", "AddV2", "a c"),
        ("late", "AddV2", "early n"),
    ]);
    let with = |trigger: &str| {
        let mut build = original.clone();
        build
            .recompute("a", 0, "x ^c")
            .recompute("b", 0, &format!("x {trigger}"))
            .recompute("n", 0, "lms/recompute/a/0 lms/recompute/b/0")
            .inputs("early", "lms/recompute/a/0 c")
            .inputs("late", "early lms/recompute/n/0");
        build
    };
    accepts(&original, &with("^c"));
    refuses(&original, &with("^fed"), ViolationKind::NewWork, "y");
}

#[test]
fn who_waits_for_a_copy_brings_its_original() {
    // `early` needed neither `n` nor what it is made of.
    let original = Build::of(&[
        ("x", "Placeholder", ""),
        ("y", "Placeholder", ""),
        ("n", "Relu", "y"),
        ("early", "Relu", "x"),
        ("late", "AddV2", "n early"),
    ]);
    let with = |early: &str, order: &str| {
        let mut build = original.clone();
        build.recompute("n", 0, "y").inputs("late", "lms/recompute/n/0 early").inputs("early", early);
        if !order.is_empty() {
            build.node("lms/order/0", "NoOp", order);
        }
        build
    };
    accepts(&original, &with("x", ""));
    refuses(&original, &with("x ^lms/recompute/n/0", ""), ViolationKind::NewWork, "y");
    refuses(&original, &with("x ^lms/order/0", "^lms/recompute/n/0"), ViolationKind::NewWork, "y");
    // `other` reads a copy too, and brings what that needs where it is waited for.
    let mut before = original.clone();
    before.node("other", "Relu", "n");
    let mut after = before.clone();
    after.recompute("n", 0, "y").inputs("other", "lms/recompute/n/0").inputs("early", "x ^other");
    after.inputs("late", "n early");
    refuses(&before, &after, ViolationKind::NewWork, "y");
}

#[test]
fn a_copy_may_be_found_ahead_of_its_original() {
    // In a walk along the rewritten graph alone, `n` is far behind its copy: it waits for `slow` too, which is added.
    let mut original = Build::of(&[
        ("p", "Placeholder", ""),
        ("x", "Placeholder", ""),
        ("s", "Switch", "x p"),
        ("slow0", "Relu", "s"),
        ("slow1", "Relu", "slow0"),
        ("slow2", "Relu", "slow1"),
        ("n", "Relu", "s"),
        ("c", "Relu", "n"),
        ("other", "Relu", "s:1"),
        ("m", "Merge", "c other"),
    ]);
    let with = |copy: &str| {
        let mut build = original.clone();
        build.recompute("n", 0, copy).inputs("n", "s ^slow2").inputs("c", "lms/recompute/n/0");
        build
    };
    accepts(&original, &with("s"));
    refuses(&original, &with("s ^other"), ViolationKind::Branch, "other");
    accepts(original.clone().train_op("m"), with("s").train_op("m"));
    original.train_op("m");
}

/// A branch on `p` in which `t3` reads `t` late.
fn cond() -> Build {
    Build::of(&[
        ("p", "Placeholder", ""),
        ("x", "Placeholder", ""),
        ("big", "Relu", "x"),
        ("s", "Switch", "x p"),
        ("f", "Relu", "s"),
        ("t", "Relu", "s:1"),
        ("t2", "Relu", "t"),
        ("t3", "AddV2", "t2 t"),
        ("m", "Merge", "f t3"),
        ("out", "AddV2", "m big"),
    ])
}

#[test]
fn a_copy_is_alive_whenever_its_reader_is() {
    let outside = |trigger: &str| {
        let mut build = cond();
        build.recompute("big", 0, &format!("x {trigger}")).inputs("out", "m lms/recompute/big/0");
        build
    };
    for trigger in ["", "^m", "^s", "^p"] {
        accepts(&cond(), &outside(trigger));
    }
    refuses(&cond(), &outside("^t"), ViolationKind::Branch, "t");
    refuses(&cond(), &outside("^f"), ViolationKind::Branch, "f");
    let inside = |trigger: &str| {
        let mut build = cond();
        build.recompute("t", 0, &format!("s:1 {trigger}")).inputs("t3", "t2 lms/recompute/t/0");
        build
    };
    accepts(&cond(), &inside("^t2"));
    accepts(&cond(), &inside("^x"));
    refuses(&cond(), &inside("^f"), ViolationKind::Branch, "f");
    // By way of what a copy reads.
    let mut build = outside("");
    build.swap_in("x", 0, "x ^t").inputs("lms/recompute/big/0", "lms/swap_in/x/0_0");
    refuses(&cond(), &build, ViolationKind::Branch, "t");
    // What a merge reads.
    let mut build = cond();
    build.recompute("t3", 0, "t2 t ^x").inputs("m", "f lms/recompute/t3/0");
    accepts(&cond(), &build);
    refuses(&cond(), build.inputs("lms/recompute/t3/0", "t2 t ^f"), ViolationKind::Branch, "f");
}

/// A loop over `i` whose body is `b1` to `b3`; `k` is a constant of the body.
fn while_loop() -> Build {
    let mut build = Build::of(&[
        ("x", "Placeholder", ""),
        ("pre", "Relu", "x"),
        ("i_enter", "Enter", "pre"),
        ("i", "Merge", "i_enter i_next"),
        ("go_on", "LoopCond", "i"),
        ("i_switch", "Switch", "i go_on"),
        ("k", "Const", "^i_switch"),
        ("b1", "AddV2", "i_switch:1 k"),
        ("b2", "Relu", "b1"),
        ("b3", "AddV2", "b2 b1"),
        ("i_next", "NextIteration", "b3"),
        ("i_exit", "Exit", "i_switch"),
        ("out", "AddV2", "i_exit pre"),
        ("free", "Const", ""),
        ("out2", "AddV2", "out free"),
    ]);
    build.attr("i_enter", "frame_name", Value::S(b"w".to_vec()));
    build
}

#[test]
fn a_copy_is_in_the_frame_of_its_original() {
    let with = |node: &str, inputs: &str, reader: &str, reads: &str| {
        let mut build = while_loop();
        build.recompute(node, 0, inputs).inputs(reader, reads);
        build
    };
    let in_body =
        |trigger: &str| with("b1", &format!("i_switch:1 k {trigger}"), "b3", "b2 lms/recompute/b1/0");
    for trigger in ["", "^b2", "^i", "^go_on"] {
        accepts(&while_loop(), &in_body(trigger));
    }
    refuses(&while_loop(), &in_body("^x"), ViolationKind::Frame, "x");
    refuses(&while_loop(), &in_body("^i_exit"), ViolationKind::Frame, "i_exit");
    refuses(&while_loop(), &in_body("^i_enter"), ViolationKind::Branch, "i_enter");
    let chain = |inputs: &str| {
        let mut build = in_body("");
        build.recompute("k", 0, inputs).inputs("lms/recompute/b1/0", "i_switch:1 lms/recompute/k/0");
        build
    };
    accepts(&while_loop(), &chain("^i_switch ^b2"));
    refuses(&while_loop(), &chain("^i_switch ^pre"), ViolationKind::Frame, "pre");
    let behind = |trigger: &str| with("pre", &format!("x {trigger}"), "out", "i_exit lms/recompute/pre/0");
    accepts(&while_loop(), &behind("^i_exit"));
    refuses(&while_loop(), &behind("^b1"), ViolationKind::Frame, "b1");
    // A constant is where its control inputs are, and with none it is outside.
    let free = |inputs: &str| with("free", inputs, "out2", "out lms/recompute/free/0");
    accepts(&while_loop(), &free("^out"));
    refuses(&while_loop(), &free("^b1"), ViolationKind::Frame, "b1");
}

#[test]
fn a_trigger_of_the_next_iteration_is_refused() {
    let mut original = while_loop();
    original.node("j_next", "NextIteration", "b2");
    let mut build = original.clone();
    build.recompute("b1", 0, "i_switch:1 k ^j_next").inputs("b3", "b2 lms/recompute/b1/0");
    refuses(&original, &build, ViolationKind::Iteration, "j_next");
}

#[test]
fn long_chains_that_are_read_everywhere_take_no_longer_for_it() {
    // Each backward op reads the copy of its forward op: 30,000 copies of copies, all behind one trigger.
    let count = 30_000;
    let mut original = Build::of(&[("x", "Placeholder", ""), ("f0", "AddV2", "x x")]);
    for index in 1..count {
        original.node(&format!("f{index}"), "AddV2", &format!("f{0} f{0}", index - 1));
    }
    let last = count - 1;
    let mut from = format!("f{last}");
    for index in (0..count).rev() {
        original.node(&format!("g{index}"), "AddV2", &format!("{from} f{index}"));
        from = format!("g{index}");
    }
    let mut rewritten = original.clone();
    rewritten.recompute("f0", 0, &format!("x x ^f{last}"));
    for index in 1..last {
        let read = format!("lms/recompute/f{}/0", index - 1);
        // `get` looks at all nodes, so the copy is made here.
        let mut copy = rewritten.graph.node[1].clone();
        copy.name = format!("lms/recompute/f{index}/0");
        copy.input = vec![read.clone(), read];
        copy.attr.insert("_lms_recompute".into(), AttrValue { value: Some(Value::I(0)) });
        rewritten.graph.node.push(copy);
    }
    for node in rewritten.graph.node.iter_mut().filter(|node| node.name.starts_with('g')) {
        let index = &node.name[1..];
        if index != last.to_string() {
            node.input[1] = format!("lms/recompute/f{index}/0");
        }
    }
    let (before, after) = (original.model(), rewritten.model());
    let start = std::time::Instant::now();
    let verified = check(&before, &after, OpRegistry::builtin()).unwrap();
    assert_eq!(verified.recomputed_ops, last);
    assert!(start.elapsed().as_secs() < 20, "{:?}", start.elapsed());
}

#[test]
fn what_a_loops_edge_leads_back_to_is_looked_at_too() {
    // The loop's head and an op of its body read swaps with the same trigger, and each comes before the other.
    let mut original = Build::of(&[
        ("x", "Placeholder", ""),
        ("n", "Relu", "x"),
        ("n2", "Relu", "n"),
        ("z", "Placeholder", ""),
        ("z_in", "Enter", "z"),
        ("i_enter", "Enter", "x"),
        ("i", "Merge", "i_enter i_next"),
        ("go_on", "LoopCond", "i"),
        ("i_s", "Switch", "i go_on"),
        ("b", "AddV2", "i_s:1 i_enter"),
        ("i_next", "NextIteration", "b"),
    ]);
    for enter in ["z_in", "i_enter"] {
        original.attr(enter, "frame_name", Value::S(b"f".to_vec())).attr(
            enter,
            "is_constant",
            Value::B(true),
        );
    }
    let mut rewritten = original.clone();
    rewritten
        .recompute("n", 0, "x")
        .inputs("n2", "lms/recompute/n/0")
        .swap("lms/swap_out/i_enter/0", "i_enter ^z_in")
        .swap_in("i_enter", 0, "lms/swap_out/i_enter/0")
        .swap_in("i_enter", 1, "lms/swap_out/i_enter/0")
        .inputs("i", "lms/swap_in/i_enter/0_0 i_next")
        .inputs("b", "i_s:1 lms/swap_in/i_enter/0_1");
    refuses(&original, &rewritten, ViolationKind::NewWork, "z");
}
