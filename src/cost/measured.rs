//! Op times and scratch memory that were measured.

use std::collections::HashMap;

use serde::Deserialize;

use super::file::{self, CostFileError};

/// What errors call a file that should hold them.
const WHAT: &str = "profile as lms-train --profile writes it";

/// No GPU has so much memory.
const TOO_MUCH_BYTES: u64 = 1 << 50;

/// What the ops of a step took, as `lms-train --profile` recorded it.
#[derive(Debug, Clone, PartialEq)]
pub struct MeasuredOps {
    seconds: HashMap<String, f64>,
    /// The most of each node's runs, of nodes that ran on a real GPU.
    scratch_bytes: HashMap<String, u64>,
}

/// The parts of the file that count. What else it says is for people.
#[derive(Debug, Deserialize)]
struct Profile {
    ops: Vec<Row>,
}

#[derive(Debug, Deserialize)]
struct Row {
    name: String,
    device: String,
    duration_us: f64,
    /// None in files that are older than the field.
    scratch_bytes: Option<u64>,
}

/// What the rows of one op come to.
#[derive(Debug, Default)]
struct Sum {
    /// How often the host ran the op: more than once in a loop.
    runs: u32,
    host_microseconds: f64,
    kernel_microseconds: f64,
}

impl MeasuredOps {
    /// Reads what `lms-train --profile` wrote. `name` is how errors call the file.
    ///
    /// On a real GPU the rows of a device are what the host took to launch its ops, and those of its `stream:all` what
    /// kernels took: if there are any of these, they alone count, and an op without one took no time on the device. An op
    /// that ran several times counts with the mean, and with the most of its scratch memory. The software GPU's kernels take scratch
    /// from the host, so without streams there is none.
    ///
    /// # Errors
    ///
    /// If it is not such a file.
    pub fn from_json(name: &str, json: &[u8]) -> Result<MeasuredOps, CostFileError> {
        let profile: Profile = file::read(name, WHAT, json)?;
        let mut sums: HashMap<&str, Sum> = HashMap::new();
        let mut has_streams = false;
        let mut scratch_bytes: HashMap<String, u64> = HashMap::new();
        for row in &profile.ops {
            if row.duration_us < 0.0 {
                return Err(CostFileError::Duration {
                    name: name.to_string(),
                    op: row.name.clone(),
                    microseconds: row.duration_us,
                });
            }
            if let Some(bytes) = row.scratch_bytes.filter(|&bytes| bytes > TOO_MUCH_BYTES) {
                let (name, op) = (name.to_string(), row.name.clone());
                return Err(CostFileError::Scratch { name, op, bytes });
            }
            let device = row.device.to_lowercase();
            // A stream's row is named `node:op`, and a node's name has no colon.
            let node = row.name.split(':').next().unwrap_or_default();
            if device.contains("stream:all") {
                has_streams = true;
                sums.entry(node).or_default().kernel_microseconds += row.duration_us;
            } else if !device.contains("stream:") && !device.contains("memcpy") {
                let sum = sums.entry(node).or_default();
                sum.runs += 1;
                sum.host_microseconds += row.duration_us;
                if let Some(bytes) = row.scratch_bytes.filter(|_| device.contains("gpu")) {
                    let most = scratch_bytes.entry(node.to_string()).or_default();
                    *most = bytes.max(*most);
                }
            }
        }
        let seconds = sums.into_iter().map(|(node, sum)| {
            let total = if has_streams { sum.kernel_microseconds } else { sum.host_microseconds };
            (node.to_string(), total / f64::from(sum.runs.max(1)) * 1e-6)
        });
        let seconds = seconds.collect();
        if !has_streams {
            scratch_bytes.clear();
        }
        Ok(MeasuredOps { seconds, scratch_bytes })
    }

    /// What one run of a node took, if it ran.
    pub fn seconds(&self, node_name: &str) -> Option<f64> {
        self.seconds.get(node_name).copied()
    }

    /// The most that a run of a node took of a GPU's memory beside its outputs, if that was recorded.
    pub fn scratch_bytes(&self, node_name: &str) -> Option<u64> {
        self.scratch_bytes.get(node_name).copied()
    }

    /// How many nodes ran.
    pub fn len(&self) -> usize {
        self.seconds.len()
    }

    /// Whether none ran.
    pub fn is_empty(&self) -> bool {
        self.seconds.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(ops: &[(&str, &str, f64)]) -> Result<MeasuredOps, CostFileError> {
        let ops: Vec<_> = ops
            .iter()
            .map(|&(name, device, duration)| {
                serde_json::json!({"name": name, "device": device, "start_us": 0, "duration_us": duration, "output_bytes": []})
            })
            .collect();
        let file = serde_json::json!({"schema": 1, "model": "m", "ops": ops});
        MeasuredOps::from_json("p.json", file.to_string().as_bytes())
    }

    #[test]
    fn an_op_counts_with_the_mean_of_its_runs() {
        let gpu = "/job:localhost/replica:0/task:0/device:GPU:0";
        let times = read(&[("a", gpu, 10.0), ("b", gpu, 4.0), ("a", gpu, 30.0)]).unwrap();
        assert_eq!((times.seconds("a"), times.len()), (Some(20.0 * 1e-6), 2));
        assert_eq!(times.seconds("c"), None);
    }

    #[test]
    fn kernels_count_where_they_were_recorded() {
        let (gpu, stream) = ("/device:GPU:0", "/device:GPU:0/stream:all");
        let times = read(&[
            ("conv", gpu, 7.0),
            ("shape", gpu, 5.0),
            ("conv:Conv2D", stream, 100.0),
            ("conv:Conv2D", stream, 20.0),
            ("conv:Conv2D", "/device:GPU:0/stream:14", 100.0),
            ("copy:MEMCPYHtoD", "/device:GPU:0/memcpy", 9.0),
        ])
        .unwrap();
        assert_eq!(times.seconds("conv"), Some(120.0 * 1e-6));
        assert_eq!(times.seconds("shape"), Some(0.0));
        assert_eq!(times.seconds("copy"), None);
    }

    #[test]
    fn what_is_no_profile_is_refused() {
        assert!(read(&[("a", "d", -1.0)]).unwrap_err().to_string().contains("op \"a\" took -1 µs"));
        let row = br#"{"schema": 1, "ops": [{"name": "a", "device": "d", "duration_us": 1, "scratch_bytes": 18446744073709551615}]}"#;
        let error = MeasuredOps::from_json("p.json", row).unwrap_err().to_string();
        assert_eq!(
            error,
            r#"p.json: op "a" took 18446744073709551615 bytes of scratch memory, more than any GPU has"#
        );
        let error = MeasuredOps::from_json("p.json", br#"{"schema": 3, "ops": []}"#).unwrap_err();
        assert_eq!(error.to_string(), r#"p.json: field "schema" is 3, expected 1"#);
        assert!(MeasuredOps::from_json("p.json", b"{}").is_err());
    }
}
