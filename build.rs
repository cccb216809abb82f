//! Lets TensorFlow's servers see `lms-train`'s `bind`: see `src/bin/lms-train/listen.rs`.

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    let is_linux = std::env::var("CARGO_CFG_TARGET_OS").is_ok_and(|os| os == "linux");
    let has_train = std::env::var_os("CARGO_FEATURE_TRAIN").is_some();
    if is_linux && has_train {
        println!("cargo::rustc-link-arg-bin=lms-train=-Wl,--export-dynamic-symbol=bind");
    }
}
