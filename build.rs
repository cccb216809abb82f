//! Compiles the definitions in `proto/` to Rust, in pure Rust: no `protoc` is needed.
//!
//! Two files go to `OUT_DIR`: `tensorflow.rs`, the message types, and `tensorflow.fds`, the same
//! definitions as a descriptor set, from which text format and reflection work at run time.

use std::error::Error;
use std::path::{Path, PathBuf};
use std::{env, fs};

use protox::prost::Message;

/// The folder that imports between the definitions are relative to.
const PROTO_ROOT: &str = "proto";

fn main() -> Result<(), Box<dyn Error>> {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-changed={PROTO_ROOT}");

    let mut files = Vec::new();
    collect_protos(Path::new(PROTO_ROOT), &mut files)?;
    // The order in which a folder is listed differs between machines.
    files.sort();

    let mut compiler = protox::Compiler::new([PROTO_ROOT])?;
    compiler.include_imports(true).open_files(&files)?;
    let descriptors = compiler.file_descriptor_set();

    let out_dir = PathBuf::from(env::var("OUT_DIR")?);
    fs::write(out_dir.join("tensorflow.fds"), descriptors.encode_to_vec())?;

    prost_build::Config::new()
        // Ordered maps: the same message always encodes to the same bytes.
        .btree_map(["."])
        .compile_fds(descriptors)?;
    Ok(())
}

fn collect_protos(folder: &Path, files: &mut Vec<PathBuf>) -> Result<(), Box<dyn Error>> {
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        if path.is_dir() {
            collect_protos(&path, files)?;
        } else if path.extension().is_some_and(|extension| extension == "proto") {
            files.push(path);
        }
    }
    Ok(())
}
