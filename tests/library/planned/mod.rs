//! Plans for budgets: over random graphs each plan that is found passes the checker and stays within its budget, and what is changed
//! in one is caught.

mod search;

use lms_testing::machine::machine;
use lms_testing::made_up::{GraphBuilder, shape_proto, type_value};
use proptest::prelude::*;
use tf_lms::cost::DeviceProfile;
use tf_lms::dtype::DataType;
use tf_lms::format::{Encoding, Model, ReadOptions};
use tf_lms::graph::{Graph, NodeId};
use tf_lms::ops::OpRegistry;
use tf_lms::order::Placement;
use tf_lms::plan::{
    Analysis, Draft, Plan, Substitute, Traffic, guard_ref_variables, tflms, traffic, without_tensor,
};
use tf_lms::proto::tensorflow::TensorProto;
use tf_lms::proto::tensorflow::attr_value::Value;
use tf_lms::rewrite;
use tf_lms::shape::{Shapes, Sizes};
use tf_lms::simulate::{Machine, NoObserver, OpCost, Outcome, Outline, Program, simulate};
use tf_lms::tune::planned::Settings;
use tf_lms::tune::{Judge, Planned, Strategy as _, Tflms, Verdict, step_bound, tune};
use tf_lms::verify::{self, CheckOptions, Verified, VerifyError};

/// A graph with all that is known of it, for a check. Computing is fast, so that running an op again pays.
fn with_outline<R>(model: &Model, targets: &[&str], check: impl FnOnce(&Outline) -> R) -> Option<R> {
    with_costs(model, targets, 1e-9, check)
}

/// The same where each op takes so many seconds.
fn with_costs<R>(
    model: &Model,
    targets: &[&str],
    seconds: f64,
    check: impl FnOnce(&Outline) -> R,
) -> Option<R> {
    let graph = Graph::of_model(model, OpRegistry::builtin()).unwrap();
    let targets: Vec<NodeId> = graph.node_ids().filter(|&node| targets.contains(&graph.name(node))).collect();
    let shapes = Shapes::declared(&graph);
    let sizes = Sizes::of(&graph, &shapes).unwrap();
    let analysis = Analysis::new(&graph, &targets, shapes, sizes);
    let placement = Placement::of(&graph);
    let cost = |_| OpCost { seconds, workspace_bytes: 0 };
    // A graph of unknown sizes is refused, which is tested elsewhere.
    let outline = Outline::new(&analysis, &placement, cost).ok()?;
    Some(check(&outline))
}

fn planned(recompute: bool) -> Planned {
    with_settings(Settings { recompute, ..Settings::default() })
}

/// Without much effort, if it is not said how much.
fn with_settings(settings: Settings) -> Planned {
    let effort_seconds = match settings.effort_seconds == Settings::default().effort_seconds {
        true => 0.05,
        false => settings.effort_seconds,
    };
    Planned { settings: Settings { effort_seconds, ..settings }, ..Planned::default() }
}

fn written(outline: &Outline, draft: Draft) -> Plan {
    let mut plan = Plan::new(outline.analysis(), "planned", "/cpu:0");
    draft.write_to(&mut plan, outline.analysis());
    plan
}

