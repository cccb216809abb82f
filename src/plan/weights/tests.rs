//! What may go to the host, and what keeps it where it is.

use crate::format::{Model, ReadOptions};
use crate::graph::{Graph, NodeId};
use crate::ops::OpRegistry;
use crate::order::Placement;
use crate::plan::Analysis;
use crate::shape::{Shapes, Sizes};
use crate::simulate::{OpCost, Outline};

const FLOAT: &str = "attr { key: 'T' value { type: DT_FLOAT } }";
const VARIABLE: &str = "attr { key: 'dtype' value { type: DT_FLOAT } } \
    attr { key: 'shape' value { shape { dim { size: 64 } } } }";
const DTYPE: &str = "attr { key: 'dtype' value { type: DT_FLOAT } }";

/// A node whose outputs, if it has any, are 64 floats, with further fields.
fn node(name: &str, op: &str, inputs: &str, fields: &str) -> String {
    let inputs: String = inputs.split_whitespace().map(|input| format!("input: '{input}' ")).collect();
    let shape = "attr { key: '_output_shapes' value { list { shape { dim { size: 64 } } } } }";
    format!("node {{ name: '{name}' op: '{op}' {inputs} {fields} {shape} }}\n")
}

/// A placeholder, and a variable that is assigned outside of the step, read, and added to it.
fn variable() -> String {
    [
        node("x", "Placeholder", "", DTYPE),
        node("w", "VarHandleOp", "", VARIABLE),
        node("assign", "AssignVariableOp", "w x", DTYPE),
        node("read", "ReadVariableOp", "w", DTYPE),
        node("sum", "AddV2", "x read", FLOAT),
    ]
    .concat()
}

/// The same with a variable that gives out its buffer.
fn ref_variable() -> String {
    [
        node("x", "Placeholder", "", DTYPE),
        node("w", "VariableV2", "", VARIABLE),
        node("assign", "Assign", "w x", FLOAT),
        node("read", "Identity", "w", FLOAT),
        node("sum", "AddV2", "x read", FLOAT),
    ]
    .concat()
}

/// For each weight of a step the names of the ops that go along.
fn weights_of(text: &str, target: &str) -> Vec<Vec<String>> {
    let model = Model::from_bytes("test.pbtxt", text.as_bytes().to_vec(), &ReadOptions::default()).unwrap();
    let graph = Graph::of_model(&model, OpRegistry::builtin()).unwrap();
    let targets: Vec<NodeId> = graph.node_ids().filter(|&node| graph.name(node) == target).collect();
    assert_eq!(targets.len(), 1);
    let shapes = Shapes::declared(&graph);
    let sizes = Sizes::of(&graph, &shapes).unwrap();
    let analysis = Analysis::new(&graph, &targets, shapes, sizes);
    let placement = Placement::of(&graph);
    let outline = Outline::new(&analysis, &placement, |_| OpCost::default()).unwrap();
    let names = |ops: Vec<NodeId>| ops.into_iter().map(|op| graph.name(op).to_string()).collect();
    outline.weights().into_iter().map(|weight| names(weight.ops)).collect()
}

#[test]
fn a_variable_goes_with_what_assigns_and_reads_it() {
    for text in [variable(), ref_variable()] {
        assert_eq!(weights_of(&text, "sum"), [["w", "assign", "read"]]);
    }
}

#[test]
fn what_the_step_changes_stays() {
    // Moving averages are assigned, and so is what an optimizer computes.
    let assigned = variable() + &node("update", "AssignVariableOp", "w sum", DTYPE);
    assert_eq!(weights_of(&assigned, "sum"), [["w", "assign", "read", "update"]]);
    assert!(weights_of(&assigned, "update").is_empty());
    let assigned = ref_variable() + &node("update", "Assign", "w sum", FLOAT);
    assert!(weights_of(&assigned, "update").is_empty());
}

#[test]
fn what_others_work_on_stays() {
    let trained = variable() + &node("update", "AssignSubVariableOp", "w sum", DTYPE);
    assert!(weights_of(&trained, "sum").is_empty());
    let trained = ref_variable() + &node("update", "AssignSub", "w sum", FLOAT);
    assert!(weights_of(&trained, "sum").is_empty());
}

#[test]
fn a_checkpoint_is_written_wherever_the_variable_is() {
    let saved = |device: &str| {
        let fields = format!("attr {{ key: 'T' value {{ type: DT_FLOAT }} }} device: '{device}'");
        ref_variable() + &node("saved", "Neg", "w", &fields)
    };
    assert_eq!(weights_of(&saved("/device:CPU:0"), "sum"), [["w", "assign", "read"]]);
    assert!(weights_of(&saved("/device:GPU:0"), "sum").is_empty());
}

#[test]
fn what_must_be_with_it_must_be_able_to_stay() {
    let with = |device: &str| {
        let class = "attr { key: '_class' value { list { s: 'loc:@w' } } }";
        variable() + &node("value", "Const", "", &format!("{DTYPE} {class} device: '{device}'"))
    };
    assert_eq!(weights_of(&with(""), "sum"), [["w", "assign", "read"]]);
    assert!(weights_of(&with("/device:GPU:0"), "sum").is_empty());
}

#[test]
fn what_something_is_computed_from_beforehand_stays() {
    let value = "attr { key: 'value' value { tensor { dtype: DT_FLOAT tensor_shape { dim { size: 64 } } \
        float_val: 1 } } }";
    let constant = |half_of: &str| {
        [
            node("x", "Placeholder", "", DTYPE),
            node("c", "Const", "", &format!("{DTYPE} {value}")),
            node("half", "Neg", half_of, FLOAT),
            node("more", "AddV2", "x half", FLOAT),
            node("sum", "AddV2", "more c", FLOAT),
        ]
        .concat()
    };
    assert_eq!(weights_of(&constant("x"), "sum"), [["c"]]);
    assert!(weights_of(&constant("c"), "sum").is_empty());
}
