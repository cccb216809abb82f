//! The file and its nodes are the same but for inputs.

use super::*;
use crate::proto::tensorflow::{FunctionDef, FunctionDefLibrary, OpDef, VersionDef};

/// [`chain`] with something around its nodes.
fn with_surroundings(mut build: Build) -> Build {
    let signature = OpDef { name: "f".into(), ..OpDef::default() };
    let function = FunctionDef { signature: Some(signature), ..FunctionDef::default() };
    build.graph.library = Some(FunctionDefLibrary { function: vec![function], ..Default::default() });
    build.graph.versions = Some(VersionDef { producer: 27, ..VersionDef::default() });
    build
}

#[test]
fn an_unchanged_graph_is_the_same() {
    let verified = accepts(&chain(), &chain());
    assert_eq!(verified, Verified { nodes: 5, ..Verified::default() });
}

#[test]
fn what_was_added_is_counted() {
    let mut rewritten = swapped();
    rewritten.swap_out("b").node("lms/order/0", "NoOp", "^lms/swap_out/b/0").inputs("d", "c ^a ^lms/order/0");
    let verified = accepts(&chain(), &rewritten);
    let expected = Verified {
        recomputed_ops: 0,
        recomputed_nodes: 0,
        initial_values: 0,
        host_ops: 0,
        nodes: 5,
        swap_ins: 1,
        swap_outs: 1,
        order_ops: 1,
        swapped_tensors: 2,
        rewired_inputs: 1,
        reduces: 0,
        reduced_tensors: 0,
        added_control_edges: 3,
    };
    assert_eq!(verified, expected);
}

#[test]
fn library_and_versions_are_compared() {
    let original = with_surroundings(chain());
    accepts(&original, &with_surroundings(swapped()));
    let mut renamed = with_surroundings(swapped());
    renamed.graph.library.as_mut().unwrap().function[0].signature.as_mut().unwrap().name = "g".into();
    refuses(&original, &renamed, ViolationKind::Surroundings, "");
    let mut newer = with_surroundings(swapped());
    newer.graph.versions.as_mut().unwrap().producer = 28;
    refuses(&original, &newer, ViolationKind::Surroundings, "");
    refuses(&original, &swapped(), ViolationKind::Surroundings, "");
}

#[test]
fn unknown_fields_are_compared() {
    let file = |build: Build, unknown: &[u8]| {
        let mut bytes = build.encode();
        bytes.extend_from_slice(unknown);
        model(bytes)
    };
    let check = |before: &Model, after: &Model| check(before, after, OpRegistry::builtin());
    // Field 900, a varint.
    let original = file(chain(), &[0xa0, 0x38, 1]);
    assert!(check(&original, &file(swapped(), &[0xa0, 0x38, 1])).is_ok());
    assert!(check(&original, &file(swapped(), &[0xa0, 0x38, 2])).is_err());
    assert!(check(&original, &file(swapped(), &[])).is_err());
}

#[test]
fn collections_are_compared() {
    let (mut original, mut rewritten) = (chain(), swapped());
    original.train_op("d");
    accepts(&original, rewritten.train_op("d"));
    refuses(&original, rewritten.train_op("c"), ViolationKind::Surroundings, "");
    refuses(&original, &swapped(), ViolationKind::FileKind, "");
}

#[test]
fn texts_are_compared_by_what_they_mean() {
    let text = |build: &Build| {
        let edits = crate::format::Edits::default();
        build.model().edited(&edits, crate::format::Encoding::Text).unwrap().to_vec()
    };
    let check = |before: Vec<u8>, after: Vec<u8>| check(&model(before), &model(after), OpRegistry::builtin());
    let (original, rewritten) = (with_surroundings(chain()), with_surroundings(swapped()));
    check(text(&original), text(&rewritten)).unwrap();
    check(original.encode(), text(&rewritten)).unwrap();
    check(text(&original), rewritten.encode()).unwrap();

    let mut other = rewritten.clone();
    other.device("b", "/gpu:0");
    assert_eq!(
        check(original.encode(), text(&other)).unwrap_err().violations[0].kind,
        ViolationKind::ChangedNode
    );
    // A field that the definitions do not know is in the text only.
    let newer = |build: &Build| [text(build), b"frob: 7\n".to_vec()].concat();
    check(newer(&original), newer(&rewritten)).unwrap();
    assert_eq!(
        check(newer(&original), text(&rewritten)).unwrap_err().violations[0].kind,
        ViolationKind::Surroundings
    );
}

#[test]
fn nodes_stay_what_they_are() {
    let original = chain();
    let mut other = swapped();
    other.attr("b", "T", Value::Type(DataType::HALF.number()));
    refuses(&original, &other, ViolationKind::ChangedNode, "b");
    let mut other = swapped();
    other.device("c", "/gpu:1");
    refuses(&original, &other, ViolationKind::ChangedNode, "c");
    let mut other = swapped();
    other.get("c").op = "Sub".into();
    let error = refuses(&original, &other, ViolationKind::ChangedNode, "c");
    assert!(error.to_string().contains("changed_node: c: expected op AddV2, found op Sub"), "{error}");
}

#[test]
fn each_node_is_there_once_and_in_order() {
    let original = chain();
    let mut without = swapped();
    without.graph.node.remove(4);
    refuses(&original, &without, ViolationKind::MissingNode, "d");
    let mut reordered = swapped();
    reordered.graph.node.swap(1, 2);
    refuses(&original, &reordered, ViolationKind::ReorderedNode, "a");
    let mut extra = swapped();
    extra.node("e", "Relu", "d");
    refuses(&original, &extra, ViolationKind::ExtraNode, "e");
    let mut twice = swapped();
    let node = twice.get("d").clone();
    twice.graph.node.push(node);
    refuses(&original, &twice, ViolationKind::DuplicateName, "d");
    let mut twice = swapped();
    let node = twice.get("lms/swap_in/a/0_0").clone();
    twice.graph.node.insert(0, node);
    refuses(&original, &twice, ViolationKind::DuplicateName, "lms/swap_in/a/0_0");
}

#[test]
fn added_nodes_may_stand_anywhere() {
    let mut rewritten = swapped();
    let swap = rewritten.graph.node.pop().unwrap();
    rewritten.graph.node.insert(0, swap);
    accepts(&chain(), &rewritten);
}

#[test]
fn many_violations_are_counted_and_some_are_worded() {
    let mut original = Build::of(&[("x", "Placeholder", "")]);
    for index in 0..30 {
        original.node(&format!("n{index}"), "Relu", "x");
    }
    let mut other = original.clone();
    for node in &mut other.graph.node[1..] {
        node.op = "Elu".into();
    }
    let error = verify(&original, &other).unwrap_err();
    assert_eq!((error.violations.len(), error.further), (20, 10));
    assert_eq!(error, verify(&original, &other).unwrap_err());
    assert!(error.to_string().ends_with("and 10 more"));
}
