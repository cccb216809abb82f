//! Any bytes as a plan for a small graph: an error or a rewrite; never a panic.

#![no_main]

libfuzzer_sys::fuzz_target!(|json: &[u8]| tf_lms_fuzz::plan(json));
