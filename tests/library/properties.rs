//! Rewriting random graphs: the checker accepts, strip returns the original, and two runs give the same bytes.

use std::collections::{BTreeSet, HashMap};

use proptest::prelude::*;
use tf_lms::format::{Encoding, Model, ReadOptions};
use tf_lms::graph::{ControlFlow, Device, FrameId, Graph, NodeId, RefVariables};
use tf_lms::ops::OpRegistry;
use tf_lms::plan::{Analysis, Plan, swappable, tflms};
use tf_lms::rewrite;
use tf_lms::shape::{Shapes, Sizes};
use tf_lms::tune::tflms_v1;
use tf_lms::verify::{self, CheckOptions};

fn model(content: Vec<u8>) -> Model {
    Model::from_bytes("a random graph", content, &ReadOptions::default()).unwrap()
}

fn parameters() -> impl Strategy<Value = tflms::Parameters> {
    let slices = prop::collection::vec(prop::sample::select(vec!["3", "2:6", ":", "::2"]), 0..2);
    (0u32..8, 0u32..6, 0u32..5, 0u8..4, slices, any::<bool>()).prop_map(
        |(threshold, ahead, groupby, sync, slices, inference)| tflms::Parameters {
            swapout_threshold: threshold,
            swapin_ahead: ahead,
            swapin_groupby: groupby,
            sync_mode: sync.try_into().unwrap(),
            serialization: slices.into_iter().map(|slice| slice.parse().unwrap()).collect(),
            mode: if inference { tflms::Mode::Inference } else { tflms::Mode::Training },
            ..tflms::Parameters::default()
        },
    )
}

/// The parameters of a strategy of which plans are made here.
trait Planning {
    fn plan(&self, analysis: &Analysis, host: &Device) -> Plan;
}

impl Planning for tflms::Parameters {
    fn plan(&self, analysis: &Analysis, host: &Device) -> Plan {
        tflms::plan(analysis, self, host).unwrap()
    }
}

/// TFLMS 1's parameters, where all ops from this number on count as backward ops, wherever they are in the graph.
#[derive(Debug, Clone)]
struct FirstVersion {
    parameters: tflms_v1::Parameters,
    backward_from: usize,
}

impl Planning for FirstVersion {
    fn plan(&self, analysis: &Analysis, host: &Device) -> Plan {
        let graph = analysis.graph;
        let number = |name: &str| name.rsplit('_').next().and_then(|number| number.parse::<usize>().ok());
        let names = graph.node_ids().map(|node| graph.name(node).to_string());
        let backward = names.filter(|name| number(name).is_some_and(|number| number >= self.backward_from));
        let parameters =
            tflms_v1::Parameters { optimizer_scopes: backward.collect(), ..self.parameters.clone() };
        let draft = tflms_v1::draft(analysis, &parameters).unwrap_or_default();
        draft.into_plan(analysis, tflms_v1::NAME, serde_json::to_value(&parameters).unwrap(), host)
    }
}

fn first_version() -> impl Strategy<Value = FirstVersion> {
    (0usize..150, -1i64..12, 0u32..6, 0u32..6, any::<[bool; 3]>(), 0u32..3).prop_map(
        |(
            backward_from,
            n_tensors,
            lb,
            more,
            [swap_branches, fuse_swapins, direct_order],
            branch_threshold,
        )| {
            let parameters = tflms_v1::Parameters {
                n_tensors,
                lb,
                ub: lb + more,
                swap_branches,
                branch_threshold,
                fuse_swapins,
                direct_order,
                ..tflms_v1::Parameters::default()
            };
            FirstVersion { parameters, backward_from }
        },
    )
}

/// The op that the random step is run for, unless the graph is too small to have one.
fn targets(graph: &Graph) -> Vec<NodeId> {
    graph.node_ids().filter(|&node| graph.name(node) == lms_testing::random_graph::TRAIN_OP).collect()
}

fn plan(graph: &Graph, parameters: &impl Planning) -> Plan {
    let shapes = Shapes::declared(graph);
    let sizes = Sizes::of(graph, &shapes).unwrap();
    let analysis = Analysis::new(graph, &targets(graph), shapes, sizes);
    parameters.plan(&analysis, &Device::parse("/cpu:0").unwrap())
}

/// Plans and rewrites; the original, the plan, and the file that comes out.
fn rewritten(content: Vec<u8>, parameters: &impl Planning) -> (Model, Plan, Vec<u8>) {
    let original = model(content);
    let graph = Graph::of_model(&original, OpRegistry::builtin()).unwrap();
    let plan = plan(&graph, parameters);
    let edits = rewrite::rewrite(&original, &graph, &plan).unwrap().edits;
    let bytes = original.edited(&edits, Encoding::Binary).unwrap().to_vec();
    (original, plan, bytes)
}

/// Ops that ask for no more than a shape; where nobody reads them either, nobody runs them by themselves.
const SHAPE_OPS: [&str; 3] = ["OnesLike", "Shape", "Size"];

/// The names of all that an op needs, but for what a rewrite added.
fn needed(graph: &Graph, node: NodeId) -> BTreeSet<String> {
    let (mut seen, mut open) = (vec![false; graph.len()], vec![node]);
    while let Some(node) = open.pop() {
        if node.index() < graph.len() && !std::mem::replace(&mut seen[node.index()], true) {
            open.extend(graph.predecessors(node));
        }
    }
    let names = graph.node_ids().filter(|node| seen[node.index()]).map(|node| graph.name(node).to_string());
    names.filter(|name| !name.starts_with("lms/")).collect()
}

