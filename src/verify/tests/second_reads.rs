//! Second runs of ops that read a ref variable's buffer stay on their originals' side of each update.

use super::*;

const COPY: &str = "lms/recompute/norm/0";

/// `norm` reads the variable `v`, and `use` reads a copy of `norm`, which waits for `far`; `update` writes to `v` and has these
/// inputs.
fn second_read(update: &str) -> (Build, Build) {
    let original = Build::of(&[
        ("v", "VariableV2", ""),
        ("v/read", "Identity", "v"),
        ("x", "Placeholder", ""),
        ("norm", "Mul", "x v/read"),
        ("near", "Relu", "norm"),
        ("far", "Relu", "near"),
        ("use", "MatMul", "norm far"),
        ("update", "AssignSub", update),
    ]);
    let mut rewritten = original.clone();
    rewritten.recompute("norm", 0, "x v/read ^far").inputs("use", &format!("{COPY} far"));
    (original, rewritten)
}

#[test]
fn one_before_the_update_is_accepted() {
    for update in ["v use", "v far ^use"] {
        let (original, rewritten) = second_read(update);
        accepts(&original, &rewritten);
    }
    let (original, mut rewritten) = second_read("v far");
    rewritten.inputs("update", "v far ^use");
    accepts(&original, &rewritten);
}

#[test]
fn one_that_the_update_may_overtake_is_refused() {
    let (original, rewritten) = second_read("v far");
    let error = refuses(&original, &rewritten, ViolationKind::RefOrder, COPY);
    assert!(error.to_string().contains("update"), "{error}");
}

#[test]
fn one_behind_the_update_reads_another_value_than_its_original() {
    let (original, mut rewritten) = second_read("v far");
    rewritten.inputs(COPY, "x v/read ^far ^update");
    refuses(&original, &rewritten, ViolationKind::RefOrder, COPY);
    // Where both are behind it, both read the same.
    let (mut original, mut rewritten) = second_read("v x");
    for build in [&mut original, &mut rewritten] {
        build.inputs("norm", "x v/read ^update");
    }
    accepts(&original, rewritten.inputs(COPY, "x v/read ^far ^update"));
}

#[test]
fn an_original_that_races_with_the_update_is_not_run_again() {
    let (mut original, mut rewritten) = second_read("v x");
    rewritten.inputs(COPY, "x v/read ^far ^update");
    // Nobody said that the update is of the step: then it is new for it.
    refuses(&original, &rewritten, ViolationKind::NewEffect, "update");
    for build in [&mut original, &mut rewritten] {
        build.node("step", "NoOp", "^use ^update").train_op("step");
    }
    refuses(&original, &rewritten, ViolationKind::RefOrder, COPY);
}
