//! Inputs lead back to what they read, control inputs stay, and nothing waits for itself.

use super::*;

#[track_caller]
fn refuses_inputs(node: &str, inputs: &str, kind: ViolationKind) {
    let mut build = swapped();
    build.inputs(node, inputs);
    refuses(&chain(), &build, kind, node);
}

#[test]
fn each_slot_reads_the_tensor_it_read() {
    accepts(&chain(), swapped().inputs("c", "b:0 lms/swap_in/a/0_0:0"));
    for inputs in ["lms/swap_in/a/0_0 b", "b b", "b a:1", "b lms/swap_in/a/0_0:1", "a a"] {
        refuses_inputs("c", inputs, ViolationKind::WrongTensor);
    }
    refuses_inputs("c", "b", ViolationKind::InputCount);
    refuses_inputs("c", "b a a", ViolationKind::InputCount);
}

#[test]
fn a_swap_of_another_tensor_is_another_tensor() {
    let mut build = swapped();
    build.swap_in("x", 0, "x").inputs("c", "b lms/swap_in/x/0_0");
    let error = refuses(&chain(), &build, ViolationKind::WrongTensor, "c");
    assert!(error.to_string().contains("`x:0` by way of `lms/swap_in/x/0_0:0`"), "{error}");
}

#[test]
fn control_inputs_stay() {
    refuses_inputs("d", "c", ViolationKind::LostControl);
    refuses_inputs("d", "c ^b", ViolationKind::LostControl);
    accepts(&chain(), swapped().inputs("d", "c ^b ^a"));
}

#[test]
fn inputs_name_nodes() {
    for input in ["^", ":0", "b:", "b:x", "nobody", "^nobody", "^b:0", "lms/swap_in/a/0_1"] {
        refuses_inputs("c", &format!("b {input}"), ViolationKind::BadInput);
    }
    refuses_inputs("d", "^a c", ViolationKind::BadInput);
}

#[test]
fn an_original_input_is_no_added_op() {
    // Whoever wrote the original did not mean what the rewrite added.
    let mut original = chain();
    original.inputs("c", "b lms/swap_in/a/0_0").inputs("d", "c ^lms/swap_in/a/0_0");
    let mut rewritten = original.clone();
    rewritten.swap_in("a", 0, "a ^b");
    let error = refuses(&original, &rewritten, ViolationKind::WrongTensor, "c");
    assert_eq!(error.violations[1].kind, ViolationKind::LostControl);
}

#[test]
fn nothing_waits_for_itself() {
    let mut build = swapped();
    build.inputs("lms/swap_in/a/0_0", "a ^d");
    let error = refuses(&chain(), &build, ViolationKind::Cycle, "c");
    assert!(error.to_string().contains("3 nodes that wait for one another"), "{error}");
    let mut build = swapped();
    build.node("lms/order/0", "NoOp", "^lms/order/1").node("lms/order/1", "NoOp", "^lms/order/0");
    refuses(&chain(), &build, ViolationKind::Cycle, "");
    let mut build = swapped();
    build.inputs("lms/swap_in/a/0_0", "lms/swap_in/a/0_0");
    assert!(verify(&chain(), &build).is_err());
}

#[test]
fn a_graph_that_had_a_cycle_is_refused_and_not_followed_for_ever() {
    let mut original = chain();
    original.inputs("a", "d");
    refuses(&original, &original, ViolationKind::Cycle, "a");
}
