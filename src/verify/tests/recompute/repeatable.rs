//! Only what gives the same each time is run again.

use super::*;

/// A graph in which `c` reads output 0 of `n`, a node with this op and these inputs, and the same with a copy of `n`.
fn copy_of(op: &str, inputs: &str) -> (Build, Build) {
    let mut original = Build::of(&[
        ("x", "Placeholder", ""),
        ("v", "VariableV2", ""),
        ("v/read", "Identity", "v"),
        ("v/swapped", "Relu", "v/read"),
        ("handle", "VarHandleOp", ""),
        ("value", "ReadVariableOp", "handle"),
        ("strange", "FrobnicateV9", "x"),
        ("string", "Const", ""),
        ("n", op, inputs),
        ("c", "Relu", "n"),
        ("step", "NoOp", "^c ^v/swapped ^value ^strange ^string"),
    ]);
    original.attr("string", "dtype", Value::Type(DataType::STRING.number())).train_op("step");
    let mut rewritten = original.clone();
    rewritten.recompute("n", 0, inputs).inputs("c", "lms/recompute/n/0");
    (original, rewritten)
}

#[test]
fn only_what_gives_the_same_each_time_is_run_again() {
    for (op, inputs) in [
        ("Relu", "x"),
        ("Switch", "x x"),
        ("Const", ""),
        ("Softmax", "v/swapped"),
        ("Relu", "value"),
        ("MatMul", "x x"),
    ] {
        let (original, rewritten) = copy_of(op, inputs);
        accepts(&original, &rewritten);
    }
    let (mut original, mut rewritten) = copy_of("StatelessRandomNormal", "x x");
    for build in [&mut original, &mut rewritten] {
        for node in ["n", "lms/recompute/n/0"] {
            if build.graph.node.iter().any(|found| found.name == node) {
                build.attr(node, "Tseed", Value::Type(DataType::INT32.number()));
            }
        }
    }
    accepts(&original, &rewritten);
    for (op, inputs) in [
        // Stateful.
        ("RandomUniform", "x"),
        ("ReadVariableOp", "handle"),
        ("VarHandleOp", ""),
        ("VariableV2", ""),
        ("Assert", "x"),
        // Fed.
        ("Placeholder", ""),
        ("PlaceholderWithDefault", "x"),
        // Not stateful by their definitions.
        ("FractionalMaxPool", "x"),
        ("BiasAddGrad", "x"),
        ("Conv2DBackpropInput", "x x x"),
        ("InplaceAdd", "x x x"),
        // Of control flow.
        ("Merge", "x x"),
        ("Enter", "x"),
        ("NextIteration", "x"),
        // Functions.
        ("PartitionedCall", "x"),
        ("StatelessIf", "x x"),
        // References.
        ("RefIdentity", "v"),
        ("Assign", "v x"),
        // Nothing to read.
        ("NoOp", "^x"),
    ] {
        let (original, rewritten) = copy_of(op, inputs);
        refuses(&original, &rewritten, ViolationKind::Unrepeatable, "lms/recompute/n/0");
    }
    let (original, rewritten) = copy_of("FrobnicateV9", "x");
    refuses(&original, &rewritten, ViolationKind::UnknownOp, "lms/recompute/n/0");
    // Nothing is known of what it reads.
    let (original, rewritten) = copy_of("Relu", "strange");
    refuses(&original, &rewritten, ViolationKind::UnknownOp, "lms/recompute/n/0");
}

#[test]
fn only_numbers_are_recomputed() {
    for dtype in [DataType::STRING, DataType::VARIANT, DataType::RESOURCE] {
        let (mut original, mut rewritten) = copy_of("Identity", "string");
        for build in [&mut original, &mut rewritten] {
            build.attr("string", "dtype", Value::Type(dtype.number()));
            build.attr("n", "T", Value::Type(dtype.number())).attr("c", "T", Value::Type(dtype.number()));
        }
        rewritten.attr("lms/recompute/n/0", "T", Value::Type(dtype.number()));
        refuses(&original, &rewritten, ViolationKind::Unrepeatable, "lms/recompute/n/0");
    }
}

