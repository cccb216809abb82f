//! Small graphs, each made to show one thing that plans do.

use lms_testing::machine::machine;
use lms_testing::made_up::{GraphBuilder, shape_proto, type_value};
use tf_lms::dtype::DataType;
use tf_lms::format::{Model, ReadOptions};
use tf_lms::graph::Graph;
use tf_lms::ops::OpRegistry;
use tf_lms::plan::{Draft, Traffic, traffic};
use tf_lms::proto::tensorflow::TensorProto;
use tf_lms::proto::tensorflow::attr_value::Value;
use tf_lms::simulate::{Machine, Outline};
use tf_lms::tune::{Judge, Strategy as _, step_bound};

use super::{carried_out, planned, with_outline, written};
use crate::outlined::with_costs;

/// A tensor that could be made again only by way of thousands of others is not.
#[test]
fn a_long_chain_is_not_made_again() {
    let content = lms_testing::training_graph::long_chain(40_000);
    let model = Model::from_bytes("a long chain", content, &ReadOptions::default()).unwrap();
    let check = |outline: &Outline| {
        // At most two tensors fit, so the one in the middle leaves for a while.
        let budget = machine(vec![(128 * 128 * 4) * 5 / 2]);
        let found = planned(true).find(&mut Judge::new(outline, &budget)).unwrap();
        assert!(found.is_none_or(|found| found.draft.recomputations.is_empty()));
    };
    with_outline(&model, &[lms_testing::training_graph::TRAIN_OP], check).unwrap();
}

/// A chain on a GPU, each tensor of which is read once more, the last first: what training looks like.
fn there_and_back(op: &str, length: usize) -> Vec<u8> {
    const SHAPE: &[i64] = &[64, 64];
    let float = || type_value(DataType::FLOAT);
    let mut builder = GraphBuilder::default();
    let fed = vec![("dtype", float()), ("shape", Value::Shape(shape_proto(SHAPE)))];
    let mut there = vec![builder.add("Placeholder", &[], fed, &[SHAPE])];
    builder.device = "/device:GPU:0".to_string();
    for place in 0..length {
        there.push(builder.add(op, &[&there[place], &there[place]], vec![("T", float())], &[SHAPE]));
    }
    let mut last = there[length].clone();
    for tensor in there[1..length].iter().rev() {
        last = builder.add(op, &[&last, tensor], vec![("T", float())], &[SHAPE]);
    }
    if let Some(last) = builder.nodes.last_mut() {
        last.name = "back".to_string();
    }
    builder.encode()
}

/// What a second run reads may itself be made again, though it is read later once more, and not brought back for that by a copy.
#[test]
fn what_returns_later_is_made_again_on_the_way() {
    let model =
        Model::from_bytes("there and back", there_and_back("MatMul", 10), &ReadOptions::default()).unwrap();
    let check = |outline: &Outline| {
        // The step would like eleven tensors.
        let budget = machine(vec![64 * 64 * 4 * 13 / 2]);
        let found = planned(true).find(&mut Judge::new(outline, &budget)).unwrap().expect("a plan");
        // One is kept for all others, where two would be if second runs read copies.
        assert_eq!(found.outcome.gpus[0].out_bytes, 64 * 64 * 4);
        assert!(found.draft.recomputations.len() > 4, "{}", found.draft.recomputations.len());
        let plan = written(outline, found.draft);
        carried_out(&model, outline.analysis().graph, &plan, &["back"]).unwrap();
    };
    with_outline(&model, &["back"], check).unwrap();
}

/// A chain on a GPU, each op of which reads random numbers that nothing else is needed for: dropouts of a fixed batch.
fn with_masks(layers: usize) -> Vec<u8> {
    const SHAPE: &[i64] = &[64, 64];
    let float = || type_value(DataType::FLOAT);
    let mut builder = GraphBuilder::default();
    let fed = vec![("dtype", float()), ("shape", Value::Shape(shape_proto(SHAPE)))];
    let mut last = builder.add("Placeholder", &[], fed, &[SHAPE]);
    let size = TensorProto {
        dtype: DataType::INT32.number(),
        tensor_shape: Some(shape_proto(&[2])),
        int_val: vec![64, 64],
        ..TensorProto::default()
    };
    let int = || type_value(DataType::INT32);
    let size = builder.add("Const", &[], vec![("dtype", int()), ("value", Value::Tensor(size))], &[&[2]]);
    builder.device = "/device:GPU:0".to_string();
    for _ in 0..layers {
        let mask = builder.add("RandomUniform", &[&size], vec![("T", int()), ("dtype", float())], &[SHAPE]);
        last = builder.add("Mul", &[&last, &mask], vec![("T", float())], &[SHAPE]);
    }
    if let Some(last) = builder.nodes.last_mut() {
        last.name = "end".to_string();
    }
    builder.encode()
}

