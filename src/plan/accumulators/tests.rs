//! Which stacks and lists may go to the host.

use crate::format::{Model, ReadOptions};
use crate::graph::{Graph, NodeId};
use crate::ops::OpRegistry;
use crate::order::Placement;
use crate::plan::{Analysis, accumulators};
use crate::shape::{Shapes, Sizes};

/// A node of floats, led into the frame `loop` if it is an `Enter`, with further fields.
fn node(name: &str, op: &str, inputs: &str, fields: &str) -> String {
    let inputs: String = inputs.split_whitespace().map(|input| format!("input: '{input}' ")).collect();
    let of_op = match op {
        "Enter" => {
            "attr { key: 'frame_name' value { s: 'loop' } } attr { key: 'T' value { type: DT_VARIANT } }"
        }
        "EmptyTensorList"
        | "TensorListPushBack"
        | "TensorListPopBack"
        | "TensorListStack"
        | "TensorListFromTensor"
        | "TensorListGetItem" => {
            "attr { key: 'element_dtype' value { type: DT_FLOAT } } attr { key: 'shape_type' value { type: DT_INT32 } }"
        }
        "Const" => "attr { key: 'dtype' value { type: DT_INT32 } }",
        "Placeholder" => "attr { key: 'dtype' value { type: DT_FLOAT } }",
        "Merge" | "NextIteration" | "Exit" | "AddN" => {
            "attr { key: 'T' value { type: DT_VARIANT } } attr { key: 'N' value { i: 2 } }"
        }
        _ => "attr { key: 'T' value { type: DT_FLOAT } }",
    };
    format!("node {{ name: '{name}' op: '{op}' {inputs} {of_op} {fields} }}\n")
}

const FLOAT: &str = "attr { key: 'T' value { type: DT_FLOAT } }";

/// A loop that adds to a list, and what `reader` makes of the list behind it.
fn looped(reader: &str) -> String {
    let enter = "attr { key: 'frame_name' value { s: 'loop' } }";
    [
        node("x", "Placeholder", "", ""),
        node("shape", "Const", "", ""),
        node("list", "EmptyTensorList", "shape shape", ""),
        node("enter", "Enter", "list", ""),
        format!("node {{ name: 'x_in' op: 'Enter' input: 'x' {enter} {FLOAT} }}\n"),
        node("made", "Tanh", "x_in", ""),
        node("merge", "Merge", "enter next", ""),
        node("push", "TensorListPushBack", "merge made", ""),
        node("next", "NextIteration", "push", ""),
        node("exit", "Exit", "push", ""),
        node("read", reader, "exit shape", ""),
    ]
    .concat()
}

/// For each accumulator of a graph whose step runs `read` the names of its ops, what is added, and what is taken.
fn found(text: &str) -> Vec<[Vec<String>; 3]> {
    let model = Model::from_bytes("test.pbtxt", text.as_bytes().to_vec(), &ReadOptions::default()).unwrap();
    let graph = Graph::of_model(&model, OpRegistry::builtin()).unwrap();
    let targets: Vec<NodeId> = graph.node_ids().filter(|&node| graph.name(node) == "read").collect();
    let shapes = Shapes::declared(&graph);
    let sizes = Sizes::of(&graph, &shapes).unwrap();
    let analysis = Analysis::new(&graph, &targets, shapes, sizes);
    let tensor = |&tensor: &_| graph.tensor_name(tensor).to_string();
    let all = accumulators(&analysis, &Placement::of(&graph)).into_iter().map(|of| {
        [
            of.ops.iter().map(|&op| graph.name(op).to_string()).collect(),
            of.added.iter().map(tensor).collect(),
            of.taken.iter().map(tensor).collect(),
        ]
    });
    all.collect()
}

#[test]
fn a_list_goes_with_all_that_leads_it_through_the_loop() {
    let [[ops, added, taken]] = &found(&looped("TensorListPopBack"))[..] else { panic!("one list") };
    assert_eq!(ops, &["list", "enter", "merge", "push", "next", "exit", "read"]);
    assert_eq!((&added[..], &taken[..]), (&["made:0".to_string()][..], &["read:1".to_string()][..]));
}

#[test]
fn what_is_joined_behind_the_loop_comes_back_joined() {
    let [[ops, added, taken]] = &found(&looped("TensorListStack"))[..] else { panic!("one list") };
    assert_eq!(ops, &["list", "enter", "merge", "push", "next", "exit", "read"]);
    assert_eq!((&added[..], &taken[..]), (&["made:0".to_string()][..], &["read:0".to_string()][..]));
}

#[test]
fn what_is_parted_before_the_loop_leaves_as_a_whole() {
    let enter = "attr { key: 'frame_name' value { s: 'loop' } }";
    let text = [
        node("x", "Placeholder", "", ""),
        node("shape", "Const", "", ""),
        node("made", "Tanh", "x", ""),
        node("list", "TensorListFromTensor", "made shape", ""),
        node("enter", "Enter", "list", ""),
        format!(
            "node {{ name: 'at' op: 'Enter' input: 'shape' {enter} attr {{ key: 'T' value {{ type: DT_INT32 }} }} }}\n"
        ),
        node("read", "TensorListGetItem", "enter at at", ""),
    ];
    let [[ops, added, taken]] = &found(&text.concat())[..] else { panic!("one list") };
    assert_eq!(ops, &["list", "enter", "read"]);
    assert_eq!((&added[..], &taken[..]), (&["made:0".to_string()][..], &["read:0".to_string()][..]));
}

#[test]
fn one_stays_that_something_is_computed_of() {
    assert!(found(&looped("AddN")).is_empty());
    // On the host it is already.
    let on_host = looped("TensorListPopBack").replace("op: 'Tanh'", "op: 'Tanh' device: '/device:CPU:0'");
    assert!(found(&on_host).is_empty());
}
