//! What ran when, as a trace that Perfetto and Chrome open.

use std::collections::BTreeMap;
use std::io::{self, Write};
use std::path::Path;

use serde::ser::{SerializeMap, Serializer};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use super::ChartError;
use super::figure::check_value;
use crate::format::write_file;

/// Spans of time on tracks, counters, and arrows between spans, in the order in which they were added.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Timeline {
    /// The tracks' names by their process and thread numbers.
    names: Vec<Event>,
    tracks: BTreeMap<(String, String), Track>,
    processes: BTreeMap<String, u32>,
    events: Vec<Event>,
    arrows: u64,
}

/// A row of a timeline, which shows one thing at a time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Track {
    process: u32,
    thread: u32,
}

/// What works on a training step.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "engine")]
pub enum Engine {
    /// The CPU, which launches the ops and runs some.
    Host,
    /// The stream in which a GPU computes.
    Compute {
        /// The GPU's number.
        gpu: u32,
    },
    /// The stream in which a GPU copies to the host.
    CopyOut {
        /// The GPU's number.
        gpu: u32,
    },
    /// The stream in which a GPU copies from the host.
    CopyIn {
        /// The GPU's number.
        gpu: u32,
    },
}

/// The streams of a GPU, in the order in which they are shown.
const STREAMS: [&str; 3] = ["compute", "copy-out", "copy-in"];

/// One event in the form of Chrome's trace format.
#[derive(Debug, Clone, PartialEq, Serialize)]
struct Event {
    #[serde(rename = "ph")]
    phase: &'static str,
    name: String,
    #[serde(rename = "cat")]
    category: &'static str,
    #[serde(rename = "pid")]
    process: u32,
    #[serde(rename = "tid")]
    thread: u32,
    #[serde(rename = "ts")]
    start_microseconds: f64,
    #[serde(rename = "dur", skip_serializing_if = "Option::is_none")]
    microseconds: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    id: Option<u64>,
    /// An arrow ends at the span that its end lies in, not at the next one.
    #[serde(rename = "bp", skip_serializing_if = "Option::is_none")]
    binding_point: Option<&'static str>,
    #[serde(skip_serializing_if = "Map::is_empty")]
    args: Map<String, Value>,
}

impl Event {
    fn new(phase: &'static str, name: &str, category: &'static str, track: Track, seconds: f64) -> Event {
        Event {
            phase,
            name: name.to_string(),
            category,
            process: track.process,
            thread: track.thread,
            start_microseconds: microseconds(seconds),
            microseconds: None,
            id: None,
            binding_point: None,
            args: Map::new(),
        }
    }

    fn with_arg(mut self, key: &str, value: Value) -> Event {
        self.args.insert(key.to_string(), value);
        self
    }
}

/// To the nanosecond: what lies below is noise of the arithmetic.
fn microseconds(seconds: f64) -> f64 {
    let nanoseconds = (seconds * 1e9).round();
    // So far out there are no nanoseconds left to round to.
    if nanoseconds.is_finite() { nanoseconds / 1e3 } else { f64::MAX }
}

impl Timeline {
    /// A timeline on which nothing happens.
    pub fn new() -> Timeline {
        Timeline::default()
    }

    /// The track of a thread of a process, or of whatever the two names stand for. Tracks are shown in the order in which
    /// they were first asked for, those of a process together.
    pub fn track(&mut self, process: &str, thread: &str) -> Track {
        let key = (process.to_string(), thread.to_string());
        if let Some(&track) = self.tracks.get(&key) {
            return track;
        }
        let next = self.processes.len() as u32;
        let number = *self.processes.entry(process.to_string()).or_insert(next);
        let track = Track { process: number, thread: self.tracks.len() as u32 };
        if number == next {
            self.name("process", process, number, track);
        }
        self.name("thread", thread, track.thread, track);
        self.tracks.insert(key, track);
        track
    }

    fn name(&mut self, of: &str, name: &str, number: u32, track: Track) {
        let event = |kind: &str| Event::new("M", &format!("{of}_{kind}"), "__metadata", track, 0.0);
        self.names.push(event("name").with_arg("name", json!(name)));
        self.names.push(event("sort_index").with_arg("sort_index", json!(number)));
    }

    /// The track of an engine.
    pub fn engine(&mut self, engine: Engine) -> Track {
        let (gpu, stream) = match engine {
            Engine::Host => return self.track("host", "ops"),
            Engine::Compute { gpu } => (gpu, 0),
            Engine::CopyOut { gpu } => (gpu, 1),
            Engine::CopyIn { gpu } => (gpu, 2),
        };
        let process = format!("GPU {gpu}");
        // All three at once, so that their order does not hang on which works first.
        STREAMS.map(|stream| self.track(&process, stream))[stream]
    }

    /// Adds what runs on a track from `start_seconds` on for so many `seconds`. `args` are shown when one selects it.
    ///
    /// # Errors
    ///
    /// If a time is no finite number of at least 0.
    pub fn add_span(
        &mut self,
        track: Track,
        name: &str,
        start_seconds: f64,
        seconds: f64,
        args: Map<String, Value>,
    ) -> Result<(), ChartError> {
        check_value(name, self.events.len(), "start", start_seconds)?;
        check_value(name, self.events.len(), "duration", seconds)?;
        let event = Event::new("X", name, "op", track, start_seconds);
        self.events.push(Event { microseconds: Some(microseconds(seconds)), args, ..event });
        Ok(())
    }

