//! Added ops have the form that does nothing but copy or order, and copy only what may be copied.

use super::*;
use crate::proto::tensorflow::attr_value::ListValue;
use crate::proto::tensorflow::{TensorShapeProto, tensor_shape_proto::Dim};

const SWAP: &str = "lms/swap_in/a/0_0";

/// [`swapped`] with a change.
fn with(change: impl FnOnce(&mut Build)) -> Build {
    let mut build = swapped();
    change(&mut build);
    build
}

#[track_caller]
fn refuses_with(kind: ViolationKind, change: impl FnOnce(&mut Build)) {
    refuses(&chain(), &with(change), kind, "");
}

#[test]
fn a_swap_in_may_read_the_swap_out() {
    let mut build = chain();
    build.swap_out("a").swap_in("a", 0, "lms/swap_out/a/0 ^b").inputs("c", "b lms/swap_in/a/0_0");
    assert_eq!(accepts(&chain(), &build).swapped_tensors, 1);
    build.swap_in("a", 1, SWAP);
    refuses(&chain(), &build, ViolationKind::AddedInputs, "lms/swap_in/a/0_1");
}

#[test]
fn what_lms_ops_there_are_is_known() {
    refuses_with(ViolationKind::UnknownAddedOp, |build| {
        build.node("lms/repeat/a", "Relu", "x");
    });
}

#[test]
fn a_swap_has_its_op_and_its_attributes() {
    let text = |value: &str| Value::S(value.as_bytes().to_vec());
    accepts(&chain(), &with(|build| _ = build.attr(SWAP, "message", text("not through a swap"))));
    refuses_with(ViolationKind::AddedOp, |build| build.get(SWAP).op = "Identity".into());
    refuses_with(ViolationKind::AddedOp, |build| {
        build.attr(SWAP, "T", Value::Type(DataType::HALF.number()));
    });
    refuses_with(ViolationKind::AddedOp, |build| _ = build.get(SWAP).attr.remove("T"));
    refuses_with(ViolationKind::AddedOp, |build| _ = build.attr(SWAP, "message", Value::B(true)));
    refuses_with(ViolationKind::AddedOp, |build| _ = build.attr(SWAP, "_class", text("loc:@x")));
    refuses_with(ViolationKind::AddedOp, |build| {
        build.get(SWAP).experimental_type = Some(Default::default());
    });
}

#[test]
fn output_shapes_are_the_tensors() {
    let shapes = |size: i64| {
        let shape = TensorShapeProto { dim: vec![Dim { size, ..Dim::default() }], unknown_rank: false };
        Value::List(ListValue { shape: vec![shape], ..ListValue::default() })
    };
    let mut original = chain();
    original.attr("a", "_output_shapes", shapes(7));
    let mut rewritten = swapped();
    rewritten.attr("a", "_output_shapes", shapes(7));
    accepts(&original, &rewritten);
    accepts(&original, rewritten.attr(SWAP, "_output_shapes", shapes(7)));
    refuses(&original, rewritten.attr(SWAP, "_output_shapes", shapes(8)), ViolationKind::AddedOp, SWAP);
}

#[test]
fn a_swap_has_one_data_input() {
    refuses_with(ViolationKind::AddedInputs, |build| _ = build.inputs(SWAP, "a b ^b"));
    let mut build = chain();
    build.swap_in("a", 0, "^b");
    refuses(&chain(), &build, ViolationKind::AddedInputs, SWAP);
}

#[test]
fn triggers_are_no_swap_ins() {
    refuses_with(ViolationKind::AddedInputs, |build| {
        build.swap_in("x", 0, "x").inputs(SWAP, "a ^lms/swap_in/x/0_0");
    });
    let ordered = with(|build| {
        build
            .swap_out("b")
            .node("lms/order/0", "NoOp", "^b")
            .inputs(SWAP, "a ^lms/order/0 ^lms/swap_out/b/0");
    });
    accepts(&chain(), &ordered);
}

#[test]
fn the_name_says_what_is_swapped() {
    for name in
        ["lms/swap_in/b/0_0", "lms/swap_in/a/1_0", "lms/swap_in/a/0", "lms/swap_in/a", "lms/swap_out/a"]
    {
        let build = with(|build| {
            build.get(SWAP).name = name.to_string();
            build.inputs("c", &format!("b {name}"));
        });
        refuses(&chain(), &build, ViolationKind::AddedName, name);
    }
}

/// A variable that begins as a constant, and a step that adds to it.
fn begun() -> Build {
    Build::of(&[
        ("v", "VarHandleOp", ""),
        ("c", "Const", ""),
        ("begin", "AssignVariableOp", "v c"),
        ("x", "Placeholder", ""),
        ("add", "AssignAddVariableOp", "v x"),
    ])
}

#[test]
fn a_variable_may_begin_with_a_copy() {
    let with = |change: fn(&mut Build)| {
        let mut build = begun();
        build.swap("lms/initial/c/0_0", "c ^v").inputs("begin", "v lms/initial/c/0_0");
        change(&mut build);
        build
    };
    let verified = accepts(&begun(), &with(|_| ()));
    assert_eq!((verified.initial_values, verified.swapped_tensors, verified.rewired_inputs), (1, 0, 1));
    let refuses_with = |kind, change| refuses(&begun(), &with(change), kind, "");
    refuses_with(ViolationKind::WrongTensor, |build| _ = build.inputs("lms/initial/c/0_0", "x ^v"));
    refuses_with(ViolationKind::AddedName, |build| {
        build.get("lms/initial/c/0_0").name = "lms/initial/x/0_0".into();
        build.inputs("begin", "v lms/initial/x/0_0");
    });
    refuses_with(ViolationKind::AddedOp, |build| build.get("lms/initial/c/0_0").op = "Snapshot".into());
    refuses_with(ViolationKind::AddedDevice, |build| _ = build.device("lms/initial/c/0_0", ""));
    refuses_with(ViolationKind::Cycle, |build| _ = build.inputs("lms/initial/c/0_0", "c ^begin"));
    // Who begins must not add.
    refuses_with(ViolationKind::NewWork, |build| _ = build.inputs("lms/initial/c/0_0", "c ^add"));
}