/// TensorFlow draws all random numbers when a step begins; with a plan they wait for the layer that reads them.
#[test]
fn masks_wait_for_their_layers() {
    let model = Model::from_bytes("masks", with_masks(10), &ReadOptions::default()).unwrap();
    let check = |outline: &Outline| {
        // Of ten masks and what is made with them, four fit.
        let budget = machine(vec![64 * 64 * 4 * 4]);
        let mut judge = Judge::new(outline, &budget);
        assert!(judge.judge(&Draft::default()).is_err());
        let found = planned(true).find(&mut judge).unwrap().expect("a plan");
        assert_eq!(found.outcome.gpus[0].out_bytes, 0);
        let plan = written(outline, found.draft);
        carried_out(&model, outline.analysis().graph, &plan, &["end"]).unwrap();
    };
    with_outline(&model, &["end"], check).unwrap();
}

/// A long chain on a GPU, at the end of which a tensor is read that the host has from the start: fed, or computed there.
fn with_late_input(op: &str, device: &str) -> (Vec<u8>, String) {
    const SHAPE: &[i64] = &[64, 64];
    let float = || type_value(DataType::FLOAT);
    let mut builder = GraphBuilder::default();
    let fed = || vec![("dtype", float()), ("shape", Value::Shape(shape_proto(SHAPE)))];
    let input = builder.add("Placeholder", &[], fed(), &[SHAPE]);
    builder.device = device.to_string();
    let late = match op {
        "Placeholder" => builder.add(op, &[], fed(), &[SHAPE]),
        _ => builder.add(op, &[&input], vec![("T", float())], &[SHAPE]),
    };
    builder.device = "/device:GPU:0".to_string();
    let mut last = input;
    for _ in 0..8 {
        last = builder.add("MatMul", &[&last, &last], vec![("T", float())], &[SHAPE]);
    }
    builder.add("AddV2", &[&last, &late], vec![("T", float())], &[SHAPE]);
    builder.add("MatMul", &[&last, &last], vec![("T", float())], &[SHAPE]);
    (builder.encode(), late)
}

/// What the host has comes to the GPU when it is needed, which costs nothing.
#[test]
fn what_the_host_has_comes_late() {
    for (op, device) in [("Placeholder", ""), ("Placeholder", "/device:CPU:0"), ("Relu", "/device:CPU:0")] {
        let (content, late) = with_late_input(op, device);
        let model = Model::from_bytes("a late input", content, &ReadOptions::default()).unwrap();
        let check = |outline: &Outline| {
            let graph = outline.analysis().graph;
            // Two and a half tensors; the step would like three.
            let budget = machine(vec![64 * 64 * 4 * 5 / 2]);
            let mut judge = Judge::new(outline, &budget);
            assert!(judge.judge(&Draft::default()).is_err());
            let found = planned(false).find(&mut judge).unwrap().expect("a plan");
            let [swap] = &found.draft.swaps[..] else { panic!("{:?}", found.draft.swaps) };
            assert_eq!(graph.name(graph.producer(swap.tensor)), late);
            let runs = |node| outline.entry(node).is_some();
            let copied = traffic(outline.analysis(), outline.placement(), &found.draft, runs);
            assert_eq!(copied, [Traffic::default()]);
            // A second copy is one more than the graph makes.
            let mut twice = found.draft.clone();
            let uses = &mut twice.swaps[0].uses;
            uses.push(uses[0].clone());
            let copied = traffic(outline.analysis(), outline.placement(), &twice, runs);
            assert_eq!(copied, [Traffic { out_bytes: 0, in_bytes: 64 * 64 * 4 }]);
            let plan = written(outline, found.draft);
            assert_eq!(carried_out(&model, graph, &plan, &[]).unwrap().swap_ins, 1);
        };
        with_outline(&model, &["addv2_10", "matmul_11"], check).unwrap();
    }
}

