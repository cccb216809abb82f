//! TFLMSv2's model of memory and the searches in it.

use std::fs;
use std::path::Path;
use std::time::Instant;

use lms_testing::made_up::{GraphBuilder, shape_proto, type_value};
use serde_json::Value as Json;
use tf_lms::dtype::DataType;
use tf_lms::format::{Model, ReadOptions};
use tf_lms::graph::{Graph, NodeId};
use tf_lms::ops::OpRegistry;
use tf_lms::plan::tflms::{self, Parameters, SyncMode};
use tf_lms::plan::{Analysis, Draft};
use tf_lms::proto::tensorflow::attr_value::Value;
use tf_lms::shape::{Shapes, Sizes};
use tf_lms::simulate::{LevelModel, LevelPeak, peak_by_levels, usable_bytes};
use tf_lms::tune::{LevelPlan, tune_by_levels};

const SHAPE: &[i64] = &[64, 1024];
/// The bytes of a tensor of that shape.
const TENSOR: u64 = 4 * 64 * 1024;
const GIB: f64 = (1u64 << 30) as f64;

fn model(name: &str, content: Vec<u8>) -> Model {
    Model::from_bytes(name, content, &ReadOptions::default()).unwrap()
}

fn analyze<'a>(graph: &'a Graph<'a>, shapes: Shapes, train_op: Option<&str>) -> Analysis<'a> {
    let sizes = Sizes::of(graph, &shapes).unwrap();
    let targets: Vec<NodeId> = graph.node_ids().filter(|&node| Some(graph.name(node)) == train_op).collect();
    Analysis::new(graph, &targets, shapes, sizes)
}

/// Calls with an analysed file of the testdata.
fn with_testdata<T>(name: &str, then: impl FnOnce(&Analysis) -> T) -> T {
    let model = model(name, fs::read(format!("testdata/{name}.meta")).unwrap());
    let graph = Graph::of_model(&model, OpRegistry::builtin()).unwrap();
    then(&analyze(&graph, Shapes::declared(&graph), None))
}

/// Calls with a graph of ops that read the ops with the given numbers; ops that read nothing are placeholders.
fn with_ops<T>(ops: &[&[usize]], then: impl FnOnce(&Analysis) -> T) -> T {
    let mut builder = GraphBuilder::default();
    let mut names: Vec<String> = Vec::new();
    for inputs in ops {
        let inputs: Vec<&str> = inputs.iter().map(|&input| names[input].as_str()).collect();
        let float = type_value(DataType::FLOAT);
        let name = match inputs.len() {
            0 => {
                let attrs = vec![("dtype", float), ("shape", Value::Shape(shape_proto(SHAPE)))];
                builder.add("Placeholder", &inputs, attrs, &[SHAPE])
            }
            1 => builder.add("Relu", &inputs, vec![("T", float)], &[SHAPE]),
            _ => builder.add("AddV2", &inputs, vec![("T", float)], &[SHAPE]),
        };
        names.push(name);
    }
    let model = model("made up", builder.encode());
    let graph = Graph::of_model(&model, OpRegistry::builtin()).unwrap();
    then(&analyze(&graph, Shapes::declared(&graph), None))
}

fn sync_mode(mode: u8) -> SyncMode {
    SyncMode::try_from(mode).unwrap()
}

fn swapped(analysis: &Analysis, threshold: u32, mode: u8) -> LevelPeak {
    let parameters =
        Parameters { swapout_threshold: threshold, sync_mode: sync_mode(mode), ..Parameters::default() };
    let draft = tflms::draft(analysis, &parameters).unwrap();
    assert!(!draft.swaps.is_empty());
    peak_by_levels(analysis, &draft, parameters.sync_mode)
}

fn unswapped(analysis: &Analysis) -> LevelPeak {
    peak_by_levels(analysis, &Draft::default(), sync_mode(0))
}

/// Forward 0 to 4, and back 5 to 7: 5 reads 2 again, and 6 reads 1.
const CHAIN: [&[usize]; 8] = [&[], &[0], &[1], &[2], &[3], &[4, 2], &[5, 1], &[6]];

fn peak(tensors: u64, node: u32) -> LevelPeak {
    LevelPeak { bytes: tensors * TENSOR, node: Some(NodeId(node)) }
}

