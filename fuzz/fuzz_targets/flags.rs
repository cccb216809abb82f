//! Any text as the value of a flag; never a panic.

#![no_main]

libfuzzer_sys::fuzz_target!(|content: &[u8]| tf_lms_fuzz::flags(content));
