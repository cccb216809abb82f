//! A plan, a zero byte, and the graph that it is for, both of any bytes; never a panic.

#![no_main]

libfuzzer_sys::fuzz_target!(|both: &[u8]| {
    let plan = both.split(|&byte| byte == 0).next().unwrap_or_default();
    let graph = both.get(plan.len() + 1..).unwrap_or_default();
    tf_lms_fuzz::pair(plan, graph);
});
