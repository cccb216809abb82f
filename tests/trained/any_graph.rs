//! Graphs with several train ops, moving averages, counters, random numbers, branches, loops that train and ops that no step runs: rewritten at random
//! parameters and for random budgets, they do the same in real TensorFlow, whatever is fetched in which order.
//!
//! `LMS_GRAPHS=5000 cargo test --release --all-features --test trained any_graph` looks at more of them, from `LMS_FIRST_GRAPH` on.

use fastrand::Rng;
use lms_testing::steps_graph::{StepsGraph, steps_graph};
use lms_testing::training::one_thread;
use prost::Message;
use tf_lms::dtype::DataType;
use tf_lms::format::{Encoding, Model, ReadOptions};
use tf_lms::graph::{Device, Graph, NodeId};
use tf_lms::ops::OpRegistry;
use tf_lms::order::{Placement, Step};
use tf_lms::plan::{Analysis, Draft, Plan, guard_ref_variables, joined, tflms};
use tf_lms::proto::tensorflow::attr_value::Value;
use tf_lms::proto::tensorflow::rewriter_config::Toggle;
use tf_lms::proto::tensorflow::{AttrValue, ConfigProto, GraphDef, GraphOptions, NodeDef, RewriterConfig};
use tf_lms::rewrite;
use tf_lms::runtime::{Session, SessionError, Tensor, TensorFlow};
use tf_lms::shape::{Shapes, Sizes};
use tf_lms::simulate::{OpCost, Outline};
use tf_lms::tune::planned::Settings;
use tf_lms::tune::{Judge, Planned, Strategy as _};
use tf_lms::verify;

/// How many graphs, unless `LMS_GRAPHS` says otherwise.
const GRAPHS: u64 = 300;

/// Graphs that did something else once: of the first, a sum of four added in another order.
const WERE_WRONG: [u64; 1] = [2111];

/// How many runs of each.
const RUNS: usize = 12;

/// Each graph does the same before and after, to the bit: the values of all variables, and what is fetched.
#[test]
fn a_rewritten_graph_does_the_same_whatever_is_fetched() {
    let Some(tensorflow) = lms_testing::tensorflow() else { return };
    let given = |name: &str| std::env::var(name).ok().map(|number| number.parse::<u64>().unwrap());
    let (first, graphs) = (given("LMS_FIRST_GRAPH").unwrap_or(0), given("LMS_GRAPHS").unwrap_or(GRAPHS));
    let (mut swaps, mut orders, mut several, mut again, mut stacks) = (0, 0, 0, 0, 0);
    for seed in seeds(first, graphs) {
        let mut rng = Rng::with_seed(seed);
        let made = steps_graph(seed, 3 + rng.usize(..14));
        let model = Model::from_bytes("made up", made.meta_graph.clone(), &ReadOptions::default()).unwrap();
        let plan = random_plan(&model, &made, &mut rng);
        let graph = Graph::of_model(&model, OpRegistry::builtin()).unwrap();
        let edits = rewrite::rewrite(&model, &graph, &plan).unwrap().edits;
        let content = model.edited(&edits, Encoding::Binary).unwrap().to_vec();
        let rewritten = Model::from_bytes("rewritten", content, &ReadOptions::default()).unwrap();
        let verified = verify::check(&model, &rewritten, OpRegistry::builtin());
        assert!(verified.is_ok(), "seed {seed}: {}", verified.unwrap_err());
        swaps += plan.swaps.len();
        orders += plan.orders.len();
        again += plan.recomputations.len();
        stacks += usize::from(plan.host_ops.iter().any(|op| op.starts_with("stackpush")));
        several += usize::from(made.train_ops.len() > 1 && !plan.swaps.is_empty());
        let runs = |model: &Model| what_runs_do(tensorflow, model, &made, seed);
        let (expected, found) = (runs(&model).unwrap(), runs(&rewritten).unwrap());
        for ((what, expected), (_, found)) in expected.iter().zip(&found) {
            assert!(expected == found, "seed {seed}: {what} differs");
        }
    }
    if graphs < GRAPHS {
        return;
    }
    // All of it was there.
    let graphs = graphs as usize;
    assert!(swaps > graphs && orders > graphs / 4 && again > graphs / 20, "{swaps} {orders} {again}");
    assert!(several > graphs / 4 && stacks > graphs / 40, "{several} {stacks}");
}

/// So many graphs from a first one on, behind those that once were wrong.
fn seeds(first: u64, graphs: u64) -> impl Iterator<Item = u64> {
    WERE_WRONG.into_iter().filter(move |_| first == 0).chain(first..first + graphs)
}

