//! The trace: what ran when, as `interface` documents it.

use crate::engines::Engine;
use crate::sync::{lock, unix_ns_at_zero};
use std::io::{self, Write};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Mutex};

const CAPACITY: usize = 4_000_000;

enum Event {
    Kernel { op: Arc<str>, node: Arc<str>, device: usize, start: u64, end: u64 },
    Copy { engine: Engine, bytes: u64, device: usize, start: u64, end: u64 },
    Memory { device: usize, at: u64, live: u64 },
}

#[derive(Default)]
struct Trace {
    events: Vec<Event>,
    dropped: u64,
}

static ON: AtomicBool = AtomicBool::new(false);
static TRACE: Mutex<Trace> = Mutex::new(Trace { events: Vec::new(), dropped: 0 });

/// Starts recording from nothing, or stops.
pub fn switch(on: bool) {
    if on {
        *lock(&TRACE) = Trace::default();
    }
    ON.store(on, Relaxed);
}

fn push(event: impl FnOnce() -> Event) {
    if !ON.load(Relaxed) {
        return;
    }
    let mut trace = lock(&TRACE);
    if trace.events.len() < CAPACITY {
        trace.events.push(event());
    } else {
        trace.dropped += 1;
    }
}

pub fn kernel(device: usize, op: &Arc<str>, node: &Arc<str>, start: u64, end: u64) {
    push(|| Event::Kernel { op: op.clone(), node: node.clone(), device, start, end });
}

pub fn copy(device: usize, engine: Engine, bytes: u64, start: u64, end: u64) {
    push(|| Event::Copy { engine, bytes, device, start, end });
}

pub fn memory(device: usize, at: u64, live: u64) {
    push(|| Event::Memory { device, at, live });
}

/// Writes what was recorded as Chrome's trace format.
pub fn write(out: &mut dyn Write) -> io::Result<()> {
    let trace = lock(&TRACE);
    write!(
        out,
        "{{\"displayTimeUnit\":\"ns\",\"otherData\":{{\"unix_ns_at_zero\":{},\"dropped\":{}}},\"traceEvents\":[",
        unix_ns_at_zero(),
        trace.dropped
    )?;
    for (i, event) in trace.events.iter().enumerate() {
        out.write_all(if i == 0 { b"\n" } else { b",\n" })?;
        match event {
            Event::Kernel { op, node, device, start, end } => write!(
                out,
                "{{\"ph\":\"X\",\"cat\":\"kernel\",\"name\":\"{}\",\"pid\":{device},\"tid\":1,\"ts\":{},\"dur\":{},\
                 \"args\":{{\"op\":\"{}\"}}}}",
                escape(node),
                micros(*start),
                micros(end - start),
                escape(op)
            )?,
            Event::Copy { engine, bytes, device, start, end } => {
                let (tid, name) = match engine {
                    Engine::CopyIn => (2, "in"),
                    Engine::CopyOut => (3, "out"),
                    _ => (4, "on device"),
                };
                write!(
                    out,
                    "{{\"ph\":\"X\",\"cat\":\"copy\",\"name\":\"{name}\",\"pid\":{device},\"tid\":{tid},\"ts\":{},\
                     \"dur\":{},\"args\":{{\"bytes\":{bytes}}}}}",
                    micros(*start),
                    micros(end - start)
                )?;
            }
            Event::Memory { device, at, live } => write!(
                out,
                "{{\"ph\":\"C\",\"name\":\"memory\",\"pid\":{device},\"ts\":{},\"args\":{{\"live\":{live}}}}}",
                micros(*at)
            )?,
        }
    }
    out.write_all(b"\n]}\n")
}

fn micros(ns: u64) -> String {
    format!("{}.{:03}", ns / 1000, ns % 1000)
}

fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '"' | '\\' => out.extend(['\\', c]),
            c if c < ' ' => out.push_str(&format!("\\u{:04x}", c as u32)),
            c => out.push(c),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_exact_to_the_nanosecond() {
        assert_eq!(micros(1_234_567), "1234.567");
        assert_eq!(micros(5), "0.005");
    }

    #[test]
    fn names_stay_within_their_quotes() {
        assert_eq!(escape("a/\"b\"\\\n"), "a/\\\"b\\\"\\\\\\u000a");
    }

    #[test]
    fn what_is_recorded_is_written() {
        switch(true);
        kernel(1, &"Conv2D".into(), &"net/conv".into(), 1000, 3500);
        copy(0, Engine::CopyOut, 64, 0, 10);
        memory(0, 7, 256);
        switch(false);
        memory(0, 8, 512);
        let mut out = Vec::new();
        write(&mut out).unwrap();
        let text = String::from_utf8(out).unwrap();
        assert!(
            text.contains(
                r#""name":"net/conv","pid":1,"tid":1,"ts":1.000,"dur":2.500,"args":{"op":"Conv2D"}"#
            )
        );
        assert!(text.contains(r#""name":"out","pid":0,"tid":3,"ts":0.000,"dur":0.010,"args":{"bytes":64}"#));
        assert!(text.contains(r#""ts":0.007,"args":{"live":256}"#));
        assert!(!text.contains(r#""live":512"#));
    }
}
