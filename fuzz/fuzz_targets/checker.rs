//! A rewritten graph, damaged, held against the original: a verdict or a list of violations; never a panic.

#![no_main]

libfuzzer_sys::fuzz_target!(|damage: &[u8]| tf_lms_fuzz::checker(damage));
