//! What nobody looks at by itself may come to need more than it did.

use super::*;
use crate::proto::tensorflow::{TensorProto, TensorShapeProto};

/// The loop of a gradient: `left` is what a counter leaves that goes down by `by`, `work` reads what is fed as `y`. `more` are further ops.
fn counting(by: i32, more: &[(&str, &str, &str)]) -> Build {
    let mut build = Build::of(&[
        ("n", "Const", ""),
        ("one", "Const", ""),
        ("enter", "Enter", "n"),
        ("one_in", "Enter", "one"),
        ("count", "Merge", "enter next"),
        ("goes_on", "GreaterEqual", "count one_in"),
        ("condition", "LoopCond", "goes_on"),
        ("at", "Switch", "count condition"),
        ("less", "Sub", "at:1 one_in"),
        ("next", "NextIteration", "less"),
        ("left", "Exit", "at"),
        ("y", "Placeholder", ""),
        ("state_in", "Enter", "y"),
        ("state", "Merge", "state_in state_next"),
        ("state_at", "Switch", "state condition"),
        ("work", "Relu", "state_at:1"),
        ("state_next", "NextIteration", "work"),
        ("result", "Exit", "state_at"),
        ("train", "NoOp", "^result"),
    ]);
    for &(name, op, inputs) in more {
        build.node(name, op, inputs);
    }
    let tensor = TensorProto {
        dtype: DataType::INT32.number(),
        int_val: vec![by],
        tensor_shape: Some(TensorShapeProto::default()),
        ..TensorProto::default()
    };
    build.attr("one", "value", Value::Tensor(tensor));
    let enters: Vec<String> =
        build.graph.node.iter().filter(|node| node.op == "Enter").map(|node| node.name.clone()).collect();
    for enter in enters {
        build.attr(&enter, "frame_name", Value::S(b"loop".to_vec()));
        build.attr(&enter, "is_constant", Value::B(enter == "one_in"));
    }
    build.train_op("train");
    build
}

/// The same where the next iteration waits for `work`.
fn paced(mut build: Build) -> Build {
    build.node("lms/order/0", "NoOp", "^work").inputs("next", "less ^lms/order/0");
    build
}

#[test]
fn a_counter_that_went_down_to_zero_tells_nothing() {
    accepts(&counting(1, &[]), &paced(counting(1, &[])));
    // What else it leaves does, and so does it to whoever reads it.
    refuses(&counting(2, &[]), &paced(counting(2, &[])), ViolationKind::NewWork, "y");
    let read = [("shown", "Relu", "left")];
    let error = refuses(&counting(1, &read), &paced(counting(1, &read)), ViolationKind::NewWork, "y");
    assert!(error.violations[0].nodes.contains(&"left".to_string()), "{error}");
    let compared = |mut build: Build| {
        build.get("goes_on").op = "Greater".into();
        build
    };
    refuses(&compared(counting(1, &[])), &paced(compared(counting(1, &[]))), ViolationKind::NewWork, "y");
}

#[test]
fn a_flow_that_nobody_reads_tells_nothing() {
    let flow = [
        ("array", "TensorArrayV3", "n"),
        ("flow_in", "Enter", "array:1"),
        ("flow", "Merge", "flow_in flow_next"),
        ("flow_at", "Switch", "flow condition"),
        ("flow_next", "NextIteration", "flow_at:1"),
        ("flow_left", "Exit", "flow_at"),
    ];
    accepts(&counting(1, &flow), &paced(counting(1, &flow)));
    let read = [&flow[..], &[("shown", "Relu", "flow_left")]].concat();
    refuses(&counting(1, &read), &paced(counting(1, &read)), ViolationKind::NewWork, "y");
}

#[test]
fn within_a_loop_nobody_looks_but_behind_it() {
    let within = [("seen", "Relu", "at:1"), ("again", "Relu", "seen")];
    accepts(&counting(1, &within), &paced(counting(1, &within)));
    let behind = [&within[..], &[("out", "Exit", "again")]].concat();
    let error = refuses(&counting(1, &behind), &paced(counting(1, &behind)), ViolationKind::NewWork, "y");
    assert!(error.violations[0].nodes.contains(&"out".to_string()), "{error}");
    // Who waits for more itself, within the loop.
    let waits = |mut build: Build| {
        build.node("lms/order/0", "NoOp", "^work").inputs("seen", "at:1 ^lms/order/0");
        build
    };
    accepts(&counting(1, &within), &waits(counting(1, &within)));
    refuses(&counting(1, &behind), &waits(counting(1, &behind)), ViolationKind::NewWork, "y");
}