/// What must leave has to be copied or made again, and either takes its time.
#[test]
fn a_bound_counts_copies_and_second_runs() {
    const OP_SECONDS: f64 = 1e-6;
    const TENSOR_BYTES: u64 = 64 * 64 * 4;
    let bound = |op: &str| {
        let content = there_and_back(op, 10);
        let model = Model::from_bytes("there and back", content, &ReadOptions::default()).unwrap();
        let check = |outline: &Outline| {
            // Of the ten tensors on the way there, and what is made of the last on the way back, there is room for five and a half.
            let budget = machine(vec![TENSOR_BYTES * 11 / 2]);
            let found = planned(true).find(&mut Judge::new(outline, &budget)).unwrap().expect("a plan");
            let bound = step_bound(outline, &budget, &found.draft).unwrap();
            assert!(bound <= found.outcome.step_seconds);
            bound
        };
        with_costs(&model, &["back"], OP_SECONDS, check).unwrap()
    };
    // Nineteen ops in any case, and for all that is too much another one each.
    for op in ["MatMul", "BatchMatMulV2"] {
        let made_again = bound(op);
        assert!(made_again > 23.0 * OP_SECONDS && made_again < 26.0 * OP_SECONDS, "{op}: {made_again}");
    }
    // What may not run again has to be copied, which takes sixteen times as long.
    let copied = bound("Cross");
    assert!(copied > 50.0 * OP_SECONDS, "{copied}");
}

/// What is read once more behind two long branches of a GPU, each of which others read who know nothing of the other, and nothing of the
/// variable that the step updates last. That variable comes first in the file.
fn with_branches() -> Vec<u8> {
    const SHAPE: &[i64] = &[64, 64];
    let float = || type_value(DataType::FLOAT);
    let mut builder = GraphBuilder { device: "/device:GPU:0".to_string(), ..GraphBuilder::default() };
    let scalar = || Value::Shape(shape_proto(&[]));
    let variable = builder.add("VarHandleOp", &[], vec![("dtype", float()), ("shape", scalar())], &[&[]]);
    let fed = vec![("dtype", float()), ("shape", Value::Shape(shape_proto(SHAPE)))];
    let input = builder.add("Placeholder", &[], fed, &[SHAPE]);
    let mut of_two = |op: &str, one: &str, other: &str, shape| {
        builder.add(op, &[one, other], vec![("T", float())], &[shape])
    };
    let first = of_two("MatMul", &input, &input, SHAPE);
    // Of two kinds, since equal ops would be one.
    let mut branches = [("MatMul", first.clone()), ("BatchMatMulV2", first.clone())];
    for _ in 0..20 {
        branches = branches.map(|(op, last)| (op, of_two(op, &last, &last, SHAPE)));
    }
    let [one, other] = branches.map(|(_, last)| of_two("AddV2", &last, &first, SHAPE));
    let both = of_two("MatMul", &one, &other, SHAPE);
    for result in [&one, &other] {
        builder.add("Tanh", &[result], vec![("T", float())], &[SHAPE]);
    }
    let value = builder.add("ReadVariableOp", &[&variable], vec![("dtype", float())], &[&[]]);
    let scaled = builder.add("Mul", &[&both, &value], vec![("T", float())], &[SHAPE]);
    let axes = builder.add("Shape", &[&value], vec![("T", float())], &[&[0]]);
    let sum = builder.add("Sum", &[&scaled, &axes], vec![("T", float())], &[&[]]);
    builder.add("AssignSubVariableOp", &[&variable, &sum], vec![("dtype", float())], &[]);
    builder.encode()
}

/// Who does not need the variables that a step updates at its end may wait for what comes before that, wherever these variables are in
/// the file.
#[test]
fn variables_that_come_early_hold_nothing_up() {
    let model = Model::from_bytes("two branches", with_branches(), &ReadOptions::default()).unwrap();
    let graph = Graph::of_model(&model, OpRegistry::builtin()).unwrap();
    let update = graph.node_ids().find(|&node| graph.op(node).name() == "AssignSubVariableOp").unwrap();
    let train_op = graph.name(update);
    let check = |outline: &Outline| {
        // Both branches and what is read once more want four tensors.
        let budget = machine(vec![64 * 64 * 4 * 7 / 2]);
        let mut judge = Judge::new(outline, &budget);
        assert!(judge.judge(&Draft::default()).is_err());
        let found = planned(false).find(&mut judge).unwrap().expect("a plan");
        let plan = written(outline, found.draft);
        carried_out(&model, outline.analysis().graph, &plan, &[train_op]).unwrap();
    };
    with_outline(&model, &[train_op], check).unwrap();
}

