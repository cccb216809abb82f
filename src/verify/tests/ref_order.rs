//! Delayed readers of ref variables stay on their side of each update.

use super::*;

/// `c` reads the variable `v` and the tensor `a`, which is swapped; `update` writes to `v` and has these inputs.
fn reader(update: &str) -> (Build, Build) {
    let original = Build::of(&[
        ("v", "VariableV2", ""),
        ("init", "Placeholder", ""),
        ("v/assign", "Assign", "v init"),
        ("v/read", "Identity", "v"),
        ("x", "Placeholder", ""),
        ("a", "Relu", "x"),
        ("b", "Relu", "a"),
        ("flat", "Reshape", "v/read x"),
        ("c", "MatMul", "a flat"),
        ("early", "MatMul", "b v/read"),
        ("update", "AssignSub", update),
    ]);
    let mut rewritten = original.clone();
    rewritten.swap_in("a", 0, "a ^b").inputs("c", "lms/swap_in/a/0_0 flat");
    (original, rewritten)
}

#[test]
fn an_update_that_waits_for_the_reader_is_ordered() {
    for update in ["v c", "v b ^c"] {
        let (original, rewritten) = reader(update);
        accepts(&original, &rewritten);
    }
}

#[test]
fn a_reader_that_waits_for_the_update_is_ordered() {
    let (mut original, mut rewritten) = reader("v b");
    for build in [&mut original, &mut rewritten] {
        build.get("c").input.push("^update".to_string());
    }
    accepts(&original, &rewritten);
}

#[test]
fn an_update_that_may_come_first_is_refused() {
    let (mut original, mut rewritten) = reader("v b");
    let error = refuses(&original, &rewritten, ViolationKind::RefOrder, "c");
    assert!(error.to_string().contains("c, update"), "{error}");
    // Also where the train op says that both are of the step.
    for build in [&mut original, &mut rewritten] {
        build.node("both", "NoOp", "^update ^c").train_op("both");
    }
    refuses(&original, &rewritten, ViolationKind::RefOrder, "update");
    // What no step runs reads nothing in one, and what none runs writes nothing.
    for train_op in ["update", "c", "early"] {
        accepts(original.train_op(train_op), rewritten.train_op(train_op));
    }
}

#[test]
fn two_train_ops_are_not_run_together() {
    let (mut original, mut rewritten) = reader("v b");
    for build in [&mut original, &mut rewritten] {
        build.train_op("update").another_train_op("c");
    }
    accepts(&original, &rewritten);
    // The caller runs them together.
    let options =
        crate::verify::CheckOptions { train_ops: vec!["update".into(), "c".into()], ..Default::default() };
    let check = crate::verify::check_with;
    assert!(check(&original.model(), &rewritten.model(), OpRegistry::builtin(), &options).is_err());
}

/// A slice of all of it is the buffer itself, one of a part is not. A sum of one summand is the summand.
#[test]
fn who_may_hand_on_the_buffer_looks_into_it_too() {
    for op in ["Slice", "SplitV", "AddN"] {
        let graphs = |update: &str| {
            let (mut original, mut rewritten) = reader(update);
            for build in [&mut original, &mut rewritten] {
                build.get("c").op = op.to_string();
                build.get("c").input.reverse();
            }
            (original, rewritten)
        };
        let (original, rewritten) = graphs("v c");
        accepts(&original, &rewritten);
        let (original, rewritten) = graphs("v b");
        refuses(&original, &rewritten, ViolationKind::RefOrder, "c");
    }
}

#[test]
fn an_initializer_is_no_update_of_the_step() {
    let (original, rewritten) = reader("v c");
    assert!(original.graph.node.iter().any(|node| node.name == "v/assign"));
    accepts(&original, &rewritten);
}

#[test]
fn readers_that_nothing_delays_are_left_alone() {
    let (original, _) = reader("v b");
    let mut rewritten = original.clone();
    rewritten.swap_in("x", 0, "x").inputs("flat", "v/read x").inputs("c", "a flat");
    accepts(&original, &rewritten);
}

#[test]
fn an_order_op_delays_as_a_swap_does() {
    let (original, _) = reader("v b");
    let mut rewritten = original.clone();
    rewritten.node("lms/order/0", "NoOp", "^b").inputs("c", "a flat ^lms/order/0");
    // Nothing was swapped and there is no train op, so no update is known to be of the step.
    accepts(&original, &rewritten);
    rewritten.swap_in("x", 0, "x").inputs("a", "lms/swap_in/x/0_0");
    refuses(&original, &rewritten, ViolationKind::RefOrder, "c");
}

#[test]
fn a_copy_of_the_buffer_is_from_the_side_of_its_reader() {
    // `early` reads what `update` left, by way of a read from before it that hands on the buffer.
    let (mut original, _) = reader("v b");
    original.inputs("c", "a b").inputs("flat", "v/read x ^update").inputs("early", "b flat");
    let mut rewritten = original.clone();
    rewritten.swap_in("v/read", 0, "v/read ^b").inputs("flat", "lms/swap_in/v/read/0_0 x ^update");
    refuses(original.train_op("early"), rewritten.train_op("early"), ViolationKind::RefOrder, "early");
    rewritten.inputs("lms/swap_in/v/read/0_0", "v/read ^update");
    accepts(&original, &rewritten);
    // A reader on the other side is as good.
    original.inputs("flat", "v/read x").inputs("update", "v early").train_op("update");
    rewritten.inputs("lms/swap_in/v/read/0_0", "v/read ^b").inputs("flat", "lms/swap_in/v/read/0_0 x");
    rewritten.inputs("update", "v early").train_op("update");
    accepts(&original, &rewritten);
}

