//! An added edge brings no new work with effects or needs.

use super::*;

/// [`chain`] beside a random number, a placeholder, a constant.
fn original() -> Build {
    let mut build = chain();
    build
        .node("shape", "Const", "")
        .node("random", "RandomUniform", "shape")
        .node("noise", "Relu", "random")
        .node("y", "Placeholder", "")
        .node("fed", "Relu", "y")
        .node("fixed", "Relu", "shape")
        .node("group", "NoOp", "^d ^noise ^fed");
    build
}

fn triggered_by(trigger: &str) -> Build {
    let mut build = original();
    build.swap_in("a", 0, &format!("a {trigger}")).inputs("c", "b lms/swap_in/a/0_0");
    build
}

#[test]
fn a_trigger_brings_what_it_needs() {
    for trigger in ["^b", "^x", "^fixed", "^shape"] {
        accepts(&original(), &triggered_by(trigger));
    }
    refuses(&original(), &triggered_by("^noise"), ViolationKind::NewWork, "random");
    refuses(&original(), &triggered_by("^random"), ViolationKind::NewWork, "random");
    refuses(&original(), &triggered_by("^b ^fed"), ViolationKind::NewWork, "y");
}

#[test]
fn an_order_op_brings_what_it_waits_for() {
    let mut build = original();
    build.node("lms/order/0", "NoOp", "^lms/swap_out/noise/0").swap_out("noise");
    accepts(&original(), &build);
    build.inputs("d", "c ^a ^lms/order/0");
    refuses(&original(), &build, ViolationKind::NewWork, "d");
}

#[test]
fn an_unknown_op_may_do_anything() {
    let (mut before, mut after) = (original(), triggered_by("^noise"));
    for build in [&mut before, &mut after] {
        build.get("random").op = "FrobnicateV9".into();
    }
    refuses(&before, &after, ViolationKind::NewWork, "random");
}

#[test]
fn within_the_training_step_all_is_run_anyway() {
    let with = |mut build: Build, train_op: &str| build.train_op(train_op).clone();
    accepts(&with(original(), "group"), &with(triggered_by("^noise ^fed"), "group"));
    let mut by_order = original();
    by_order.node("lms/order/0", "NoOp", "^noise").inputs("d", "c ^a ^lms/order/0");
    accepts(&with(original(), "group"), &with(by_order, "group"));
    // `d` needs neither.
    refuses(&with(original(), "d"), &with(triggered_by("^noise"), "d"), ViolationKind::NewWork, "random");
    // A train op may also be named by the caller.
    let options = crate::verify::CheckOptions { train_ops: vec!["group".to_string()] };
    let check = crate::verify::check_with;
    let (before, after) = (original().model(), triggered_by("^noise").model());
    assert!(check(&before, &after, OpRegistry::builtin(), &options).is_ok());
}

#[test]
fn what_a_loop_needs_is_needed_by_all_of_it() {
    // `b` needs `y` in the second iteration, by way of the loop's own edge.
    let mut original = Build::of(&[
        ("x", "Placeholder", ""),
        ("y", "Placeholder", ""),
        ("y_in", "Enter", "y"),
        ("i_enter", "Enter", "x"),
        ("i", "Merge", "i_enter i_next"),
        ("go_on", "LoopCond", "i"),
        ("i_s", "Switch", "i go_on"),
        ("a", "Relu", "i_s:1"),
        ("b", "Relu", "a"),
        ("c", "AddV2", "b a"),
        ("sum", "AddV2", "c y_in"),
        ("i_next", "NextIteration", "sum"),
        ("z", "Placeholder", ""),
        ("z_in", "Enter", "z"),
    ]);
    for enter in ["y_in", "i_enter", "z_in"] {
        original.attr(enter, "frame_name", Value::S(b"f".to_vec()));
        original.attr(enter, "is_constant", Value::B(enter != "i_enter"));
    }
    let triggered_by = |trigger: &str| {
        let mut build = original.clone();
        build.swap_in("a", 0, &format!("a {trigger}")).inputs("c", "b lms/swap_in/a/0_0");
        build
    };
    accepts(&original, &triggered_by("^y_in"));
    refuses(&original, &triggered_by("^z_in"), ViolationKind::NewWork, "z");
}

#[test]
fn many_targets_take_several_passes() {
    let mut original = Build::of(&[("x", "Placeholder", ""), ("y", "Placeholder", ""), ("n0", "Relu", "x")]);
    for index in 1..400 {
        // The later ones need `y`, the earlier ones do not.
        match index {
            300.. => original.node(&format!("n{index}"), "AddV2", &format!("n{} y", index - 1)),
            _ => original.node(&format!("n{index}"), "Relu", &format!("n{}", index - 1)),
        };
    }
    let mut rewritten = original.clone();
    for index in (10..400).step_by(2) {
        rewritten
            .node(&format!("lms/order/{index}"), "NoOp", &format!("^n{}", index - 3))
            .get(&format!("n{index}"))
            .input
            .push(format!("^lms/order/{index}"));
    }
    accepts(&original, &rewritten);
    for index in (10..300).step_by(2) {
        let mut wrong = rewritten.clone();
        wrong.inputs(&format!("lms/order/{index}"), &format!("^n{} ^y", index - 3));
        let error = refuses(&original, &wrong, ViolationKind::NewWork, "y");
        assert_eq!(error.violations.len() + error.further, 1, "{error}");
    }
}
