//! Recomputed ops are their originals again, and only what gives the same each time is run again.

mod flow;
mod form;
mod new_work;
mod ref_order;
mod repeatable;

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
