//! Runs of the program, and what they are compared with.

use std::fs;
use std::path::PathBuf;
use std::process::{Command, Output};

use serde_json::Value;

/// A model with the feeds that its manifest asks for.
pub struct Case {
    pub model: &'static str,
    pub feeds: &'static [&'static str],
}

pub const MNIST: Case = Case { model: "mnist_cnn", feeds: &["labels=randint:0:10"] };
pub const MNIST_REF: Case = Case { model: "mnist_cnn_ref_momentum", feeds: &["labels=randint:0:10"] };
pub const GOOGLENET: Case = Case { model: "googlenet_64_b2", feeds: &["labels=randint:0:10"] };
pub const DEEPLAB: Case = Case { model: "deeplabv3plus_65_b2", feeds: &["labels=randint:0:21"] };
pub const RESNET: Case = Case { model: "resnet50_64_b2", feeds: &["labels=randint:0:10"] };
pub const BERT: Case = Case {
    model: "bert_32_b8",
    feeds: &[
        "tokens=randint:0:100",
        "segments=randint:0:2",
        "masked_positions=randint:0:32",
        "masked_tokens=randint:0:100",
        "labels=randint:0:2",
    ],
};
pub const MOBILENET: Case = Case { model: "mobilenet_64_b4", feeds: &["labels=randint:0:10"] };
pub const UNET: Case = Case { model: "unet3d_16_b1", feeds: &["truth=randint:0:2"] };

/// The plug-in, where cargo built it for the tests of its crate or by itself.
pub fn plugin() -> Option<PathBuf> {
    if let Some(named) = std::env::var_os("LMS_SOFTGPU") {
        return Some(named.into());
    }
    let lms_train = crate::tool("lms-train");
    let program = lms_train.parent()?;
    ["", "deps"]
        .map(|place| program.join(place).join("libsoftgpu.so"))
        .into_iter()
        .find(|path| path.is_file())
}

/// Whether there are a TensorFlow and a plug-in to test with.
pub fn ready() -> bool {
    if crate::tensorflow().is_none() {
        return false;
    }
    let built = plugin().is_some();
    let required = std::env::var_os("LMS_REQUIRE_TENSORFLOW").is_some_and(|value| !value.is_empty());
    assert!(built || !required, "no libsoftgpu.so: run `cargo build -p softgpu` first");
    if !built {
        eprintln!("skipped: no libsoftgpu.so; run `cargo build -p softgpu` first");
    }
    built
}

/// `lms-train`, to be run with these flags.
pub fn command(flags: &[&str]) -> Command {
    of("lms-train", flags)
}

/// A tool on the software GPU, to be run with these flags. All kernels are deterministic.
pub fn of(name: &str, flags: &[&str]) -> Command {
    let mut command = Command::new(crate::tool(name));
    command.args(flags).env("TF_DETERMINISTIC_OPS", "1").env("TF_ENABLE_ONEDNN_OPTS", "0");
    command.envs(plugin().map(|path| ("LMS_SOFTGPU", path)));
    command
}

pub fn run(model: &str, flags: &[&str]) -> Output {
    command(&[&[model], flags].concat()).output().unwrap()
}

/// The JSON document of a run that must succeed.
pub fn report(output: &Output) -> Value {
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}

/// Trains two steps after one.
pub fn try_to_train(case: &Case, flags: &[&str]) -> Output {
    // One thread, as the manifests' losses were made: sums in another order lead a ResNet elsewhere within three steps.
    let mut all = vec!["--json", "--strict-placement", "--steps", "2", "--threads", "1"];
    case.feeds.iter().for_each(|feed| all.extend(["--feed", feed]));
    all.extend(flags);
    run(&format!("testdata/{}.meta", case.model), &all)
}

pub fn train(case: &Case, flags: &[&str]) -> Value {
    report(&try_to_train(case, flags))
}

/// The losses that the manifest records.
pub fn reference(case: &Case) -> Vec<f64> {
    let manifest = fs::read(format!("testdata/{}.json", case.model)).unwrap();
    let manifest: Value = serde_json::from_slice(&manifest).unwrap();
    manifest["reference"]["losses"].as_array().unwrap().iter().map(|loss| loss.as_f64().unwrap()).collect()
}

pub fn number(report: &Value, path: &str) -> u64 {
    report.pointer(path).and_then(Value::as_u64).unwrap_or_else(|| panic!("no {path} in {report}"))
}
