//! A plan and the graph that it is for, both of any bytes; never a panic.

#![no_main]

libfuzzer_sys::fuzz_target!(|files: (&[u8], &[u8])| tf_lms_fuzz::pair(files.0, files.1));