/// Rewrites a graph by a plan, and checks the result; why it is refused otherwise.
fn carried_out(model: &Model, graph: &Graph, plan: &Plan, train_ops: &[&str]) -> Result<Verified, String> {
    let edits = rewrite::rewrite(model, graph, plan).map_err(|error| error.to_string())?.edits;
    let content = model.edited(&edits, Encoding::Binary).unwrap().to_vec();
    let result = Model::from_bytes("rewritten", content, &ReadOptions::default()).unwrap();
    let options = CheckOptions { train_ops: train_ops.iter().map(ToString::to_string).collect() };
    verify::check_with(model, &result, OpRegistry::builtin(), &options)
        .map_err(|error: VerifyError| error.to_string())
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(150) })]

    #[test]
    fn plans_for_odd_graphs_hold(seed: u64, size in 10usize..150, part in 0.3f64..1.0, recompute: bool) {
        let settings = Settings { recompute, ..Settings::default() };
        plan_holds(lms_testing::random_graph::random_graph(seed, size), lms_testing::random_graph::TRAIN_OP, part, settings)?;
    }

    #[test]
    fn plans_for_training_graphs_hold(
        seed: u64,
        layers in 4usize..60,
        part in 0.2f64..1.0,
        recompute: bool,
        swap_weights: bool,
    ) {
        let content = lms_testing::training_graph::random_training_graph(seed, layers);
        let settings = Settings { recompute, swap_weights, ..Settings::default() };
        plan_holds(content, lms_testing::training_graph::TRAIN_OP, part, settings)?;
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(60) })]

    /// No plan is faster than the bound for the order that it has, whoever made it and whether copies or ops take longer.
    #[test]
    fn no_step_goes_below_its_bound(
        seed: u64,
        layers in 4usize..60,
        is_odd: bool,
        part in 0.2f64..1.0,
        exponent in -9f64..-4.0,
        recompute: bool,
        swap_weights: bool,
    ) {
        let (content, train_op) = match is_odd {
            true => (lms_testing::random_graph::random_graph(seed, layers * 2), lms_testing::random_graph::TRAIN_OP),
            false => (lms_testing::training_graph::random_training_graph(seed, layers), lms_testing::training_graph::TRAIN_OP),
        };
        let model = Model::from_bytes("a random graph", content, &ReadOptions::default()).unwrap();
        let check = |outline: &Outline| {
            if !outline.analysis().step.is_known() || outline.placement().gpus().is_empty() {
                return Ok(());
            }
            let least = Judge::new(outline, &machine(Vec::new())).least_memory(&Draft::default());
            let budget = machine(vec![(least as f64 * part) as u64]);
            let mut judge = Judge::new(outline, &budget);
            judge.trust_the_profile();
            let settings = Settings { recompute, swap_weights, ..Settings::default() };
            let mut strategies: [Box<dyn tf_lms::tune::Strategy>; 2] =
                [Box::new(with_settings(settings)), Box::new(Tflms::new(tflms::Parameters::default()))];
            for strategy in &mut strategies {
                let Ok(Some(found)) = strategy.find(&mut judge) else { continue };
                let bound = step_bound(outline, &budget, &found.draft);
                prop_assert!(bound.is_some());
                let seconds = found.outcome.step_seconds;
                prop_assert!(bound.unwrap() <= seconds + 1e-12, "{bound:?} {seconds}");
            }
            Ok(())
        };
        with_costs(&model, &[train_op], 10f64.powf(exponent), check).unwrap_or(Ok(()))?;
    }
}

/// A plan for a part of the memory that a graph wants passes the checker and keeps to its budget, if there is one.
fn plan_holds(content: Vec<u8>, train_op: &str, part: f64, settings: Settings) -> Result<(), TestCaseError> {
    let model = Model::from_bytes("a random graph", content, &ReadOptions::default()).unwrap();
    let check = |outline: &Outline| {
        let graph = outline.analysis().graph;
        if !outline.analysis().step.is_known() || outline.placement().gpus().is_empty() {
            return Ok(());
        }
        let unlimited = machine(Vec::new());
        let least = Judge::new(outline, &unlimited).least_memory(&Draft::default());
        let budget = machine(vec![(least as f64 * part) as u64]);
        let mut judge = Judge::new(outline, &budget);
        // Whatever plan there is, is to hold.
        judge.trust_the_profile();
        let Some(found) = with_settings(settings.clone()).find(&mut judge).unwrap() else { return Ok(()) };
        prop_assert!(settings.swap_weights || found.draft.host_ops.is_empty());
        prop_assert!(settings.recompute || found.draft.recomputations.is_empty());
        for gpu in &found.outcome.gpus {
            prop_assert!(gpu.peak_bytes <= budget.memory[0]);
        }
        let plan = written(outline, found.draft);
        // The written form holds all of it.
        prop_assert_eq!(&Plan::from_json("plan", plan.to_json().as_bytes()).unwrap(), &plan);
        let again = Draft::of(&plan, graph).unwrap();
        let outcome = simulate(&Program::new(outline, &again), &budget, &mut NoObserver).unwrap();
        prop_assert_eq!(&outcome, &found.outcome);
        let verified = carried_out(&model, graph, &plan, &[train_op]);
        prop_assert!(verified.is_ok(), "{}", verified.unwrap_err());
        // So does what is left of it once a tensor is kept.
        let swapped = again.swaps.iter().map(|swap| swap.tensor);
        let made_again = again.recomputations.iter().flat_map(|again| graph.outputs(again.op));
        for tensor in swapped.take(2).chain(made_again.take(4)) {
            let mut less = without_tensor(&again, tensor);
            // What kept an update back may be among what was left out.
            guard_ref_variables(outline.analysis(), &mut less);
            let less = written(outline, less);
            let verified = carried_out(&model, graph, &less, &[train_op]);
            prop_assert!(verified.is_ok(), "{}: {}", graph.tensor_name(tensor), verified.unwrap_err());
        }
        Ok(())
    };
    with_outline(&model, &[train_op], check).unwrap_or(Ok(()))
}