/// By thresholds, or for a part of the memory that the graph wants.
fn random_plan(model: &Model, made: &StepsGraph, rng: &mut Rng) -> Plan {
    let graph = Graph::of_model(model, OpRegistry::builtin()).unwrap();
    let node = |name: &String| graph.node_ids().find(|&node| graph.name(node) == name).unwrap();
    let runs: Vec<Vec<NodeId>> = made.train_ops.iter().map(|name| vec![node(name)]).collect();
    let all = 0..runs.len();
    let shapes = Shapes::declared(&graph);
    let sizes = Sizes::of(&graph, &shapes).unwrap();
    let analysis = Analysis::with_step(&graph, Step::of_runs(&graph, &runs, all), shapes, sizes);
    let host = Device::parse("/cpu:0").unwrap();
    if rng.bool() {
        let serialization = if rng.bool() { vec![":".parse().unwrap()] } else { Vec::new() };
        let parameters = tflms::Parameters {
            swapout_threshold: rng.u32(1..4),
            swapin_ahead: rng.u32(..5),
            swapin_groupby: rng.u32(..5),
            sync_mode: rng.u8(..4).try_into().unwrap(),
            serialization,
            ..tflms::Parameters::default()
        };
        return tflms::plan(&analysis, &parameters, &host).unwrap();
    }
    let part = 0.5 + 0.5 * rng.f64();
    let mut plan = Plan::new(&analysis, "planned", "/cpu:0");
    let mut draft = Draft::default();
    if made.train_ops.len() > 1 && rng.bool() {
        // Each step for its own, and one plan of all.
        let mut settled: Vec<Step> = Vec::new();
        for run in 0..analysis.step.run_count() {
            let run = analysis.of_run(run);
            let of_run = found(&run, part, rng);
            let is_settled = |node| settled.iter().any(|step: &Step| step.contains(node));
            draft = joined(&draft, &of_run, is_settled);
            settled.push(run.step.clone());
        }
        guard_ref_variables(&analysis, &mut draft);
    } else {
        draft = found(&analysis, part, rng);
    }
    draft.write_to(&mut plan, &analysis);
    plan
}

/// A plan for a part of the memory that a step wants; one that changes nothing if there is none.
fn found(analysis: &Analysis, part: f64, rng: &mut Rng) -> Draft {
    let placement = Placement::of(analysis.graph);
    let cost = |_| OpCost { seconds: 1e-9, ..OpCost::default() };
    let outline = Outline::new(analysis, &placement, cost).unwrap();
    // What loops keep stays where there is room for it, so some of it goes by chance.
    let mut kept = outline.accumulations();
    kept.retain(|_| rng.bool());
    let mut host_ops: Vec<NodeId> = kept.into_iter().flat_map(|of| of.accumulator.ops).collect();
    host_ops.sort_unstable();
    let outline = outline.with_host_ops(&host_ops);
    // These take little as they are: for much less there is hardly ever a plan.
    let part = if host_ops.is_empty() { part } else { (1.0 + part) / 2.0 };
    let unlimited = lms_testing::machine::machine(Vec::new());
    let least = Judge::new(&outline, &unlimited).least_memory(&Draft::default());
    let budget = lms_testing::machine::machine(vec![(least as f64 * part) as u64]);
    let mut judge = Judge::new(&outline, &budget);
    judge.trust_the_profile();
    let settings = Settings { effort_seconds: 0.02, ..Settings::default() };
    let found = (Planned { settings, ..Planned::default() }).find(&mut judge).unwrap();
    found.map(|found| found.draft).unwrap_or_default()
}

/// What names a GPU on the second CPU, so that swaps are copies between two devices.
fn on_second_cpu(model: &Model) -> Vec<u8> {
    let mut graph = GraphDef::decode(model.graph_def()).unwrap();
    for node in graph.node.iter_mut().filter(|node| node.device.contains("GPU")) {
        node.device = "/device:CPU:1".to_string();
    }
    graph.encode_to_vec()
}

fn config() -> ConfigProto {
    let rewrites = RewriterConfig {
        arithmetic_optimization: Toggle::Off.into(),
        constant_folding: Toggle::Off.into(),
        ..RewriterConfig::default()
    };
    let options = GraphOptions { rewrite_options: Some(rewrites), ..GraphOptions::default() };
    ConfigProto {
        device_count: [("CPU".to_string(), 2)].into(),
        graph_options: Some(options),
        ..one_thread()
    }
}

