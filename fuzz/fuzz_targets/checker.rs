//! Any two files held against each other: a verdict or a list of violations; never a panic.

#![no_main]

use libfuzzer_sys::fuzz_target;
use tf_lms::{Model, OpenOptions};

fuzz_target!(|files: (&[u8], &[u8])| {
    let read = |content: &[u8]| Model::from_bytes("fuzzed", content.to_vec(), &OpenOptions::default());
    let (Ok(original), Ok(rewritten)) = (read(files.0), read(files.1)) else { return };
    let _ = original.prove(rewritten.into_file(), &[]);
});
