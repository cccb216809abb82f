//! A copy is its original again: its inputs, name, attributes and readers.

use super::*;

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