#[test]
fn an_update_by_an_op_that_is_not_known_counts() {
    let (mut original, mut rewritten) = reader("v b");
    for build in [&mut original, &mut rewritten] {
        build.get("update").op = "FrobnicateV9".into();
    }
    refuses(&original, &rewritten, ViolationKind::RefOrder, "c");
}

#[test]
fn what_gives_a_reference_on_gives_the_variable() {
    let (mut original, mut rewritten) = reader("v/ref b");
    for build in [&mut original, &mut rewritten] {
        let assign = build.graph.node.iter().position(|node| node.name == "v/assign").unwrap();
        build.graph.node[assign].name = "v/ref".into();
    }
    refuses(&original, &rewritten, ViolationKind::RefOrder, "c");
}

/// A loop whose body reads `v` by `r`; `update` comes after it. `feeds` says what the next `acc` is made from.
fn in_a_loop(feeds: &str) -> (Build, Build) {
    let mut original = Build::of(&[
        ("v", "VariableV2", ""),
        ("v/read", "Identity", "v"),
        ("x", "Placeholder", ""),
        ("w", "Enter", "v/read"),
        ("acc_enter", "Enter", "x"),
        ("i_enter", "Enter", "x"),
        ("acc", "Merge", "acc_enter acc_next"),
        ("i", "Merge", "i_enter i_next"),
        ("go_on", "LoopCond", "i"),
        ("acc_s", "Switch", "acc go_on"),
        ("i_s", "Switch", "i go_on"),
        ("a", "Relu", "i_s:1"),
        ("b", "Relu", "a"),
        ("r", "MatMul", "a w"),
        ("next", "AddV2", feeds),
        ("acc_next", "NextIteration", "next"),
        ("i_next", "NextIteration", "b"),
        ("acc_exit", "Exit", "acc_s"),
        ("update", "AssignSub", "v acc_exit"),
    ]);
    for enter in ["w", "acc_enter", "i_enter"] {
        original.attr(enter, "frame_name", Value::S(b"f".to_vec()));
    }
    original.attr("w", "is_constant", Value::B(true)).train_op("update");
    let mut rewritten = original.clone();
    rewritten.swap_in("a", 0, "a ^b").inputs("r", "lms/swap_in/a/0_0 w");
    (original, rewritten)
}

#[test]
fn what_a_loop_carries_to_its_end_is_before_what_follows() {
    let (original, rewritten) = in_a_loop("acc_s:1 r");
    accepts(&original, &rewritten);
    // The last value does not depend on all that came before.
    let (original, rewritten) = in_a_loop("b r");
    refuses(&original, &rewritten, ViolationKind::RefOrder, "r");
    // The reader's value goes nowhere, so it does not run with the update; unless nobody knows what a step is run for.
    let (mut original, mut rewritten) = in_a_loop("acc_s:1 b");
    accepts(&original, &rewritten);
    original.train_ops.clear();
    rewritten.train_ops.clear();
    refuses(&original, &rewritten, ViolationKind::RefOrder, "r");
}

#[test]
fn an_update_in_the_loop_may_come_first_in_its_iteration() {
    // The update waits for the reader of the iteration before, and not for that of its own.
    let (mut original, mut rewritten) = in_a_loop("acc_s:1 r");
    for build in [&mut original, &mut rewritten] {
        build
            .node("v_in", "RefEnter", "v")
            .attr("v_in", "frame_name", Value::S(b"f".to_vec()))
            .attr("v_in", "is_constant", Value::B(true))
            .inputs("update", "v_in acc_s:1")
            .inputs("i_next", "b ^update")
            .node("end", "NoOp", "^acc_exit")
            .train_op("end");
    }
    refuses(&original, &rewritten, ViolationKind::RefOrder, "r");
}

#[test]
fn a_buffer_may_be_one_of_several() {
    for variable in ["v", "other"] {
        let (mut original, mut rewritten) = reader("v c");
        for build in [&mut original, &mut rewritten] {
            build
                .node("other", "VariableV2", "")
                .node("either", "Merge", "v/read other")
                .inputs("flat", "either x")
                .inputs("update", "other other")
                .inputs("early", "b x")
                .node("late", "AssignSub", &format!("{variable} b"));
        }
        original.get("update").op = "AddV2".into();
        rewritten.get("update").op = "AddV2".into();
        refuses(&original, &rewritten, ViolationKind::RefOrder, "late");
    }
}

#[test]
fn who_asks_for_the_shape_does_not_read() {
    let (mut original, mut rewritten) = reader("v c");
    for build in [&mut original, &mut rewritten] {
        build.node("shape", "Shape", "v/read ^c");
    }
    accepts(&original, &rewritten);
    for build in [&mut original, &mut rewritten] {
        build.get("shape").op = "Relu".into();
    }
    refuses(&original, &rewritten, ViolationKind::RefOrder, "shape");
}

#[test]
fn many_updates_take_several_passes() {
    let mut original = Build::of(&[("x", "Placeholder", ""), ("a", "Relu", "x"), ("b", "Relu", "a")]);
    for index in 0..150 {
        original
            .node(&format!("v{index}"), "VariableV2", "")
            .node(&format!("r{index}"), "MatMul", &format!("a v{index}"))
            .node(&format!("u{index}"), "AssignSub", &format!("v{index} r{index}"));
    }
    let mut rewritten = original.clone();
    rewritten.swap_in("a", 0, "a ^b");
    for index in 0..150 {
        rewritten.inputs(&format!("r{index}"), &format!("lms/swap_in/a/0_0 v{index}"));
    }
    accepts(&original, &rewritten);
    for build in [&mut original, &mut rewritten] {
        build.inputs("u131", "v131 b");
    }
    let error = refuses(&original, &rewritten, ViolationKind::RefOrder, "r131");
    assert_eq!(error.violations.len(), 1);
}
