//! Training steps that are functions of TensorFlow 2.

use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use prost::Message;
use serde_json::Value as Json;
use tf_lms::AnalysisOptions;
use tf_lms::format::{Edits, Model as File, ReadOptions};
use tf_lms::parallel::ParallelOptions;
use tf_lms::plan::{COUNT, RANK, SET_COUNT};
use tf_lms::proto::tensorflow::attr_value::Value;
use tf_lms::proto::tensorflow::{FunctionDef, GraphDef, NodeDef, SavedModel};
use tf_lms::verify::{ViolationKind, check};

use crate::memory::peak;
use crate::one_process::Training;
use crate::zoo::run_python;
use lms_testing::program::{command, of, ready, report};

/// A file with a function that trains.
struct Step {
    path: PathBuf,
    feeds: &'static [&'static str],
    /// Where it is open.
    batch: Option<i64>,
}

const STEPS: usize = 4;

/// Dense gradients; it draws random numbers.
fn dense() -> Step {
    Step { path: "testdata/mnist_cnn_tf2".into(), feeds: &["labels=randint:0:10"], batch: None }
}

/// Gradients of embeddings by rows; none if there is no Python to make it.
fn sparse(folder: &Path) -> Option<Step> {
    let python = std::env::var_os("LMS_TEST_PYTHON")?;
    let path = folder.join("gpt");
    let sizes = "gpt --batch 4 --size 16 --layers 1 --hidden 16 --heads 2 --intermediate 32 --vocabulary 50 --positions 16";
    let output = Command::new(python)
        .arg("scripts/export_models.py")
        .args(sizes.split(' '))
        .arg("--tf2-saved-model")
        .arg(&path)
        .env("PYTHONDONTWRITEBYTECODE", "1")
        .env_remove("TF_DETERMINISTIC_OPS")
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    Some(Step { path, feeds: &["tokens=randint:0:50"], batch: None })
}

fn train(step: &Step, flags: &[&str]) -> Json {
    let mut all = vec![step.path.to_str().unwrap(), "--threads", "1", "--worker-timeout", "60", "--json"];
    step.feeds.iter().for_each(|feed| all.extend(["--feed", feed]));
    let batch = step.batch.map(|batch| batch.to_string());
    batch.iter().for_each(|batch| all.extend(["--batch-size", batch]));
    all.extend(flags);
    report(&command(&all).output().unwrap())
}

/// On two workers; `tolerance` is how far one process with the whole batch may be. Returns the losses.
fn check_weights(step: &Step, tolerance: Option<f64>) -> Vec<f64> {
    let name = step.path.display();
    let training = Training::of(&step.path, step.feeds, 2, step.batch, &ParallelOptions::default());
    let of_means = training.of_means(STEPS);
    let trained = train(step, &["--device", "cpu", "--warmup", "0", "--steps", "4", "--workers", "2"]);
    assert_eq!(trained["variables_digest"], of_means.digest(), "{name}: not those of the mean of gradients");
    let [one, two] = [0, 1].map(|rank| &trained["each"][rank]);
    assert_eq!(one["variables_digest"], two["variables_digest"], "{name}");
    // What the function returns is the mean, so both workers say the same.
    assert_eq!(one["losses"], two["losses"], "{name}");
    assert!(one["losses"][0].as_f64().is_some_and(f64::is_finite), "{name}: {one}");
    if let Some(tolerance) = tolerance {
        let (apart, variable) = training.beside_whole_batch(&of_means);
        println!("{name}: {apart:.1e} ({variable})");
        // Nothing would differ if nothing were trained.
        assert!(apart > 0.0, "{name}");
        assert!(apart <= tolerance, "{name}: {variable} is {apart} from what the whole batch leads to");
    }
    one["losses"].as_array().unwrap().iter().filter_map(Json::as_f64).collect()
}

#[test]
fn workers_of_a_function_train_to_the_weights_of_one_process() {
    if lms_testing::tensorflow().is_none() {
        return;
    }
    check_weights(&dense(), None);
    let folder = tempfile::tempdir().unwrap();
    if let Some(step) = sparse(folder.path()) {
        check_weights(&step, None);
    }
}

/// Functions of Keras: its optimizers, clips, and updates under a condition, which are left out where a gradient overflows.
#[test]
fn workers_of_a_keras_model_train_to_the_weights_of_one_process() {
    let folder = tempfile::tempdir().unwrap();
    if lms_testing::tensorflow().is_none() || !run_python("zoo_tf2.py", folder.path()) {
        return;
    }
    let step =
        |name: &str| Step { path: folder.path().join(name), feeds: &["labels=randint:0:10"], batch: Some(8) };
    for (name, tolerance) in [("momentum", 1e-6), ("adam", 2e-5), ("clip_global", 2e-5)] {
        check_weights(&step(name), Some(tolerance));
    }
    for name in ["half", "half_sgd"] {
        // The whole batch's gradients are half as large before they are added up, and overflow at another step.
        let losses = check_weights(&step(name), None);
        // One step was skipped: the next one has the same loss.
        let skipped = losses.windows(2).filter(|two| two[0] == two[1]).count();
        assert_eq!(skipped, 1, "{name}: {losses:?}");
    }
}

