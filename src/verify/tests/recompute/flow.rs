//! A copy is in its original's frame, and alive whenever its reader is.

use super::*;

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
pub(super) fn while_loop() -> Build {
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
    refuses(&while_loop(), &in_body("^i_exit"), ViolationKind::Cycle, "");
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
