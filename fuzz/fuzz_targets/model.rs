//! Any bytes as a model: an error or a graph that can be planned, rewritten, checked and stripped; never a panic.

#![no_main]

libfuzzer_sys::fuzz_target!(|content: &[u8]| tf_lms_fuzz::model(content));