/// A constant that is true.
fn truth(builder: &mut GraphBuilder) -> String {
    let value = vec![
        ("dtype", type_value(DataType::BOOL)),
        (
            "value",
            Value::Tensor(TensorProto {
                dtype: DataType::BOOL.number(),
                tensor_shape: Some(shape_proto(&[])),
                bool_val: vec![true],
                ..TensorProto::default()
            }),
        ),
    ];
    builder.add("Const", &[], value, &[&[]])
}

/// What joins two branches, of which a step takes the second, is read once more behind a long chain; so is what the branches read.
/// `are_branches` says for each input of the `Merge` whether it is of a branch. With the op to be run.
fn with_merge(are_branches: [bool; 2]) -> (Vec<u8>, String) {
    const SHAPE: &[i64] = &[64, 64];
    let float = || type_value(DataType::FLOAT);
    let mut builder = GraphBuilder { device: "/device:GPU:0".to_string(), ..GraphBuilder::default() };
    let fed = vec![("dtype", float()), ("shape", Value::Shape(shape_proto(SHAPE)))];
    let input = builder.add("Placeholder", &[], fed, &[SHAPE]);
    let predicate = truth(&mut builder);
    let read = builder.add("MatMul", &[&input, &input], vec![("T", float())], &[SHAPE]);
    let branches = [0, 1].map(|output| {
        let branch = match are_branches[output] {
            true => {
                let switch =
                    builder.add("Switch", &[&read, &predicate], vec![("T", float())], &[SHAPE, SHAPE]);
                format!("{switch}:{output}")
            }
            false => read.clone(),
        };
        builder.add("Tanh", &[&branch], vec![("T", float())], &[SHAPE])
    });
    let inputs = branches.each_ref().map(String::as_str);
    let count = vec![("T", float()), ("N", Value::I(2))];
    let merged = builder.add("Merge", &inputs, count, &[SHAPE, &[]]);
    let mut last = merged.clone();
    for _ in 0..8 {
        last = builder.add("MatMul", &[&last, &last], vec![("T", float())], &[SHAPE]);
    }
    // What reads all three at once. (Of a sum of three no input runs again: it would add in another order.)
    let end = builder.add("ClipByValue", &[&last, &read, &merged], vec![("T", float())], &[SHAPE]);
    (builder.encode(), end)
}

/// What joins branches comes back by a second run of the branch that is taken, if there is but one.
#[test]
fn a_branch_runs_again() {
    for are_branches in [[true, true], [true, false], [false, false]] {
        let (content, end) = with_merge(are_branches);
        let model = Model::from_bytes("branches", content, &ReadOptions::default()).unwrap();
        let check = |outline: &Outline| {
            let graph = outline.analysis().graph;
            // Three and a half; both that are read once more and the chain would like four.
            let fast = machine(vec![64 * 64 * 4 * 7 / 2]);
            let budget = Machine { in_bytes_per_second: 1e6, out_bytes_per_second: 1e6, ..fast };
            let mut judge = Judge::new(outline, &budget);
            assert!(judge.judge(&Draft::default()).is_err());
            let found = planned(true).find(&mut judge).unwrap().expect("a plan");
            let again: Vec<&str> =
                found.draft.recomputations.iter().map(|again| graph.op(again.op).name()).collect();
            assert_eq!(again.contains(&"Merge"), are_branches == [true, true], "{again:?}");
            let plan = written(outline, found.draft);
            carried_out(&model, graph, &plan, &[]).unwrap();
        };
        with_outline(&model, &[&end], check).unwrap();
    }
}

/// Zeros for the branch that is taken, as gradients have them in TensorFlow 1, read at the end of a long chain on a GPU. With the op to be run.
fn with_zeros() -> (Vec<u8>, String) {
    const SHAPE: &[i64] = &[64, 64];
    let float = || type_value(DataType::FLOAT);
    let mut builder = GraphBuilder { device: "/device:GPU:0".to_string(), ..GraphBuilder::default() };
    let fed = |builder: &mut GraphBuilder, dtype, shape| {
        let attrs = vec![("dtype", type_value(dtype)), ("shape", Value::Shape(shape_proto(shape)))];
        builder.add("Placeholder", &[], attrs, &[shape])
    };
    let axes = fed(&mut builder, DataType::INT32, &[2]);
    let input = fed(&mut builder, DataType::FLOAT, SHAPE);
    let zero = builder.add("Const", &[], vec![("dtype", float())], &[&[]]);
    let predicate = truth(&mut builder);
    let switch = builder.add("Switch", &[&input, &predicate], vec![("T", float())], &[SHAPE, SHAPE]);
    let dead = builder.add("Tanh", &[&switch], vec![("T", float())], &[SHAPE]);
    let zeros = builder.add("Fill", &[&axes, &zero], vec![("T", float())], &[SHAPE]);
    let count = vec![("T", float()), ("N", Value::I(2))];
    let merged = builder.add("Merge", &[&dead, &zeros], count, &[SHAPE, &[]]);
    let mut last = input;
    for _ in 0..8 {
        last = builder.add("MatMul", &[&last, &last], vec![("T", float())], &[SHAPE]);
    }
    let end = builder.add("AddV2", &[&last, &merged], vec![("T", float())], &[SHAPE]);
    (builder.encode(), end)
}

