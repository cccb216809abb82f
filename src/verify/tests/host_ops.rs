//! What may go to the host.

use super::{Build, HOST, ViolationKind, accepts, refuses};
use crate::dtype::DataType;
use crate::proto::tensorflow::attr_value::{ListValue, Value};

/// A variable with an initializer that must be where it is, and a constant; a step multiplies both.
fn forward() -> Build {
    let mut build = Build::of(&[
        ("zero", "Const", ""),
        ("random", "RandomStandardNormal", "zero"),
        ("v", "VarHandleOp", ""),
        ("begin", "AssignVariableOp", "v random"),
        ("x", "Placeholder", ""),
        ("a", "Relu", "x"),
        ("read", "ReadVariableOp", "v"),
        ("y", "Mul", "a read"),
        ("c", "Const", ""),
        ("z", "Mul", "y c"),
    ]);
    build.attr("random", "_class", colocated("v")).attr("v", "_class", colocated("v"));
    build
}

fn colocated(name: &str) -> Value {
    Value::List(ListValue { s: vec![format!("loc:@{name}").into_bytes()], ..ListValue::default() })
}

fn text(text: &str) -> Value {
    Value::S(text.into())
}

/// [`forward`] with the variable and the constant on the host, and both brought back late.
fn moved() -> Build {
    let mut build = forward();
    for name in ["v", "begin", "read", "c"] {
        build.device(name, HOST).attr(name, "_lms_device", text(""));
    }
    leave(&mut build, "random");
    build.swap_in("read", 0, "read ^a").inputs("y", "a lms/swap_in/read/0_0");
    build.swap_in("c", 0, "c ^a").inputs("z", "y lms/swap_in/c/0_0");
    build
}

/// Lets a node stay whose company goes.
fn leave(build: &mut Build, name: &str) {
    let attrs = &mut build.get(name).attr;
    if let Some(class) = attrs.remove("_class") {
        attrs.insert("_lms_class".to_string(), class);
    }
}

#[test]
fn weights_may_go_to_the_host() {
    let verified = accepts(&forward(), &moved());
    assert_eq!((verified.host_ops, verified.swap_ins, verified.swapped_tensors), (4, 2, 2));
}

#[test]
fn what_went_names_where_it_was() {
    let refuses_with = |kind, change: fn(&mut Build)| {
        let mut build = moved();
        change(&mut build);
        refuses(&forward(), &build, kind, "c");
    };
    // Without the mark it is another node; with a wrong one, nobody could tell where it was.
    refuses_with(ViolationKind::ChangedNode, |build| _ = build.get("c").attr.remove("_lms_device"));
    refuses_with(ViolationKind::ChangedNode, |build| _ = build.attr("c", "_lms_device", text("/gpu:1")));
    refuses_with(ViolationKind::ChangedNode, |build| _ = build.attr("c", "shape", text("other")));
    refuses_with(ViolationKind::HostOp, |build| _ = build.device("c", "/device:GPU:1"));
    refuses_with(ViolationKind::HostOp, |build| _ = build.device("c", &HOST.replace("task:0", "task:1")));
}

#[test]
fn what_computes_stays() {
    for name in ["random", "y", "a"] {
        let mut build = moved();
        build.device(name, HOST).attr(name, "_lms_device", text(""));
        if name == "random" {
            let class = build.get(name).attr.remove("_lms_class").unwrap();
            build.get(name).attr.insert("_class".to_string(), class);
        }
        refuses(&forward(), &build, ViolationKind::HostOp, name);
    }
}

#[test]
fn what_works_on_a_variable_goes_along() {
    for name in ["begin", "read"] {
        let mut build = moved();
        build.device(name, "").get(name).attr.remove("_lms_device");
        refuses(&forward(), &build, ViolationKind::HostOp, name);
    }
}

#[test]
fn who_must_be_with_it_is_freed_and_stays_where_it_was() {
    // Colocated with what is elsewhere now.
    let mut bound = moved();
    bound.attr("random", "_class", colocated("v")).get("random").attr.remove("_lms_class");
    refuses(&forward(), &bound, ViolationKind::HostOp, "random");
    // Freed of what did not go.
    let mut freed = forward();
    leave(&mut freed, "random");
    refuses(&forward(), &freed, ViolationKind::HostOp, "random");
    // The class is another one.
    let mut other = moved();
    other.attr("random", "_lms_class", colocated("c"));
    refuses(&forward(), &other, ViolationKind::ChangedNode, "random");
    // Its own device is not the variable's: with the class gone, it would be there.
    let mut elsewhere = forward();
    elsewhere.device("random", "/device:GPU:1");
    let mut rewritten = moved();
    rewritten.device("random", "/device:GPU:1");
    refuses(&elsewhere, &rewritten, ViolationKind::HostOp, "random");
}

/// The ops on lists of [`list`].
const KEPT: [&str; 6] = ["l", "p", "q", "s", "f", "g"];

/// A list that is begun where something else is, an element that is put into it, and taken off; and one of the parts of what the elements of
/// the first are when they are joined.
fn list() -> Build {
    let mut build = Build::of(&[
        ("x", "Placeholder", ""),
        ("shape", "Const", ""),
        ("most", "Const", ""),
        ("a", "Relu", "x"),
        ("l", "EmptyTensorList", "shape most"),
        ("p", "TensorListPushBack", "l a"),
        ("q", "TensorListPopBack", "p shape"),
        ("y", "Relu", "q:1"),
        ("s", "TensorListStack", "p shape"),
        ("z", "Relu", "s"),
        ("f", "TensorListFromTensor", "z shape"),
        ("g", "TensorListGetItem", "f most shape"),
        ("w", "Relu", "g"),
    ]);
    for name in KEPT {
        build.attr(name, "element_dtype", Value::Type(DataType::FLOAT.number()));
    }
    build.attr("l", "_class", colocated("a"));
    build
}

/// [`list`] with the lists on the host.
fn list_on_host() -> Build {
    let mut build = list();
    for name in KEPT {
        build.device(name, HOST).attr(name, "_lms_device", text(""));
    }
    leave(&mut build, "l");
    build
}

#[test]
fn a_list_goes_with_all_that_works_on_it() {
    assert_eq!(accepts(&list(), &list_on_host()).host_ops, 6);
    for name in KEPT {
        let mut build = list_on_host();
        build.device(name, "").get(name).attr.remove("_lms_device");
        refuses(&list(), &build, ViolationKind::HostOp, name);
    }
}

#[test]
fn what_adds_up_lists_stays() {
    let mut before = Build::of(&[
        ("shape", "Const", ""),
        ("most", "Const", ""),
        ("l", "EmptyTensorList", "shape most"),
        ("z", "AddN", "l"),
    ]);
    before.attr("z", "T", Value::Type(DataType::VARIANT.number()));
    let mut after = before.clone();
    for name in ["l", "z"] {
        after.device(name, HOST).attr(name, "_lms_device", text(""));
    }
    refuses(&before, &after, ViolationKind::HostOp, "z");
}

#[test]
fn what_goes_is_parted_from_what_stays() {
    let mut build = list_on_host();
    build.attr("l", "_class", colocated("a")).get("l").attr.remove("_lms_class");
    refuses(&list(), &build, ViolationKind::HostOp, "l");
    let mut build = list_on_host();
    build.attr("l", "_lms_class", colocated("y"));
    refuses(&list(), &build, ViolationKind::ChangedNode, "l");
}
