//! Any text as a model in the text format, and all that comes of it; never a panic.

#![no_main]

libfuzzer_sys::fuzz_target!(|content: &[u8]| tf_lms_fuzz::text(content));