#[test]
fn a_chain_takes_what_it_takes_by_hand() {
    with_ops(&CHAIN, |analysis| {
        // When 4 runs there are 1 and 2, which are wanted later, what it reads, and what it makes.
        assert_eq!(unswapped(analysis), peak(4, 4));
        // 1 and 2 are gone, but both copies are there again when 5 runs: 3 started the one, 4 the other.
        assert_eq!(swapped(analysis, 2, 0), peak(4, 5));
        // The copy of 1 now comes when 5 has run.
        assert_eq!(swapped(analysis, 2, 2), peak(3, 5));
        assert_eq!(swapped(analysis, 2, 3), peak(3, 5));
        // Only 1 leaves; 2 stays.
        assert_eq!(swapped(analysis, 3, 3), peak(3, 4));
    });
}

#[test]
fn copies_for_several_consumers_can_take_more_than_the_original() {
    // 1 is read again by three ops that make nothing anybody wants. Each gets a copy of its own.
    let ops: [&[usize]; 8] = [&[], &[0], &[1], &[2], &[3], &[4, 1], &[4, 1], &[4, 1]];
    with_ops(&ops, |analysis| {
        assert_eq!(unswapped(analysis).bytes, 3 * TENSOR);
        assert_eq!(swapped(analysis, 1, 3).bytes, 4 * TENSOR);
    });
}

#[test]
fn swapping_all_takes_less_on_training_graphs() {
    for name in ["resnet50_2000_b1", "deeplabv3plus_513_b16", "unet3d_16_b1", "mnist_cnn"] {
        with_testdata(name, |analysis| {
            let before = unswapped(analysis);
            let after = swapped(analysis, 1, 3);
            assert!(after.bytes <= before.bytes, "{name}: {after:?} after {before:?}");
            assert_eq!(after, swapped(analysis, 1, 3), "{name}");
        });
    }
}

#[test]
fn parameters_are_taken_off_the_memory() {
    assert_eq!(usable_bytes(1000, 100, 0.9), 810);
    assert_eq!(usable_bytes(100, 1000, 0.9), 0);
}

#[test]
fn the_search_of_tflms_ends_where_it_does_by_hand() {
    with_ops(&CHAIN, |analysis| {
        let parameters = Parameters::default();
        // Less than four tensors: mode 2 is the first that fits, and 4 the last threshold with which 1 still leaves.
        let tuning = tune_by_levels(analysis, 4 * TENSOR, &parameters).unwrap();
        let (tflms, best) = (tuning.tflms.unwrap(), tuning.best.unwrap());
        assert_eq!((tflms.parameters.swapout_threshold, u8::from(tflms.parameters.sync_mode)), (4, 2));
        assert_eq!((tflms.out_bytes, tflms.in_bytes, best.moved_bytes()), (TENSOR, TENSOR, 2 * TENSOR));
        assert_eq!(tflms.peak, peak(3, 4));
        assert!(tune_by_levels(analysis, 4 * TENSOR + 1, &parameters).unwrap().fits);
        // What an op reads and makes must be there.
        let none = tune_by_levels(analysis, 2 * TENSOR, &parameters).unwrap();
        assert!(!none.fits && none.tflms.is_none() && none.best.is_none());
    });
}

#[test]
fn the_best_plan_fits_and_moves_no_more_than_that_of_tflms() {
    with_testdata("deeplabv3plus_513_b16", |analysis| {
        let budget = unswapped(analysis).bytes / 2;
        let tuning = tune_by_levels(analysis, budget, &Parameters::default()).unwrap();
        let (tflms, best) = (tuning.tflms.unwrap(), tuning.best.unwrap());
        for plan in [&tflms, &best] {
            assert!(plan.peak.bytes < budget);
            assert_eq!(plan.peak, peak_by_levels(analysis, &plan.draft, plan.parameters.sync_mode));
        }
        assert!(best.moved_bytes() <= tflms.moved_bytes());
    });
}

/// As TFLMSv2 sizes: an unknown first dimension is the batch, any other 1.
fn sized_as_tflms(graph: &Graph, batch: i64) -> Shapes {
    let mut shapes = Shapes::declared(graph);
    for tensor in graph.tensor_ids() {
        let Some(shape) = shapes.get(tensor).filter(|shape| shape.iter().any(|&size| size < 0)) else {
            continue;
        };
        let mut shape = shape.to_vec();
        if shape[0] < 0 {
            shape[0] = batch;
        }
        shape.iter_mut().filter(|size| **size < 0).for_each(|size| *size = 1);
        shapes.set(tensor, Some(shape.into()));
    }
    shapes
}