/// Runs train ops, evaluations and single ops in random order; what each run fetched, and in the end the values of all variables.
fn what_runs_do(
    tensorflow: &'static TensorFlow,
    model: &Model,
    made: &StepsGraph,
    seed: u64,
) -> Result<Vec<(String, Tensor)>, SessionError> {
    let session = Session::new(tensorflow, &on_second_cpu(model), &config())?;
    let mut rng = Rng::with_seed(!seed);
    let init: Vec<&str> = made.init_ops.iter().map(String::as_str).collect();
    if !init.is_empty() {
        session.run(&[], &[], &init)?;
    }
    let mut fetched = Vec::new();
    for run in 0..RUNS {
        let values: Vec<f32> = (0..32 * 32).map(|_| rng.f32() - 0.5).collect();
        let input = Tensor::of(&[32, 32], &values)?;
        let choice = Tensor::of(&[], &[rng.bool()])?;
        let feeds = [(made.input.as_str(), &input), (made.choice.as_str(), &choice)];
        match rng.usize(..5) {
            0..=2 => {
                let step = rng.usize(..made.train_ops.len());
                let loss = made.losses[step].as_str();
                let values = session.run(&feeds, &[loss], &[&made.train_ops[step]])?;
                fetched.extend(values.into_iter().map(|value| (format!("run {run}: {loss}"), value)));
            }
            3 => {
                let loss = made.losses[rng.usize(..made.losses.len())].as_str();
                let values = session.run(&feeds, &[loss], &[])?;
                fetched.extend(values.into_iter().map(|value| (format!("run {run}: {loss} alone"), value)));
            }
            _ => {
                let op = made.ops[rng.usize(..made.ops.len())].as_str();
                session.run(&feeds, &[], &[op])?;
                fetched.push((format!("run {run}: {op}"), Tensor::of(&[], &[0f32])?));
            }
        }
    }
    for variable in &made.variables {
        let value = session.run(&[], &[variable], &[])?.remove(0);
        fetched.push((format!("variable {variable}"), value));
    }
    Ok(fetched)
}

/// Beside what trains stands an op that no step runs, which reads a swapped tensor and the buffer of a variable. Nobody has to keep it in
/// front of the variable's update, and for it nothing comes back.
#[test]
fn what_no_step_runs_changes_no_plan() {
    let model = lms_testing::manifest::Manifest::of("mnist_cnn_ref_momentum").model();
    let names = |model: &Model| {
        let graph = Graph::of_model(model, OpRegistry::builtin()).unwrap();
        let train = graph.node_ids().find(|&node| graph.name(node) == "train").unwrap();
        let shapes = Shapes::declared(&graph);
        let sizes = Sizes::of(&graph, &shapes).unwrap();
        let analysis = Analysis::new(&graph, &[train], shapes, sizes);
        let host = Device::parse("/cpu:0").unwrap();
        let plan = tflms::plan(&analysis, &tflms::Parameters::default(), &host).unwrap();
        let mut names = Vec::new();
        for swap in plan.swaps {
            names.extend(swap.swap_ins.into_iter().map(|back| (swap.tensor.clone(), back.consumers)));
        }
        names
    };
    let expected = names(&model);
    let mut graph_def = GraphDef::decode(model.graph_def()).unwrap();
    let nodes = &mut graph_def.node;
    let is_read = |node: &&NodeDef| {
        let is_variable = |from: &NodeDef| from.op == "VariableV2" && node.input[0] == from.name;
        node.op == "Identity" && nodes.iter().any(is_variable)
    };
    let reads: Vec<String> = nodes.iter().filter(is_read).map(|node| node.name.clone()).collect();
    assert!(reads.len() > 3 && expected.len() > 3, "{reads:?} {expected:?}");
    for (number, read) in reads.iter().enumerate() {
        let (tensor, consumers) = &expected[number % expected.len()];
        let attr = |value| AttrValue { value: Some(value) };
        let mut add = |name: &str, input: &[&str]| {
            let float = Value::Type(DataType::FLOAT.number());
            nodes.push(NodeDef {
                name: format!("{name}_{number}"),
                op: "AddN".to_string(),
                input: input.iter().map(ToString::to_string).collect(),
                attr: [("N".to_string(), attr(Value::I(2))), ("T".to_string(), attr(float))].into(),
                ..NodeDef::default()
            });
        };
        // Far behind the tensor, and behind who waits for its return.
        add("far", &[tensor, read, "^train"]);
        add("behind", &[&consumers[0], read]);
    }
    let with_dead = graph_def.encode_to_vec();
    let with_dead = Model::from_bytes("with dead ops", with_dead, &ReadOptions::default()).unwrap();
    assert_eq!(names(&with_dead), expected);
}