    /// Adds that from `seconds` on so many bytes are in use. The counter is shown with the track's process.
    ///
    /// # Errors
    ///
    /// If the time is no finite number of at least 0.
    pub fn add_counter(
        &mut self,
        track: Track,
        name: &str,
        seconds: f64,
        bytes: u64,
    ) -> Result<(), ChartError> {
        check_value(name, self.events.len(), "time", seconds)?;
        let event = Event::new("C", name, "memory", track, seconds);
        self.events.push(event.with_arg("bytes", json!(bytes)));
        Ok(())
    }

    /// Adds an arrow from the span that runs on a track at a time to the span that runs on another at another time: from
    /// a swap-out to its swap-in.
    ///
    /// # Errors
    ///
    /// If a time is no finite number of at least 0.
    pub fn add_arrow(&mut self, name: &str, from: (Track, f64), to: (Track, f64)) -> Result<(), ChartError> {
        check_value(name, self.events.len(), "start", from.1)?;
        check_value(name, self.events.len(), "end", to.1)?;
        let id = Some(self.arrows);
        self.arrows += 1;
        self.events.push(Event { id, ..Event::new("s", name, "swap", from.0, from.1) });
        let end = Event::new("f", name, "swap", to.0, to.1);
        self.events.push(Event { id, binding_point: Some("e"), ..end });
        Ok(())
    }

    /// Writes the timeline as JSON.
    ///
    /// # Errors
    ///
    /// If the writer fails.
    pub fn write_to(&self, writer: impl Write) -> io::Result<()> {
        serde_json::to_writer(writer, self).map_err(io::Error::from)
    }

    /// Writes the timeline to a file: the whole of it, or nothing.
    ///
    /// # Errors
    ///
    /// If the operating system refuses.
    pub fn write(&self, path: &Path) -> Result<(), ChartError> {
        let mut content = Vec::new();
        self.write_to(&mut content).map_err(|error| ChartError::Draw { reason: error.to_string() })?;
        Ok(write_file(path, &content)?)
    }
}

/// In Chrome's trace format.
impl Serialize for Timeline {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let events: Vec<&Event> = self.names.iter().chain(&self.events).collect();
        let mut map = serializer.serialize_map(Some(2))?;
        map.serialize_entry("displayTimeUnit", "ns")?;
        map.serialize_entry("traceEvents", &events)?;
        map.end()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn events(timeline: &Timeline, phase: &str) -> Vec<Value> {
        let mut content = Vec::new();
        timeline.write_to(&mut content).unwrap();
        let value: Value = serde_json::from_slice(&content).unwrap();
        let events = value["traceEvents"].as_array().unwrap().clone();
        events.into_iter().filter(|event| event["ph"] == phase).collect()
    }

    #[test]
    fn a_swap_goes_out_and_comes_back() {
        let mut timeline = Timeline::new();
        let copy_in = timeline.engine(Engine::CopyIn { gpu: 1 });
        let copy_out = timeline.engine(Engine::CopyOut { gpu: 1 });
        assert_eq!(copy_in, timeline.engine(Engine::CopyIn { gpu: 1 }));
        let name = "a<b>&\"'\n\u{2028}é";
        let args = json!({"bytes": 7}).as_object().unwrap().clone();
        timeline.add_span(copy_out, name, 0.25, 0.5e-3, args).unwrap();
        timeline.add_span(copy_in, name, 1.0, 0.1, Map::new()).unwrap();
        timeline.add_arrow("swap", (copy_out, 0.25), (copy_in, 1.0)).unwrap();
        timeline.add_counter(copy_out, "GPU memory", 0.25, u64::MAX).unwrap();

        let spans = events(&timeline, "X");
        assert_eq!(
            spans[0],
            json!({"ph": "X", "name": name, "cat": "op", "pid": 0, "tid": 1, "ts": 250_000.0, "dur": 500.0,
                "args": {"bytes": 7}})
        );
        assert_eq!(spans[1]["tid"], 2);
        let (start, end) = (&events(&timeline, "s")[0], &events(&timeline, "f")[0]);
        assert_eq!((&start["id"], &start["tid"], &start["ts"]), (&end["id"], &json!(1), &json!(250_000.0)));
        assert_eq!((&end["bp"], &end["tid"], &end["ts"]), (&json!("e"), &json!(2), &json!(1e6)));
        assert_eq!(events(&timeline, "C")[0]["args"], json!({"bytes": u64::MAX}));
        let names = events(&timeline, "M");
        let threads: Vec<&Value> = names
            .iter()
            .filter(|event| event["name"] == "thread_name")
            .map(|event| &event["args"]["name"])
            .collect();
        assert_eq!(threads, STREAMS);
        assert!(
            names.iter().any(|event| event["name"] == "process_name" && event["args"]["name"] == "GPU 1")
        );
    }

    #[test]
    fn times_that_are_none_are_refused() {
        let mut timeline = Timeline::new();
        let track = timeline.engine(Engine::Host);
        for seconds in [f64::NAN, f64::INFINITY, -1e-9] {
            assert!(timeline.add_span(track, "op", seconds, 0.0, Map::new()).is_err());
            assert!(timeline.add_span(track, "op", 0.0, seconds, Map::new()).is_err());
            assert!(timeline.add_counter(track, "memory", seconds, 0).is_err());
            assert!(timeline.add_arrow("swap", (track, seconds), (track, 0.0)).is_err());
            assert!(timeline.add_arrow("swap", (track, 0.0), (track, seconds)).is_err());
        }
        timeline.add_span(track, "op", f64::MAX, 0.0, Map::new()).unwrap();
        assert_eq!(events(&timeline, "X").len(), 1);
        assert!(events(&timeline, "s").is_empty());
    }
}