/// Who loads the file in Python, as the page on it says, trains as one process would with the whole batch.
#[test]
fn workers_in_python_train_a_function_that_was_rewritten() {
    let folder = tempfile::tempdir().unwrap();
    if lms_testing::tensorflow().is_none() || !run_python("zoo_tf2.py", folder.path()) {
        return;
    }
    let path = |name: &str| folder.path().join(name).to_str().unwrap().to_string();
    let (original, two) = (path("adam"), path("adam_for_workers"));
    let flags = [&original, "-o", &two, "--data-parallel", "--batch-size", "8"];
    let output = of("lms-rewrite", &flags).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let python = std::env::var_os("LMS_TEST_PYTHON").unwrap();
    let start = |flags: &[&str]| {
        let mut command = Command::new(&python);
        command.arg("tests/parallel/in_python.py").args(flags).env("PYTHONDONTWRITEBYTECODE", "1");
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
    };
    let losses = |started: &mut Child| -> Vec<f64> {
        let printed = BufReader::new(started.stdout.take().unwrap()).lines().map_while(Result::ok);
        let line = { printed }.find(|line| line.starts_with('[')).unwrap_or_else(|| {
            let mut told = String::new();
            started.stderr.take().unwrap().read_to_string(&mut told).unwrap();
            panic!("{told}")
        });
        serde_json::from_str(&line).unwrap()
    };
    let [one, other] =
        [0, 1].map(|_| TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().to_string());
    // Each runs until its input ends, which is when both have told: before that, one may still read what the other gave.
    let mut started = ["0", "1"].map(|rank| start(&[&two, "2", rank, &one, &other]));
    let both = started.each_mut().map(losses);
    started.into_iter().for_each(|worker| assert!(worker.wait_with_output().unwrap().status.success()));
    assert_eq!(both[0], both[1]);
    let whole = losses(&mut start(&[&original, "1", "0"]));
    let near = whole.iter().zip(&both[0]).all(|(whole, mean)| (whole - mean).abs() <= 1e-5 * whole);
    assert!(near && whole.len() == both[0].len() && whole[3] < whole[0], "{whole:?} {:?}", both[0]);
}

/// The file gives the original back to the byte, and is proved against it again.
#[test]
fn a_function_for_workers_is_proved_and_undone() {
    let folder = tempfile::tempdir().unwrap();
    let [original, two, back] =
        ["testdata/mnist_cnn_tf2".into(), folder.path().join("two"), folder.path().join("back")];
    let run = |flags: &[&str]| {
        let output = of("lms-rewrite", flags).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    };
    let [original, two, back]: [&str; 3] = [&original, &two, &back].map(|path| path.to_str().unwrap());
    for more in [&[][..], &["--swapout-threshold", "1"]] {
        run(&[&[original, "-o", two, "--data-parallel"], more].concat());
        let proved = run(&["--verify-against", original, two]);
        assert!(proved.contains("tensors of all workers by"), "{proved}");
        run(&["--strip", two, "-o", back]);
        let content = |folder: &str| fs::read(Path::new(folder).join("saved_model.pb")).unwrap();
        assert!(content(original) == content(back), "{more:?}: not the original");
        assert!(content(original) != content(two));
        fs::remove_dir_all(two).unwrap();
        fs::remove_dir_all(back).unwrap();
    }
}

/// What crosses the link is what one worker swaps, and the gradients each way.
#[test]
fn gradients_are_all_that_workers_of_a_function_copy_beside_their_swaps() {
    if !ready() {
        return;
    }
    let step = dense();
    let flags = ["--device", "soft:1GiB", "--exact-memory", "--swapout-threshold", "1", "--warmup", "1"];
    let flags = [&flags[..], &["--steps", "12"]].concat();
    let one = train(&step, &flags);
    let two = train(&step, &[&flags[..], &["--workers", "2"]].concat());
    for worker in two["each"].as_array().unwrap() {
        let beside = |report: &Json, way: &str| {
            report["traffic"][way].as_i64().unwrap() - report["plan"][way].as_i64().unwrap()
        };
        let more = |way: &str| beside(worker, way) - beside(&one, way);
        // The loss, which the function returns, is among them: it comes back as all workers' mean.
        let gradients = worker["reduced"]["bytes"].as_i64().unwrap();
        assert_eq!(worker["reduced"]["unknown_sizes"], 0);
        assert!(gradients > 50_000, "{worker}");
        assert_eq!([more("bytes_out"), more("bytes_in")], [gradients, gradients], "{worker}");
        assert_eq!(worker["swapins_kept"], worker["plan"]["swapins"]);
        assert!(peak(worker) <= peak(&one) * 1.03, "{} of {}", peak(worker), peak(&one));
    }
}

