//! SavedModels of TensorFlow 2, trained by lms-train: the signature is found, its arguments are fed by name, the values are those of the
//! file's own checkpoint.

use serde_json::Value;

use lms_testing::program::{ready, report, run};

const MODEL: &str = "testdata/mnist_cnn_tf2";
const EXACT: [&str; 8] =
    ["--threads", "1", "--warmup", "0", "--feed", "labels=randint:0:10", "--json", "--exact-memory"];

fn trained(flags: &[&str]) -> Value {
    report(&run(MODEL, &[&EXACT[..], flags].concat()))
}

#[test]
fn a_signature_trains_rewritten_as_it_does_as_it_is() {
    if !ready() {
        return;
    }
    let compared = trained(&["--steps", "4", "--compare"]);
    assert_eq!(compared["first_difference"], Value::Null);
    assert_eq!(compared["original_losses"].as_array().unwrap().len(), 4);
    // Ten weights and their momenta, and what the optimizer keeps besides.
    assert_eq!(compared["variables_compared"], 20);
    assert_eq!(compared["variables_differing"].as_array().unwrap().len(), 0);
}

/// An LSTM in loops whose lists of tensors lie on the GPU, and variables of which the checkpoint has copies. Before copies and fills within the
/// software GPU were done when they returned, its losses were others in some runs.
#[test]
fn a_loop_of_keras_trains_the_same_each_time() {
    if !ready() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let prefix = folder.path().join("model").display().to_string();
    let train = |flags: &[&str]| {
        let all = ["--threads", "1", "--warmup", "0", "--feed", "labels=randint:0:10", "--json", "--steps"];
        report(&run("testdata/keras_lstm_tf2", &[&all[..], flags].concat()))
    };
    let compared = train(&["4", "--compare"]);
    assert_eq!(compared["first_difference"], Value::Null);
    assert_eq!(compared["variables_differing"], serde_json::json!([]));
    assert!(compared["variables_compared"].as_u64() > Some(8));
    let on_cpu = train(&["4", "--device", "cpu"]);
    assert_eq!(on_cpu["losses"], compared["original_losses"]);
    // What is saved goes on: the copies are set before, and do not take memory after.
    let first = train(&["2", "--save", &prefix]);
    let rest = train(&["2", "--restore", first["saved"].as_str().unwrap()]);
    let all = [&first, &rest].map(|part| part["losses"].as_array().unwrap().clone()).concat();
    assert_eq!(&all, on_cpu["losses"].as_array().unwrap());
}

#[test]
fn what_a_function_swaps_is_copied_and_takes_the_peak_down() {
    if !ready() {
        return;
    }
    let (plain, swapped) = (trained(&["--steps", "2"]), trained(&["--steps", "2", "--rewrite"]));
    assert_eq!(plain["losses"], swapped["losses"]);
    let peak = |report: &Value| report["memory"]["peak_bytes"].as_u64().unwrap();
    assert!(peak(&swapped) < peak(&plain));
    let copied = |report: &Value, way: &str| report["traffic"][way].as_f64().unwrap();
    let planned = |way: &str| swapped["plan"][way].as_f64().unwrap();
    for (way, wanted) in [("bytes_out", planned("bytes_out")), ("bytes_in", planned("bytes_in"))] {
        let found = copied(&swapped, way) - copied(&plain, way);
        // The runtime makes a constant of a scalar or two.
        assert!((wanted - 64.0..=wanted).contains(&found), "{way}: {found}, planned {wanted}");
    }
    assert_eq!(swapped["swapins_kept"], swapped["plan"]["swapins"]);
}

#[test]
fn a_function_s_checkpoint_has_all_that_a_step_begins_with() {
    if !ready() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let goes_on = |name: &str, flags: &[&str]| {
        let prefix = folder.path().join(name).display().to_string();
        let first = trained(&[&["--steps", "2", "--save", &prefix], flags].concat());
        let saved = first["saved"].as_str().unwrap();
        let rest = trained(&[&["--steps", "2", "--restore", saved], flags].concat());
        [first["losses"].clone(), rest["losses"].clone()]
    };
    // Random numbers begin anew, so it is not what one run of four steps makes.
    let (plain, rewritten) = (goes_on("plain", &[]), goes_on("rewritten", &["--rewrite"]));
    assert_eq!(plain, rewritten);
    assert_ne!(plain[0], plain[1]);
}

#[test]
fn what_a_step_does_not_have_is_said_in_a_sentence() {
    if !ready() {
        return;
    }
    for (flags, said) in [
        (["--signature", "serve"], "has no signature \"serve\"; it has __saved_model_init_op, train"),
        (["--loss", "accuracy"], "has no output of the step \"accuracy\", which --loss names; there is loss"),
        (["--feed", "x=zeros"], "the graph has no such placeholder; it has images, labels"),
        (["--function", "nothing"], "has no function \"nothing\""),
    ] {
        let output = run(MODEL, &flags);
        let error = String::from_utf8_lossy(&output.stderr);
        assert!(error.contains(said) && error.lines().count() == 1, "{error}");
        assert_eq!(output.status.code(), Some(1));
    }
}
