//! A copy brings no work that the step did not have.

use super::*;

#[test]
fn a_copy_brings_its_triggers() {
    let mut original = original();
    original
        .node("y", "ReadVariableOp", "")
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
        ("x", "ReadVariableOp", ""),
        ("y", "ReadVariableOp", ""),
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
        ("x", "ReadVariableOp", ""),
        ("y", "ReadVariableOp", ""),
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
fn long_chains_that_are_read_everywhere_take_no_longer_for_it() {
    // Each backward op reads the copy of its forward op: 30,000 copies of copies, all behind one trigger.
    let count = 30_000;
    let mut original = Build::of(&[("x", "ReadVariableOp", ""), ("f0", "AddV2", "x x")]);
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
        ("x", "ReadVariableOp", ""),
        ("n", "Relu", "x"),
        ("n2", "Relu", "n"),
        ("z", "ReadVariableOp", ""),
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