/// What keeps the order of a ref variable's reads and updates may drop a swap whose return a second run reads.
#[test]
fn a_dropped_swap_leaves_no_second_run_behind() {
    let content = lms_testing::random_graph::random_graph(5152059348673234353, 100);
    plan_holds(content, lms_testing::random_graph::TRAIN_OP, 0.8651228906805036, Settings::default())
        .unwrap();
}

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
    let made_again = bound("MatMul");
    assert!(made_again > 23.0 * OP_SECONDS && made_again < 26.0 * OP_SECONDS, "{made_again}");
    // What may not run again has to be copied, which takes sixteen times as long.
    let copied = bound("BatchMatMulV2");
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
    let mut branches = [first.clone(), first.clone()];
    for _ in 0..20 {
        branches = branches.map(|last| of_two("MatMul", &last, &last, SHAPE));
    }
    let [one, other] = branches.map(|last| of_two("AddV2", &last, &first, SHAPE));
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

const RESNET: &str = "testdata/resnet50_2000_b1.meta";

/// ResNet50, what is known of it, and its peak in bytes.
fn with_resnet(check: impl FnOnce(&Model, &Outline, u64)) {
    let content = std::fs::read(RESNET).unwrap();
    let model = Model::from_bytes(RESNET, content, &ReadOptions::default()).unwrap();
    let meta_graph = model.meta_graph().unwrap().unwrap();
    let train_ops = tf_lms::format::collected_ops(&meta_graph, "train_op");
    let names: Vec<&str> = train_ops.iter().map(String::as_str).collect();
    with_outline(&model, &names, |outline| {
        let unlimited = machine(Vec::new());
        let before = simulate(&Program::new(outline, &Draft::default()), &unlimited, &mut NoObserver);
        check(&model, outline, before.unwrap().gpus[0].peak_bytes);
    })
    .unwrap();
}

/// The same with a plan for a part of its memory, with swaps, orders and recomputations.
fn with_resnet_plan(check: impl FnOnce(&Model, &Outline, &Machine, Plan)) {
    with_resnet(|model, outline, peak| {
        let budget = machine(vec![peak * 2 / 5]);
        let tuning = tune(outline, &budget, &mut Planned::default()).unwrap();
        let Verdict::FitsWithSwapping(found) = tuning.verdict else { panic!("no plan") };
        let plan = written(outline, found.draft);
        assert!(!plan.swaps.is_empty() && !plan.orders.is_empty() && !plan.recomputations.is_empty());
        check(model, outline, &budget, plan);
    });
}

/// Where tensors lie depends on when copies end. A plan that fits as predicted, and no other way, is of no use.
#[test]
fn a_plan_fits_whatever_copies_take() {
    let profile = DeviceProfile::built_in("h100").unwrap();
    let mut tried = 0;
    let mut failed = 0;
    with_resnet(|_, outline, peak| {
        for percent in (20..60).step_by(2) {
            let budget = Machine::new(profile, 1, vec![peak / 100 * percent]);
            let found = planned(true).find(&mut Judge::new(outline, &budget)).unwrap();
            let Some(found) = found else { continue };
            let program = Program::new(outline, &found.draft);
            for (chance, slowness) in (1000..1030).zip([1.0, 2.0, 4.0].into_iter().cycle()) {
                let uneven = budget.with_slower_copies(slowness).with_chance(Some(chance));
                tried += 1;
                failed += u32::from(simulate(&program, &uneven, &mut NoObserver).is_err());
            }
        }
    });
    assert!(tried > 200 && failed * 20 <= tried, "{failed} of {tried} runs were out of memory");
}

/// With more memory everything comes to lie elsewhere. A plan that fits only in what it may count on is of no use where there is more.
#[test]
fn a_plan_fits_in_more_memory_too() {
    let profile = DeviceProfile::built_in("h100").unwrap();
    let mut tried = 0;
    let mut failed = Vec::new();
    with_resnet(|_, outline, peak| {
        for percent in (20..60).step_by(2) {
            let memory = peak / 100 * percent;
            let budget = Machine::new(profile, 1, vec![memory]).with_whole_memory(vec![memory + memory / 12]);
            let found = planned(true).find(&mut Judge::new(outline, &budget)).unwrap();
            let Some(found) = found else { continue };
            let program = Program::new(outline, &found.draft);
            for part in [0.0, 0.25, 0.5, 0.75, 1.0] {
                tried += 1;
                let machine = budget.with_part_of_the_rest(part);
                if simulate(&program, &machine, &mut NoObserver).is_err() {
                    failed.push((percent, part));
                }
            }
        }
    });
    assert!(tried > 50 && failed.is_empty(), "of {tried} runs these were out of memory: {failed:?}");
}