/// Prints TFLMSv2's figures beside ours as Markdown. `LMS_TFLMSV2_FIGURES` is a folder with graphs, their manifests and
/// `tflmsv2.json`.
#[test]
#[ignore = "takes graphs and figures that are not part of this repository"]
fn comparison() {
    let folder = std::env::var("LMS_TFLMSV2_FIGURES").expect("LMS_TFLMSV2_FIGURES names a folder");
    let folder = Path::new(&folder);
    let json =
        |name: &str| -> Json { serde_json::from_slice(&fs::read(folder.join(name)).unwrap()).unwrap() };
    let (mut peaks, mut tunings) = (String::new(), String::new());
    for row in json("tflmsv2.json").as_array().unwrap() {
        let name = row["graph"].as_str().unwrap();
        if row["simulated_peak_gib_no_lms"].is_null() {
            continue;
        }
        let manifest = json(&format!("{name}.json"));
        let file = model(name, fs::read(folder.join(format!("{name}.meta"))).unwrap());
        let graph = Graph::of_model(&file, OpRegistry::builtin()).unwrap();
        let shapes = sized_as_tflms(&graph, manifest["batch_size"].as_i64().unwrap());
        let analysis = analyze(&graph, shapes, manifest["train_op"].as_str());
        peaks += &peak_row(name, row, &analysis);
        for (budget, theirs) in row["tuned"].as_object().unwrap() {
            if theirs["lms_needed"] != Json::Bool(false) {
                tunings += &tuning_row(name, budget, theirs, &analysis);
            }
        }
    }
    println!(
        "\n| graph | no swapping, TFLMSv2 | ours | threshold 1, mode 0, TFLMSv2 | ours | threshold 1, mode 3, TFLMSv2 | ours |\n|---|---|---|---|---|---|---|\n{peaks}"
    );
    println!(
        "| graph | budget | TFLMSv2 | its search here | fewest bytes | simulations | seconds |\n|---|---|---|---|---|---|---|\n{tunings}"
    );
}

fn peak_row(name: &str, row: &Json, analysis: &Analysis) -> String {
    let model = LevelModel::new(analysis, &Parameters::default()).unwrap();
    let mut line = format!("| {name} ");
    for (key, mode) in [("no_lms", None), ("threshold_1_async", Some(0)), ("threshold_1_sync3", Some(3))] {
        let parameters = Parameters { sync_mode: sync_mode(mode.unwrap_or(0)), ..Parameters::default() };
        let draft = mode.map(|_| tflms::draft(analysis, &parameters).unwrap()).unwrap_or_default();
        let ours = model.peak(&draft, parameters.sync_mode).bytes as f64 / GIB;
        let theirs = row[format!("simulated_peak_gib_{key}")].as_f64().unwrap();
        line += &format!("| {theirs:.3} | {ours:.3} ");
    }
    line + "|\n"
}

fn tuning_row(name: &str, budget: &str, theirs: &Json, analysis: &Analysis) -> String {
    let budget_bytes = (theirs["available_gib"].as_f64().unwrap() * GIB) as u64;
    let started = Instant::now();
    let tuning = tune_by_levels(analysis, budget_bytes, &Parameters::default()).unwrap();
    let seconds = started.elapsed().as_secs_f64();
    let plan = |plan: &Option<LevelPlan>| match plan {
        None if tuning.fits => "fits".to_string(),
        None => "does not fit".to_string(),
        Some(plan) => {
            let Parameters { swapout_threshold, swapin_ahead, swapin_groupby, sync_mode, .. } =
                plan.parameters;
            format!(
                "{:.2} + {:.2} ({swapout_threshold}/{swapin_ahead}/{swapin_groupby}/{})",
                plan.out_bytes as f64 / GIB,
                plan.in_bytes as f64 / GIB,
                u8::from(sync_mode)
            )
        }
    };
    let given = match (theirs["swapout_gib"].as_f64(), theirs["swapin_gib"].as_f64()) {
        (Some(out), Some(back)) => {
            let parameters = theirs["parameters"].as_str().unwrap_or_default();
            let numbers: Vec<&str> =
                parameters.split(", ").filter_map(|part| part.split(' ').next_back()).collect();
            format!("{out:.2} + {back:.2} ({})", numbers.join("/"))
        }
        _ => "does not fit".to_string(),
    };
    format!(
        "| {name} | {budget} | {given} | {} | {} | {} → {} | {:.1} → {seconds:.2} |\n",
        plan(&tuning.tflms),
        plan(&tuning.best),
        theirs["simulations"],
        tuning.simulations,
        theirs["run_s"].as_f64().unwrap()
    )
}