/// Who goes on from a checkpoint ends with the bits of who was never stopped, with a file that was rewritten before.
#[test]
fn a_function_goes_on_from_a_checkpoint() {
    if lms_testing::tensorflow().is_none() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("two");
    // It draws no random numbers, which begin anew.
    let step = Step { path: "testdata/keras_lstm_tf2".into(), ..dense() };
    let flags = [step.path.to_str().unwrap(), "-o", file.to_str().unwrap(), "--data-parallel"];
    let output = of("lms-rewrite", &flags).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let step = Step { path: file, ..step };
    let flags = ["--device", "cpu", "--warmup", "0", "--workers", "2"];
    let whole = train(&step, &[&flags[..], &["--steps", "4"]].concat());
    let saved = folder.path().join("saved/at");
    let saving = ["--steps", "2", "--save", saved.to_str().unwrap(), "--save-every", "1"];
    train(&step, &[&flags[..], &saving].concat());
    let from = ["--steps", "4", "--resume", saved.parent().unwrap().to_str().unwrap()];
    let resumed = train(&step, &[&flags[..], &from].concat());
    assert_eq!(resumed["variables_digest"], whole["variables_digest"]);
}

/// Changes to a file for workers that would train to other weights, or stop, are refused each by its own rule.
#[test]
fn changes_to_a_function_for_workers_are_refused() {
    if lms_testing::tensorflow().is_none() {
        return;
    }
    let path = dense().path.join("saved_model.pb");
    let model = tf_lms::read(&path).unwrap();
    let graph = model.graph().unwrap();
    let analysis = model.analyse(&graph, &AnalysisOptions::default()).unwrap();
    let parallel = model.data_parallel(&analysis, &ParallelOptions::default()).unwrap();
    let file = model.parallelized(&graph, &parallel).unwrap().into_file();
    let bytes = file.edited(&Edits::default(), file.encoding()).unwrap().to_vec();
    let function = analysis.function.clone().unwrap();
    // Both are encoded anew, so that nothing but the change differs.
    let encoded = |mut saved: SavedModel, change: &dyn Fn(&mut GraphDef)| {
        change(saved.meta_graphs[0].graph_def.as_mut().unwrap());
        File::from_bytes("changed", saved.encode_to_vec(), &ReadOptions::default()).unwrap()
    };
    let original = SavedModel::decode(&*fs::read(&path).unwrap()).unwrap();
    let original = encoded(original, &|_| {});
    let kinds = |change: &dyn Fn(&mut GraphDef)| -> Vec<ViolationKind> {
        let changed = encoded(SavedModel::decode(&*bytes).unwrap(), change);
        match check(&original, &changed, model.registry()) {
            Ok(_) => Vec::new(),
            Err(error) => {
                let mut kinds: Vec<_> = error.violations.iter().map(|violation| violation.kind).collect();
                kinds.dedup();
                kinds
            }
        }
    };
    assert_eq!(kinds(&|_| {}), []);

    let in_function = |graph: &mut GraphDef, change: &dyn Fn(&mut Vec<NodeDef>)| {
        let mut functions = graph.library.as_mut().unwrap().function.iter_mut();
        let is_it = |candidate: &&mut FunctionDef| candidate.signature.as_ref().unwrap().name == function;
        change(&mut functions.find(is_it).unwrap().node_def);
    };
    let named = |nodes: &[NodeDef], name: &str| nodes.iter().position(|node| node.name == name).unwrap();
    let found = kinds(&|graph| {
        let set = named(&graph.node, SET_COUNT);
        graph.node[set].input[1] = RANK.to_string();
    });
    assert_eq!(found, [ViolationKind::AddedInputs]);
    let found = kinds(&|graph| {
        in_function(graph, &|nodes| {
            let count = named(nodes, COUNT);
            nodes[count].attr.get_mut("shared_name").unwrap().value = Some(Value::S(b"another".to_vec()));
        });
    });
    assert_eq!(found, [ViolationKind::AddedOp]);
    let found = kinds(&|graph| {
        let broadcast = named(&graph.node, "lms/parallel/broadcast/0/sum/key");
        let value = graph.node[broadcast].attr["value"].clone();
        in_function(graph, &|nodes| {
            let key = named(nodes, "lms/parallel/0/mean/key");
            nodes[key].attr.insert("value".to_string(), value.clone());
        });
    });
    assert_eq!(found, [ViolationKind::SharedKey]);
    let found = kinds(&|graph| {
        in_function(graph, &|nodes| {
            let mut means = nodes.iter().flat_map(|node| &node.input).filter(|input| input.contains("/out/"));
            let mean = means.next_back().unwrap().clone();
            let own = mean.split(':').next().unwrap().replace("/out/", "/in/");
            let own = nodes[named(nodes, &own)].input[0].clone();
            nodes.iter_mut().flat_map(|node| &mut node.input).for_each(|input| {
                if *input == mean {
                    input.clone_from(&own);
                }
            });
        });
    });
    assert_eq!(found, [ViolationKind::LocalUpdate]);
}
