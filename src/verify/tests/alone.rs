//! What the checker shares with what it checks, and what it does not.

use std::fs;
use std::path::{Path, PathBuf};

use crate::ops::{Fact, OpRegistry};
use crate::verify::op_facts::{OpFacts, may_write_refs};

/// What may be used of the rest of the library. How a function's calls are made flat is one knowledge for all; the checker does it for itself,
/// from the bytes of both files, and tests hold the result against TensorFlow.
const SHARED: [&str; 18] = [
    "dtype::DataType",
    "flatten",
    "format::AttrEdit",
    "format::Edits",
    "format::Encoding",
    "format::FormatError",
    "format::Function",
    "format::ReadOptions",
    "format::wire",
    "format::Model",
    "format::Nodes",
    "ops::Attr",
    "ops::AttrLookup",
    "ops::OpInfo",
    "ops::OpRegistry",
    "ops::Port",
    "proto::descriptor_pool",
    "proto::tensorflow",
];

/// What an op's definition is asked besides its signature: lists that the planner goes by.
const NOT_SIGNATURES: [&str; 6] =
    [".facts(", "OpInfo::facts", ".has_effect(", ".must_be_fed(", ".gpu_kernel(", "OpInfo::has_effect"];

/// The checker's files, its tests aside.
fn files() -> Vec<(PathBuf, String)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/verify");
    let inside =
        |folder: &Path| fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect::<Vec<_>>();
    let all = [inside(&folder), inside(&folder.join("workers"))].concat();
    let sources = all.into_iter().filter(|path| path.extension().is_some_and(|extension| extension == "rs"));
    sources.map(|path| (path.clone(), fs::read_to_string(path).unwrap())).collect()
}

/// The paths that a `use` names, braces written out: `a::{b, c::d}` names `a::b` and `a::c::d`.
fn written_out(path: &str) -> Vec<String> {
    let Some((start, rest)) = path.split_once('{') else { return vec![path.trim().to_string()] };
    let inner = rest.rsplit_once('}').map_or(rest, |(inner, _)| inner);
    let (mut depth, mut parts) = (0, vec![String::new()]);
    for letter in inner.chars() {
        depth += i32::from(letter == '{') - i32::from(letter == '}');
        match letter {
            ',' if depth == 0 => parts.push(String::new()),
            letter => parts.last_mut().unwrap().push(letter),
        }
    }
    let named = parts.iter().filter(|part| !part.trim().is_empty());
    named.flat_map(|part| written_out(&format!("{start}{}", part.trim()))).collect()
}

/// The paths into the rest of the library that a file has, its unit tests aside.
fn paths(source: &str) -> Vec<String> {
    let source = source.split("#[cfg(test)]\nmod tests").next().unwrap_or_default();
    let code: String = source.lines().filter(|line| !line.trim_start().starts_with("//")).collect();
    let starts = code.match_indices("crate::").map(|(start, found)| start + found.len());
    let until = |start: usize| {
        let rest = &code[start..];
        let name = rest.find(|letter: char| !letter.is_alphanumeric() && !"_:".contains(letter));
        let name = name.unwrap_or(rest.len());
        // A list of names goes on to the end of its `use`.
        if rest[name..].starts_with('{') {
            &rest[..rest.find(';').unwrap_or(rest.len())]
        } else {
            &rest[..name]
        }
    };
    starts.flat_map(|start| written_out(until(start))).collect()
}

#[test]
fn nothing_is_shared_but_files_and_signatures() {
    assert_eq!(
        paths("use crate::a::{b, c::{d, e}};\nlet f = crate::g::h(1);"),
        ["a::b", "a::c::d", "a::c::e", "g::h"]
    );
    let files = files();
    assert!(files.len() > 20);
    for (path, source) in files {
        for used in paths(&source) {
            let is_shared = |shared: &&str| used == **shared || used.starts_with(&format!("{shared}::"));
            assert!(SHARED.iter().any(is_shared), "{} uses {used}", path.display());
        }
        for asked in NOT_SIGNATURES {
            assert!(!source.contains(asked), "{} asks {asked}", path.display());
        }
    }
}

#[test]
fn the_planner_and_the_checker_know_the_same_of_each_op() {
    for info in OpRegistry::builtin().iter() {
        let op = info.name();
        let facts = OpFacts::new(op, Some(info), false);
        assert_eq!(facts.reads_values, !info.facts().has(Fact::ReadsNoValues), "whether {op} reads values");
        assert_eq!(facts.has_effect, info.has_effect(), "whether {op} has an effect");
        // Stacks and TensorArrays end with their run.
        let is_of_one_run = ["Stack", "TensorArray"].iter().any(|start| op.starts_with(start));
        let writes = may_write_refs(Some(info)) && !info.is_stateful() && !is_of_one_run;
        assert!(!writes || info.has_effect(), "whether {op} writes");
    }
}
