//! The strategy of TFLMS 1, on a graph whose swaps were worked out by hand and were found by TFLMS 1's own code too.

use lms_testing::graphs::{Nodes, attr_type, shape};
use prost::Message;
use tf_lms::format::{Model, ReadOptions};
use tf_lms::graph::Graph;
use tf_lms::ops::OpRegistry;
use tf_lms::plan::{Analysis, Filters, NameOrType};
use tf_lms::proto::tensorflow::attr_value::Value;
use tf_lms::shape::{Shapes, Sizes};
use tf_lms::tune::tflms_v1::{self, Parameters, TflmsV1Error};

const FLOAT: i32 = 1;
const INT32: i32 = 3;

/// Three layers with a skip from the first to the end, and their gradients. In TFLMS 1's order `a` is 0, `b` 1, `c` 2, `skip` 3, `loss`
/// 4, `gradients/c` 5, `gradients/b` 6, `gradients/a` and `gradients/w` 7. `gradients/loss` has no place: it could run beside `loss`.
fn model() -> Model {
    let float = ("T", attr_type(FLOAT));
    let mut nodes = Nodes::default();
    nodes.placeholder("images", &[4, 8]);
    nodes.add("axes", "Const", &[], &[("dtype", attr_type(INT32)), ("value", axes())]);
    let mean = [float.clone(), ("Tidx", attr_type(INT32)), ("keep_dims", Value::B(false))];
    for (name, op, inputs) in [
        ("a", "Tanh", &["images"][..]),
        ("b", "Tanh", &["a"]),
        ("c", "Tanh", &["b"]),
        ("skip", "AddV2", &["c", "a"]),
        ("gradients/loss", "OnesLike", &["skip"]),
        ("gradients/c", "TanhGrad", &["c", "gradients/loss"]),
        ("gradients/b", "TanhGrad", &["b", "gradients/c"]),
        ("gradients/a", "TanhGrad", &["a", "gradients/b"]),
        ("gradients/w", "Mul", &["gradients/b", "a"]),
        ("update_a", "Neg", &["gradients/a"]),
        ("update_w", "Neg", &["gradients/w"]),
    ] {
        nodes.add(name, op, inputs, std::slice::from_ref(&float)).declares(name, &[4, 8]);
    }
    nodes.add("loss", "Mean", &["skip", "axes"], &mean).declares("loss", &[]);
    nodes.declares("images", &[4, 8]).declares("axes", &[2]);
    nodes.add("train", "NoOp", &["^update_a", "^update_w", "^loss"], &[]);
    Model::from_bytes("layers", nodes.graph().encode_to_vec(), &ReadOptions::default()).unwrap()
}

fn axes() -> Value {
    let tensor_shape = Some(shape(&[2]));
    Value::Tensor(tf_lms::proto::tensorflow::TensorProto {
        dtype: INT32,
        tensor_shape,
        int_val: vec![0, 1],
        ..Default::default()
    })
}

fn with_analysis<T>(ask: impl FnOnce(&Analysis) -> T) -> T {
    let model = model();
    let graph = Graph::of_model(&model, OpRegistry::builtin()).unwrap();
    let train: Vec<_> = graph.node_ids().filter(|&node| graph.name(node) == "train").collect();
    let shapes = Shapes::declared(&graph);
    let sizes = Sizes::of(&graph, &shapes).unwrap();
    ask(&Analysis::new(&graph, &train, shapes, sizes))
}

/// Each swap-in as `tensor -> consumers < triggers`.
fn swaps(parameters: &Parameters) -> Vec<String> {
    with_analysis(|analysis| {
        let graph = analysis.graph;
        let names = |nodes: &[_]| nodes.iter().map(|&node| graph.name(node)).collect::<Vec<_>>().join(" ");
        let draft = tflms_v1::draft(analysis, parameters).unwrap();
        let uses = draft.swaps.iter().flat_map(|swap| swap.uses.iter().map(move |back| (swap.tensor, back)));
        let mut told: Vec<String> = uses
            .map(|(tensor, back)| {
                let (consumers, triggers) = (names(&back.consumers), names(&back.triggers));
                format!("{} -> {consumers} < {triggers}", graph.tensor_name(tensor))
            })
            .collect();
        told.sort();
        told
    })
}