/// What is none of the step's, and needs more than it did; nobody can tell where no step is known.
fn needs_more(original: &Graph, rewritten: &Graph) -> Option<String> {
    let &train = targets(original).first()?;
    let step = needed(original, train);
    let is_idle = |node: NodeId| {
        SHAPE_OPS.contains(&original.op(node).name()) && original.successors(node).next().is_none()
    };
    let flow = ControlFlow::of(original);
    // TensorFlow fetches nothing that a loop makes in each iteration.
    let is_fetched = |node: NodeId| flow.output_frame(node) == FrameId::TOP;
    let outside = |&node: &NodeId| !step.contains(original.name(node)) && !is_idle(node) && is_fetched(node);
    let names: HashMap<&str, NodeId> =
        rewritten.node_ids().map(|node| (rewritten.name(node), node)).collect();
    let more = |node: &NodeId| needed(original, *node) != needed(rewritten, names[original.name(*node)]);
    original.node_ids().filter(outside).find(more).map(|node| original.name(node).to_string())
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(400) })]

    #[test]
    fn the_checker_accepts_what_the_rewriter_makes(seed: u64, size in 2usize..150, parameters in parameters()) {
        let (original, plan, bytes) = rewritten(lms_testing::random_graph::random_graph(seed, size), &parameters);
        let result = model(bytes);
        let options = CheckOptions { train_ops: vec![lms_testing::random_graph::TRAIN_OP.to_string()], ..CheckOptions::default() };
        let verified = verify::check_with(&original, &result, OpRegistry::builtin(), &options);
        prop_assert!(verified.is_ok(), "{}", verified.err().unwrap());
        let verified = verified.unwrap();
        prop_assert_eq!(verified.swapped_tensors, plan.swaps.len());
        prop_assert_eq!(verified.swap_ins, plan.swaps.iter().map(|swap| swap.swap_ins.len()).sum::<usize>());
        // The rewritten graph is a graph, with no cycle.
        prop_assert!(Graph::of_model(&result, OpRegistry::builtin()).is_ok());
    }

    #[test]
    fn the_checker_accepts_plans_of_the_first_version(
        seed: u64,
        size in 2usize..150,
        trains: bool,
        parameters in first_version(),
    ) {
        let content = match trains {
            true => lms_testing::training_graph::random_training_graph(seed, size / 8 + 1),
            false => lms_testing::random_graph::random_graph(seed, size),
        };
        let (original, plan, bytes) = rewritten(content.clone(), &parameters);
        let result = model(bytes);
        let options = CheckOptions { train_ops: vec![lms_testing::random_graph::TRAIN_OP.to_string()], ..CheckOptions::default() };
        let verified = verify::check_with(&original, &result, OpRegistry::builtin(), &options);
        prop_assert!(verified.is_ok(), "{}", verified.err().unwrap());
        prop_assert_eq!(verified.unwrap().swapped_tensors, plan.swaps.len());
        let graphs = [&original, &result].map(|model| Graph::of_model(model, OpRegistry::builtin()).unwrap());
        prop_assert_eq!(needs_more(&graphs[0], &graphs[1]), None);
        let most = usize::try_from(parameters.parameters.n_tensors).unwrap_or(usize::MAX);
        prop_assert!(plan.swaps.len() <= most);
        prop_assert_eq!(Plan::from_json("a plan", plan.to_json().as_bytes()).unwrap(), plan.clone());
        prop_assert_eq!(rewritten(content, &parameters).1, plan);
    }

    #[test]
    fn strip_returns_the_original(seed: u64, size in 2usize..150, parameters in parameters()) {
        let content = lms_testing::random_graph::random_graph(seed, size);
        let (_, plan, bytes) = rewritten(content.clone(), &parameters);
        let result = model(bytes);
        match rewrite::strip(&result) {
            Ok(edits) => prop_assert_eq!(result.edited(&edits, Encoding::Binary).unwrap().to_vec(), content),
            Err(_) => prop_assert!(plan.swaps.is_empty() && plan.orders.is_empty()),
        }
    }

    #[test]
    fn two_runs_give_the_same_bytes(seed: u64, size in 2usize..100, parameters in parameters()) {
        let content = lms_testing::random_graph::random_graph(seed, size);
        let (_, first_plan, first) = rewritten(content.clone(), &parameters);
        let (_, second_plan, second) = rewritten(content, &parameters);
        prop_assert_eq!(first_plan.to_json(), second_plan.to_json());
        prop_assert_eq!(first, second);
    }

    #[test]
    fn plans_keep_to_what_can_be_swapped(seed: u64, size in 2usize..150, parameters in parameters()) {
        let original = model(lms_testing::random_graph::random_graph(seed, size));
        let graph = Graph::of_model(&original, OpRegistry::builtin()).unwrap();
        let names: HashMap<String, _> =
            graph.tensor_ids().map(|tensor| (graph.tensor_name(tensor).to_string(), tensor)).collect();
        let variables = RefVariables::of(&graph);
        for swap in plan(&graph, &parameters).swaps {
            prop_assert_eq!(swappable(&graph, &variables, names[&swap.tensor]), Ok(()));
            prop_assert!(!swap.swap_ins.is_empty());
        }
    }

    #[test]
    fn a_plan_survives_json(seed: u64, size in 2usize..100, parameters in parameters()) {
        let (_, plan, _) = rewritten(lms_testing::random_graph::random_graph(seed, size), &parameters);
        prop_assert_eq!(Plan::from_json("a plan", plan.to_json().as_bytes()).unwrap(), plan);
    }
}
