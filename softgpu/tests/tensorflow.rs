//! Runs TensorFlow on the software GPU. See `cases.py` for what each case shows.
//!
//! `LMS_TEST_PYTHON` is a Python that has the `tensorflow-cpu` wheel of the version that the plug-in was checked with.
//! Without the variable the cases do not run and say so; with it, a Python that does not work fails them.

use std::path::{Path, PathBuf};
use std::process::Command;

/// The plug-in that Cargo built for this test.
fn library() -> PathBuf {
    let test = std::env::current_exe().expect("the test's path");
    let found =
        test.ancestors().skip(1).map(|folder| folder.join("libsoftgpu.so")).find(|path| path.exists());
    found.unwrap_or_else(|| panic!("no libsoftgpu.so above {}", test.display()))
}

fn run(case: &str, settings: &[(&str, &str)]) {
    let Some(python) = std::env::var_os("LMS_TEST_PYTHON") else {
        eprintln!("skipped {case}: LMS_TEST_PYTHON is not set to a Python with TensorFlow");
        return;
    };
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/cases.py");
    let mut command = Command::new(&python);
    command.arg(script).arg(case).arg(library()).env("PYTHONDONTWRITEBYTECODE", "1");
    for (name, _) in std::env::vars_os().filter(|(name, _)| name.to_string_lossy().starts_with("SOFTGPU_")) {
        command.env_remove(name);
    }
    let out = command.envs(settings.iter().copied()).output();
    let out = out.unwrap_or_else(|e| panic!("LMS_TEST_PYTHON={}: {e}", python.display()));
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let (stdout, stderr) = (text(&out.stdout), text(&out.stderr));
    println!("{stdout}");
    assert!(out.status.success(), "{case}: {}\n{stderr}", out.status);
    assert!(stdout.lines().any(|line| line == format!("ok {case}")), "{case} did not finish\n{stderr}");
}

macro_rules! cases {
    ($($name:ident: $case:literal, [$($setting:expr),*];)*) => {
        $(#[test] fn $name() { run($case, &[$($setting),*]); })*
    };
}

const EXACT: (&str, &str) = ("SOFTGPU_ALLOCATOR", "exact");

cases! {
    trains_with_the_cpus_losses: "trains", [];
    trains_without_bfc: "trains", [EXACT];
    optimizers_and_kinds_of_variables: "optimizers", [];
    channels_first_models: "channels_first", [];
    channels_first_ops_bit_by_bit: "layouts", [];
    out_of_memory_is_tensorflows_error: "oom", [("SOFTGPU_MEMORY", "4MiB")];
    out_of_memory_without_bfc: "oom_exact", [("SOFTGPU_MEMORY", "4MiB"), EXACT, ("SOFTGPU_ALLOC_WAIT", "100ms")];
    peaks_and_bytes_are_exact: "exact", [EXACT];
    what_does_not_fit_fits_with_swaps: "swaps", [("SOFTGPU_MEMORY", "12MiB")];
    swaps_lower_the_peak: "swaps_exact", [EXACT];
    copies_are_throttled: "throttled", [EXACT, ("SOFTGPU_RATE_IN", "20MB/s"), ("SOFTGPU_RATE_OUT", "10MB/s")];
    another_version_is_refused: "refused", [("SOFTGPU_PRETEND_VERSION", "2.20.0"), ("EXPECT_MESSAGE", "this is TensorFlow 2.20.0")];
    a_bad_setting_is_refused: "refused", [("SOFTGPU_MEMORY", "lots"), ("EXPECT_MESSAGE", "SOFTGPU_MEMORY=lots: expected a size")];
    an_unknown_setting_is_refused: "refused", [("SOFTGPU_MEMROY", "1GiB"), ("EXPECT_MESSAGE", "SOFTGPU_MEMROY is not a setting")];
    two_devices: "two_devices", [("SOFTGPU_DEVICES", "2"), ("SOFTGPU_MEMORY", "64MiB,32MiB")];
    the_trace_agrees_with_the_counters: "trace", [EXACT];
    loops_and_branches: "loops", [];
    random_numbers: "random", [];
    types_and_shared_memory: "types", [EXACT];
    outputs_have_the_sizes_of_cuda: "sizes", [("TF_ENABLE_ONEDNN_OPTS", "1")];
    errors_of_kernels: "errors", [];
    nothing_is_left_behind: "steady", [EXACT];
    another_device_type: "trains", [("SOFTGPU_DEVICE_TYPE", "SOFTGPU")];
}
