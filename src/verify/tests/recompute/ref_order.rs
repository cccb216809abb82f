//! Who reads a variable beside a copy still reads it before its update.

use super::*;

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
    for build in [&mut original, &mut rewritten] {
        build.node("both", "NoOp", "^update ^d").train_op("both");
    }
    refuses(&original, &rewritten, ViolationKind::RefOrder, "d");
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
