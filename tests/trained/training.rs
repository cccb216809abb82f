//! Training graphs in TensorFlow through the runtime room.

use std::fs::File;
use std::path::Path;
use std::process::Command;

use lms_testing::manifest::{Manifest, Reference};
use lms_testing::training::{Trained, one_thread, train};
use tf_lms::runtime::TensorFlow;

/// What a first loss recorded on another machine may differ by, as a share of the loss. What comes of such differences in later steps
/// has no bound: ResNet50 makes percents of them.
const OTHER_MACHINE: f64 = 1e-3;

/// Trains to the same bits as were recorded, or as Python's TensorFlow comes to on this machine, whose CPU may round in another way.
fn train_as_recorded(tensorflow: &'static TensorFlow, name: &str) -> Trained {
    let manifest = Manifest::of(name);
    let reference = manifest.reference.as_ref().unwrap();
    let steps = reference.losses.len();
    let trained = train(tensorflow, &manifest.model(), &manifest, &one_thread(), steps).unwrap();
    if trained.single_bits() == reference.bits() {
        return trained;
    }
    eprintln!("{name}: other bits than recorded: {:?}, {:?}", trained.losses, reference.losses);
    let (first, recorded) = (trained.losses[0], f64::from(reference.losses[0]));
    assert!((first - recorded).abs() <= OTHER_MACHINE * recorded.abs(), "{name}: {first}, not {recorded}");
    match losses_in_python(&manifest, reference) {
        Some(losses) => assert_eq!(trained.losses, losses, "{name}"),
        None => eprintln!("{name}: LMS_TEST_PYTHON is not set to a Python with TensorFlow, to compare with"),
    }
    trained
}

/// What Python's TensorFlow comes to in the same steps; none if there is none.
fn losses_in_python(manifest: &Manifest, reference: &Reference) -> Option<Vec<f64>> {
    let python = std::env::var_os("LMS_TEST_PYTHON")?;
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut command = Command::new(python);
    command.args(["-m", "exporting.reference"]).arg(manifest.path()).arg(reference.losses.len().to_string());
    command.env("PYTHONPATH", root.join("scripts")).env("PYTHONDONTWRITEBYTECODE", "1");
    command.envs(&reference.environment).stdin(File::open(&manifest.own_path).unwrap());
    let output = command.output().unwrap_or_else(|error| panic!("LMS_TEST_PYTHON: {error}"));
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    Some(serde_json::from_slice(&output.stdout).unwrap())
}

#[test]
fn losses_are_those_that_were_recorded() {
    let Some(tensorflow) = lms_testing::tensorflow() else { return };
    let names = Manifest::names();
    assert!(names.len() > 15, "{names:?}");
    for name in names.iter().filter(|name| Manifest::of(name).reference.is_some()) {
        train_as_recorded(tensorflow, name);
    }
}

#[test]
fn what_ran_is_recorded() {
    let Some(tensorflow) = lms_testing::tensorflow() else { return };
    let trained = train_as_recorded(tensorflow, "mnist_cnn");
    assert!(trained.nodes().any(|node| node.op == "Conv2DBackpropFilter"));
    let statistics = trained.metadata.step_stats.as_ref().unwrap();
    assert!(statistics.dev_stats.iter().any(|device| device.device.ends_with("CPU:0")));
}