#[test]
fn the_host_is_the_owners() {
    for device in
        ["", "/cpu:0", "/device:CPU:0", &HOST.replace("CPU", "GPU"), &HOST.replace("task:0", "task:1")]
    {
        refuses_with(ViolationKind::AddedDevice, |build| _ = build.device(SWAP, device));
    }
    accepts(&chain(), &with(|build| _ = build.device(SWAP, &HOST.replace("CPU:0", "CPU:1"))));

    let on_worker = |mut build: Build, swap: &str| {
        build.device("a", "/job:worker/task:3/device:GPU:0");
        if !swap.is_empty() {
            build.device(SWAP, swap);
        }
        build
    };
    let original = on_worker(chain(), "");
    let right = on_worker(swapped(), "/job:worker/replica:0/task:3/device:CPU:0");
    accepts(&original, &right);
    refuses(&original, &on_worker(swapped(), HOST), ViolationKind::AddedDevice, SWAP);
    let other_task = on_worker(swapped(), "/job:worker/replica:0/task:2/device:CPU:0");
    refuses(&original, &other_task, ViolationKind::AddedDevice, SWAP);
}

#[test]
fn an_order_op_only_orders() {
    let ordered = |op: &str, inputs: &str| {
        let mut build = chain();
        build.node("lms/order/0", op, inputs).inputs("d", "c ^a ^lms/order/0");
        build
    };
    accepts(&chain(), &ordered("NoOp", "^b"));
    refuses(&chain(), &ordered("NoOp", "b"), ViolationKind::AddedInputs, "lms/order/0");
    refuses(&chain(), &ordered("Assert", "^b"), ViolationKind::AddedOp, "lms/order/0");
    let mut build = ordered("NoOp", "^b");
    accepts(&chain(), build.device("lms/order/0", HOST));
    refuses(
        &chain(),
        build.device("lms/order/0", "/job:ps/task:1"),
        ViolationKind::AddedDevice,
        "lms/order/0",
    );
    let mut build = ordered("NoOp", "^b");
    build.attr("lms/order/0", "_x", Value::B(true));
    refuses(&chain(), &build, ViolationKind::AddedOp, "lms/order/0");
    let mut build = ordered("NoOp", "^b");
    build.get("lms/order/0").name = "lms/order/first".into();
    build.inputs("d", "c ^a ^lms/order/first");
    refuses(&chain(), &build, ViolationKind::AddedName, "lms/order/first");
}

/// A graph in which `c` reads `v`, and the same with `v` swapped.
fn swap_of(op: &str, dtype: DataType) -> (Build, Build) {
    let value = || Value::Type(dtype.number());
    let mut original = Build::of(&[("v", op, ""), ("c", "Identity", "v")]);
    original.attr("c", "T", value());
    if original.get("v").attr.contains_key("dtype") {
        original.attr("v", "dtype", value());
    }
    let mut rewritten = original.clone();
    rewritten.swap_in("v", 0, "v").inputs("c", "lms/swap_in/v/0_0").attr("lms/swap_in/v/0_0", "T", value());
    (original, rewritten)
}

#[test]
fn only_values_are_swapped() {
    let (original, rewritten) = swap_of("Placeholder", DataType::INT32);
    accepts(&original, &rewritten);
    let cases = [
        ("Placeholder", DataType::STRING, ViolationKind::UnswappableType),
        ("Placeholder", DataType::VARIANT, ViolationKind::UnswappableType),
        ("MutexV2", DataType::RESOURCE, ViolationKind::UnswappableType),
        ("VarHandleOp", DataType::RESOURCE, ViolationKind::Persistent),
        ("VariableV2", DataType::FLOAT, ViolationKind::Persistent),
        ("TemporaryVariable", DataType::FLOAT, ViolationKind::Persistent),
        ("FrobnicateV9", DataType::FLOAT, ViolationKind::UnknownOp),
    ];
    for (op, dtype, kind) in cases {
        let (original, rewritten) = swap_of(op, dtype);
        refuses(&original, &rewritten, kind, "v");
    }
}

#[test]
fn references_are_not_swapped() {
    let original = Build::of(&[
        ("v", "VariableV2", ""),
        ("x", "Placeholder", ""),
        ("assign", "Assign", "v x"),
        ("c", "Relu", "assign"),
    ]);
    let mut rewritten = original.clone();
    rewritten.swap_in("assign", 0, "assign").inputs("c", "lms/swap_in/assign/0_0");
    refuses(&original, &rewritten, ViolationKind::RefType, "assign");
}

#[test]
fn an_output_that_is_not_there_is_not_swapped() {
    let mut original = chain();
    original.inputs("c", "b a:3");
    let mut rewritten = original.clone();
    rewritten.swap("lms/swap_in/a/3_0", "a:3").inputs("c", "b lms/swap_in/a/3_0");
    refuses(&original, &rewritten, ViolationKind::UnknownOp, "a");
}