/// Near what no plan gets below there is not room for more than one op works with.
#[test]
fn there_are_plans_little_above_the_floor() {
    let profile = DeviceProfile::built_in("v100-pcie3").unwrap();
    with_resnet(|_, outline, peak| {
        let least = |memory: u64| {
            let budget = Machine::new(profile, 1, vec![memory]);
            tune(outline, &budget, &mut Planned::default()).unwrap()
        };
        let floor = least(peak / 2).floors[0].memory_bytes;
        for percent in [115, 120, 130, 140] {
            let tuning = least(floor / 100 * percent);
            assert!(!tuning.is_tight, "{percent}% of the floor");
            let Verdict::FitsWithSwapping(found) = tuning.verdict else { panic!("{percent}% of the floor") };
            assert!(found.outcome.gpus[0].peak_bytes >= floor);
        }
    });
}

/// A plan that leaves room for the allocator has more leave than must. Of what it has leave in the end, hardly anything could stay and make
/// the step shorter.
#[test]
fn what_need_not_leave_stays() {
    let profile = DeviceProfile::built_in("v100-pcie3").unwrap();
    let (mut tried, mut better) = (0, 0);
    with_resnet(|_, outline, peak| {
        for percent in [30, 40, 50, 60, 70] {
            let budget = Machine::new(profile, 1, vec![peak / 100 * percent]);
            let mut judge = Judge::new(outline, &budget);
            let found = Planned::default().find(&mut judge).unwrap().unwrap();
            for swap in &found.draft.swaps {
                let less = judge.judge(&without_tensor(&found.draft, swap.tensor));
                let is_better = |less: Outcome| less.step_seconds < found.outcome.step_seconds * 0.99;
                tried += 1;
                better += u32::from(less.is_ok_and(is_better));
            }
        }
    });
    assert!(better * 5 <= tried, "{better} of {tried} need not leave");
}

#[test]
fn a_changed_plan_is_caught() {
    with_resnet_plan(|model, outline, budget, plan| {
        let graph = outline.analysis().graph;
        let verified = carried_out(model, graph, &plan, &[]).unwrap();
        assert_eq!(verified.recomputed_ops, plan.recomputations.len());
        let fits = |plan: &Plan| {
            let draft = Draft::of(plan, graph).unwrap();
            simulate(&Program::new(outline, &draft), budget, &mut NoObserver).is_ok()
        };
        assert!(fits(&plan));

        // Another input of the same type for a second run.
        let other = plan.swaps[0].tensor.clone();
        let mut wrong = plan.clone();
        let input = wrong.recomputations.iter_mut().flat_map(|again| &mut again.inputs).next().unwrap();
        assert_ne!(input.tensor, other);
        (input.tensor, input.from) = (other, Substitute::SwapIn(0));
        assert!(carried_out(model, graph, &wrong, &[]).unwrap_err().contains("from where it is not"));

        // A second run that stands for another op.
        let mut wrong = plan.clone();
        let unrelated = graph.node_ids().find(|&node| graph.op(node).name() == "Relu").unwrap();
        wrong.recomputations[0].op = graph.name(unrelated).to_string();
        if wrong.recomputations[0].op != plan.recomputations[0].op {
            assert!(carried_out(model, graph, &wrong, &[]).is_err());
        }

        // A second run that reads one that does not stand before it.
        let mut wrong = plan.clone();
        let chained = wrong.recomputations.iter_mut().flat_map(|again| &mut again.inputs);
        let mut chained = chained.filter(|input| matches!(input.from, Substitute::Recomputation(_)));
        chained.next().unwrap().from = Substitute::Recomputation(u32::MAX);
        assert!(carried_out(model, graph, &wrong, &[]).unwrap_err().contains("from where it is not"));

        // A trigger behind the consumer is a cycle.
        let mut wrong = plan.clone();
        let swap_in = &mut wrong.swaps[0].swap_ins[0];
        swap_in.triggers = swap_in.consumers.clone();
        assert!(carried_out(model, graph, &wrong, &[]).unwrap_err().contains("cycle"));

        // Without triggers all comes back at once: of a plan that has it all come back by copies.
        let copies = planned(false).find(&mut Judge::new(outline, budget)).unwrap().expect("a plan");
        let mut early = written(outline, copies.draft);
        assert!(fits(&early));
        early.swaps.iter_mut().flat_map(|swap| &mut swap.swap_ins).for_each(|back| back.triggers.clear());
        assert!(!fits(&early));

        // What is not brought back by a second run stays.
        let mut kept = plan;
        kept.recomputations.clear();
        kept.swaps.iter_mut().for_each(|swap| swap.swap_ins.retain(|back| !back.consumers.is_empty()));
        assert!(!fits(&kept));
    });
}
