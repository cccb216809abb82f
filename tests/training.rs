//! Training graphs in TensorFlow through the runtime room.

mod support;

use support::manifest::Manifest;
use support::training::{Trained, one_thread, train};
use tf_lms::runtime::TensorFlow;

/// What losses recorded on another machine may differ by, as a share of the loss.
const OTHER_MACHINE: f64 = 1e-3;

fn train_as_recorded(tensorflow: &'static TensorFlow, name: &str) -> Trained {
    let manifest = Manifest::of(name);
    let reference = manifest.reference.as_ref().unwrap();
    let steps = reference.losses.len();
    let model = manifest.model();
    let trained = train(tensorflow, &model, &manifest, &one_thread(), steps).unwrap();
    if trained.single_bits() == reference.bits() {
        return trained;
    }
    eprintln!("{name}: other bits than recorded: {:?}, {:?}", trained.losses, reference.losses);
    for (loss, &recorded) in trained.losses.iter().zip(&reference.losses) {
        let recorded = f64::from(recorded);
        assert!((loss - recorded).abs() <= OTHER_MACHINE * recorded.abs(), "{name}: {loss}, not {recorded}");
    }
    let again = train(tensorflow, &model, &manifest, &one_thread(), steps).unwrap();
    assert_eq!(trained.single_bits(), again.single_bits(), "{name}");
    trained
}

#[test]
fn losses_are_those_that_were_recorded() {
    let Some(tensorflow) = support::tensorflow() else { return };
    let names = Manifest::names();
    assert!(names.len() > 15, "{names:?}");
    for name in names.iter().filter(|name| Manifest::of(name).reference.is_some()) {
        train_as_recorded(tensorflow, name);
    }
}

#[test]
fn what_ran_is_recorded() {
    let Some(tensorflow) = support::tensorflow() else { return };
    let trained = train_as_recorded(tensorflow, "mnist_cnn");
    assert!(trained.nodes().any(|node| node.op == "Conv2DBackpropFilter"));
    let statistics = trained.metadata.step_stats.as_ref().unwrap();
    assert!(statistics.dev_stats.iter().any(|device| device.device.ends_with("CPU:0")));
}