const ALL: [&str; 5] = [
    "a:0 -> gradients/a < gradients/b",
    "a:0 -> gradients/w < gradients/b",
    "b:0 -> gradients/b < gradients/c",
    // Near the end of the forward phase the order alone decides, over ops that have no place in it.
    "c:0 -> gradients/c < skip",
    // What waits for an op without a place leaves too. Nothing lies between it and its reader.
    "gradients/c:0 -> gradients/b < ",
];

#[test]
fn all_that_the_backward_phase_reads_leaves() {
    assert_eq!(swaps(&Parameters::default()), ALL);
}

#[test]
fn tensors_are_counted_from_the_first_layer() {
    let first = |n_tensors| swaps(&Parameters { n_tensors, ..Parameters::default() });
    assert_eq!(first(0), [""; 0]);
    assert_eq!(first(1), ALL[..2]);
    assert_eq!(first(2), ALL[..3]);
    // The skip comes before the last layer in the walk, and it is what leads to the gradient that leaves.
    assert_eq!(first(3), [ALL[0], ALL[1], ALL[2], ALL[4]]);
    assert_eq!(first(4), ALL);
    assert_eq!(first(99), ALL);
}

#[test]
fn a_lower_bound_starts_returns_earlier() {
    let earlier = swaps(&Parameters { lb: 2, ..Parameters::default() });
    assert_eq!(
        earlier[..3],
        [
            "a:0 -> gradients/a < gradients/c",
            "a:0 -> gradients/w < gradients/c",
            // Too near the forward phase to go over its ops: the third before the reader.
            "b:0 -> gradients/b < skip",
        ]
    );
}

#[test]
fn the_direct_order_takes_what_leads_to_the_reader() {
    let direct = swaps(&Parameters { direct_order: true, ..Parameters::default() });
    assert_eq!(
        direct[..3],
        ["a:0 -> gradients/a < gradients/c", "a:0 -> gradients/w < gradients/c", "b:0 -> gradients/b < skip",]
    );
}

#[test]
fn readers_may_share_a_return() {
    let shared = swaps(&Parameters { fuse_swapins: true, ..Parameters::default() });
    assert_eq!(shared[0], "a:0 -> gradients/a gradients/w < gradients/b");
    assert_eq!(shared[1..], ALL[2..]);
}

#[test]
fn far_branches_of_the_forward_phase_are_swapped_if_asked_for() {
    let branches = |branch_threshold| {
        swaps(&Parameters { swap_branches: true, branch_threshold, ..Parameters::default() })
    };
    let skip = "a:0 -> skip < b";
    // `skip` is 3, and the first reader of `a` is 1.
    assert!(branches(0).iter().any(|swap| swap == skip) && branches(1).iter().any(|swap| swap == skip));
    assert_eq!(branches(2), ALL);
}

#[test]
fn scopes_and_filters_decide_who_takes_part() {
    let from_b = Parameters { starting_scopes: vec!["b".to_string()], ..Parameters::default() };
    assert!(swaps(&from_b).iter().all(|swap| !swap.starts_with("a:0")));
    let scopes = vec!["a".to_string(), "gradients/c".to_string()];
    let exclude_output_by = NameOrType { scopes, ..NameOrType::default() };
    let filters = Filters { exclude_output_by, ..Filters::default() };
    assert_eq!(swaps(&Parameters { filters, ..Parameters::default() }), ALL[2..4]);
}

#[test]
fn what_cannot_be_is_an_error_of_its_own() {
    let error = |parameters: Parameters| {
        with_analysis(|analysis| tflms_v1::draft(analysis, &parameters).map(|_| ()).unwrap_err())
    };
    let scopes = || vec!["nowhere".to_string()];
    let default = Parameters::default;
    assert!(matches!(error(Parameters { n_tensors: -2, ..default() }), TflmsV1Error::Tensors(-2)));
    assert!(matches!(error(Parameters { lb: 3, ub: 2, ..default() }), TflmsV1Error::Bounds { lb: 3, ub: 2 }));
    assert!(matches!(
        error(Parameters { optimizer_scopes: scopes(), ..default() }),
        TflmsV1Error::NoBackwardOps { .. }
    ));
    assert!(matches!(
        error(Parameters { starting_scopes: scopes(), ..default() }),
        TflmsV1Error::NoStart { .. }
    ));
    assert!(matches!(
        error(Parameters { gpu_devices: vec!["no device".to_string()], ..default() }),
        TflmsV1Error::Device(_)
    ));
}
