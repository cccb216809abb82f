//! Calls at the top level of a graph.

use prost::Message;
use tf_lms::AnalysisOptions;
use tf_lms::flatten::{is_lowered, lowered, restored};
use tf_lms::format::{Edits, Encoding, Model, ReadOptions};
use tf_lms::proto::tensorflow::GraphDef;
use tf_lms::proto::tensorflow::attr_value::Value;
use tf_lms::shape::{Shapes, Sizes};
use tf_lms::verify::{self, ViolationKind};

use super::made::{
    FLOAT, RESOURCE, assign, call, called, float, function, list, model, nested, node, registry, top, with,
};

/// A graph that calls a function with an effect and one with two results and none, and has a branch that leaves one to chance.
fn calling() -> Model {
    let branch = with(node("if", "If", "ok Call w"), "then_branch", called("yes"));
    let branch = with(with(branch, "else_branch", called("no")), "Tcond", Value::Type(10));
    let branch =
        super::made::lowered(with(with(branch, "Tin", list(&[FLOAT, RESOURCE])), "Tout", list(&[FLOAT])));
    let mut nodes = top();
    nodes.extend([
        with(node("ok", "Placeholder", ""), "dtype", Value::Type(10)),
        call("two", "double", "images", &[FLOAT], 2),
        branch,
        float(node("out", "AddV2", "if two:1")),
        node("after", "NoOp", "^Call"),
    ]);
    let mut functions = nested();
    // Nothing waits for what `yes` adds, so no session adds it.
    functions.push(function(
        "yes",
        "x v",
        vec![float(node("y", "Neg", "x")), assign("add", "v x")],
        &[("y", "y:y:0")],
        "",
    ));
    functions.push(function("no", "x v", vec![float(node("y", "Abs", "x"))], &[("y", "y:y:0")], ""));
    model(nodes, functions)
}

/// The file with its calls made flat.
fn flat_file(model: &Model) -> Model {
    let edits = lowered(model, &registry(model)).unwrap().unwrap();
    let content = model.edited(&edits, Encoding::Binary).unwrap().to_vec();
    Model::from_bytes("flat", content, &ReadOptions::default()).unwrap()
}

fn read_by(model: &Model, name: &str) -> String {
    let nodes = model.nodes();
    let node = (0..nodes.len()).find(|&node| nodes.name(node) == name);
    node.map(|node| format!("{} {}", nodes.op(node), nodes.inputs(node).collect::<Vec<_>>().join(" ")))
        .unwrap_or_default()
}

#[test]
fn a_fetch_brings_the_effects_that_it_brought() {
    let flat = flat_file(&calling());
    // Who reads a function with an effect waits for all of it, and it begins once all is there that it reads.
    assert_eq!(read_by(&flat, "Call"), "Identity Call/loss ^Call/done");
    assert_eq!(read_by(&flat, "Call/done"), "NoOp ^Call/first ^Call/second ^Call/start");
    assert_eq!(read_by(&flat, "Call/start"), "NoOp ^Call/given_0");
    assert_eq!(read_by(&flat, "after"), "NoOp ^Call/done");
    // Of one without, each reads what it needs, and the name is for who fetches both.
    assert_eq!(read_by(&flat, "two"), "IdentityN two/sum images");
    assert_eq!(read_by(&flat, "out"), "AddV2 if/result_0 images");
    assert_eq!(read_by(&flat, "if/result_0"), "Merge if/else/y if/then/y");
    // Nothing waits for a branch's update that nothing waited for: no session makes it.
    let nodes = flat.nodes();
    assert!((0..nodes.len()).all(|node| nodes.inputs(node).all(|input| input != "^if/then/add")));
    assert!(is_lowered(&flat).unwrap() && lowered(&flat, &registry(&flat)).unwrap().is_none());
}

#[test]
fn it_comes_back_to_the_byte_and_is_proved() {
    let model = calling();
    let flat = flat_file(&model);
    let back = flat.edited(&restored(&flat).unwrap().unwrap(), Encoding::Binary).unwrap().to_vec();
    assert!(back == model.edited(&Edits::default(), Encoding::Binary).unwrap().to_vec());
    verify::check(&model, &flat, &registry(&model)).unwrap();

    let refused = |change: &dyn Fn(&mut GraphDef)| -> ViolationKind {
        let mut graph = GraphDef::decode(flat.graph_def()).unwrap();
        change(&mut graph);
        let changed = Model::from_bytes("changed", graph.encode_to_vec(), &ReadOptions::default()).unwrap();
        verify::check(&model, &changed, &registry(&model)).unwrap_err().violations[0].kind
    };
    let find =
        |graph: &mut GraphDef, name: &str| graph.node.iter().position(|node| node.name == name).unwrap();
    // An update less comes with a fetch.
    let lost = |graph: &mut GraphDef| {
        let at = find(graph, "Call");
        graph.node[at].input.truncate(1);
    };
    assert_eq!(refused(&lost), ViolationKind::LostControl);
    // The other side of a branch.
    let other = |graph: &mut GraphDef| {
        let at = find(graph, "if/result_0");
        graph.node[at].input.reverse();
    };
    assert_eq!(refused(&other), ViolationKind::WrongTensor);
    // It would come back as something else.
    let kept = |graph: &mut GraphDef| {
        let functions = &mut graph.library.as_mut().unwrap().function;
        let kept = functions.iter_mut().find(|function| function.attr.contains_key("_lms_nodes")).unwrap();
        let nodes = top()
            .into_iter()
            .map(|node| GraphDef { node: vec![node], ..GraphDef::default() }.encode_to_vec());
        kept.attr.get_mut("_lms_nodes").unwrap().value = Some(Value::S(nodes.flatten().collect()));
    };
    assert_eq!(refused(&kept), ViolationKind::MissingNode);
}

#[test]
fn what_cannot_be_made_flat_stays() {
    let mut functions = nested();
    functions.push(function(
        "endless",
        "x",
        vec![call("again", "endless", "x", &[FLOAT], 1)],
        &[("y", "again:output:0")],
        "",
    ));
    let nodes = vec![
        with(node("x", "Placeholder", ""), "dtype", Value::Type(FLOAT)),
        call("call", "endless", "x", &[FLOAT], 1),
    ];
    let model = model(nodes, functions);
    assert!(lowered(&model, &registry(&model)).is_err());
    let read = tf_lms::Model::from_bytes("endless", model.graph_def().to_vec(), &Default::default()).unwrap();
    assert!(!read.is_lowered());
    // Where a step runs it, it is said why.
    let graph = read.graph().unwrap();
    let known = (Shapes::declared(&graph), Sizes::of(&graph, &Shapes::declared(&graph)).unwrap());
    let options =
        |op: &str| AnalysisOptions { train_ops: vec![op.to_string()], ..AnalysisOptions::default() };
    let analysis = read.analyse_sized(&graph, &options("call"), known.clone()).unwrap();
    let refused = analysis.check_calls().unwrap_err().to_string();
    assert!(refused.contains("call (op StatefulPartitionedCall) (cannot be made flat"), "{refused}");
    assert!(refused.contains("endless → endless"), "{refused}");
    assert!(read.analyse_sized(&graph, &options("x"), known).unwrap().check_calls().is_ok());
}