/// They come when what joins the branches is read, not before, and so need not leave.
#[test]
fn zeros_in_the_place_of_a_branch_come_late() {
    let (content, end) = with_zeros();
    let model = Model::from_bytes("zeros", content, &ReadOptions::default()).unwrap();
    let check = |outline: &Outline| {
        // Two and a half tensors; with the zeros the chain would like three.
        let budget = machine(vec![64 * 64 * 4 * 5 / 2]);
        let mut judge = Judge::new(outline, &budget);
        assert!(judge.judge(&Draft::default()).is_err());
        let found = planned(false).find(&mut judge).unwrap().expect("a plan");
        assert!(found.draft.swaps.is_empty(), "{:?}", found.draft.swaps);
        let plan = written(outline, found.draft);
        carried_out(&model, outline.analysis().graph, &plan, &[&end]).unwrap();
    };
    with_outline(&model, &[&end], check).unwrap();
}

/// A chain on a GPU, there and back, of which the first tensor is put into a list that is read at the end: what Python's own loop makes of a
/// `TensorArray`. With the tensor, and the op to be run.
fn with_list() -> (Vec<u8>, String, String) {
    const SHAPE: &[i64] = &[64, 64];
    let float = || type_value(DataType::FLOAT);
    let element = || ("element_dtype", float());
    let mut builder = GraphBuilder::default();
    let fed = |builder: &mut GraphBuilder, dtype, shape| {
        let attrs = vec![("dtype", type_value(dtype)), ("shape", Value::Shape(shape_proto(shape)))];
        builder.add("Placeholder", &[], attrs, &[shape])
    };
    let size = fed(&mut builder, DataType::INT32, &[2]);
    let number = fed(&mut builder, DataType::INT32, &[]);
    let input = fed(&mut builder, DataType::FLOAT, SHAPE);
    builder.device = "/device:GPU:0".to_string();
    let reserve = vec![element(), ("shape_type", type_value(DataType::INT32))];
    let mut list = builder.add("TensorListReserve", &[&size, &number], reserve, &[&[]]);
    let mut there = vec![builder.add("MatMul", &[&input, &input], vec![("T", float())], &[SHAPE])];
    list = builder.add("TensorListSetItem", &[&list, &number, &there[0]], vec![element()], &[&[]]);
    for place in 0..5 {
        there.push(builder.add("MatMul", &[&there[place], &there[place]], vec![("T", float())], &[SHAPE]));
    }
    let mut last = there[5].clone();
    for tensor in there[1..5].iter().rev() {
        last = builder.add("MatMul", &[&last, tensor], vec![("T", float())], &[SHAPE]);
    }
    let end = builder.add("TensorListGetItem", &[&list, &number, &size], vec![element()], &[SHAPE]);
    let end = builder.add("MatMul", &[&last, &end], vec![("T", float())], &[SHAPE]);
    (builder.encode(), there[0].clone(), end)
}

/// What is in a list is in memory as long as the list is, so others leave.
#[test]
fn what_is_in_a_list_stays() {
    let (content, in_list, end) = with_list();
    let model = Model::from_bytes("a list", content, &ReadOptions::default()).unwrap();
    let check = |outline: &Outline| {
        let graph = outline.analysis().graph;
        // The step would like seven tensors.
        let budget = machine(vec![64 * 64 * 4 * 11 / 2]);
        let mut judge = Judge::new(outline, &budget);
        assert!(judge.judge(&Draft::default()).is_err());
        let found = planned(false).find(&mut judge).unwrap().expect("a plan");
        let leaving: Vec<&str> =
            found.draft.swaps.iter().map(|swap| graph.name(graph.producer(swap.tensor))).collect();
        assert!(!leaving.is_empty() && !leaving.contains(&in_list.as_str()), "{leaving:?}");
        let plan = written(outline, found.draft);
        carried_out(&model, graph, &plan, &[&end]).unwrap();
    };
    with_outline(&model, &[&end], check).unwrap();
}
