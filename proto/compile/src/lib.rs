//! Compiles the definitions in `proto/tensorflow/` to Rust, in pure Rust: no `protoc` is needed.
//!
//! What comes of it is kept in `proto/generated/`, so that who builds `tf-lms` needs no compiler of protocol buffers. After a change of
//! the definitions: `cargo run -p compile-protos`.

use std::error::Error;
use std::fs;
use std::path::{Path, PathBuf};

use protox::prost::Message;

/// What is made of the definitions.
#[derive(Debug, PartialEq, Eq)]
pub struct Compiled {
    /// The message types, as Rust: `tensorflow.rs`.
    pub types: String,
    /// The same definitions as a descriptor set, from which text format and reflection work at run time: `tensorflow.fds`.
    pub descriptors: Vec<u8>,
}

/// The folder with the definitions, that imports between them are relative to.
pub fn definitions() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

/// Where the message types and the descriptor set are kept.
pub fn generated() -> [PathBuf; 2] {
    ["tensorflow.rs", "tensorflow.fds"].map(|file| definitions().join("generated").join(file))
}

/// Compiles the definitions.
///
/// # Errors
///
/// If they cannot be read or compiled.
pub fn compile() -> Result<Compiled, Box<dyn Error>> {
    let root = definitions();
    let mut files = Vec::new();
    collect_protos(&root, &mut files)?;
    // The order in which a folder is listed differs between machines.
    files.sort();

    let mut compiler = protox::Compiler::new([&root])?;
    compiler.include_imports(true).open_files(&files)?;
    let set = compiler.file_descriptor_set();
    let descriptors = set.encode_to_vec();

    let out_dir = tempfile::tempdir()?;
    prost_build::Config::new()
        .out_dir(out_dir.path())
        // Ordered maps: the same message always encodes to the same bytes.
        .btree_map(["."])
        .compile_fds(set)?;
    let types = fs::read_to_string(out_dir.path().join("tensorflow.rs"))?;
    Ok(Compiled { types, descriptors })
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_kept_is_what_the_definitions_give() {
        let compiled = compile().unwrap();
        let [types, descriptors] = generated();
        let advice = "proto/generated is not what proto/ gives: run `cargo run -p compile-protos`";
        assert!(fs::read_to_string(types).unwrap() == compiled.types, "{advice}");
        assert!(fs::read(descriptors).unwrap() == compiled.descriptors, "{advice}");
    }
}
