//! In a function an op may come after updates that it did not come after, if the graph itself orders all that touches the variable.

use super::*;
use crate::verify::{CheckOptions, check_with};

/// A variable that is read, updated, and read again. `e` reads `a` late, and is behind no update.
fn original() -> Build {
    let mut build = Build::of(&[
        ("x", "Placeholder", ""),
        ("v", "VarHandleOp", ""),
        ("read", "ReadVariableOp", "v"),
        ("a", "AddV2", "x read"),
        ("b", "Relu", "a"),
        ("c", "Relu", "b"),
        ("update", "AssignSubVariableOp", "v c ^read"),
        ("later", "ReadVariableOp", "v ^update"),
        ("d", "Relu", "later"),
        ("e", "AddV2", "c a"),
        ("random", "RandomUniform", "x"),
        ("noise", "Relu", "random"),
        ("train", "NoOp", "^update ^d ^e ^noise"),
    ]);
    build.train_op("train");
    build
}

/// The same where `a` comes back for `e` after these.
fn back_after(triggers: &str, change: impl Fn(&mut Build)) -> Build {
    let mut build = original();
    change(&mut build);
    build.swap_in("a", 0, &format!("a {triggers}")).inputs("e", "c lms/swap_in/a/0_0");
    build
}

fn check_function(change: impl Fn(&mut Build), triggers: &str) -> Result<Verified, VerifyError> {
    let mut before = original();
    change(&mut before);
    let after = back_after(triggers, change);
    let options = CheckOptions { is_function: true, ..CheckOptions::default() };
    check_with(&before.model(), &after.model(), OpRegistry::builtin(), &options)
}

#[track_caller]
fn refuses_in_function(change: impl Fn(&mut Build)) {
    let error = check_function(change, "^d").expect_err("should be refused");
    assert_eq!(error.violations[0].kind, ViolationKind::NewEffect, "{error}");
    assert!(error.violations[0].nodes.contains(&"update".to_string()), "{error}");
}

#[test]
fn what_is_in_order_anyway_may_come_first() {
    for triggers in ["^d", "^update", "^noise", "^d ^noise"] {
        check_function(|_| {}, triggers).unwrap_or_else(|error| panic!("refused: {error}"));
        let after = back_after(triggers, |_| {});
        refuses(&original(), &after, ViolationKind::NewEffect, "e");
    }
}

#[test]
fn another_read_that_no_edge_orders_may_not() {
    let with_read = |handle: &str| {
        let inputs = handle.to_string();
        move |build: &mut Build| {
            build.node("other", "ReadVariableOp", &inputs).inputs("train", "^update ^d ^e ^noise ^other");
        }
    };
    refuses_in_function(with_read("v"));
    for ordered in ["v ^update", "v ^later"] {
        assert!(check_function(with_read(ordered), "^d").is_ok(), "{ordered}");
    }
    // What no step runs reads nothing in it.
    assert!(
        check_function(
            |build| {
                build.node("other", "ReadVariableOp", "v");
            },
            "^d"
        )
        .is_ok()
    );
}

#[test]
fn two_handles_of_one_name_are_of_one_variable() {
    let with_name = |name: &'static str| {
        move |build: &mut Build| {
            let name_of = |name: &str| Value::S(name.as_bytes().to_vec());
            build.node("w", "VarHandleOp", "").node("other", "ReadVariableOp", "w");
            build.inputs("train", "^update ^d ^e ^noise ^other");
            build.attr("v", "shared_name", name_of("one")).attr("w", "shared_name", name_of(name));
        }
    };
    refuses_in_function(with_name("one"));
    assert!(check_function(with_name("another"), "^d").is_ok());
}

#[test]
fn what_may_touch_any_variable_may_not() {
    refuses_in_function(|build| {
        build.node("any", "FrobnicateV9", "x").inputs("train", "^update ^d ^e ^noise ^any");
    });
    // A handle of nobody knows which variable.
    refuses_in_function(|build| {
        build.node("handle", "Merge", "v v").attr("handle", "T", Value::Type(DataType::RESOURCE.number()));
        build
            .node("other", "ReadVariableOp", "handle ^update")
            .inputs("train", "^update ^d ^e ^noise ^other");
    });
}

#[test]
fn a_path_through_a_merge_is_not_always_gone() {
    let through = |one: &str, other: &str| {
        let (one, other) = (one.to_string(), other.to_string());
        move |build: &mut Build| {
            build.node("p", "Placeholder", "").attr("p", "dtype", Value::Type(DataType::BOOL.number()));
            build.node("choice", "Switch", "x p");
            build.node("one", "Identity", &format!("choice {one}"));
            build.node("other", "Identity", &format!("choice:1 {other}"));
            build.node("either", "Merge", "one other").inputs("later", "v ^either");
        }
    };
    assert!(check_function(through("^update", "^update"), "^d").is_ok());
    refuses_in_function(through("^update", ""));
    refuses_in_function(through("", "^update"));
}

#[test]
fn what_is_touched_in_a_branch_may_not() {
    refuses_in_function(|build| {
        build.node("p", "Placeholder", "").attr("p", "dtype", Value::Type(DataType::BOOL.number()));
        build.node("choice", "Switch", "x p").node("chosen", "Identity", "choice");
        build.node("other", "ReadVariableOp", "v ^chosen ^update").node("seen", "Relu", "other");
        build.inputs("train", "^update ^d ^e ^noise").node("end", "Merge", "seen choice:1");
        build.inputs("train", "^update ^d ^e ^noise ^end");
    });
}

/// Two variables, each read far from its update, so that both pairs are followed together.
fn with_two(build: &mut Build, inputs_of_second: &str) {
    build
        .node("first_read", "ReadVariableOp", "v")
        .node("first_way", "Relu", "first_read")
        .inputs("update", "v c ^read ^first_way")
        .node("w", "VarHandleOp", "")
        .node("second_read", "ReadVariableOp", "w")
        .node("second_way", "Relu", "second_read")
        .node("second_update", "AssignSubVariableOp", inputs_of_second)
        .node("second_later", "ReadVariableOp", "w ^second_update")
        .inputs("train", "^update ^d ^e ^noise ^second_later ^second_way");
}

#[test]
fn each_variable_is_shown_for_itself() {
    for triggers in ["^d", "^second_later", "^d ^second_later"] {
        let checked = check_function(|build| with_two(build, "w b ^second_way"), triggers);
        checked.unwrap_or_else(|error| panic!("refused: {error}"));
    }
}

/// An order that an added edge makes is none of the original graph, though the update comes behind another variable's read there.
#[test]
fn an_order_that_was_added_shows_nothing() {
    let second = "w b ^first_way";
    let mut before = original();
    with_two(&mut before, second);
    let mut after = back_after("^second_later", |build| with_two(build, second));
    after
        .node("lms/order/0", "NoOp", "^second_way")
        .inputs("second_update", &format!("{second} ^lms/order/0"));
    let options = CheckOptions { is_function: true, ..CheckOptions::default() };
    let error = check_with(&before.model(), &after.model(), OpRegistry::builtin(), &options)
        .expect_err("should be refused");
    assert!(error.violations[0].nodes.contains(&"second_update".to_string()), "{error}");
}