#[test]
fn who_hands_on_a_variables_buffer_is_not_run_again() {
    // A reference, and an op that hands the buffer on.
    let (original, rewritten) = copy_of("Relu", "v");
    refuses(&original, &rewritten, ViolationKind::Unrepeatable, "lms/recompute/n/0");
    let (original, rewritten) = copy_of("Identity", "v/read");
    refuses(&original, &rewritten, ViolationKind::Unrepeatable, "lms/recompute/n/0");
    // Who reads it may. A swap is of some moment.
    let (original, mut rewritten) = copy_of("Relu", "v/read");
    accepts(&original, &rewritten);
    rewritten.swap_in("v/read", 0, "v/read").inputs("lms/recompute/n/0", "lms/swap_in/v/read/0_0");
    refuses(&original, &rewritten, ViolationKind::Unrepeatable, "lms/recompute/n/0");
}

#[test]
fn where_an_op_writes_to_its_input_nothing_is_run_again() {
    let (mut original, mut rewritten) = copy_of("Relu", "x");
    for build in [&mut original, &mut rewritten] {
        build.node("later", "InplaceAdd", "x x x");
    }
    let error = refuses(&original, &rewritten, ViolationKind::Unrepeatable, "lms/recompute/n/0");
    assert!(error.to_string().contains("`later`"), "{error}");
}

#[test]
fn a_function_is_not_run_again() {
    use crate::proto::tensorflow::{FunctionDef, FunctionDefLibrary, OpDef, op_def::ArgDef};
    let (mut original, mut rewritten) = copy_of("f", "x");
    let arg =
        |name: &str| ArgDef { name: name.into(), r#type: DataType::FLOAT.number(), ..ArgDef::default() };
    let signature =
        OpDef { name: "f".into(), input_arg: vec![arg("x")], output_arg: vec![arg("y")], ..OpDef::default() };
    let function = FunctionDef { signature: Some(signature), ..FunctionDef::default() };
    for build in [&mut original, &mut rewritten] {
        build.graph.library =
            Some(FunctionDefLibrary { function: vec![function.clone()], ..FunctionDefLibrary::default() });
    }
    refuses(&original, &rewritten, ViolationKind::Unrepeatable, "lms/recompute/n/0");
}

#[test]
fn a_merge_is_run_again_where_it_has_no_choice() {
    let with = |mut original: Build, merge: &str| {
        let mut rewritten = original.clone();
        rewritten.recompute("m", 0, merge).inputs("out", "lms/recompute/m/0 big");
        rewritten.recompute("t3", 0, "t2 t ^big");
        (std::mem::take(original.train_op("end")), std::mem::take(rewritten.train_op("end")))
    };
    for merge in ["f t3", "f t3 ^t", "f t3 ^big", "f lms/recompute/t3/0", "f lms/recompute/t3/0 ^big"] {
        let (original, rewritten) = with(cond(), merge);
        accepts(&original, &rewritten);
    }
    // The other branch.
    let (original, rewritten) = with(cond(), "lms/recompute/t3/0 f");
    refuses(&original, &rewritten, ViolationKind::AddedInputs, "lms/recompute/m/0");
    // A branch that is no more what it was.
    let (original, mut rewritten) = with(cond(), "f lms/recompute/t3/0");
    rewritten.inputs("lms/recompute/t3/0", "t2 t ^f");
    refuses(&original, &rewritten, ViolationKind::Branch, "out");
    // Both inputs are there: of one branch, of none, or of two that have nothing to do with one another.
    for inputs in ["t t3", "big t3", "big x", "f other:1", "f t3 other"] {
        let mut original = cond();
        original.node("q", "Placeholder", "").node("other", "Switch", "x q").inputs("m", inputs);
        let (original, rewritten) = with(original, inputs);
        refuses(&original, &rewritten, ViolationKind::Unrepeatable, "lms/recompute/m/0");
    }
    // Iterations meet.
    for (node, inputs, reader, reads, kind) in [
        ("i", "i_enter i_next", "go_on", "lms/recompute/i/0", ViolationKind::Iteration),
        ("i_switch", "i go_on", "b1", "lms/recompute/i_switch/0:1 k", ViolationKind::Unrepeatable),
    ] {
        let mut rewritten = flow::while_loop();
        rewritten.recompute(node, 0, inputs).inputs(reader, reads);
        let copy = format!("lms/recompute/{node}/0");
        refuses(&flow::while_loop(), &rewritten, kind, &copy);
    }
}
